"""All networks of a DreamerV3 agent."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Union

import sonnet as snt
import tensorflow as tf

from tfagents_x import specs
from tfagents_x.networks import checks
from tfagents_x.networks.dreamer import latents, layers, sizes
from tfagents_x.networks.dreamer.actor import Actor
from tfagents_x.networks.dreamer.disagreement import Disagreement
from tfagents_x.networks.dreamer.world_model import NUM_BUCKETS, WorldModel


class ActingState(NamedTuple):
    """What an actor remembers, [M, ...].

    Attributes:
      h: floats [M, G].
      z: floats [M, K C].
      action: floats [M, A], the last one.
    """

    h: tf.Tensor
    z: tf.Tensor
    action: tf.Tensor


class DreamerModel(snt.Module):
    """World model, actor, critic, and the critic's slow copy.

    Attributes:
      world_model, actor, critic, critic_ema: modules.
      disagreement: ensemble for curiosity, or None.
      size: `ModelSize`.
      discrete: whether actions are.
      num_actions: A, their number or that of their dimensions.
    """

    def __init__(
        self,
        observation_spec: Any,
        action_spec: Any,
        model_size: Union[str, sizes.ModelSize] = "XS",
        dtype: tf.DType = tf.float32,
        num_curiosity_nets: int = 0,
        name: str = "dreamer",
    ):
        """Makes all variables.

        Args:
          observation_spec: array spec of vectors [D], or images [H, W, C].
          action_spec: `DiscreteArray`, or array spec of vectors [A] of floats.
          model_size: name (`sizes.MODEL_SIZES`) or `ModelSize`.
          dtype: in which products are formed; variables and the rest are float32.
          num_curiosity_nets: of the ensemble that rewards exploring; RLlib's has 8.
          name: of the module.

        Raises:
          TypeError: a spec is of another kind, or `dtype` is not floating-point.
          ValueError: observations of another shape, an unknown size, or a single network that
            is to disagree.
        """
        super().__init__(name=name)
        self.size = size = sizes.model_size(model_size)
        self.dtype = dtype = checks.float_dtype("dtype", dtype)
        if not isinstance(observation_spec, specs.Array):
            raise TypeError(
                "DreamerV3 needs observations that are one array, got the spec "
                f"{observation_spec!r}."
            )
        self.observation_spec, self.action_spec = observation_spec, action_spec
        self.discrete, self.num_actions = _actions(action_spec)
        state = size.gru_units + size.categoricals * size.classes
        shape = observation_spec.shape
        self.world_model = WorldModel(shape, self.num_actions, size, dtype)
        self.actor = Actor(state, self.num_actions, self.discrete, size, dtype)
        critic = lambda name: layers.MLP(
            state, size.units, size.layers, NUM_BUCKETS, dtype, zeros=True, name=name
        )
        self.critic, self.critic_ema = critic("critic"), critic("critic_ema")
        for source, target in zip(self.critic.variables, self.critic_ema.variables):
            target.assign(source)

        checks.size("num_curiosity_nets", num_curiosity_nets, 0)
        if num_curiosity_nets == 1:
            raise ValueError("num_curiosity_nets must be 0, or 2 and more, to disagree; got 1.")
        self.disagreement: Optional[Disagreement] = None
        if num_curiosity_nets:
            inputs = state + self.num_actions
            self.disagreement = Disagreement(inputs, size, num_curiosity_nets, dtype)

    def initial_state(self, batch_size: int) -> ActingState:
        """What an actor remembers at first; replaced where `is_first` anyway."""
        h, z = self.world_model.rssm.initial_state()
        spread = lambda x: tf.tile(x[tf.newaxis], [batch_size, 1])
        return ActingState(spread(h), spread(z), tf.zeros([batch_size, self.num_actions]))

    def act(
        self,
        obs: tf.Tensor,
        state: ActingState,
        is_first: tf.Tensor,
        seed: Optional[tf.Tensor] = None,
        explore: bool = False,
        sampler: Optional[latents.Sampler] = None,
    ) -> tuple[tf.Tensor, ActingState]:
        """One step of acting.

        Args:
          obs: [M, ...].
          state: of the step before.
          is_first: bool [M], where an episode begins.
          seed: int32 [2]; None for one by chance.
          explore: sample actions; else take the likeliest class, or the mean.
          sampler: of latent states and actions.

        Returns:
          Actions [M, A], one-hot if discrete, and the state.
        """
        sampler = sampler or latents.Sampler()
        if seed is None:
            seed = tf.random.uniform([2], 0, 2**30, tf.int32)
        h, z = self.world_model.act_step(obs, *state, is_first, sampler, seed)
        weights = self.actor.weights()
        raw = weights.raw(weights.first(tf.concat([h, z], -1)))
        chooser = sampler if explore else latents.ModeSampler()
        action = weights.sample(raw, chooser, seed + [0, 1 << 21])
        return action, ActingState(h, z, action)


def _actions(spec: Any) -> tuple[bool, int]:
    """Whether actions are discrete, and A."""
    if isinstance(spec, specs.DiscreteArray):
        return True, int(spec.num_values)
    if isinstance(spec, specs.Array) and len(spec.shape) == 1 and spec.dtype.kind == "f":
        return False, int(spec.shape[0])
    raise TypeError(
        f"DreamerV3 needs a DiscreteArray action spec, or vectors [A] of floats, got {spec!r}."
    )
