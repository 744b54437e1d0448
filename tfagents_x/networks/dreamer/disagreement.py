"""Curiosity: networks that predict the next latent state, and reward where they disagree.

Sekar et al., 2020, "Planning to Explore via Self-Supervised World Models", arXiv:2005.05960;
RLlib's `DisagreementNetworks`.
"""

from __future__ import annotations

import sonnet as snt
import tensorflow as tf

from tfagents_x.networks.dreamer import latents, layers
from tfagents_x.networks.dreamer.sizes import ModelSize

# The root of a variance of 0 has no gradient.
_EPSILON = 1e-12


class Disagreement(snt.Module):
    """An ensemble from states [M, S] and actions [M, A] to the latent state of the next step."""

    def __init__(
        self,
        inputs: int,
        size: ModelSize,
        num_networks: int = 8,
        dtype: tf.DType = tf.float32,
        name: str = "disagreement",
    ):
        """Makes the variables.

        Args:
          inputs: S + A.
          size: of the networks.
          num_networks: of the ensemble.
          dtype: in which products are formed.
          name: of the module.
        """
        super().__init__(name=name)
        self._shape = [size.categoricals, size.classes]
        outputs = size.categoricals * size.classes
        self.networks = [
            layers.MLP(inputs, size.units, size.layers, outputs, dtype) for _ in range(num_networks)
        ]

    def __call__(self, states: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """Unimixed probabilities [networks, M, K, C] of the next latent state."""
        x = tf.concat([states, actions], -1)
        split = lambda logits: tf.reshape(logits, [-1, *self._shape])
        return tf.stack([latents.unimix(split(network(x))) for network in self.networks])

    def rewards(self, states: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """How much the networks disagree, [M]: deviations of all probabilities, averaged."""
        variance = tf.math.reduce_variance(self(states, actions), 0)
        return tf.reduce_mean(tf.sqrt(variance + _EPSILON), [-2, -1])
