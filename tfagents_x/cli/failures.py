"""What a person is told when a command fails, and the exit code.

| code | meaning |
|---|---|
| 0 | done |
| 1 | a bug: something that no check foresaw |
| 2 | something to be put right by the user: arguments, files, environment, a diverged run |
| 130, 143 | stopped by Ctrl-C, by SIGTERM |
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import typer

USER_ERROR = 2
BUG = 1
INTERRUPTED = 130

# Errors that the package raises on purpose; a diverged training is a ValueError too.
EXPECTED = (ValueError, TypeError, ImportError, OSError)


@contextlib.contextmanager
def reported(debug: bool) -> Iterator[None]:
    """Turns exceptions into one line on stderr and an exit code.

    Args:
      debug: let them through with their traceback instead.

    Raises:
      typer.Exit: with the code, if there was an exception.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except EXPECTED as error:
        if debug:
            raise
        _say(f"Error: {one_line(error)}")
        raise typer.Exit(USER_ERROR) from None
    except Exception as error:
        if debug or isinstance(error, typer.Exit):
            raise
        _say(f"Error: {type(error).__name__}: {one_line(error)}")
        _say("This is unexpected; run with --debug for the traceback.")
        raise typer.Exit(BUG) from None


def one_line(error: BaseException) -> str:
    """The message of an exception on one line; its type if there is no message."""
    # str(KeyError) is the repr of the key; every other message is its text.
    return " ".join(str(error).split()) or type(error).__name__


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
