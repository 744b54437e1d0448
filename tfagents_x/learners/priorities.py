"""New priorities on their way to replay: in order, in the background, whatever happens there."""

from __future__ import annotations

import atexit
import collections
import logging
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional

import numpy as np

from tfagents_x.learners import checks

# Where the adders put their items; Acme's `DEFAULT_PRIORITY_TABLE`.
TABLE = "priority_table"

# How long the end of the process waits for what is still to be sent. A `reverb.TFClient`
# whose server is gone never returns.
_SECONDS_AT_EXIT = 10.0

_Updates = Mapping[int, float]


class PriorityUpdater:
    """Sends priorities to replay from one background thread, in the order they came in.

    An update that fails (the server is gone, the store was closed) is counted; the first
    one is also reported, by `logging.warning`. Training goes on. What is pending when the
    process ends is still sent, for up to 10 seconds.
    """

    def __init__(
        self, client: Any, table: str = TABLE, max_pending: int = 64, patience: float = 10.0
    ):
        """The thread starts with the first update.

        Args:
          client: has `mutate_priorities(table, updates={key: priority})`, as `reverb.Client`,
            or `update_priorities(table, keys, priorities)`, as the stores in
            `tfagents_x.replay` and `reverb.TFClient`.
          table: name of the table.
          max_pending: updates that may wait; `put` blocks while there are as many.
          patience: seconds that `put` blocks at most. Then its update counts as failed, and so
            do the following ones, at once, until there is room.

        Raises:
          TypeError: `client` has neither method.
          ValueError: a number is out of range.
        """
        checks.check_count("max_pending", max_pending)
        checks.check_number("patience", patience, 0.0)
        self._outbox = _Outbox(_sender(client, table), max_pending, patience)
        # The thread knows only the outbox, so that it ends when its owner is gone.
        weakref.finalize(self, self._outbox.finish).atexit = False

    def put(self, keys: Sequence[Any], priorities: Sequence[Any]) -> None:
        """Hands over one batch; tensors are read in the background.

        Args:
          keys: arrays or tensors [N] of integers, one from each replica. Of a key given twice
            the last priority counts.
          priorities: as many floats, in the same order.

        Raises:
          ValueError: there are not as many priorities as keys, or the updater was closed.
        """
        sizes = [sum(int(np.prod(x.shape)) for x in parts) for parts in (keys, priorities)]
        if sizes[0] != sizes[1]:
            raise ValueError(f"There are {sizes[0]} keys, but {sizes[1]} priorities.")
        self._outbox.put((tuple(keys), tuple(priorities)))

    def flush(self, timeout: Optional[float] = None) -> bool:
        """Waits until nothing is pending, at most `timeout` seconds; returns whether it is so."""
        return self._outbox.flush(timeout)

    def close(self, timeout: Optional[float] = None) -> bool:
        """`flush`, then the thread ends, and nothing more may be `put`. May be called twice."""
        self._outbox.finish()
        return self._outbox.flush(timeout)

    @property
    def num_failed(self) -> int:
        """Updates (batches) that did not reach replay."""
        return self._outbox.num_failed


class _Outbox:
    """The queue and its thread."""

    def __init__(self, send: Callable[[_Updates], Any], limit: int, patience: float):
        self.num_failed = 0
        self._send = send
        self._limit = limit
        self._patience = patience
        self._stuck = False
        self._pending: collections.deque = collections.deque()
        self._finished = False
        self._thread: Optional[threading.Thread] = None
        self._changed = threading.Condition()

    def put(self, update: tuple) -> None:
        with self._changed:
            if self._finished:
                raise ValueError("This PriorityUpdater was closed.")
            self._start()
            patience = 0.0 if self._stuck else self._patience
            has_room = lambda: len(self._pending) < self._limit
            self._stuck = not self._changed.wait_for(has_room, patience)
            if self._stuck:
                self._failed(f"it has taken none of {self._limit} in {self._patience:.3g} seconds")
                return
            self._pending.append(update)
            self._changed.notify_all()

    def flush(self, timeout: Optional[float]) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending, timeout)

    def finish(self) -> None:
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def _start(self) -> None:
        if self._thread is None:
            # Not at import: what runs last at exit was registered first, and the store, which
            # is made before its updater, closes itself there.
            atexit.register(self._at_exit)
            # Joining a thread that hangs in a client would keep the process from ending.
            self._thread = threading.Thread(target=self._run, name="priorities", daemon=True)
            self._thread.start()

    def _at_exit(self) -> None:
        self.flush(_SECONDS_AT_EXIT)

    def _run(self) -> None:
        while self._next():
            try:
                self._send(_by_key(*self._pending[0]))
            except Exception as error:  # Whatever a client raises: training goes on.
                self._failed(f"{type(error).__name__}: {error}")
            with self._changed:
                self._pending.popleft()
                self._changed.notify_all()
        atexit.unregister(self._at_exit)

    def _next(self) -> bool:
        """Waits for an update to send; False if there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._finished)
            return bool(self._pending)

    def _failed(self, reason: str) -> None:
        with self._changed:
            self.num_failed += 1
            first = self.num_failed == 1
        if first:
            logging.warning(
                "New priorities did not reach replay (%s). Training goes on with the old ones; "
                "further failures are only counted.",
                reason,
            )


def _sender(client: Any, table: str) -> Callable[[_Updates], Any]:
    if callable(getattr(client, "mutate_priorities", None)):
        return lambda updates: client.mutate_priorities(table, updates=updates)
    example = "a reverb.Client or a store of tfagents_x.replay, which takes priorities, or None"
    checks.check_method("reverb_client", client, "update_priorities", example)
    keys = lambda updates: np.array(list(updates), np.uint64)
    priorities = lambda updates: np.array(list(updates.values()), np.float64)
    return lambda updates: client.update_priorities(table, keys(updates), priorities(updates))


def _by_key(keys: Sequence[Any], priorities: Sequence[Any]) -> _Updates:
    """Python numbers by key, at full width; the last of a key counts."""
    flat = lambda parts: [x for part in parts for x in np.asarray(part).ravel().tolist()]
    return dict(zip(flat(keys), flat(priorities)))
