"""Metrics as a CSV file."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from typing import Any, Callable, TextIO

from tfagents_x.utils.loggers import base, files

Row = dict[str, str]


class CSVLogger(base.Logger):
    """Writes one row per `write`, and flushes it, so that a killed process loses none.

    If the file exists, rows are appended; a last row that was torn by a kill is dropped. A name
    that was not there before becomes a new column at the right, empty in the rows above: the
    file is then rewritten beside the old one and put in its place.
    """

    def __init__(self, path: str | os.PathLike):
        """Opens `path`, and makes its directory if need be.

        Raises:
          ValueError: the directory can't be written, or `path` is something else than a file.
        """
        self._path = os.fspath(path)
        files.prepare_directory(os.path.dirname(os.path.abspath(self._path)))
        if os.path.exists(self._path) and not os.path.isfile(self._path):
            raise ValueError(f"The CSV log {self._path!r} exists and is not a regular file.")
        self._file: TextIO | None = None
        self._closed = False
        self._columns = self._recover()

    @property
    def path(self) -> str:
        """Path of the file."""
        return self._path

    def write(self, data: base.LoggingData) -> None:
        """Appends a row.

        Raises:
          ValueError: the logger is closed.
          OSError: the row can't be written (disk full, ...); the message names the file.
        """
        if self._closed:
            raise ValueError(f"The CSV log {self._path!r} is closed.")
        row = {name: _to_cell(value) for name, value in base.to_numpy(data).items()}
        if not row:
            return
        with files.explain_errors(self._path):
            self._append(row)

    def truncate_after(self, key: str, value: base.Number) -> None:
        """Drops the first row with a number above `value` in column `key`, and all after it.

        Raises:
          ValueError: rows are there, but no column `key`, or something that is no number in it.
        """
        if not self._columns:
            return
        if key not in self._columns:
            raise ValueError(
                f"The CSV log {self._path!r} has no column {key!r} to truncate at; it has: "
                f"{', '.join(self._columns)}."
            )
        with files.explain_errors(self._path):
            self._rewrite(self._columns, lambda row: _is_newer(row, key, value, self._path))

    def close(self) -> None:
        """Closes the file."""
        self._closed = True
        with files.explain_errors(self._path):
            self._close_file()

    def _append(self, row: Row) -> None:
        new = [name for name in row if name not in self._columns]
        if new:
            self._rewrite(self._columns + new)
        if self._file is None:
            self._file = open(self._path, "a", newline="", encoding="utf-8")  # noqa: SIM115
        _writer(self._file, self._columns).writerow(row)
        self._file.flush()

    def _rewrite(self, columns: list[str], stop: Callable[[Row], bool] = lambda row: False) -> None:
        """Rewrites the file with `columns`, up to the first row at which `stop` says so."""
        self._close_file()
        temporary = f"{self._path}.tmp"
        with open(temporary, "w", newline="", encoding="utf-8") as file:
            writer = _writer(file, columns)
            writer.writeheader()
            for row in _read_rows(self._path):
                if stop(row):
                    break
                writer.writerow(row)
        os.replace(temporary, self._path)
        self._columns = columns

    def _recover(self) -> list[str]:
        """Rids the existing file of a torn last line and returns its columns."""
        with files.explain_errors(self._path):
            if os.path.exists(self._path):
                _cut_torn_line(self._path)
            return next(_read_lists(self._path), [])

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _writer(file: TextIO, columns: list[str]) -> csv.DictWriter:
    return csv.DictWriter(file, columns, restval="", lineterminator="\n")


def _to_cell(value: Any) -> str:
    # str, not repr: numpy's shortest text that reads back as the same number. On one line, so
    # that a row is a line, and a torn row can be told.
    return "" if value is None else " ".join(str(value).splitlines())


def _read_lists(path: str) -> Iterator[list[str]]:
    if not os.path.exists(path):
        return
    with open(path, newline="", encoding="utf-8", errors="replace") as file:
        yield from csv.reader(file)


def _read_rows(path: str) -> Iterator[Row]:
    rows = _read_lists(path)
    header = next(rows, [])
    for cells in rows:
        yield dict(zip(header, cells))


def _cut_torn_line(path: str) -> None:
    with open(path, "rb+") as file:
        complete = sum(len(line) for line in file if line.endswith(b"\n"))
        file.truncate(complete)


def _is_newer(row: Row, key: str, value: base.Number, path: str) -> bool:
    cell = row.get(key, "")
    try:
        return cell != "" and float(cell) > value
    except ValueError:
        raise ValueError(
            f"Column {key!r} of the CSV log {path!r} holds {cell!r}, which is no number: can't "
            "tell which rows are newer than the checkpoint."
        ) from None
