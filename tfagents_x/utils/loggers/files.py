"""Finding out early, and saying in words, that a log can't be written."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator


def prepare_directory(directory: str) -> None:
    """Makes `directory` with its parents, and tries whether files in it can be written.

    Raises:
      ValueError: they can't (no permission, read-only, disk full, a file in the way).
    """
    try:
        os.makedirs(directory, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory, prefix=".write_test_") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ValueError(
            f"Can't write logs to the directory {directory!r}: {error.strerror or error}. "
            "Choose another directory, or make this one writable with space on its disk."
        ) from error


@contextlib.contextmanager
def explain_errors(path: str) -> Iterator[None]:
    """Lets an OSError out of the block say that it was the log `path` that failed."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"Can't write the log {path!r}: {reason}") from error
