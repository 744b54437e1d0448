"""A logger that writes in a thread of its own."""

from __future__ import annotations

import queue
import threading
from typing import Callable

from tfagents_x.utils.loggers import base

_QUEUE_SIZE = 1000


class AsyncLogger(base.Logger):
    """Hands rows to the logger behind in a background thread, in order.

    Values are converted there too, so the caller does not wait for the device. If writing
    fails, the next call raises that error, and rows after the failed one are dropped. A full
    queue makes the caller wait: memory does not grow.
    """

    def __init__(self, to: base.Logger):
        """Starts the thread in front of `to`."""
        self._to = to
        self._queue: queue.Queue[Callable[[], None] | None] = queue.Queue(_QUEUE_SIZE)
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._work, name="async_logger", daemon=True)
        self._closed = False
        self._thread.start()

    def write(self, data: base.LoggingData) -> None:
        """Queues `data`.

        Raises:
          ValueError: the logger is closed.
          Exception: what an earlier write raised in the thread.
        """
        if self._closed:
            raise ValueError("The logger is closed.")
        self._raise_error()
        data = dict(data)
        self._queue.put(lambda: self._to.write(data))

    def truncate_after(self, key: str, value: base.Number) -> None:
        """Truncates the logger behind, after what is queued was written."""
        self._queue.join()
        self._raise_error()
        self._to.truncate_after(key, value)

    def close(self) -> None:
        """Writes what is queued, ends the thread and closes the logger behind."""
        if self._closed:
            return
        self._closed = True
        self._queue.put(None)
        self._thread.join()
        self._to.close()
        self._raise_error()

    def _work(self) -> None:
        while True:
            task = self._queue.get()
            try:
                if task is None:
                    return
                if self._error is None:
                    task()
            except Exception as error:
                self._error = error
            finally:
                self._queue.task_done()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error
