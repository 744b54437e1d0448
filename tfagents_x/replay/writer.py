"""The writing half of the replay interface, with all the checks both stores share."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from typing import Optional

from tfagents_x import types
from tfagents_x.replay import rows
from tfagents_x.replay import tables as tables_lib


class Writer(abc.ABC):
    """Appends rows to a stream and makes items of the latest ones. For one thread.

    A row comes in two halves, because its observation is known before its action:
    `open_step`, then `close_step`. `append` does both.
    """

    def __init__(
        self,
        signature: rows.Signature,
        row_format: rows.RowFormat,
        tables: Mapping[str, tables_lib.Table],
        max_sequence_length: int,
    ):
        if max_sequence_length < 1:
            raise ValueError(f"max_sequence_length is {max_sequence_length}, must be >= 1")
        self._signature = signature
        self._format = row_format
        self._tables = tables
        self._max_length = max_sequence_length
        self._num_steps = 0
        self._is_open = False
        self._open_return: Optional[tuple] = None

    @property
    def num_steps(self) -> int:
        """Number of complete rows since the start or the last `reset`."""
        return self._num_steps

    @property
    def is_open(self) -> bool:
        """Whether a row waits for its second half."""
        return self._is_open

    @property
    def row_format(self) -> rows.RowFormat:
        """Checks and flattens what goes into rows."""
        return self._format

    def open_step(self, observation: types.NestedArray, start_of_episode: bool) -> None:
        """Begins a row. The arrays are copied.

        Raises:
          ValueError: a row is open already, or `observation` does not fit its spec.
        """
        if self._is_open:
            raise ValueError("a step is open: call close_step() or reset() before open_step()")
        self._begin(self._format.flatten("observation", observation), bool(start_of_episode))

    def close_step(
        self,
        action: types.NestedArray,
        reward: types.NestedArray,
        discount: types.NestedArray,
        extras: types.NestedArray = (),
    ) -> None:
        """Completes the open row. The arrays are copied; float64 becomes what the spec says.

        Raises:
          ValueError: no row is open, or something does not fit its spec. The row stays
            open then.
        """
        self._check_open("close_step")
        self._complete(self._format.flatten_outcome(action, reward, discount, extras))

    def next_step(
        self,
        action: types.NestedArray,
        reward: types.NestedArray,
        discount: types.NestedArray,
        extras: types.NestedArray,
        next_observation: types.NestedArray,
    ) -> None:
        """`close_step`, then `open_step` within the episode; does both or, on an error, nothing.

        Raises:
          ValueError: no row is open, or something does not fit its spec.
        """
        self._check_open("next_step")
        outcome = self._format.flatten_outcome(action, reward, discount, extras)
        observation = self._format.flatten("observation", next_observation)
        self._complete(outcome)
        self._begin(observation, False)

    def close_with_zeros(self) -> None:
        """Completes the open row with zero action, reward, discount and extras."""
        self._check_open("close_with_zeros")
        self._complete(self._format.zero_outcome())

    def append_zeros(self) -> None:
        """Adds a row of zeros (`start_of_episode` False): padding."""
        if self._is_open:
            raise ValueError("a step is open: call close_step() or reset() before append_zeros()")
        self._begin(self._format.zeros("observation"), False)
        self.close_with_zeros()

    def append(self, step: types.Step) -> None:
        """Adds one whole row.

        Raises:
          ValueError: `step` does not fit its spec.
        """
        outcome = self._format.flatten_outcome(step.action, step.reward, step.discount, step.extras)
        self.open_step(step.observation, bool(step.start_of_episode))
        self._complete(outcome)

    def create_item(self, table: str, length: int, priority: float = 1.0) -> None:
        """Makes a sequence of the latest `length` complete rows and sends it to `table`.

        Does not wait: call `flush` for that.

        Raises:
          ValueError: no such table, rows that are not there any more, a length other than
            the signature's, a priority that is negative or not finite.
        """
        if self._signature.transitions:
            raise ValueError("this replay holds transitions: use create_transition()")
        wanted = self._signature.sequence_length
        if wanted is not None and length != wanted:
            raise ValueError(
                f"the signature says sequence_length={wanted}, got a sequence of {length}: "
                "pad it (end_of_episode_behavior='zero_pad'), or make the signature with "
                "sequence_length=None"
            )
        self._check_item(table, priority)
        self._check_length(length)
        self._create_sequence(table, length, float(priority))

    def create_transition(
        self,
        table: str,
        num_steps: int,
        reward: types.NestedArray,
        discount: types.NestedArray,
        priority: float = 1.0,
    ) -> None:
        """Makes a `Transition` from the row `num_steps` before the newest row to the newest.

        The newest row may be open: only its observation is used. Action and extras are
        those of the first row. While a row is open, all transitions that end at it must
        have the same reward and discount. Does not wait: call `flush` for that.

        Raises:
          ValueError: as `create_item`, or a second (reward, discount) for an open row.
        """
        if not self._signature.transitions:
            raise ValueError("this replay holds sequences: use create_item()")
        self._check_item(table, priority)
        self._check_span(num_steps)
        leaves = self._format.flatten("reward", reward) + self._format.flatten("discount", discount)
        if self._is_open:
            self._check_open_return(leaves)
        self._create_transition(table, num_steps, leaves, float(priority))

    @abc.abstractmethod
    def tail(self, length: int) -> types.Step:
        """Returns copies of the latest `length` complete rows, leaves [length, ...].

        Raises:
          ValueError: rows that are not there any more.
        """

    @abc.abstractmethod
    def transition_at(
        self, num_steps: int, reward: types.NestedArray, discount: types.NestedArray
    ) -> types.Transition:
        """Returns the `Transition` that `create_transition` would make, as numpy arrays."""

    @abc.abstractmethod
    def flush(self, max_pending: int = 0, timeout: Optional[float] = None) -> None:
        """Waits until at most `max_pending` items are still on their way.

        Args:
          max_pending: items that may stay pending.
          timeout: seconds to wait for the limiter; None waits for ever, 0 does not wait.

        Raises:
          ReplayFull: the limiter held an item back for longer. Nothing is lost: the
            item stays pending, for the next `flush`.
          ReplayClosed: the store was closed.
        """

    def reset(self) -> None:
        """Forgets all rows, also an open one. Items made of them stay, pending ones too."""
        self._forget()
        self._num_steps = 0
        self._is_open = False

    @abc.abstractmethod
    def close(self) -> None:
        """Gives up what is still pending, and the connection."""

    @abc.abstractmethod
    def _open(self, observation: list, start_of_episode: bool) -> None: ...

    @abc.abstractmethod
    def _close(self, outcome: list) -> None: ...

    @abc.abstractmethod
    def _create_sequence(self, table: str, length: int, priority: float) -> None: ...

    @abc.abstractmethod
    def _create_transition(
        self, table: str, num_steps: int, leaves: list, priority: float
    ) -> None: ...

    @abc.abstractmethod
    def _forget(self) -> None: ...

    def _begin(self, observation: list, start_of_episode: bool) -> None:
        self._open(observation, start_of_episode)
        self._is_open = True
        self._open_return = None

    def _complete(self, outcome: list) -> None:
        self._close(outcome)
        self._is_open = False
        self._num_steps += 1

    def _check_open(self, method: str) -> None:
        if not self._is_open:
            raise ValueError(f"no step is open: call open_step() before {method}()")

    def _check_item(self, table: str, priority: float) -> None:
        if table not in self._tables:
            raise ValueError(f"no table {table!r}, there is: {', '.join(sorted(self._tables))}")
        # Reverb's server stops serving a table for good when it meets such a priority.
        check_priority(priority)

    def _check_length(self, length: int) -> None:
        available = min(self._num_steps, self._max_length)
        if not 1 <= length <= available:
            raise ValueError(
                f"a sequence of {length} rows cannot be made, there are {available} "
                f"({self._num_steps} written, max_sequence_length={self._max_length})"
            )

    def _check_span(self, num_steps: int) -> None:
        # The newest row is the open one, or else the last complete one.
        first = self._num_steps + self._is_open - 1 - num_steps
        if num_steps < 1 or first < 0 or num_steps > self._max_length - 1:
            raise ValueError(
                f"a transition over {num_steps} step(s) cannot be made: {self._num_steps} "
                f"complete rows, max_sequence_length={self._max_length} (it must be at "
                "least num_steps + 1)"
            )

    def _check_open_return(self, leaves: list) -> None:
        key = tuple(leaf.tobytes() for leaf in leaves)
        if self._open_return not in (None, key):
            raise ValueError(
                "a transition with another reward or discount ends at the open step already: "
                "close the step first"
            )
        self._open_return = key


def check_priority(priority: float) -> None:
    """Raises ValueError for a priority that is negative or not finite."""
    if not (0.0 <= priority < math.inf):
        raise ValueError(f"priority is {priority}, must be finite and >= 0")
