"""Keeps Reverb's C++ chatter, which no setting turns off, from standard error."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import tempfile
import threading
from collections.abc import Iterator

_CHATTER = b"[reverb/cc/"
_TROUBLE = (b"failed", b"error", b"Failed", b"Error", b"ERROR")
_lock = threading.Lock()
_samplers = itertools.count(1)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Holds back what is written to file descriptor 2, and passes on all but Reverb's chatter.

    Reverb's lines that speak of trouble are passed on too. Keep what runs inside short:
    other threads' messages are late by as much, and would be lost in a crash.
    """
    with _lock, tempfile.TemporaryFile() as held:
        sys.stderr.flush()
        original = os.dup(2)
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(original, 2)
            os.close(original)
            held.seek(0)
            for line in held:
                if not line.startswith(_CHATTER) or any(word in line for word in _TROUBLE):
                    os.write(2, line)


@contextlib.contextmanager
def quiet_sampler() -> Iterator[None]:
    """`quiet` for a call that makes a Reverb sampler.

    Reverb tells of the 1st, 2nd, 4th, 8th, ... sampler of the process. Only then is it worth
    the cost of holding standard error back.
    """
    count = next(_samplers)
    if count & (count - 1):
        yield
    else:
        with quiet():
            yield
