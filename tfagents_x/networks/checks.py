"""Checks of arguments that networks share: sizes at construction, ranks and dtypes when called.

Calls are checked by static shapes and dtypes only, while they are traced.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Iterable
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from tfagents_x.ops import checks


def size(name: str, value: Any, at_least: int = 1) -> int:
    """`value` as a Python int.

    Raises:
      TypeError: it is no integer.
      ValueError: it is less than `at_least`.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}.") from None
    if number < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {number}.")
    return number


def sizes(name: str, values: Iterable[Any], at_least: int = 1, count: int = 0) -> list[int]:
    """`values` as a list of Python ints, at least `count` of them.

    Raises:
      TypeError: `values` is no sequence, or an entry is no integer.
      ValueError: an entry is less than `at_least`, or there are fewer than `count`.
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a sequence of integers, got {values!r}.")
    numbers = [size(f"{name}[{i}]", value, at_least) for i, value in enumerate(values)]
    if len(numbers) < count:
        raise ValueError(f"{name} must have at least {count} entries, got {numbers}.")
    return numbers


def extent(name: str, value: Any) -> list[int]:
    """Height and width of a window; one number stands for both.

    Raises:
      TypeError: `value` is neither an integer nor a sequence of them.
      ValueError: it has another length than 2, or an entry is not positive.
    """
    if not isinstance(value, Iterable):
        return [size(name, value)] * 2
    pair = sizes(name, value)
    if len(pair) != 2:
        raise ValueError(f"{name} must be one number, or height and width, got {pair}.")
    return pair


def function(name: str, value: Any) -> Any:
    """`value`, a module or function.

    Raises:
      TypeError: it can't be called.
    """
    if not callable(value):
        raise TypeError(f"{name} must be a module or function, got {value!r}.")
    return value


def initializer(name: str, value: Any) -> Any:
    """`value`, a Sonnet initializer, or None.

    Raises:
      TypeError: it is something else.
    """
    if value is not None and not callable(value):
        raise TypeError(
            f"{name} must be an initializer (for instance snt.initializers.Zeros()) or None, got "
            f"{value!r}."
        )
    return value


def float_dtype(name: str, value: Any) -> tf.DType:
    """`value` as a floating-point dtype.

    Raises:
      TypeError: it is none.
    """
    try:
        dtype = tf.as_dtype(value)
    except TypeError:
        dtype = None
    if dtype is None or not dtype.is_floating:
        raise TypeError(
            f"{name} must be a floating-point dtype, for instance tf.float32, got {value!r}."
        )
    return dtype


def number(
    name: str,
    value: Any,
    wanted: str = "a number",
    low: float = -math.inf,
    high: float = math.inf,
) -> Optional[float]:
    """What is known of a number when a network is made.

    Args:
      name: what errors call it.
      value: number, or scalar tensor or variable of a numeric dtype.
      wanted: what errors call the range.
      low: least number allowed.
      high: largest number allowed.

    Returns:
      Its value; None of a variable, which may change, and of a tensor of a graph.

    Raises:
      TypeError: it is something else.
      ValueError: it is NaN or outside of the range, or more than float32 can hold.
    """
    known: Any = value
    if isinstance(value, tf.Variable) or tf.is_tensor(value):
        fits = value.shape.rank in (0, None) and (value.dtype.is_floating or value.dtype.is_integer)
        known = None if isinstance(value, tf.Variable) else tf.get_static_value(value)
    else:
        # Not np.ndim, which raises for lists of different lengths.
        fits = not isinstance(value, (list, tuple, dict)) and np.ndim(value) == 0
        fits = fits and np.asarray(value).dtype.kind in "iuf"
    if not fits:
        raise TypeError(f"{name} must be a number, got {value!r}.")
    if known is None:
        return None
    found = float(known)
    if math.isfinite(found) and abs(found) > tf.float32.max:
        raise ValueError(f"{name} must be a number that float32 can hold, got {value!r}.")
    if not low <= found <= high:
        raise ValueError(f"{name} must be {wanted}, got {value!r}.")
    return found


def positive(name: str, value: Any) -> Any:
    """`value`, a number as for `number`.

    Raises:
      TypeError: it is no number.
      ValueError: it is known, and is not finite and above 0.
    """
    number(name, value, "positive", sys.float_info.min, sys.float_info.max)
    return value


def images(network: str, inputs: Any) -> tf.Tensor:
    """Converts a batch of images to a tensor.

    Args:
      network: what errors call the network.
      inputs: [B, H, W, C] in any order of the last three.

    Raises:
      TypeError: `inputs` is no tensor.
      ValueError: it has another number of axes.
    """
    tensor = checks.tensor(f"the input of {network}", inputs)
    if tensor.shape.rank != 4:
        raise ValueError(
            f"{network} needs a batch of images [B, H, W, C], got shape {tensor.shape}. "
            "Add a batch axis to a single image, merge the leading axes of a sequence "
            "[T, B, ...] (snt.BatchApply does), and use LayerNormMLP for vectors."
        )
    return tensor


def features(network: str, inputs: Any) -> tf.Tensor:
    """Converts a batch of feature vectors to a tensor.

    Args:
      network: what errors call the network.
      inputs: [..., B, D] of a floating-point dtype.

    Raises:
      TypeError: `inputs` is no tensor, or one of another dtype.
      ValueError: it has fewer than two axes.
    """
    tensor = floats(network, inputs)
    if tensor.shape.rank is not None and tensor.shape.rank < 2:
        raise ValueError(
            f"{network} needs a batch of vectors [B, D], got shape {tensor.shape}. "
            "Add a batch axis, for instance with utils.add_batch_dim."
        )
    return tensor


def floats(network: str, inputs: Any) -> tf.Tensor:
    """Converts `inputs` to a tensor of a floating-point dtype.

    Raises:
      TypeError: they are no tensor, or one of another dtype.
    """
    try:
        tensor = tf.convert_to_tensor(inputs)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{network} needs a tensor, got a {type(inputs).__name__} ({error})."
        ) from error
    if not tensor.dtype.is_floating:
        raise TypeError(
            f"{network} needs floating-point inputs, got {tensor.dtype.name}: "
            "use tf.cast(inputs, tf.float32)."
        )
    return tensor
