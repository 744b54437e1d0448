"""One table of the in-process store: slots, limiter, selection, and who waits for what."""

from __future__ import annotations

import collections
import math
import threading
import time
import zlib
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

import numpy as np

from tfagents_x import types
from tfagents_x.replay import errors, limits, selectors
from tfagents_x.replay import tables as tables_lib


class TableState(NamedTuple):
    """All that a table consists of, for checkpoints. Arrays are [size], in slot order."""

    keys: np.ndarray
    priorities: np.ndarray
    times_sampled: np.ndarray
    items: list
    inserts: int
    samples: int
    next_key: int
    rng: Mapping[str, Any]


class ItemTable:
    """Items in slots without gaps. Every public method takes the table's lock."""

    def __init__(self, config: tables_lib.Table, seed: int):
        self.config = config
        self._changed = threading.Condition()
        # The name takes part, so that two tables of a store draw differently.
        self._rng = np.random.default_rng([seed, zlib.crc32(config.name.encode())])
        self._selector = _make_selector(config, self._oldest_slot)
        self._slot_of: collections.OrderedDict = collections.OrderedDict()  # By age.
        self._items: list = []
        self._keys = np.zeros(0, np.uint64)
        self._priorities = np.zeros(0, np.float64)
        self._times_sampled = np.zeros(0, np.int32)
        self._inserts = 0
        self._samples = 0
        self._next_key = 1
        self._closed = False

    def counts(self) -> limits.Counts:
        """What the limiter knows."""
        with self._changed:
            return self._counts()

    def insert(self, item: Any, priority: float, deadline: float) -> None:
        """Adds an item once the limiter allows it; the oldest leaves a full table.

        Raises:
          ReplayFull: not until `deadline`.
          ReplayClosed: the table was closed.
        """
        with self._changed:
            self._wait(
                lambda: limits.can_insert(self.config, self._counts(), 1),
                deadline,
                lambda: errors.ReplayFull(limits.why_no_insert(self.config, self._counts())),
            )
            self._put(item, priority)
            self._changed.notify_all()

    def sample(self, num: int, deadline: float) -> tuple[types.SampleInfo, list]:
        """Draws `num` items once the limiter allows it. Returns their info and contents.

        Raises:
          ReplayStarved: not until `deadline`.
          ReplayClosed: the table was closed.
        """
        with self._changed:
            self._wait(
                lambda: limits.can_sample(self.config, self._counts(), num),
                deadline,
                lambda: errors.ReplayStarved(
                    limits.why_no_sample(self.config, self._counts(), num)
                ),
            )
            drawn = self._draw(num)
            self._changed.notify_all()
        return drawn

    def update_priorities(self, updates: Mapping[int, float]) -> None:
        """Sets priorities by key; keys that are not here are ignored."""
        with self._changed:
            for key, priority in updates.items():
                slot = self._slot_of.get(key)
                if slot is not None:
                    self._priorities[slot] = priority
                    self._selector.put(slot, priority)

    def close(self) -> None:
        """Wakes all waiters, and lets the items go."""
        with self._changed:
            self._closed = True
            self._items = []
            self._changed.notify_all()

    def lock(self) -> threading.Condition:
        """The table's (re-entrant) lock, for a snapshot of several tables at one moment."""
        return self._changed

    def state(self) -> TableState:
        """Returns copies of everything; the items' contents are shared, they never change."""
        with self._changed:
            size = len(self._items)
            return TableState(
                self._keys[:size].copy(),
                self._priorities[:size].copy(),
                self._times_sampled[:size].copy(),
                list(self._items),
                self._inserts,
                self._samples,
                self._next_key,
                self._rng.bit_generator.state,
            )

    def load_state(self, state: TableState) -> None:
        """Takes back what `state` gave. For a table that holds nothing yet."""
        with self._changed:
            self._keys = state.keys.astype(np.uint64)
            self._priorities = state.priorities.astype(np.float64)
            self._times_sampled = state.times_sampled.astype(np.int32)
            self._items = list(state.items)
            # Keys grow with every insert, so their order is the order of age.
            for slot in np.argsort(self._keys):
                self._slot_of[int(self._keys[slot])] = int(slot)
            for slot, priority in enumerate(self._priorities.tolist()):
                self._selector.put(slot, priority)
            self._inserts, self._samples = state.inserts, state.samples
            self._next_key = state.next_key
            self._rng.bit_generator.state = state.rng
            self._changed.notify_all()

    def _counts(self) -> limits.Counts:
        return limits.Counts(len(self._items), self._inserts, self._samples)

    def _wait(
        self, ready: Callable[[], bool], deadline: float, failure: Callable[[], Exception]
    ) -> None:
        while True:
            if self._closed:
                raise errors.ReplayClosed(f"table {self.config.name!r} was closed")
            if ready():
                return
            remaining = None if deadline == math.inf else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                raise failure()
            self._changed.wait(remaining)

    def _oldest_slot(self) -> int:
        return next(iter(self._slot_of.values()))

    def _put(self, item: Any, priority: float) -> None:
        if len(self._items) == self.config.max_size:
            _, slot = self._slot_of.popitem(last=False)
            self._items[slot] = item
        else:
            slot = len(self._items)
            self._items.append(item)
            self._reserve(slot + 1)
        key = self._next_key
        self._next_key += 1
        self._slot_of[key] = slot
        self._keys[slot] = key
        self._priorities[slot] = priority
        self._times_sampled[slot] = 0
        self._selector.put(slot, priority)
        self._inserts += 1

    def _reserve(self, size: int) -> None:
        capacity = len(self._keys)
        if size <= capacity:
            return
        grown = min(self.config.max_size, max(64, 2 * capacity))
        extra = grown - capacity
        self._keys = np.concatenate([self._keys, np.zeros(extra, np.uint64)])
        self._priorities = np.concatenate([self._priorities, np.zeros(extra)])
        self._times_sampled = np.concatenate([self._times_sampled, np.zeros(extra, np.int32)])

    def _draw(self, num: int) -> tuple[types.SampleInfo, list]:
        if not self.config.max_times_sampled:
            return self._take(num)
        # Each draw may remove an item, so the next one must see the table without it.
        infos, items = zip(*(self._take(1) for _ in range(num)))
        info = types.SampleInfo(*(np.concatenate(leaves) for leaves in zip(*infos)))
        return info, [item for group in items for item in group]

    def _take(self, num: int) -> tuple[types.SampleInfo, list]:
        size = len(self._items)
        slots, probabilities = self._selector.select(num, size, self._rng)
        self._samples += num
        info = types.SampleInfo(
            self._keys[slots],
            probabilities,
            np.full(num, size, np.int64),
            self._priorities[slots],
            self._count_draws(slots),
        )
        items = [self._items[slot] for slot in slots.tolist()]
        limit = self.config.max_times_sampled
        if limit and info.times_sampled[0] >= limit:
            self._remove(int(slots[0]))
        return info, items

    def _count_draws(self, slots: np.ndarray) -> np.ndarray:
        """Counts a draw of each slot; one drawn twice in the batch counts on from the first."""
        drawn = np.empty(len(slots), np.int32)
        times = self._times_sampled
        for i, slot in enumerate(slots.tolist()):
            times[slot] += 1
            drawn[i] = times[slot]
        return drawn

    def _remove(self, slot: int) -> None:
        """Takes an item out; the one in the last slot moves into its place."""
        last = len(self._items) - 1
        del self._slot_of[int(self._keys[slot])]
        if slot != last:
            self._items[slot] = self._items[last]
            for column in (self._keys, self._priorities, self._times_sampled):
                column[slot] = column[last]
            self._slot_of[int(self._keys[slot])] = slot
            self._selector.put(slot, float(self._priorities[slot]))
        self._items.pop()
        self._selector.clear(last)


def _make_selector(config: tables_lib.Table, oldest_slot: Callable[[], int]) -> selectors.Selector:
    if config.selector == "fifo":
        return selectors.Fifo(oldest_slot)
    if config.selector == "uniform":
        return selectors.Uniform()
    return selectors.Prioritized(config.priority_exponent)
