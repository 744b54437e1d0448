"""What an adder is, and what all adders do alike (Acme's `adders.Adder`, `ReverbAdder`)."""

from __future__ import annotations

import abc
import math
from typing import Any, Callable, Optional

import dm_env
import numpy as np

from tfagents_x import types
from tfagents_x.replay import base
from tfagents_x.replay.tables import DEFAULT_TABLE

# From an item (`Step` with leaves [T, ...] or `Transition`, numpy) to its priority.
PriorityFn = Callable[[Any], float]


class Adder(abc.ABC):
    """Receives what an actor sees and does, and makes items of it."""

    @abc.abstractmethod
    def add_first(self, timestep: dm_env.TimeStep) -> None:
        """Begins an episode with its first timestep.

        Raises:
          ValueError: `timestep` is not a first one, or the last episode has not ended.
        """

    @abc.abstractmethod
    def add(
        self,
        action: types.NestedArray,
        next_timestep: dm_env.TimeStep,
        extras: types.NestedArray = (),
    ) -> None:
        """Records an action, the timestep it led to, and the extras of the time of acting.

        Raises:
          ValueError: no episode is under way, `next_timestep` is a first one, reward or
            discount is missing or not finite, or something does not fit its spec.
          ReplayFull: the table takes no more within the adder's timeout. The step is
            recorded all the same; its items are inserted when they can be.
        """

    @abc.abstractmethod
    def reset(self) -> None:
        """Forgets the episode under way. What was written of it stays in replay."""

    @abc.abstractmethod
    def state(self) -> Any:
        """Returns what the next episode's items depend on, as a nest of numpy arrays.

        It is the state at the end of the last finished episode, also when called in the
        middle of one: a resumed run begins with a new episode.
        """

    @abc.abstractmethod
    def load_state(self, state: Any) -> None:
        """Takes back what `state` gave; the next call is `add_first`.

        Raises:
          ValueError: `state` is of another adder.
        """


class ReplayAdder(Adder):
    """Writes the rows of an episode; subclasses say which items they make.

    The last observation of an episode becomes a row too, with zero action, reward,
    discount and extras, as in Acme.

    Args:
      replay: where to.
      max_sequence_length: rows that an item may span.
      table: name of the table.
      priority_fn: from the item to its priority; 1.0 for all if None.
      max_in_flight_items: items that may be on their way when `add` returns. With 0 they
        have all arrived.
      insert_timeout: seconds that `add` waits for the table's limiter before it raises
        `ReplayFull`; None waits for ever, which in an agent of one thread nothing ends.

    Raises:
      ValueError: `replay` has no such table.
    """

    def __init__(
        self,
        replay: base.Replay,
        max_sequence_length: int,
        table: str = DEFAULT_TABLE,
        priority_fn: Optional[PriorityFn] = None,
        max_in_flight_items: int = 0,
        insert_timeout: Optional[float] = None,
    ):
        if table not in replay.tables:
            raise ValueError(
                f"the replay has no table {table!r}, it has: {', '.join(sorted(replay.tables))}"
            )
        self._writer = replay.writer(max_sequence_length)
        self._table = table
        self._priority_fn = priority_fn
        self._max_in_flight_items = max_in_flight_items
        self._insert_timeout = insert_timeout

    def add_first(self, timestep: dm_env.TimeStep) -> None:
        """Opens the episode's first row; see `Adder`."""
        if not timestep.first():
            raise ValueError(
                f"add_first() wants the first timestep of an episode, got {timestep.step_type!r}"
            )
        if self._writer.is_open:
            raise ValueError(
                "the last episode has not ended: call reset() before add_first() to drop it"
            )
        self._writer.open_step(timestep.observation, True)

    def add(
        self,
        action: types.NestedArray,
        next_timestep: dm_env.TimeStep,
        extras: types.NestedArray = (),
    ) -> None:
        """Completes a row, opens the next, and writes what is due; see `Adder`."""
        self._check_next(next_timestep)
        reward, discount = next_timestep.reward, next_timestep.discount
        self._writer.next_step(action, reward, discount, extras, next_timestep.observation)
        self._write(reward, discount)
        if next_timestep.last():
            self._writer.close_with_zeros()
            self._write_last()
            self._end_episode()
        self._writer.flush(self._max_in_flight_items, self._insert_timeout)

    def reset(self) -> None:
        """Forgets the rows of the episode under way; see `Adder`."""
        self._writer.reset()

    @abc.abstractmethod
    def _write(self, reward: types.NestedArray, discount: types.NestedArray) -> None:
        """Makes items after a step; the row of the next observation is open."""

    @abc.abstractmethod
    def _write_last(self) -> None:
        """Makes items after the last step; the row of the last observation is complete."""

    def _end_episode(self) -> None:
        self._writer.reset()

    def _check_next(self, timestep: dm_env.TimeStep) -> None:
        if not self._writer.is_open:
            raise ValueError("no episode is under way: call add_first() before add()")
        if timestep.first():
            raise ValueError(
                "add() got the first timestep of an episode, but the one before has not ended: "
                "pass it to add_first(), after reset() if the environment broke the episode off"
            )
        _check_finite("reward", timestep.reward)
        _check_finite("discount", timestep.discount)


def _check_finite(name: str, value: Any) -> None:
    if value is None:
        raise ValueError(f"the timestep's {name} is None; only a first timestep's may be")
    # The common case, a number, is much quicker without numpy.
    finite = math.isfinite(value) if isinstance(value, float) else np.all(np.isfinite(value))
    if not finite:
        raise ValueError(f"the timestep's {name} is {value}: it must be finite")
