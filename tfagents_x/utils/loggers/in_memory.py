"""Metrics kept in a list."""

from __future__ import annotations

from typing import Any

from tfagents_x.utils.loggers import base


class InMemoryLogger(base.Logger):
    """Keeps all rows in memory, for tests and notebooks. Grows without bound."""

    def __init__(self) -> None:
        """Makes an empty log."""
        self._rows: list[dict[str, Any]] = []

    @property
    def data(self) -> list[dict[str, Any]]:
        """The rows written so far, with numpy values."""
        return list(self._rows)

    def values(self, name: str) -> list[Any]:
        """Returns the values of metric `name`, over the rows that have it."""
        return [row[name] for row in self._rows if name in row]

    def write(self, data: base.LoggingData) -> None:
        """Keeps `data`."""
        self._rows.append(base.to_numpy(data))

    def truncate_after(self, key: str, value: base.Number) -> None:
        """Drops the first row whose `key` is above `value`, and all after it."""
        for index, row in enumerate(self._rows):
            if key in row and row[key] is not None and row[key] > value:
                del self._rows[index:]
                return

    def close(self) -> None:
        """Does nothing: the rows stay readable."""
