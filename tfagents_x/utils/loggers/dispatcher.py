"""One logger in front of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable

from tfagents_x.utils.loggers import base


class Dispatcher(base.Logger):
    """Hands each row to several loggers, with the values converted once for all."""

    def __init__(
        self,
        to: Sequence[base.Logger],
        serialize_fn: Callable[[base.LoggingData], base.LoggingData] = base.to_numpy,
    ):
        """Makes a logger in front of those in `to`; `serialize_fn` converts the values."""
        self._to = tuple(to)
        self._serialize_fn = serialize_fn

    def write(self, data: base.LoggingData) -> None:
        """Writes `data` to each."""
        values = self._serialize_fn(data)
        for logger in self._to:
            logger.write(values)

    def truncate_after(self, key: str, value: base.Number) -> None:
        """Truncates each."""
        for logger in self._to:
            logger.truncate_after(key, value)

    def close(self) -> None:
        """Closes each, also if one before it fails; then raises the first error."""
        first_error: Exception | None = None
        for logger in self._to:
            try:
                logger.close()
            except Exception as error:
                first_error = first_error or error
        if first_error is not None:
            raise first_error
