"""The three ways in which every op must give the same numbers."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Callable

import numpy as np
import pytest
import tensorflow as tf

MODES = {
    "eager": lambda fn: fn,
    "graph": tf.function,
    "xla": lambda fn: tf.function(fn, jit_compile=True, autograph=False),
}
all_modes = pytest.mark.parametrize("mode", list(MODES))


def run(mode: str, fn: Callable[..., Any], inputs: Mapping[str, np.ndarray]) -> Any:
    """Calls `fn(**inputs)` with tensors, in the given mode.

    Golden cases share compiled functions: what differs between them should be in
    `inputs`, and `fn` the same object.
    """
    return _compiled(mode, fn)({name: tf.constant(value) for name, value in inputs.items()})


@functools.cache
def _compiled(mode: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    # One dictionary, because names like `logits.0` can't be keywords of a traced function.
    return MODES[mode](lambda arguments: fn(**arguments))


def with_gradients(**sums: list[str]) -> Callable[..., Any]:
    """Decorator: returns the outputs, and the gradients of sums of them by all float arrays.

    Args:
      **sums: for each gradient's name the outputs whose elements are summed. The
        function under it takes keyword tensors and returns a dictionary of tensors.
    """

    def decorate(fn: Callable[..., Mapping[str, tf.Tensor]]) -> Callable[..., Any]:
        def wrapped(**inputs: tf.Tensor) -> tuple[Any, Any]:
            arrays = {k: v for k, v in inputs.items() if v.dtype.is_floating and v.shape.rank}
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(arrays)
                outputs = fn(**inputs)
                totals = {
                    name: tf.add_n([tf.reduce_sum(outputs[field]) for field in fields])
                    for name, fields in sums.items()
                }
            return outputs, {name: tape.gradient(total, arrays) for name, total in totals.items()}

        return wrapped

    return decorate
