"""Actors: a policy, compiled to one call per step, and an adder for what it did."""

from __future__ import annotations

from typing import Any, Optional

import dm_env
import numpy as np
import tensorflow as tf
import tree

from tfagents_x import core, types
from tfagents_x.agents import policies
from tfagents_x.replay import adders
from tfagents_x.utils import compiled


class PolicyActor(core.Actor):
    """Acts with a (possibly recurrent) policy whose variables the learner shares.

    Each `select_action` is one call of a compiled function. The randomness of an episode
    depends only on the last `seed_episode`, or on `seed` and the steps taken so far.
    """

    def __init__(
        self,
        policy: policies.Policy,
        observation_spec: types.NestedSpec,
        adder: Optional[adders.Adder] = None,
        seed: int = 0,
    ):
        """Compiles the policy for this observation spec.

        Args:
          policy: chooses the actions.
          observation_spec: nest of array specs; what is observed must match it.
          adder: gets every step; None if nothing is to be recorded.
          seed: of the sampled actions, in [0, 2**31).
        """
        self._adder = adder
        self._dtypes = tree.map_structure(lambda s: s.dtype, observation_spec)
        self._plain = not tree.is_nested(observation_spec)
        self._initial_state = tree.map_structure(tf.identity, policy.initial_state(1))
        self._state = self._initial_state
        self._extras: Any = ()
        self._recorded: Any = ()
        self._seed = np.array([seed, 0], np.int32)
        self._step = _compile(policy, observation_spec, self._initial_state)

    def seed_episode(self, seed: int) -> None:
        """Makes the actions from here on a function of `seed` and what is observed."""
        self._seed = np.array([seed, 0], np.int32)

    def select_action(self, observation: types.NestedArray) -> types.NestedArray:
        """See base class."""
        if self._plain:
            observation = np.asarray(observation, self._dtypes)
        else:
            observation = tree.map_structure(np.asarray, observation, self._dtypes)
        self._seed[1] += 1
        action, self._state, self._extras, self._recorded = self._step(
            observation, self._state, self._seed
        )
        return action.numpy() if tf.is_tensor(action) else tree.map_structure(_numpy, action)

    def observe_first(self, timestep: dm_env.TimeStep) -> None:
        """See base class."""
        self._state = self._initial_state
        if self._adder is not None:
            self._adder.add_first(timestep)

    def observe(self, action: types.NestedArray, next_timestep: dm_env.TimeStep) -> None:
        """See base class."""
        if self._adder is not None:
            extras = tree.map_structure(_numpy, self._extras)
            if tree.flatten(self._recorded):
                action = tree.map_structure(_numpy, self._recorded)
            self._adder.add(action, next_timestep, extras=extras)

    def update(self, wait: bool = False) -> None:
        """Does nothing: the policy acts with the learner's own variables."""


def _numpy(tensor: tf.Tensor) -> np.ndarray:
    return tensor.numpy()


def _compile(policy: policies.Policy, observation_spec: Any, state: Any) -> Any:
    """One unbatched step as one call."""
    first = lambda nested: tree.map_structure(lambda x: x[0], nested)

    def step(observation: Any, state: Any, seed: tf.Tensor) -> Any:
        batch = tree.map_structure(lambda x: x[tf.newaxis], observation)
        output = policy(batch, state, seed)
        recorded = () if output.recorded is None else first(output.recorded)
        return first(output.action), output.state, first(output.extras), recorded

    as_spec = lambda x: tf.TensorSpec(x.shape, x.dtype)
    signature = [
        tree.map_structure(as_spec, observation_spec),
        tree.map_structure(as_spec, state),
        tf.TensorSpec([2], tf.int32),
    ]
    return compiled.quick(step, signature)
