"""Where the in-process store keeps rows: chunks of columns that overlapping items share.

A writer's rows go into chunks, one preallocated array per leaf. An item only notes
which rows of which chunks are its own, so a row is stored once however many items
hold it. A chunk is freed with the last item that points into it.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tfagents_x.replay import rows

# Small rows are packed this many to a chunk at least, to amortise the arrays' headers;
# large ones (pixels) so few that a chunk stays below a megabyte where it can.
_MIN_ROWS = 32
_MAX_BYTES = 1 << 20


class Chunk:
    """`columns[i]` holds leaf `i` of some consecutive rows, [rows, ...]."""

    __slots__ = ("__weakref__", "columns")

    def __init__(self, columns: list):
        self.columns = columns


class SequenceRows(NamedTuple):
    """Rows of a sequence item: for each chunk in turn, its rows `start` to `stop`."""

    runs: tuple[tuple[Chunk, int, int], ...]

    @property
    def length(self) -> int:
        """Number of rows."""
        return sum(stop - start for _, start, stop in self.runs)


class TransitionRows(NamedTuple):
    """Rows of a transition item, and the two leaves that are its own."""

    first_chunk: Chunk
    first: int
    last_chunk: Chunk
    last: int
    reward: np.ndarray
    discount: np.ndarray


class RowStream:
    """The rows of one writer, of which it can still reach the latest `window`."""

    def __init__(self, row_format: rows.RowFormat, window: int):
        self._format = row_format
        self._window = window
        most = _MAX_BYTES // max(1, row_format.row_bytes)
        self._rows_per_chunk = max(1, min(max(window, _MIN_ROWS), most))
        self._chunks: collections.deque = collections.deque()
        self._first_chunk = 0  # Number of self._chunks[0], counted from the first ever.
        self._next = 0  # Number of the row that is open, or will be opened next.
        self._start_leaf = row_format.leaves("start_of_episode")[0]
        self._outcome_leaves = row_format.outcome_leaves

    def open(self, observation: Sequence[np.ndarray], start_of_episode: bool) -> None:
        """Stores the first half of the next row."""
        number, index = divmod(self._next, self._rows_per_chunk)
        if number >= self._first_chunk + len(self._chunks):
            self._add_chunk()
        columns = self._chunks[-1].columns
        for i, leaf in enumerate(observation):
            columns[i][index] = leaf
        columns[self._start_leaf][index] = start_of_episode

    def close(self, outcome: Sequence[np.ndarray]) -> None:
        """Stores the second half of the open row."""
        columns = self._chunks[-1].columns
        index = self._next % self._rows_per_chunk
        for i, leaf in zip(self._outcome_leaves, outcome):
            columns[i][index] = leaf
        self._next += 1

    def skip(self) -> None:
        """Leaves the open row as it is: transitions may point at its observation."""
        self._next += 1

    def sequence(self, length: int) -> SequenceRows:
        """The latest `length` complete rows."""
        runs = []
        row = self._next - length
        while row < self._next:
            number, start = divmod(row, self._rows_per_chunk)
            stop = min(self._rows_per_chunk, start + self._next - row)
            runs.append((self._chunks[number - self._first_chunk], start, stop))
            row += stop - start
        return SequenceRows(tuple(runs))

    def locate(self, back: int) -> tuple[Chunk, int]:
        """Chunk and index of the row `back` rows before the open (or next) one."""
        number, index = divmod(self._next - back, self._rows_per_chunk)
        return self._chunks[number - self._first_chunk], index

    def _add_chunk(self) -> None:
        shapes, dtypes = self._format.shapes, self._format.dtypes
        size = (self._rows_per_chunk,)
        self._chunks.append(Chunk([np.empty(size + s, d) for s, d in zip(shapes, dtypes)]))
        oldest = max(0, self._next - self._window) // self._rows_per_chunk
        while self._first_chunk < oldest:
            self._chunks.popleft()
            self._first_chunk += 1


def gather_sequences(items: Sequence[SequenceRows], row_format: rows.RowFormat) -> list:
    """Copies sequences of one length into fresh leaves [B, T, ...].

    Raises:
      ValueError: the sequences have different lengths.
    """
    lengths = sorted({item.length for item in items})
    if len(lengths) > 1:
        raise ValueError(
            f"cannot batch sequences of different lengths ({lengths[0]} to {lengths[-1]} rows): "
            "write them with end_of_episode_behavior='zero_pad', or sample with batch_size=1"
        )
    batch_shape = (len(items), lengths[0])
    runs = [(chunk.columns, slice(a, b)) for item in items for chunk, a, b in item.runs]
    leaves = []
    for i in range(row_format.num_leaves):
        flat = np.concatenate([columns[i][part] for columns, part in runs])
        leaves.append(flat.reshape(batch_shape + flat.shape[1:]))
    return leaves


def gather_transitions(items: Sequence[TransitionRows], row_format: rows.RowFormat) -> list:
    """Copies transitions into fresh leaves [B, ...], in the order of `Transition`'s fields."""
    first = [(item.first_chunk.columns, slice(item.first, item.first + 1)) for item in items]
    last = [(item.last_chunk.columns, slice(item.last, item.last + 1)) for item in items]

    def column(field: str, where: list) -> list:
        return [
            np.concatenate([columns[i][part] for columns, part in where])
            for i in row_format.leaves(field)
        ]

    own = [np.array([item.reward for item in items]), np.array([item.discount for item in items])]
    return (
        column("observation", first)
        + column("action", first)
        + own
        + column("observation", last)
        + column("extras", first)
    )
