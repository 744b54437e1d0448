"""The writer of `ReverbReplay`. Imports Reverb."""

from __future__ import annotations

import collections
import time
from collections.abc import Mapping
from typing import Any, Callable, Optional

import numpy as np
import reverb

from tfagents_x import types
from tfagents_x.replay import base, errors, rows
from tfagents_x.replay import tables as tables_lib
from tfagents_x.replay import writer as writer_lib

# Waiting for Reverb is cut into pieces of this many milliseconds, between which we look
# whether a limiter is what we wait for, whether time is up and whether we were closed.
_SLICE_MS = 50


class ReverbWriter(writer_lib.Writer):
    """`Writer` on Reverb's `TrajectoryWriter`.

    Every leaf is a column of the trajectory writer; two more hold the reward and the
    discount of transitions. A row is one step of its history, and a transition that ends
    at a complete row puts its own two leaves into a step of their own, so rows are
    remembered by their place in the history.

    Args:
      why_blocked: says what keeps the next item out of a table, or returns None.
    """

    def __init__(
        self,
        client: reverb.Client,
        signature: rows.Signature,
        row_format: rows.RowFormat,
        tables: Mapping[str, tables_lib.Table],
        max_sequence_length: int,
        why_blocked: Callable[[str], Optional[str]],
    ):
        super().__init__(signature, row_format, tables, max_sequence_length)
        self._why_blocked = why_blocked
        # Rows that items span, the open one, and steps that only hold transitions' own leaves.
        self._writer = client.trajectory_writer(num_keep_alive_refs=2 * max_sequence_length + 2)
        self._places: collections.deque = collections.deque(maxlen=max_sequence_length + 1)
        self._history_length = 0
        self._pending_tables: list = []
        self._start_leaf = row_format.leaves("start_of_episode")[0]
        self._columns = [f"leaf_{i}" for i in range(row_format.num_leaves)]
        self._own = ("own_reward", "own_discount")
        self._own_place: Optional[int] = None  # Open row that has own leaves.

    def tail(self, length: int) -> types.Step:
        """Returns copies of the latest rows; see `Writer`."""
        self._check_length(length)
        return self._format.unflatten([column.numpy() for column in self._sequence(length)])

    def transition_at(
        self, num_steps: int, reward: types.NestedArray, discount: types.NestedArray
    ) -> types.Transition:
        """Returns what `create_transition` would make; see `Writer`."""
        self._check_span(num_steps)
        own = self._own_leaves(
            self._format.flatten("reward", reward) + self._format.flatten("discount", discount)
        )
        observation, action, later, extras = self._transition(num_steps)
        flat = [column.numpy() for column in observation + action]
        flat += own + [column.numpy() for column in later + extras]
        return self._format.unflatten_transition(flat)

    def flush(self, max_pending: int = 0, timeout: Optional[float] = None) -> None:
        """Waits until the items have arrived; see `Writer`."""
        deadline = base.deadline_in(timeout)
        while self._pending_tables:
            try:
                self._writer.flush(max_pending, timeout_ms=_SLICE_MS)
            except reverb.errors.DeadlineExceededError:
                self._check_progress(deadline)
            else:
                # A server that stops lets flushes return; that does not mean success.
                self._why_blocked(self._pending_tables[0])
                self._forget_inserted(max_pending)
                return

    def close(self) -> None:
        """Gives up what is pending; see `Writer`."""
        self._writer.close()

    def _check_progress(self, deadline: float) -> None:
        reasons = [self._why_blocked(table) for table in dict.fromkeys(self._pending_tables)]
        blocked = [reason for reason in reasons if reason]
        # An item may just be on its way, however little time the caller gives.
        if blocked and time.monotonic() >= deadline:
            raise errors.ReplayFull(blocked[0])

    def _forget_inserted(self, max_pending: int) -> None:
        done = max(0, len(self._pending_tables) - max_pending)
        del self._pending_tables[:done]

    def _open(self, observation: list, start_of_episode: bool) -> None:
        data = {self._columns[i]: self._cast(i, leaf) for i, leaf in enumerate(observation)}
        data[self._columns[self._start_leaf]] = np.asarray(start_of_episode, bool)
        self._writer.append(data, partial_step=True)
        self._places.append(self._history_length)
        self._history_length += 1

    def _close(self, outcome: list) -> None:
        numbers = self._format.outcome_leaves
        data = {self._columns[i]: self._cast(i, leaf) for i, leaf in zip(numbers, outcome)}
        self._writer.append(data)

    def _cast(self, number: int, leaf: np.ndarray) -> np.ndarray:
        return np.asarray(leaf, self._format.dtypes[number])

    def _create_sequence(self, table: str, length: int, priority: float) -> None:
        self._send(table, priority, self._format.unflatten(self._sequence(length)))

    def _create_transition(self, table: str, num_steps: int, leaves: list, priority: float) -> None:
        self._record_own(self._own_leaves(leaves))
        observation, action, later, extras = self._transition(num_steps)
        history = self._writer.history
        own = [history[column][-1] for column in self._own]
        flat = observation + action + own + later + extras
        self._send(table, priority, self._format.unflatten_transition(flat))

    def _own_leaves(self, leaves: list) -> list:
        number = self._format.leaves("reward")[0]
        return [self._cast(number + i, leaf) for i, leaf in enumerate(leaves)]

    def _record_own(self, own: list) -> None:
        if self._is_open and self._own_place == self._places[-1]:
            return  # The open row has them already, the same ones (`_check_open_return`).
        self._writer.append(dict(zip(self._own, own)), partial_step=self._is_open)
        self._own_place = self._places[-1] if self._is_open else None
        self._history_length += not self._is_open

    def _sequence(self, length: int) -> list:
        """Columns of the latest complete rows."""
        stop = len(self._places) - self._is_open
        places = [self._places[i] for i in range(stop - length, stop)]
        history = self._writer.history
        return [history[column][places] for column in self._columns]

    def _transition(self, num_steps: int) -> tuple:
        """Cells of observation, action, next observation and extras."""
        history = self._writer.history
        first, last = self._places[-1 - num_steps], self._places[-1]

        def cells(field: str, place: int) -> list:
            return [history[self._columns[i]][place] for i in self._format.leaves(field)]

        return (
            cells("observation", first),
            cells("action", first),
            cells("observation", last),
            cells("extras", first),
        )

    def _send(self, table: str, priority: float, item: Any) -> None:
        self._writer.create_item(table, priority, item)
        self._pending_tables.append(table)

    def _forget(self) -> None:
        if self._is_open:
            # Reverb cannot drop an open step: fill it up. No item will point at it.
            self._close(self._format.zero_outcome())
        self._places.clear()
