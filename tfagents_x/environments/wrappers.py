"""Environments that show less, or more, than the one inside them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Union

import dm_env
import numpy as np
import tree

from tfagents_x import specs, types
from tfagents_x.environments import seeding

_Select = Callable[[Any], Any]


class EnvironmentWrapper(dm_env.Environment):
    """Passes everything on to another environment; override what differs."""

    def __init__(self, environment: dm_env.Environment):
        """Keeps the environment."""
        self._environment = environment

    @property
    def environment(self) -> Any:
        """The environment inside."""
        return self._environment

    def seed_episode(self, seed: int) -> None:
        """Makes the next `reset()` start from `seed`.

        Raises:
          ValueError: the environment inside has no such method.
        """
        seeding.seed_next_episode(self._environment, seed)

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode."""
        return self._environment.reset()

    def step(self, action: types.NestedArray) -> dm_env.TimeStep:
        """Takes one step."""
        return self._environment.step(action)

    def observation_spec(self) -> types.NestedSpec:
        """Returns the nest of observation specs."""
        return self._environment.observation_spec()

    def action_spec(self) -> types.NestedSpec:
        """Returns the nest of action specs."""
        return self._environment.action_spec()

    def reward_spec(self) -> specs.Array:
        """Returns the spec of rewards."""
        return self._environment.reward_spec()

    def discount_spec(self) -> specs.BoundedArray:
        """Returns the spec of discounts."""
        return self._environment.discount_spec()

    def close(self) -> None:
        """Closes the environment inside."""
        self._environment.close()


class ObservationEntriesWrapper(EnvironmentWrapper):
    """Shows only some entries of the observation, so that the rest must be remembered."""

    def __init__(self, environment: dm_env.Environment, entries: Sequence[Union[int, str]]):
        """Chooses the entries.

        Args:
          environment: whose observations are one vector [D], or a dictionary.
          entries: indices into the vector, which stays one, in this order; or keys of the
            dictionary, which stays one. Numbers may be texts.

        Raises:
          ValueError: there is no such entry, one is given twice, or none, or the observations are
            something else.
        """
        super().__init__(environment)
        names = [str(entry).strip() for entry in entries]
        if not names or len(set(names)) < len(names):
            given = ", ".join(names) or "none"
            raise ValueError(f"Give entries of the observation, each of them once, got {given}.")
        spec = environment.observation_spec()
        if isinstance(spec, Mapping):
            keys = _keys(spec, names)
            self._select: _Select = lambda observation: {key: observation[key] for key in keys}
            self._spec: Any = self._select(spec)
        else:
            indices = _indices(spec, names)
            self._select = lambda observation: observation[indices]
            self._spec = _vector_spec(spec, indices)

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode."""
        return self._shown(self._environment.reset())

    def step(self, action: types.NestedArray) -> dm_env.TimeStep:
        """Takes one step."""
        return self._shown(self._environment.step(action))

    def observation_spec(self) -> types.NestedSpec:
        """Returns the spec of what is shown."""
        return self._spec

    def _shown(self, timestep: dm_env.TimeStep) -> dm_env.TimeStep:
        return timestep._replace(observation=self._select(timestep.observation))


class ObservationActionRewardWrapper(EnvironmentWrapper):
    """Shows with each observation the action and the reward before it, as a `types.OAR`.

    Zeros stand for them where an episode starts. (Acme's `ObservationActionRewardWrapper`.)
    """

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode."""
        return self._first(self._environment.reset())

    def step(self, action: types.NestedArray) -> dm_env.TimeStep:
        """Takes one step."""
        timestep = self._environment.step(action)
        return self._first(timestep) if timestep.first() else self._with(timestep, action)

    def observation_spec(self) -> types.NestedSpec:
        """Returns the `types.OAR` of specs."""
        return types.OAR(
            self._environment.observation_spec(), self.action_spec(), self.reward_spec()
        )

    def _first(self, timestep: dm_env.TimeStep) -> dm_env.TimeStep:
        zeros = lambda spec: np.zeros(spec.shape, spec.dtype)
        action = tree.map_structure(zeros, self.action_spec())
        oar = types.OAR(timestep.observation, action, zeros(self.reward_spec()))
        return timestep._replace(observation=oar)

    def _with(self, timestep: dm_env.TimeStep, action: types.NestedArray) -> dm_env.TimeStep:
        # A copy: who acts may use its array again.
        action = tree.map_structure(lambda a, s: np.array(a, s.dtype), action, self.action_spec())
        reward = np.asarray(timestep.reward, self.reward_spec().dtype)
        return timestep._replace(observation=types.OAR(timestep.observation, action, reward))


def _keys(spec: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in spec:
            near = difflib.get_close_matches(name, spec, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"The observation has no entry {name!r}.{hint} There are: {', '.join(spec)}."
            )
    return list(names)


def _indices(spec: Any, names: Sequence[str]) -> np.ndarray:
    if not isinstance(spec, specs.Array) or len(spec.shape) != 1:
        shape = f" of shape {tuple(spec.shape)}" if isinstance(spec, specs.Array) else ""
        raise ValueError(
            "Entries can be chosen of observations that are one vector or a dictionary; here they "
            f"are a {type(spec).__name__}{shape}."
        )
    size = spec.shape[0]
    for name in names:
        if not (name.isascii() and name.isdigit() and int(name) < size):
            raise ValueError(
                f"The observation is a vector of {size}: its entries are 0 to {size - 1}, "
                f"got {name!r}."
            )
    return np.array([int(name) for name in names])


def _vector_spec(spec: specs.Array, indices: np.ndarray) -> specs.Array:
    if not isinstance(spec, specs.BoundedArray):
        return specs.Array(indices.shape, spec.dtype, spec.name)
    low, high = (np.broadcast_to(x, spec.shape)[indices] for x in (spec.minimum, spec.maximum))
    return specs.BoundedArray(indices.shape, spec.dtype, low, high, spec.name)
