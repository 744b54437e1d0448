"""The replay interface, and what both stores share of it."""

from __future__ import annotations

import abc
import atexit
import math
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

import numpy as np

from tfagents_x import types
from tfagents_x.replay import errors, limits, rows, writer
from tfagents_x.replay import tables as tables_lib


class Replay(abc.ABC):
    """Tables of items: writers fill them, samplers draw from them. Thread-safe.

    Timeouts are in seconds; None waits for ever, 0 does not wait at all. A call that
    runs out of time raises a `ReplayTimeout` that says what limits the table.
    """

    def __init__(self, tables: Sequence[tables_lib.Table], signature: rows.Signature):
        tables_lib.check_names(tables)
        self._tables = {table.name: table for table in tables}
        self._signature = signature
        self._format = rows.RowFormat(signature.step)
        self._closed = False
        _open_replays.add(self)

    @property
    def tables(self) -> Mapping[str, tables_lib.Table]:
        """Configuration of the tables by name."""
        return dict(self._tables)

    @property
    def signature(self) -> rows.Signature:
        """Type of the items."""
        return self._signature

    @abc.abstractmethod
    def writer(self, max_sequence_length: int) -> writer.Writer:
        """Returns a writer for one actor, whose items span at most that many rows.

        Raises:
          ValueError: `max_sequence_length` < 1.
        """

    def sample(
        self, table: str, batch_size: int, timeout: Optional[float] = None
    ) -> types.ReplaySample:
        """Draws exactly `batch_size` items, all at once; nothing is drawn ahead.

        Args:
          table: name of the table.
          batch_size: number of items B.
          timeout: seconds to wait until that many can be drawn.

        Returns:
          `ReplaySample` of numpy arrays: `info` leaves [B]; `data` a `Step` with leaves
          [B, T, ...] or a `Transition` with leaves [B, ...].

        Raises:
          ValueError: no such table, a batch that can never be had (`check_feasible`), a
            negative timeout, or sequences of different lengths in one batch.
          ReplayStarved: too few items within `timeout`.
          ReplayClosed: the store was closed.
        """
        config = self._table(table)
        tables_lib.check_feasible(config, batch_size)
        return self._sample(config, batch_size, deadline_in(timeout))

    def iterator(
        self, table: str, batch_size: int, timeout: Optional[float] = None
    ) -> Iterator[types.ReplaySample]:
        """Iterates over `sample(table, batch_size, timeout)`; ends when the store is closed.

        Raises what `sample` raises, bad arguments at once.
        """
        tables_lib.check_feasible(self._table(table), batch_size)
        deadline_in(timeout)
        return self._iterate(table, batch_size, timeout)

    @abc.abstractmethod
    def dataset(
        self,
        table: str,
        batch_size: int,
        prefetch: int = 2,
        timeout: Optional[float] = None,
    ) -> Any:
        """Returns a `tf.data.Dataset` of batches, as `sample` gives them.

        It reads ahead, in its own threads: a single-threaded agent wants `iterator`.

        Args:
          table: name of the table.
          batch_size: number of items B.
          prefetch: batches to prepare ahead; 0 for none (Reverb still fetches items ahead).
          timeout: seconds without a batch after which the dataset ends.

        Raises:
          ValueError: as `sample`.
        """

    def can_sample(self, table: str, num_items: int) -> bool:
        """Whether `sample(table, num_items)` would return at once. Does not wait."""
        config = self._table(table)
        _check_count(num_items)
        return self._can_sample(config, num_items)

    def can_insert(self, table: str, num_items: int = 1) -> bool:
        """Whether `num_items` items could be inserted at once. Does not wait."""
        config = self._table(table)
        _check_count(num_items)
        return self._can_insert(config, num_items)

    def size(self, table: str) -> int:
        """Number of items in `table`."""
        return self._counts(self._table(table)).size

    def update_priorities(
        self, table: str, keys: Sequence[int], priorities: Sequence[float]
    ) -> None:
        """Sets the priorities of items; keys of items that left the table are ignored.

        Args:
          table: name of the table.
          keys: [N], `SampleInfo.key` of the items. Of a key given twice the last counts.
          priorities: [N], finite and >= 0.

        Raises:
          ValueError: no such table, keys that are not integers, different lengths, a priority that
            is negative or not finite. Nothing is updated then.
        """
        config = self._table(table)
        flat_keys = _integers(keys)
        flat_priorities = np.asarray(priorities, np.float64).ravel()
        if len(flat_keys) != flat_priorities.size:
            raise ValueError(
                f"update_priorities got {len(flat_keys)} keys and {flat_priorities.size} priorities"
            )
        bad = flat_priorities[~(np.isfinite(flat_priorities) & (flat_priorities >= 0))]
        if bad.size:
            raise ValueError(f"priorities must be finite and >= 0, got {bad[0]}")
        updates = dict(zip(flat_keys, flat_priorities.tolist()))
        if updates:
            self._update_priorities(config, updates)

    @abc.abstractmethod
    def save(self, directory: str) -> None:
        """Writes all tables into `directory`, for `make_replay(..., restore_from=directory)`.

        Items, priorities, keys, draws so far and the limiters' counts are kept. Items
        still pending in a writer are not: flush first.

        Raises:
          ValueError: `directory` holds a saved replay already.
          OSError: it cannot be written.
        """

    def close(self) -> None:
        """Wakes all who wait (`ReplayClosed`) and frees the store. May be called twice."""
        if not self._closed:
            self._closed = True
            self._close()

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self.close()

    @abc.abstractmethod
    def _sample(
        self, table: tables_lib.Table, batch_size: int, deadline: float
    ) -> types.ReplaySample: ...

    @abc.abstractmethod
    def _counts(self, table: tables_lib.Table) -> limits.Counts: ...

    @abc.abstractmethod
    def _update_priorities(self, table: tables_lib.Table, updates: Mapping[int, float]) -> None: ...

    @abc.abstractmethod
    def _close(self) -> None: ...

    def _can_sample(self, table: tables_lib.Table, num_items: int) -> bool:
        return limits.can_sample(table, self._counts(table), num_items)

    def _can_insert(self, table: tables_lib.Table, num_items: int) -> bool:
        return limits.can_insert(table, self._counts(table), num_items)

    def _iterate(
        self, table: str, batch_size: int, timeout: Optional[float]
    ) -> Iterator[types.ReplaySample]:
        while not self._closed:
            try:
                yield self.sample(table, batch_size, timeout)
            except errors.ReplayClosed:
                return

    def _table(self, name: str) -> tables_lib.Table:
        self._check_open()
        if name not in self._tables:
            raise ValueError(f"no table {name!r}, there is: {', '.join(sorted(self._tables))}")
        return self._tables[name]

    def _check_open(self) -> None:
        if self._closed:
            raise errors.ReplayClosed("this replay was closed")

    def _data(self, leaves: Sequence[Any]) -> Any:
        """Puts the flat leaves of an item (in the order of its spec) into its nest."""
        if self._signature.transitions:
            return self._format.unflatten_transition(leaves)
        return self._format.unflatten(leaves)


def deadline_in(timeout: Optional[float]) -> float:
    """Returns the `time.monotonic()` at which `timeout` seconds are over, inf for None.

    Raises:
      ValueError: `timeout` is negative.
    """
    if timeout is None:
        return math.inf
    if not timeout >= 0:
        raise ValueError(f"timeout is {timeout}, must be >= 0 seconds, or None to wait for ever")
    return time.monotonic() + timeout


def _integers(keys: Sequence[int]) -> list[int]:
    array = np.asarray(keys)
    if array.dtype.kind in "iu":
        return array.ravel().tolist()
    # numpy makes floats of a list that mixes uint64 with int, and those lose digits.
    if all(isinstance(key, (int, np.integer)) for key in keys):
        return [int(key) for key in keys]
    raise ValueError(f"keys must be integers, got {array.dtype}: pass SampleInfo.key as it is")


def _check_count(num_items: int) -> None:
    if num_items < 1:
        raise ValueError(f"num_items is {num_items}, must be >= 1")


_open_replays: weakref.WeakSet = weakref.WeakSet()


def _close_all() -> None:
    # A thread of tf.data that is in Python code when the interpreter shuts down keeps the
    # process from ending. Closing sends it away; give it the time to leave.
    replays = list(_open_replays)
    for replay in replays:
        replay.close()
    if replays and "tensorflow" in sys.modules:
        _wait_for_foreign_threads(seconds=3.0)


def _wait_for_foreign_threads(seconds: float) -> None:
    """Waits until no thread that Python did not start runs Python code, for a while."""
    deadline = time.monotonic() + seconds
    times_none = 0
    while times_none < 5 and time.monotonic() < deadline:
        ours = {t.ident for t in threading.enumerate() if not isinstance(t, _Foreign)}
        times_none = 0 if set(sys._current_frames()) - ours else times_none + 1
        time.sleep(0.01)


_Foreign = threading._DummyThread  # type: ignore[attr-defined]


atexit.register(_close_all)
