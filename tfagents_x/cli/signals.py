"""Ctrl-C and SIGTERM: the first asks the training to stop and save, the second ends at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any, Callable, NoReturn, Optional

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopper:
    """While entered, handles both signals.

    Before there is anything to save, a signal ends the process at once. No exception is
    raised for it: inside the import of a native library it would come out as something else.

    Attributes:
      received: number of the signal that asked to stop, or None.
    """

    def __init__(self, exit_now: Optional[Callable[[int], None]] = None):
        """Installs nothing yet.

        Args:
          exit_now: ends the process with an exit code; by default without any clean-up.
        """
        self.received: Optional[int] = None
        self._exit_now = exit_now or _exit_now
        self._stop: Optional[Callable[[], Any]] = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Stopper:
        """Installs the handlers; only the main thread can, elsewhere nothing happens."""
        if threading.current_thread() is threading.main_thread():
            self._previous = {s: signal.signal(s, self._handle) for s in _SIGNALS}
        return self

    def __exit__(self, *exc_info: Any) -> None:
        """Puts the former handlers back."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def call(self, stop: Callable[[], Any]) -> None:
        """From now on a first signal calls `stop` instead of ending the process."""
        self._stop = stop

    @property
    def exit_code(self) -> int:
        """What a shell expects of a process that a signal ended: 130 or 143; 0 without one."""
        return 128 + self.received if self.received is not None else 0

    def _handle(self, number: int, frame: Any) -> None:
        del frame
        if self._stop is None or self.received is not None:
            self._exit_now(128 + number)
            return
        self.received = int(number)
        self._stop()


def _exit_now(code: int) -> NoReturn:
    # A live display may have hidden the cursor; a plain write takes no lock.
    if sys.stdout.isatty():
        os.write(sys.stdout.fileno(), b"\x1b[?25h\n")
    os._exit(code)
