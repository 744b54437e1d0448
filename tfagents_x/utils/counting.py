"""Counts of steps, episodes and seconds, shared by actors and learners."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, Union

import numpy as np

Number = Union[int, float]
Counts = dict[str, Number]


class Counter:
    """Counts things by name; may report to a parent that several counters share.

    A counter with prefix `learner` counts `steps` as `learner_steps`. What it has counted is
    sent to the parent every `time_delta` seconds, and the parent's totals come back, so each
    child sees (a little late) what the others have counted. All methods are thread-safe.
    Interface of Acme's `Counter`.
    """

    def __init__(
        self,
        parent: Counter | None = None,
        prefix: str = "",
        time_delta: float = 1.0,
        return_only_prefixed: bool = False,
    ):
        """Makes a counter.

        Args:
          parent: gets this counter's counts, if given.
          prefix: put before each name with an underscore, if not empty.
          time_delta: shortest time between two reports to the parent, in seconds.
          return_only_prefixed: return only names with this counter's prefix, not the rest
            of what the parent counts.

        Raises:
          ValueError: `time_delta` is negative.
        """
        if time_delta < 0:
            raise ValueError(f"time_delta must be 0 or more seconds, got {time_delta}.")
        self._parent = parent
        self._prefix = prefix
        self._time_delta = time_delta
        self._return_only_prefixed = return_only_prefixed
        # Reentrant, and always taken from child to parent, so it can't deadlock.
        self._lock = threading.RLock()
        self._counts: Counts = {}  # Not yet sent to the parent; names without prefix.
        self._cache: Counts = {}  # Totals of the parent; full names.
        self._last_sync: float | None = None

    def increment(self, **counts: Number) -> Counts:
        """Adds `counts` and returns the totals, as `get_counts`."""
        with self._lock:
            for name, amount in counts.items():
                self._counts[name] = self._counts.get(name, 0) + amount
            return self.get_counts()

    def get_counts(self) -> Counts:
        """Returns the totals by full name; what other counters did may be `time_delta` late."""
        with self._lock:
            if self._is_due():
                self._report()
            totals = dict(self._cache)
            for name, amount in self._prefixed().items():
                totals[name] = totals.get(name, 0) + amount
            if self._return_only_prefixed and self._prefix:
                totals = {k: v for k, v in totals.items() if k.startswith(f"{self._prefix}_")}
            return totals

    def sync(self) -> Counts:
        """Exchanges counts with the parent now, and returns the totals, as `get_counts`."""
        with self._lock:
            self._last_sync = None
            return self.get_counts()

    def save(self) -> dict[str, Counts]:
        """Returns the state as a plain dict.

        What was not yet reported goes to the parent first: save children before parents, and
        the parent's state holds everything.
        """
        with self._lock:
            self.sync()
            return {"counts": dict(self._counts), "cache": dict(self._cache)}

    def restore(self, state: Mapping[str, Mapping[str, Number]]) -> None:
        """Takes back what `save()` gave.

        Raises:
          ValueError: `state` is not of that form.
        """
        counts, cache = (_checked_counts(state, part) for part in ("counts", "cache"))
        with self._lock:
            self._counts, self._cache = counts, cache
            self._last_sync = None

    def get_key(self, name: str) -> str:
        """Returns the full name under which this counter's `name` is found in the totals."""
        return f"{self._prefix}_{name}" if self._prefix else name

    def get_steps_key(self) -> str:
        """Returns the full name of this counter's `steps`."""
        return self.get_key("steps")

    def _prefixed(self) -> Counts:
        return {self.get_key(name): amount for name, amount in self._counts.items()}

    def _is_due(self) -> bool:
        if self._parent is None:
            return False
        return self._last_sync is None or time.monotonic() - self._last_sync > self._time_delta

    def _report(self) -> None:
        assert self._parent is not None
        # Cleared only once the parent has them: a parent that raises loses nothing.
        self._cache = self._parent.increment(**self._prefixed())
        self._counts = {}
        self._last_sync = time.monotonic()


def _checked_counts(state: Any, part: str) -> Counts:
    counts = state.get(part) if isinstance(state, Mapping) else None
    if not isinstance(counts, Mapping) or not all(map(_is_number, counts.values())):
        raise ValueError(
            f"A counter's state is a dict with 'counts' and 'cache', each a dict of numbers; "
            f"{part!r} is not, in {state!r}. Pass what save() returned."
        )
    return {name: np.asarray(amount).item() for name, amount in counts.items()}


def _is_number(value: Any) -> bool:
    # Checkpoints may bring numbers back as numpy scalars.
    array = np.asarray(value)
    return array.shape == () and array.dtype.kind in "iuf"
