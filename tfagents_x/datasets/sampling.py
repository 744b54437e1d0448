"""Batches of recorded rows, in an order that a seed and a position determine."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Any

import numpy as np
import tree

from tfagents_x import types


class _Shuffled:
    """Numbers 0 ... size - 1 in random order, again and again; where it is, is two numbers."""

    def __init__(self, size: int, seed: int):
        self._size, self._seed = size, seed
        self.position = 0
        self._epoch, self._order = -1, np.zeros(0, np.int64)

    def take(self, count: int) -> np.ndarray:
        """The next `count` numbers; an epoch's last ones are followed by the next one's first."""
        taken: list[np.ndarray] = []
        while count:
            epoch, offset = divmod(self.position, self._size)
            if epoch != self._epoch:
                self._epoch = epoch
                self._order = np.random.default_rng([self._seed, epoch]).permutation(self._size)
            taken.append(self._order[offset : offset + count])
            count -= len(taken[-1])
            self.position += len(taken[-1])
        return np.concatenate(taken)


class Batches(Iterator[Any], abc.ABC):
    """Batches of items, each item once per epoch, in another order in every epoch.

    The order depends on a seed alone, and `state` is all that it takes to go on.
    """

    def __init__(self, size: int, batch_size: int, seed: int):
        """Begins the first epoch.

        Args:
          size: number of items.
          batch_size: items in a batch; an epoch's last ones are joined by the next one's first.
          seed: of the order.

        Raises:
          ValueError: `batch_size` is less than 1.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}.")
        self._size, self._batch_size = size, batch_size
        self._shuffled = _Shuffled(size, seed)

    @property
    def size(self) -> int:
        """Number of items in an epoch."""
        return self._size

    @abc.abstractmethod
    def take(self, items: np.ndarray) -> Any:
        """The items of these numbers, int [B], as a nest of arrays [B, ...]."""

    def __next__(self) -> Any:
        """The next batch."""
        return self.take(self._shuffled.take(self._batch_size))

    def state(self) -> dict[str, Any]:
        """What has been drawn so far."""
        return {"position": self._shuffled.position}

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on where another iterator of the same arguments was."""
        self._shuffled.position = int(state["position"])


class Sequences(Batches):
    """Sequences of rows: `types.Step` of [B, T, ...]."""

    def __init__(
        self,
        rows: types.Step,
        batch_size: int,
        sequence_length: int,
        period: int = 1,
        seed: int = 0,
        across_episodes: bool = True,
    ):
        """Keeps the rows.

        Args:
          rows: arrays [R, ...], as `episodes.load` gives them.
          batch_size: sequences in a batch.
          sequence_length: rows of a sequence.
          period: rows from the start of one sequence to that of the next.
          seed: of the order.
          across_episodes: whether a sequence may go on into the next episode, which
            `start_of_episode` then tells; else shorter episodes are left out, and so are rows
            at the end of an episode that make no whole sequence.

        Raises:
          ValueError: a number is less than 1, or no sequence is that long.
        """
        for name, value in dict(sequence_length=sequence_length, period=period).items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}.")
        self._rows = rows
        self._offsets = np.arange(sequence_length)
        self._starts = _starts(rows.start_of_episode, sequence_length, period, across_episodes)
        super().__init__(len(self._starts), batch_size, seed)

    def take(self, items: np.ndarray) -> types.Step:
        """See base class."""
        indices = self._starts[items][:, np.newaxis] + self._offsets
        return tree.map_structure(lambda leaf: leaf[indices], self._rows)


class Transitions(Batches):
    """Single transitions: `types.Transition` of [B, ...]."""

    def __init__(self, rows: types.Step, batch_size: int, seed: int = 0):
        """Keeps the rows.

        Args:
          rows: arrays [R, ...], as `episodes.load` gives them.
          batch_size: transitions in a batch.
          seed: of the order.

        Raises:
          ValueError: `batch_size` is less than 1, or there is no transition.
        """
        self._rows = rows
        # The row before a start is the last observation of an episode: nothing follows it.
        followed = np.append(~rows.start_of_episode[1:], False)
        self._before = np.flatnonzero(followed)
        if not len(self._before):
            raise ValueError("There is no transition: episodes have at least two rows.")
        super().__init__(len(self._before), batch_size, seed)

    def take(self, items: np.ndarray) -> types.Transition:
        """See base class."""
        before = self._before[items]
        row = tree.map_structure(lambda leaf: leaf[before], self._rows)
        after = tree.map_structure(lambda leaf: leaf[before + 1], self._rows.observation)
        return types.Transition(
            row.observation, row.action, row.reward, row.discount, after, row.extras
        )


def _starts(first: np.ndarray, length: int, period: int, across_episodes: bool) -> np.ndarray:
    last = len(first) - length
    starts = np.arange(0, last + 1, period)
    if not across_episodes:
        begins = np.append(np.flatnonzero(first), len(first))
        pieces = [np.arange(a, b - length + 1, period) for a, b in zip(begins, begins[1:])]
        starts = np.concatenate([np.zeros(0, np.int64), *pieces])
    if not len(starts):
        what = "rows" if across_episodes else "rows in one episode"
        raise ValueError(
            f"There are no {length} {what}: record more, or learn from shorter sequences."
        )
    return starts
