"""A loop over time that does several steps in each round.

Most of what a short step costs is the loop around it: reading its inputs, writing its
outputs, asking whether it was the last. A block of steps shares all that. The graph has the
size of one block, however long the sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import tensorflow as tf

# Longer blocks gain little, and cost tracing time and steps that are only there to fill them up.
_STEPS = 5

_Step = Callable[..., tuple[tuple, tuple]]


def scan(
    step: _Step,
    state: tuple,
    inputs: Sequence[tf.Tensor],
    widths: Sequence[int],
    reverse: bool = False,
    steps: int = _STEPS,
) -> tuple[tuple, tuple]:
    """Runs `step` along time.

    The last block is filled up with steps on zeros. Forward, they come after the end. In reverse
    they come first, and must leave the state that they begin with as it is, as steps of a
    backward pass with gradients of zero do.

    Args:
      step: `step(state, *inputs at t) -> (state, outputs at t)`, tuples of tensors [B, D].
      state: where to begin, tuple of [B, D].
      inputs: tensors [T, B, D], T known.
      widths: D of each output.
      reverse: begin at the last step.
      steps: in a block; 1 where a step has much to do.

    Returns:
      The state after all steps (only in reverse: forward, steps on zeros may have followed,
      unless a block is one step),
      and the outputs [T, B, D] in the order of time.
    """
    length = inputs[0].shape[0]
    size = min(steps, length)
    count = -(-length // size)
    inputs = [_cut(x, count, size) for x in inputs]
    order = range(size)[::-1] if reverse else range(size)

    def block(index: Any, state: tuple) -> tuple[tuple, list[tuple]]:
        steps = list(zip(*(tf.unstack(x[index]) for x in inputs)))
        outputs: list = [None] * size
        for i in order:
            state, outputs[i] = step(state, *steps[i])
        return state, outputs

    if count == 1:
        state, outputs = block(0, state)
        return state, tuple(tf.stack(x) for x in zip(*outputs))
    shapes = [[state[0].shape[0], width] for width in widths]
    state, arrays = _loop(block, count, size, state, shapes, reverse)
    return state, tuple(array.stack()[:length] for array in arrays)


def _loop(
    block: Callable[..., Any], count: int, size: int, state: tuple, shapes: list, reverse: bool
) -> tuple[tuple, list[tf.TensorArray]]:
    """All blocks, in the order of time or against it."""
    arrays = [tf.TensorArray(state[0].dtype, count * size, element_shape=s) for s in shapes]

    def body(index: tf.Tensor, state: tuple, arrays: list) -> tuple:
        state, outputs = block(index, state)
        for i, row in enumerate(outputs):
            arrays = [a.write(index * size + i, y) for a, y in zip(arrays, row)]
        return index + (-1 if reverse else 1), state, arrays

    goes_on = (lambda index, *_: index >= 0) if reverse else (lambda index, *_: index < count)
    first = tf.constant(count - 1 if reverse else 0)
    _, state, arrays = tf.while_loop(
        goes_on, body, (first, state, arrays), maximum_iterations=count
    )
    return state, arrays


def _cut(x: tf.Tensor, count: int, size: int) -> tf.Tensor:
    """[T, B, D] -> [count, size, B, D], with zeros after the end."""
    missing = count * size - x.shape[0]
    if missing:
        x = tf.pad(x, [[0, missing], [0, 0], [0, 0]])
    batch = x.shape[1] or tf.shape(x)[1]
    return tf.reshape(x, [count, size, batch, x.shape[2]])
