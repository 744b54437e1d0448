"""Picking the values of actions."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfagents_x.ops import checks


def batched_index(values: tf.Tensor, indices: Any) -> tf.Tensor:
    """values[..., indices[...]] (`trfl.batched_index`, `rlax.batched_index`).

    By position, so what the other entries hold does not matter; the originals multiply by
    a one-hot vector, where an infinite entry that was not asked for makes the result NaN.

    Args:
      values: [..., A]; the number of axes must be known when a function is traced.
      indices: integers, [...], each from 0 to A - 1.

    Returns:
      Of the dtype of `values`, [...].

    Raises:
      TypeError: `values` are no tensor, or `indices` no integers.
      ValueError: the shapes don't fit.
      tf.errors.InvalidArgumentError: an index is outside the range. Only on the CPU and
        without XLA; elsewhere the result is NaN there, for floats.
    """
    values = checks.tensor("values", values)
    shape = checks.action_value_shape(values=values)[:-1]
    indices = checks.action_indices("indices", indices, shape)
    found = tf.gather(values, indices, batch_dims=shape.rank)
    if not values.dtype.is_floating:
        return found
    # Where TensorFlow does not check, it takes the nearest entry, or 0.
    inside = (indices >= 0) & (indices < tf.cast(tf.shape(values)[-1], indices.dtype))
    return tf.where(inside, found, tf.cast(float("nan"), values.dtype))
