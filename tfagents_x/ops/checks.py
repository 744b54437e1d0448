"""Argument checks that all ops share.

They look at dtypes and static shapes only, so they run while a function is
traced and cost nothing afterwards. What is not known at trace time is not
checked.
"""

from __future__ import annotations

import operator
from typing import Any, Optional

import tensorflow as tf


def float_tensors(**arguments: Any) -> list[tf.Tensor]:
    """Converts the arguments to tensors of one floating-point dtype, in the order given.

    The first argument that is a tensor already decides the dtype; without any, it
    is float32. Arrays and numbers are cast to it, tensors never are: a tensor of
    another dtype is more likely a mistake than a wish.

    Args:
      **arguments: tensors, arrays or numbers of any shape.

    Raises:
      TypeError: an argument is no tensor, is not of a floating-point dtype, or the
        dtypes of two tensors differ.
    """
    tensors = {name: _float_tensor(name, value) for name, value in arguments.items()}
    fixed = [name for name, value in arguments.items() if tf.is_tensor(value)]
    dtype = tensors[fixed[0]].dtype if fixed else tf.float32
    for name in fixed:
        if tensors[name].dtype != dtype:
            raise TypeError(
                f"{name} is {tensors[name].dtype.name}, but {fixed[0]} is {dtype.name}: "
                f"use tf.cast to give both the same dtype."
            )
    return [tf.cast(tensor, dtype) for tensor in tensors.values()]


def common_shape(**tensors: tf.Tensor) -> tf.TensorShape:
    """The static shape that all `tensors` share, time being axis 0.

    Raises:
      ValueError: two shapes differ, or there is no time axis, or it has no step.
    """
    names = list(tensors)
    shape = tf.TensorShape(None)
    for name, tensor in tensors.items():
        if not shape.is_compatible_with(tensor.shape):
            raise ValueError(
                f"{name} has shape {tensor.shape}, but {', '.join(names[: names.index(name)])} "
                f"{shape}: they must have the same shape, [T, B, ...]."
            )
        shape = shape.merge_with(tensor.shape)
    if shape.rank == 0 or (shape.rank and shape[0] == 0):
        raise ValueError(
            f"{', '.join(names)} have shape {shape}, but need a time axis (axis 0) "
            f"with at least one step."
        )
    return shape


def require_shape(name: str, tensor: tf.Tensor, shape: tf.TensorShape, wanted: str) -> None:
    """Checks that `tensor` has the static shape `shape`, which the error calls `wanted`.

    Raises:
      ValueError: it has another shape.
    """
    if not tensor.shape.is_compatible_with(shape):
        raise ValueError(f"{name} has shape {tensor.shape}, but must have {shape}, {wanted}.")


def action_value_shape(**tensors: tf.Tensor) -> tf.TensorShape:
    """The static shape that all `tensors` share, [T, B, ..., A].

    Raises:
      ValueError: two shapes differ, or there is no time axis with at least one step, no axis
        of actions, or no known number of axes.
    """
    shape = common_shape(**tensors)
    if shape.rank is None or shape.rank < 2:
        raise ValueError(
            f"{', '.join(tensors)} have shape {shape}, but must have [T, B, A], one number for "
            f"each action; only the sizes may be unknown while a function is traced, as in "
            f"tf.TensorSpec([None, None, 4])."
        )
    return shape


def tensor(name: str, value: Any) -> tf.Tensor:
    """Converts `value` to a tensor, whatever its dtype and shape.

    Raises:
      TypeError: it is no tensor, array or number.
    """
    try:
        return tf.convert_to_tensor(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(
            f"{name} is a {type(value).__name__} that is no tensor: pass a tensor, an array or "
            f"a number ({error})."
        ) from error


def action_indices(name: str, actions: Any, shape: tf.TensorShape) -> tf.Tensor:
    """Converts `actions` to an int32 tensor of the static shape `shape`.

    Raises:
      TypeError: they are no tensor, or no integers.
      ValueError: they have another shape.
    """
    actions = tensor(name, actions)
    require_integer(name, actions)
    require_shape(name, actions, shape, "one action for each step")
    return tf.cast(actions, tf.int32)


def positive_int(name: str, value: Any) -> int:
    """Converts `value` to a Python int, and checks that it is at least 1.

    Raises:
      TypeError: it is no integer, or a tensor whose value is not known yet.
      ValueError: it is smaller than 1.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except (TypeError, AttributeError):
        number = None
    if number is None:
        raise TypeError(
            f"{name} is {value!r}, but must be a Python int, known when a function is traced."
        )
    if number < 1:
        raise ValueError(f"{name} is {number}, but must be at least 1.")
    return number


def require_integer(name: str, tensor: tf.Tensor) -> None:
    """Checks that `tensor` holds integers.

    Raises:
      TypeError: it does not.
    """
    if not tensor.dtype.is_integer:
        raise TypeError(
            f"{name} is {tensor.dtype.name}, but must hold the indices of actions: pass int32."
        )


def scalar_in_range(
    name: str, value: Any, dtype: tf.DType, low: float, high: Optional[float] = None
) -> tf.Tensor:
    """Converts `value` to a scalar of `dtype`, and checks low <= value <= high if it is known.

    Raises:
      TypeError: it is no number.
      ValueError: it is not a scalar, or outside the range (NaN counts as outside).
    """
    if isinstance(value, str):  # which a graph would cast without complaint
        raise TypeError(f"{name} is {value!r}, but must be a number.")
    try:
        scalar = tf.cast(value, dtype)
    except (TypeError, ValueError, tf.errors.OpError) as error:
        raise TypeError(f"{name} is {value!r}, but must be a number.") from error
    require_shape(name, scalar, tf.TensorShape([]), "a single number")
    number = tf.get_static_value(scalar)
    if number is None or (number >= low and (high is None or number <= high)):
        return scalar
    wanted = f"at least {low:g}" if high is None else f"from {low:g} to {high:g}"
    raise ValueError(f"{name} is {number:g}, but must be {wanted}.")


def action_log_prob(name: str, distribution: Any, actions: Any) -> tf.Tensor:
    """Log p(actions), after checking that `actions` fit `distribution` without broadcasting.

    Args:
      name: what error messages call the distribution.
      distribution: tfp distribution.
      actions: tensor of shape batch shape + event shape.

    Returns:
      Tensor of the distribution's batch shape.

    Raises:
      TypeError: `distribution` has no `log_prob`, `actions` are no tensor, or no integers
        where it is one over integers.
      ValueError: the shape of `actions` is another.
    """
    if not callable(getattr(distribution, "log_prob", None)):
        raise TypeError(
            f"{name} is a {type(distribution).__name__}, but must be a tfp distribution, "
            f"for instance tfp.distributions.Categorical(logits)."
        )
    actions = tensor(f"the action of {name}", actions)
    if getattr(distribution.dtype, "is_integer", False):
        require_integer(f"the action of {name}", actions)
    batch, event = distribution.batch_shape, distribution.event_shape
    if isinstance(event, tf.TensorShape):  # the event of a joint distribution is a nest
        require_shape(
            f"the action of {name}",
            actions,
            batch.concatenate(event),
            f"batch shape {batch} and event shape {event} of the distribution",
        )
    return distribution.log_prob(actions)


def _float_tensor(name: str, value: Any) -> tf.Tensor:
    converted = tensor(name, value)
    if not converted.dtype.is_floating:
        raise TypeError(
            f"{name} is {converted.dtype.name}, but must be floating-point: pass float32, or use "
            f"tf.cast({name}, tf.float32)."
        )
    return converted
