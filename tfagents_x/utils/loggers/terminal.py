"""Metrics as lines on the terminal."""

from __future__ import annotations

import functools
from typing import Any, Callable

import numpy as np

from tfagents_x.utils.loggers import base


class TerminalLogger(base.Logger):
    """Prints one plain line per `write`: `[label] loss = 0.5 | steps = 20`."""

    def __init__(
        self,
        label: str = "",
        print_fn: Callable[[str], Any] = functools.partial(print, flush=True),
    ):
        """Makes a logger that hands each line to `print_fn`.

        Args:
          label: put before each line in brackets, if not empty.
          print_fn: takes a line. The default flushes, so that lines come at once through a pipe.
        """
        self._prefix = f"[{label}] " if label else ""
        self._print = print_fn

    def write(self, data: base.LoggingData) -> None:
        """Prints `data`, sorted by name, numbers to five digits, without None."""
        values = sorted(base.to_numpy(data).items())
        parts = [f"{name} = {format_value(v)}" for name, v in values if v is not None]
        self._print(self._prefix + " | ".join(parts))

    def close(self) -> None:
        """Does nothing."""


def format_value(value: Any) -> str:
    """Returns `value` as a short text on one line: whole numbers in full, others to 5 digits."""
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.5g}"
    if isinstance(value, np.ndarray):
        text = np.array2string(value, precision=4, threshold=10)
        return " ".join(text.split())
    return " ".join(str(value).splitlines())
