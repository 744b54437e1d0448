"""DreamerV3's actor, for discrete and for continuous actions (RLlib's `ActorNetwork`)."""

from __future__ import annotations

from typing import NamedTuple

import sonnet as snt
import tensorflow as tf

from tfagents_x.networks.dreamer import latents, layers
from tfagents_x.networks.dreamer.sizes import ModelSize


class Actor(snt.Module):
    """States [M, S] -> parameters of a distribution over actions.

    Discrete: log-probabilities [M, A], unimixed. Continuous: mean and standard deviation
    [M, 2 A], of two networks; samples are neither squashed nor clipped to the action space.
    """

    def __init__(
        self,
        inputs: int,
        actions: int,
        discrete: bool,
        size: ModelSize,
        dtype: tf.DType = tf.float32,
        name: str = "actor",
    ):
        """Makes the variables.

        Args:
          inputs: S.
          actions: A, the number of actions, or of their dimensions.
          discrete: which.
          size: of the networks.
          dtype: in which products are formed.
          name: of the module.
        """
        super().__init__(name=name)
        self.discrete, self.num_actions = discrete, actions
        names = ("logits",) if discrete else ("mean", "std")
        self.networks = [
            layers.MLP(inputs, size.units, size.layers, actions, dtype, name=name) for name in names
        ]
        self.first_width = size.units * len(names)

    def weights(self) -> ActorWeights:
        """The variables, read."""
        networks = [network.weights() for network in self.networks]
        kernel = tf.concat([w.hidden[0].kernel for w in networks], -1)
        return ActorWeights(kernel, networks, self.discrete)

    def __call__(self, states: tf.Tensor) -> tf.Tensor:
        """[M, S] -> [M, A] or [M, 2 A]."""
        weights = self.weights()
        return weights.params(weights.raw(weights.first(states)))


class ActorWeights(NamedTuple):
    """An actor on plain tensors.

    Attributes:
      kernel: first layers of all networks, side by side.
      networks: one for discrete actions; for mean and standard deviation else.
      discrete: which.
    """

    kernel: tf.Tensor
    networks: list[layers.MLPWeights]
    discrete: bool

    def first(self, states: tf.Tensor) -> tf.Tensor:
        """First products of all networks, side by side: [M, S] -> [M, U] or [M, 2 U]."""
        return layers.product(states, self.kernel, self.networks[0].dtype)

    def known_first(self, states: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
        """`first(states)` from its value; see `layers.known_product`."""
        return layers.known_product(states, self.kernel, value, self.networks[0].dtype)

    def raw(self, first: tf.Tensor) -> tf.Tensor:
        """What follows `first`: raw logits [M, A], or raw mean and deviation [M, 2 A]."""
        parts = tf.split(first, len(self.networks), -1)
        return tf.concat([w.rest(part) for w, part in zip(self.networks, parts)], -1)

    def params(self, raw: tf.Tensor) -> tf.Tensor:
        """The distribution's parameters, [M, A] or [M, 2 A]."""
        if self.discrete:
            return tf.math.log(latents.unimix(raw))
        return latents.gaussian_params(*tf.split(raw, 2, -1))

    def sample(self, raw: tf.Tensor, sampler: latents.Sampler, seed: tf.Tensor) -> tf.Tensor:
        """Actions [M, A], one-hot if discrete."""
        if self.discrete:
            return sampler.categorical(raw, seed)
        mean, std = tf.split(self.params(raw), 2, -1)
        return sampler.gaussian(mean, std, seed)
