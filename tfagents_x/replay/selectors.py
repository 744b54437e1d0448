"""How the in-process store chooses the items to sample.

Items sit in slots 0..size-1 without gaps. A selector only sees slots and priorities.
"""

from __future__ import annotations

import abc
from typing import Callable

import numpy as np

Draw = tuple[np.ndarray, np.ndarray]


class Selector(abc.ABC):
    """Draws slots, and says how likely each draw was."""

    @abc.abstractmethod
    def select(self, num: int, size: int, rng: np.random.Generator) -> Draw:
        """Draws `num` of `size` slots with replacement: slots [num] int64, probabilities [num]."""

    def put(self, slot: int, priority: float) -> None:
        """Notes that `slot` holds an item of this priority from now on."""
        del slot, priority  # Most selectors do not care.

    def clear(self, slot: int) -> None:
        """Notes that `slot` is empty from now on."""
        del slot


class Fifo(Selector):
    """Always the oldest item, as `reverb.selectors.Fifo`."""

    def __init__(self, oldest_slot: Callable[[], int]):
        self._oldest_slot = oldest_slot

    def select(self, num: int, size: int, rng: np.random.Generator) -> Draw:
        """The oldest slot `num` times, each with probability 1."""
        return np.full(num, self._oldest_slot()), np.ones(num)


class Uniform(Selector):
    """Every item with the same probability."""

    def select(self, num: int, size: int, rng: np.random.Generator) -> Draw:
        """Independent draws of any slot."""
        return rng.integers(size, size=num), np.full(num, 1.0 / size)


class Prioritized(Selector):
    """Probability proportional to `priority ** exponent`; uniform if all are 0.

    A binary tree of sums in one array: node `i` is the sum of nodes `2i` and `2i + 1`,
    the slots are its leaves. Inner nodes are always added up from their children, never
    updated by differences, so no rounding errors pile up.
    """

    def __init__(self, exponent: float):
        self._exponent = exponent
        self._leaves = 1
        self._sums = np.zeros(2)

    def select(self, num: int, size: int, rng: np.random.Generator) -> Draw:
        """Independent draws by weight, all walking down the tree together."""
        total = self._sums[1]
        if total <= 0:
            return rng.integers(size, size=num), np.full(num, 1.0 / size)
        target = rng.random(num) * total
        node = np.ones(num, np.int64)
        while node[0] < self._leaves:
            node *= 2
            left = self._sums[node]
            # Rounding may leave a target beyond the last weight: never walk into nothing.
            right = (target >= left) & (self._sums[node + 1] > 0)
            target -= np.where(right, left, 0.0)
            node += right
        return node - self._leaves, self._sums[node] / total

    def put(self, slot: int, priority: float) -> None:
        """Gives `slot` the weight of this priority."""
        while slot >= self._leaves:
            self._grow()
        # 0 ** 0 is 0 here, as in Reverb: an item of priority 0 is never preferred.
        self._set(slot, priority**self._exponent if priority > 0 else 0.0)

    def clear(self, slot: int) -> None:
        """Gives `slot` no weight."""
        if slot < self._leaves:
            self._set(slot, 0.0)

    def _set(self, slot: int, weight: float) -> None:
        sums = self._sums
        node = slot + self._leaves
        sums[node] = weight
        while node > 1:
            node //= 2
            sums[node] = sums[2 * node] + sums[2 * node + 1]

    def _grow(self) -> None:
        """Doubles the number of leaves."""
        level = np.concatenate([self._sums[self._leaves :], np.zeros(self._leaves)])
        self._leaves *= 2
        self._sums = np.zeros(2 * self._leaves)
        first = self._leaves
        while first >= 1:
            self._sums[first : 2 * first] = level
            level = level[0::2] + level[1::2] if first > 1 else level
            first //= 2
