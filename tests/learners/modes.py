"""Running learners in the three ways in which they must give the same numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import tensorflow as tf

MODES = ("eager", "graph", "xla")
all_modes = pytest.mark.parametrize("mode", MODES)


@contextlib.contextmanager
def running(mode: str) -> Iterator[None]:
    """Runs `tf.function`s as `mode` says; XLA is for the learner's `jit_compile`."""
    tf.config.run_functions_eagerly(mode == "eager")
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)
