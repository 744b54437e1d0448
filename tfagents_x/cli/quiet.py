"""Keeps what TensorFlow says about itself while it is imported off the screen."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator

from rich import console as rich_console

# Start-up chatter of native code that no log level reaches, or that is logged as an error
# though nothing is wrong: on a machine without a GPU every process prints some of it.
_NOISE = re.compile(
    r"All log messages before absl::InitializeLog"
    r"|cudart_stub\.cc|cpu_feature_guard\.cc|To enable the following instructions:"
    r"|Unable to register cu\w+ factory|computation placer already registered"
    r"|oneDNN custom operations are on|TF-TRT Warning|device_compiler\.h:\d+\] Compiled cluster"
)
_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


def is_noise(line: str) -> bool:
    """Whether a line on stderr is known to mean nothing."""
    return _NOISE.search(line) is not None


@contextlib.contextmanager
def importing(debug: bool = False) -> Iterator[None]:
    """Says that TensorFlow is being imported, which takes seconds, and keeps it quiet.

    Args:
      debug: let it say what it likes. So does a log level that the user has set.
    """
    console = rich_console.Console(highlight=False)
    verbose = debug or _LEVEL in os.environ
    with _announced(console, "importing TensorFlow ..."):
        if verbose:
            yield
            return
        os.environ[_LEVEL] = "3"
        with noise_dropped():
            yield
            _quieten_python_loggers()


def _quieten_python_loggers() -> None:
    import absl.logging
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")
    absl.logging.set_verbosity(absl.logging.ERROR)


@contextlib.contextmanager
def _announced(console: rich_console.Console, text: str) -> Iterator[None]:
    if console.is_terminal and not console.is_dumb_terminal:
        with console.status(text):
            yield
    else:
        print(text, flush=True)
        yield


@contextlib.contextmanager
def noise_dropped() -> Iterator[None]:
    """Holds back what is written to file descriptor 2, and then passes on all but the noise.

    Goes by way of a file, not a pipe: nobody ever has to wait for a reader.
    """
    sys.stderr.flush()
    original = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(original, 2)
            os.close(original)
            held.seek(0)
            for line in held.read().decode("utf-8", errors="replace").splitlines():
                if not is_noise(line):
                    os.write(2, f"{line}\n".encode())
