"""The four roles of an agent: `Actor`, `Learner`, `VariableSource`, `Saveable`.

The split is Acme's: actors produce data, learners consume it, a variable source
carries weights from learner to actor, and whatever has state can give it away
and take it back.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Generic, Optional, TypeVar

import dm_env
import numpy as np

from tfagents_x import types

State = TypeVar("State")


class Saveable(abc.ABC, Generic[State]):
    """Has state that can be taken out and put back."""

    @abc.abstractmethod
    def save(self) -> State:
        """Returns the whole state as a plain nest of numpy arrays."""

    @abc.abstractmethod
    def restore(self, state: State) -> None:
        """Takes back what `save()` gave.

        Raises:
          ValueError: `state` has other names, shapes or dtypes than this object.
        """


class VariableSource(abc.ABC):
    """Gives network variables by name, for actors that live elsewhere."""

    @abc.abstractmethod
    def get_variables(self, names: Sequence[str]) -> list[list[np.ndarray]]:
        """Returns, for each name, the variables of that network as numpy arrays."""


class Learner(VariableSource, Saveable):
    """Turns batches of experience into better parameters."""

    @abc.abstractmethod
    def step(self) -> Mapping[str, types.NestedTensor]:
        """Does one update and returns its metrics."""

    def run(self, num_steps: Optional[int] = None) -> None:
        """Calls `step()` `num_steps` times, or for ever if that is None."""
        count = 0
        while num_steps is None or count < num_steps:
            self.step()
            count += 1


class Actor(abc.ABC):
    """Chooses actions and records what came of them."""

    @abc.abstractmethod
    def select_action(self, observation: types.NestedArray) -> types.NestedArray:
        """Returns the action for one observation (no batch dimension)."""

    @abc.abstractmethod
    def observe_first(self, timestep: dm_env.TimeStep) -> None:
        """Records the first timestep of an episode."""

    @abc.abstractmethod
    def observe(self, action: types.NestedArray, next_timestep: dm_env.TimeStep) -> None:
        """Records `action` and the timestep that followed it."""

    @abc.abstractmethod
    def update(self, wait: bool = False) -> None:
        """Fetches new parameters from the learner, and waits for them if `wait`."""
