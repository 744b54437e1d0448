"""The three ways in which every op must give the same numbers."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

import numpy as np
import pytest
import tensorflow as tf

MODES = {
    "eager": lambda fn: fn,
    "graph": tf.function,
    "xla": lambda fn: tf.function(fn, jit_compile=True),
}
all_modes = pytest.mark.parametrize("mode", list(MODES))


def run(mode: str, fn: Callable[..., Any], inputs: Mapping[str, np.ndarray]) -> Any:
    """Calls `fn(**inputs)` with tensors, in the given mode."""
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    # One dictionary, because names like `logits.0` can't be keywords of a traced function.
    return MODES[mode](lambda arguments: fn(**arguments))(tensors)


def with_gradients(
    fn: Callable[..., Mapping[str, tf.Tensor]], sums: Mapping[str, Sequence[str]]
) -> Callable[..., tuple[Mapping[str, tf.Tensor], Mapping[str, Mapping[str, Any]]]]:
    """Makes `fn` return its outputs, and the gradients of sums of them by all float inputs.

    Args:
      fn: function of keyword tensors that returns a dictionary of tensors.
      sums: for each gradient's name the outputs whose elements are summed.
    """

    def wrapped(**inputs: tf.Tensor):
        floats = {k: v for k, v in inputs.items() if v.dtype.is_floating}
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(floats)
            outputs = fn(**inputs)
            totals = {
                name: tf.add_n([tf.reduce_sum(outputs[field]) for field in fields])
                for name, fields in sums.items()
            }
        return outputs, {name: tape.gradient(total, floats) for name, total in totals.items()}

    return wrapped
