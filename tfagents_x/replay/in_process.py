"""The in-process store: replay in plain numpy, on every platform."""

from __future__ import annotations

import collections
import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np

from tfagents_x import types
from tfagents_x.replay import base, chunks, errors, item_table, limits, rows
from tfagents_x.replay import in_process_checkpoint as checkpoint
from tfagents_x.replay import tables as tables_lib
from tfagents_x.replay import writer as writer_lib


class InProcessReplay(base.Replay):
    """`Replay` in this process' memory.

    Overlapping items share their rows (`chunks`). With the same seed and the same
    sequence of calls it draws the same items, also across `save` and `restore_from`.

    Args:
      tables: configuration of the tables.
      signature: type of the items.
      seed: of the selectors.
      restore_from: directory that `save` wrote.

    Raises:
      ValueError: bad tables, or a checkpoint that is damaged or of another configuration.
    """

    def __init__(
        self,
        tables: Sequence[tables_lib.Table],
        signature: rows.Signature,
        seed: int = 0,
        restore_from: Optional[str] = None,
    ):
        super().__init__(tables, signature)
        self._items = {table.name: item_table.ItemTable(table, seed) for table in tables}
        if restore_from is not None:
            states = checkpoint.read(restore_from, list(tables), signature, self._format)
            for name, state in states.items():
                self._items[name].load_state(state)

    def writer(self, max_sequence_length: int) -> writer_lib.Writer:
        """Returns a writer for one actor; see `Replay`."""
        self._check_open()
        return _InProcessWriter(
            self._signature, self._format, self._tables, max_sequence_length, self._items
        )

    def dataset(
        self,
        table: str,
        batch_size: int,
        prefetch: int = 2,
        timeout: Optional[float] = None,
    ) -> Any:
        """Returns a `tf.data.Dataset` of batches; see `Replay`."""
        # Imported here because a process that only collects data needs no TensorFlow.
        from tfagents_x.replay import datasets

        self.iterator(table, batch_size, timeout)  # Complains about bad arguments now.
        source = _DatasetSource(self, table, batch_size, timeout)
        return datasets.from_sampler(source.sample, self._signature, batch_size, prefetch)

    def save(self, directory: str) -> None:
        """Writes all tables into `directory`; see `Replay`."""
        self._check_open()
        checkpoint.write(directory, list(self._items.values()), self._signature, self._format)

    def _sample(
        self, table: tables_lib.Table, batch_size: int, deadline: float
    ) -> types.ReplaySample:
        info, items = self._items[table.name].sample(batch_size, deadline)
        # Copying happens outside the table's lock: rows never change once written.
        if self._signature.transitions:
            leaves = chunks.gather_transitions(items, self._format)
        else:
            leaves = chunks.gather_sequences(items, self._format)
        return types.ReplaySample(info, self._data(leaves))

    def _counts(self, table: tables_lib.Table) -> limits.Counts:
        return self._items[table.name].counts()

    def _update_priorities(self, table: tables_lib.Table, updates: Mapping[int, float]) -> None:
        self._items[table.name].update_priorities(updates)

    def _close(self) -> None:
        for table in self._items.values():
            table.close()


class _DatasetSource:
    """Draws the batches of a dataset, in waits that are shorter than its timeout.

    `timeout` is counted anew from every batch.
    """

    def __init__(
        self, replay: InProcessReplay, table: str, batch_size: int, timeout: Optional[float]
    ):
        self._replay = replay
        self._table = table
        self._batch_size = batch_size
        self._timeout = timeout
        self._deadline: Optional[float] = None

    def sample(self, patience: float) -> Optional[types.ReplaySample]:
        """See `datasets.from_sampler`."""
        if self._deadline is None:
            self._deadline = base.deadline_in(self._timeout)
        wait = max(0.0, min(patience, self._deadline - time.monotonic()))
        try:
            batch = self._replay.sample(self._table, self._batch_size, wait)
        except errors.ReplayTimeout:
            if time.monotonic() >= self._deadline:
                raise StopIteration from None
            return None
        except errors.ReplayClosed:
            raise StopIteration from None
        self._deadline = None
        return batch


class _InProcessWriter(writer_lib.Writer):
    def __init__(
        self,
        signature: rows.Signature,
        row_format: rows.RowFormat,
        tables: Mapping[str, tables_lib.Table],
        max_sequence_length: int,
        items: Mapping[str, item_table.ItemTable],
    ):
        super().__init__(signature, row_format, tables, max_sequence_length)
        self._item_tables = items
        # One row more than the items span: the one that is open.
        self._stream = chunks.RowStream(row_format, max_sequence_length + 1)
        self._pending: collections.deque = collections.deque()

    def tail(self, length: int) -> types.Step:
        """Returns copies of the latest rows; see `Writer`."""
        self._check_length(length)
        leaves = chunks.gather_sequences([self._stream.sequence(length)], self._format)
        return self._format.unflatten([leaf[0] for leaf in leaves])

    def transition_at(
        self, num_steps: int, reward: types.NestedArray, discount: types.NestedArray
    ) -> types.Transition:
        """Returns what `create_transition` would make; see `Writer`."""
        self._check_span(num_steps)
        flatten = self._format.flatten
        item = self._transition(
            num_steps, flatten("reward", reward) + flatten("discount", discount)
        )
        leaves = chunks.gather_transitions([item], self._format)
        return self._format.unflatten_transition([leaf[0] for leaf in leaves])

    def flush(self, max_pending: int = 0, timeout: Optional[float] = None) -> None:
        """Waits until the items have arrived; see `Writer`."""
        if len(self._pending) <= max_pending:
            return
        deadline = base.deadline_in(timeout)
        while len(self._pending) > max_pending:
            table, item, priority = self._pending[0]
            table.insert(item, priority, deadline)
            self._pending.popleft()

    def close(self) -> None:
        """Gives up what is pending; see `Writer`."""
        self._pending.clear()
        self._forget()

    def _open(self, observation: list, start_of_episode: bool) -> None:
        self._stream.open(observation, start_of_episode)

    def _close(self, outcome: list) -> None:
        self._stream.close(outcome)

    def _create_sequence(self, table: str, length: int, priority: float) -> None:
        self._send(table, self._stream.sequence(length), priority)

    def _create_transition(self, table: str, num_steps: int, leaves: list, priority: float) -> None:
        self._send(table, self._transition(num_steps, leaves), priority)

    def _transition(self, num_steps: int, leaves: list) -> chunks.TransitionRows:
        dtypes = self._format.dtypes
        number = self._format.leaves("reward")[0]
        reward, discount = (np.array(leaf, dtypes[number + i])[()] for i, leaf in enumerate(leaves))
        newest = 0 if self._is_open else 1
        first = self._stream.locate(newest + num_steps)
        last = self._stream.locate(newest)
        return chunks.TransitionRows(*first, *last, reward, discount)

    def _send(self, table: str, item: Any, priority: float) -> None:
        self._pending.append((self._item_tables[table], item, priority))
        with contextlib.suppress(errors.ReplayFull):  # Then it waits for the next flush.
            self.flush(timeout=0)

    def _forget(self) -> None:
        if self._is_open:
            self._stream.skip()
