"""Sequences of a fixed length at a fixed period (Acme's `SequenceAdder`)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Optional, Union

import numpy as np
import tree

from tfagents_x import types
from tfagents_x.replay import base as replay_base
from tfagents_x.replay.adders import base
from tfagents_x.replay.tables import DEFAULT_TABLE


class EndBehavior(enum.Enum):
    """What happens to the rows that are left when an episode ends.

    Sequences of 3 rows every 2 rows; the episode's last observation is row 6:

    ```
    written on the way    0 1 2
                              2 3 4
    ZERO_PAD                      4 5 6
    ```

    and if it is row 5:

    ```
    written on the way    0 1 2
    ZERO_PAD                  2 3 4
                                  4 5 0     a row of zeros
    TRUNCATE                      4 5
    CONTINUE                      4 5 F     F: first row of the next episode
    WRITE                       3 4 5       overlaps more than the period says
    ```
    """

    ZERO_PAD = "zero_pad"
    TRUNCATE = "truncate"
    CONTINUE = "continue"
    WRITE = "write"


class SequenceAdder(base.ReplayAdder):
    """Writes the latest `sequence_length` rows every `period` rows.

    Row `t` is `types.Step(observation_t, action_t, reward, discount, start_of_episode,
    extras_t)`, reward and discount being those that followed `action_t`. The discount is
    the environment's: 0 where the episode terminated, 1 where it was truncated, and
    nothing multiplied onto it. The last observation is a row of its own, with zeros for
    the rest.

    Args:
      replay: where to; made with `sequence_signature`.
      sequence_length: rows of a sequence.
      period: rows from the start of one sequence to the start of the next.
      table, priority_fn, max_in_flight_items, insert_timeout: see `ReplayAdder`.
      end_of_episode_behavior: an `EndBehavior` or its value. TRUNCATE, and WRITE after a
        short episode, make shorter sequences, which a signature with a fixed
        `sequence_length` refuses.

    Raises:
      ValueError: `sequence_length` or `period` < 1, an unknown behaviour, or a replay
        whose items cannot be these sequences.
    """

    def __init__(
        self,
        replay: replay_base.Replay,
        sequence_length: int,
        period: int,
        *,
        table: str = DEFAULT_TABLE,
        end_of_episode_behavior: Union[EndBehavior, str] = EndBehavior.ZERO_PAD,
        priority_fn: Optional[base.PriorityFn] = None,
        max_in_flight_items: int = 0,
        insert_timeout: Optional[float] = None,
    ):
        if sequence_length < 1:
            raise ValueError(f"sequence_length is {sequence_length}, must be >= 1")
        if period < 1:
            raise ValueError(f"period is {period}, must be >= 1")
        self._behavior = _end_behavior(end_of_episode_behavior)
        _check_signature(replay.signature, sequence_length, self._behavior)
        super().__init__(
            replay, sequence_length, table, priority_fn, max_in_flight_items, insert_timeout
        )
        self._length = sequence_length
        self._period = period
        self._row_format = self._writer.row_format
        self._rows_before = 0  # Rows of the stream that a loaded state stands for.
        self._boundary: Optional[Mapping[str, Any]] = None

    def reset(self) -> None:
        """Forgets all rows, with CONTINUE also those of finished episodes."""
        super().reset()
        self._rows_before = 0
        self._boundary = None

    def state(self) -> Mapping[str, Any]:
        """Rows that sequences into the next episode will need, and how many there were.

        Empty but for CONTINUE: `{'num_rows': int64, 'rows': {leaf name: [N, ...]}}`.
        """
        return self._boundary or self._make_state(0)

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Takes back what `state` gave; see `Adder`."""
        self._check_state(state)
        self.reset()
        leaves = [state["rows"][name] for name in self._row_format.names]
        for row in zip(*leaves):
            self._writer.append(self._row_format.unflatten(row))
        kept = self._writer.num_steps
        self._rows_before = int(state["num_rows"]) - kept
        if kept:
            self._boundary = self._make_state(kept)

    @property
    def _num_rows(self) -> int:
        """Complete rows since the stream began."""
        return self._rows_before + self._writer.num_steps

    def _write(self, reward: types.NestedArray, discount: types.NestedArray) -> None:
        self._write_if_due()

    def _write_last(self) -> None:
        if self._behavior is EndBehavior.CONTINUE:
            self._write_if_due()
        elif self._behavior is EndBehavior.WRITE:
            self._write_rows(min(self._length, self._num_rows))
        else:
            self._write_rest()

    def _end_episode(self) -> None:
        if self._behavior is EndBehavior.CONTINUE:
            self._boundary = self._make_state(min(self._length, self._writer.num_steps))
        else:
            super()._end_episode()

    def _write_if_due(self) -> None:
        beyond = self._num_rows - self._length
        if beyond >= 0 and beyond % self._period == 0:
            self._write_rows(self._length)

    def _write_rest(self) -> None:
        """Writes the sequence that would have been due next, as far as there are rows."""
        missing = self._length - self._num_rows
        if missing < 0:
            missing %= self._period
        if missing >= self._length:
            return  # With period > sequence_length the last rows may belong to no sequence.
        if self._behavior is EndBehavior.TRUNCATE:
            self._write_rows(self._length - missing)
            return
        for _ in range(missing):
            self._writer.append_zeros()
        self._write_rows(self._length)

    def _write_rows(self, length: int) -> None:
        priority = 1.0
        if self._priority_fn is not None:
            priority = self._priority_fn(self._writer.tail(length))
        self._writer.create_item(self._table, length, priority)

    def _make_state(self, kept: int) -> Mapping[str, Any]:
        row_format = self._row_format
        if kept:
            leaves = tree.flatten(self._writer.tail(kept))
        else:
            shapes = zip(row_format.shapes, row_format.dtypes)
            leaves = [np.zeros((0, *shape), dtype) for shape, dtype in shapes]
        num_rows = np.int64(self._num_rows if kept else 0)
        return {"num_rows": num_rows, "rows": dict(zip(row_format.names, leaves))}

    def _check_state(self, state: Mapping[str, Any]) -> None:
        if not isinstance(state, Mapping) or set(state) != {"num_rows", "rows"}:
            raise ValueError("this is not a SequenceAdder's state: it lacks num_rows or rows")
        rows, total = state["rows"], int(state["num_rows"])
        if set(rows) != set(self._row_format.names):
            raise ValueError(
                f"the state's rows have the leaves {sorted(rows)}, this adder's have "
                f"{sorted(self._row_format.names)}: it is of another adder"
            )
        wanted = min(total, self._length) if self._behavior is EndBehavior.CONTINUE else 0
        kept = {len(leaf) for leaf in rows.values()}
        if kept != {wanted}:
            raise ValueError(
                f"the state holds {sorted(kept)} rows of {total}, an adder with sequence_length="
                f"{self._length} and {self._behavior} needs {wanted}: it is of another adder"
            )


def _end_behavior(value: Union[EndBehavior, str]) -> EndBehavior:
    try:
        return EndBehavior(value)
    except ValueError:
        known = ", ".join(repr(behavior.value) for behavior in EndBehavior)
        raise ValueError(
            f"end_of_episode_behavior is {value!r}, must be an EndBehavior or one of {known}"
        ) from None


def _check_signature(signature: Any, sequence_length: int, behavior: EndBehavior) -> None:
    if signature.transitions:
        raise ValueError(
            "SequenceAdder needs a replay made with sequence_signature(), this one holds "
            "transitions"
        )
    fixed = signature.sequence_length
    if fixed is not None and fixed != sequence_length:
        raise ValueError(
            f"sequence_length is {sequence_length}, the replay's signature says {fixed}"
        )
    if fixed is not None and behavior in (EndBehavior.TRUNCATE, EndBehavior.WRITE):
        raise ValueError(
            f"{behavior} may write shorter sequences: make the replay's signature with "
            "sequence_length=None, or use EndBehavior.ZERO_PAD"
        )
