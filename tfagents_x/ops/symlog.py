"""Squashing numbers of any size, and classes for regression: symlog and two-hot.

Hafner, Pasukonis, Ba and Lillicrap, 2023, "Mastering Diverse Domains through World
Models" (DreamerV3, arXiv:2301.04104), equations 9 and 10 and the paragraph on
two-hot encoded regression.
"""

from __future__ import annotations

import math
import numbers
from typing import Any, Callable, Optional

import numpy as np
import tensorflow as tf

from tfagents_x.ops import checks


def symlog(x: Any) -> tf.Tensor:
    """sign(x) * log(1 + |x|): about x near 0, about a logarithm far from it.

    Keeps the digits of tiny numbers, and has derivative 1 at 0. RLlib's `symlog` forms
    1 + |x| as it stands, and its derivative at 0 is 0, so that a loss there gets no gradient.

    Args:
      x: floats of any shape; infinities and NaN come back as they are.

    Returns:
      Floats, the shape and dtype of `x`.

    Raises:
      TypeError: `x` is not of a floating-point dtype.
    """
    (x,) = checks.float_tensors(x=x)
    return _odd(tf.math.log1p, x)


def symexp(x: Any) -> tf.Tensor:
    """sign(x) * (exp(|x|) - 1), the inverse of `symlog` (RLlib's `inverse_symlog`).

    Precise for tiny numbers and at 0, as `symlog`. float32 overflows to infinity from
    |x| = 89 on.

    Args:
      x: floats of any shape.

    Returns:
      Floats, the shape and dtype of `x`.

    Raises:
      TypeError: `x` is not of a floating-point dtype.
    """
    (x,) = checks.float_tensors(x=x)
    return _odd(tf.math.expm1, x)


def _odd(half: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor) -> tf.Tensor:
    """Continues a function of numbers >= 0 to all numbers by f(-x) = -f(x).

    Selecting has the right derivative at 0, where those of sign and abs are 0.
    """
    negative = x < 0
    magnitude = half(tf.where(negative, -x, x))
    return tf.where(negative, -magnitude, magnitude)


def two_hot(
    value: Any,
    num_buckets: int = 255,
    lower_bound: float = -20.0,
    upper_bound: float = 20.0,
    dtype: Optional[tf.DType] = None,
) -> tf.Tensor:
    """Spreads each number over the two buckets around it.

    The K buckets have their centres at `tf.linspace(lower_bound, upper_bound, K)`. A number
    on a centre gives that bucket all weight; one between two centres is shared between them
    linearly, so that the weighted sum of the centres is the number. Numbers outside the
    bounds, infinities too, are clipped to them. RLlib's `two_hot`, for any leading axes.

    Gradients pass through the weights inside the bounds, and none outside. Targets of a
    cross-entropy want `tf.stop_gradient`.

    Args:
      value: floats [...]. Weights of half-precision numbers are computed in float32.
      num_buckets: K, at least 2.
      lower_bound: centre of the first bucket.
      upper_bound: centre of the last bucket.
      dtype: floating-point dtype of the result; None for that of `value`.

    Returns:
      Floats [..., K], 0 or more, of sum 1; the row of a NaN is NaN throughout.

    Raises:
      TypeError: `value` or `dtype` is not floating-point, `num_buckets` is no int, or a bound
        no number that is known when a function is traced.
      ValueError: there are fewer than 2 buckets, or the bounds are not finite and in order.
    """
    (value,) = checks.float_tensors(value=value)
    dtype = _float_dtype(value.dtype if dtype is None else dtype)
    lower_bound, upper_bound = (
        _bound("lower_bound", lower_bound),
        _bound("upper_bound", upper_bound),
    )
    _check_buckets(num_buckets, lower_bound, upper_bound)
    if value.dtype.size < 4:
        value = tf.cast(value, tf.float32)
    # Counted in buckets from the middle: there most values are, and floats are densest.
    last = (num_buckets - 1) / 2
    middle = (lower_bound + upper_bound) / 2
    position = (value - middle) * (2 * last / (upper_bound - lower_bound))
    position = tf.clip_by_value(position, -last, last)[..., tf.newaxis]
    distance = tf.abs(position - (tf.range(num_buckets, dtype=value.dtype) - last))
    weights = tf.where(distance < 1, 1 - distance, tf.zeros_like(distance))
    # Selected, because not every device lets NaN through clipping and comparing.
    unknown = tf.math.is_nan(value)[..., tf.newaxis]
    return tf.cast(tf.where(unknown, tf.cast(math.nan, value.dtype), weights), dtype)


def _float_dtype(dtype: Any) -> tf.DType:
    try:
        dtype = tf.as_dtype(dtype)
    except TypeError as error:
        raise TypeError(
            f"dtype is {dtype!r}, but must be a floating-point dtype: pass tf.float32."
        ) from error
    if not dtype.is_floating:
        raise TypeError(f"dtype is {dtype.name}, but must be floating-point: pass tf.float32.")
    return dtype


def _bound(name: str, value: Any) -> float:
    """A bound as a Python float, so that its own dtype doesn't matter."""
    number = tf.get_static_value(value) if tf.is_tensor(value) else value
    if isinstance(number, (str, list, tuple)) or np.ndim(number) != 0:
        number = None
    try:
        return float(number)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(
            f"{name} is {value!r}, but must be a number, known when a function is traced."
        ) from error


def _check_buckets(num_buckets: Any, lower_bound: Any, upper_bound: Any) -> None:
    if isinstance(num_buckets, bool) or not isinstance(num_buckets, numbers.Integral):
        raise TypeError(f"num_buckets is {num_buckets!r}, but must be an int.")
    if num_buckets < 2:
        raise ValueError(f"num_buckets is {num_buckets}, but must be at least 2.")
    if not (math.isfinite(lower_bound) and math.isfinite(upper_bound)):
        raise ValueError(f"The bounds are {lower_bound} and {upper_bound}, but must be finite.")
    if not lower_bound < upper_bound:
        raise ValueError(
            f"lower_bound is {lower_bound}, but must be less than upper_bound, {upper_bound}."
        )
