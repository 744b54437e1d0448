"""Acting with a world model: the state of the world is kept up to date, and the actor asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import sonnet as snt
import tensorflow as tf

from tfagents_x import types
from tfagents_x.agents import policies
from tfagents_x.networks import dreamer


class DreamerPolicy(policies.Policy):
    """Samples from (or takes the likeliest action, or the mean, of) the actor.

    The world model's latent state is sampled in either case. Continuous actions are those of the
    model, of which -1 ... 1 are the bounds of the environment: it gets them clipped, and what is
    recorded is the sample as it was drawn.
    """

    def __init__(self, model: dreamer.DreamerModel, greedy: bool = False):
        """Keeps the networks.

        Args:
          model: made for this environment; continuous actions must have finite bounds.
          greedy: don't sample actions.
        """
        self._model = model
        self._greedy = greedy

    @property
    def networks(self) -> Mapping[str, snt.Module]:
        """See base class."""
        return {"world_model": self._model.world_model, "actor": self._model.actor}

    def initial_state(self, batch_size: Any) -> types.NestedTensor:
        """The state of the model, and whether an episode begins."""
        return self._model.initial_state(batch_size), tf.ones([batch_size], tf.bool)

    def __call__(
        self, observation: types.NestedTensor, state: types.NestedTensor, seed: tf.Tensor
    ) -> policies.PolicyOutput:
        """See base class."""
        before, is_first = state
        action, after = self._model.act(
            observation, before, is_first, seed, explore=not self._greedy
        )
        state = (after, tf.zeros_like(is_first))
        if self._model.discrete:
            index = tf.argmax(action, -1, output_type=tf.int32)
            return policies.PolicyOutput(index, state, extras=())
        recorded = tf.cast(action, self._model.action_spec.dtype)
        return policies.PolicyOutput(self._in_bounds(recorded), state, (), recorded)

    def _in_bounds(self, action: tf.Tensor) -> tf.Tensor:
        spec = self._model.action_spec
        low, high = (np.broadcast_to(x, spec.shape) for x in (spec.minimum, spec.maximum))
        fraction = (tf.clip_by_value(action, -1.0, 1.0) + 1.0) / 2.0
        # The bounds themselves are reached exactly.
        return low * (1.0 - fraction) + high * fraction
