"""Loggers that let through a part of what they are given."""

from __future__ import annotations

import time
from typing import Callable

from tfagents_x.utils.loggers import base


class TimeFilter(base.Logger):
    """Lets through at most one write each `time_delta` seconds.

    It decides before looking at the values, so tensors of a dropped write never wait for the
    device.
    """

    def __init__(
        self,
        to: base.Logger,
        time_delta: float,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Makes a filter in front of `to`; `clock` tells the seconds.

        Raises:
          ValueError: `time_delta` is negative.
        """
        if time_delta < 0:
            raise ValueError(f"time_delta must be 0 or more seconds, got {time_delta}.")
        self._to = to
        self._time_delta = time_delta
        self._clock = clock
        self._last: float | None = None

    def write(self, data: base.LoggingData) -> None:
        """Writes `data`, if `time_delta` seconds have passed since the last time it did."""
        now = self._clock()
        if self._last is None or now - self._last >= self._time_delta:
            self._last = now
            self._to.write(data)

    def truncate_after(self, key: str, value: base.Number) -> None:
        """Truncates the logger behind."""
        self._to.truncate_after(key, value)

    def close(self) -> None:
        """Closes the logger behind."""
        self._to.close()


class NoneFilter(base.Logger):
    """Leaves out values that are None."""

    def __init__(self, to: base.Logger):
        """Makes a filter in front of `to`."""
        self._to = to

    def write(self, data: base.LoggingData) -> None:
        """Writes what in `data` is not None."""
        self._to.write({name: value for name, value in data.items() if value is not None})

    def truncate_after(self, key: str, value: base.Number) -> None:
        """Truncates the logger behind."""
        self._to.truncate_after(key, value)

    def close(self) -> None:
        """Closes the logger behind."""
        self._to.close()
