"""Clipping of gradients, in the three ways that RLlib's DreamerV3 offers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional

import tensorflow as tf
import tree

from tfagents_x import types
from tfagents_x.ops import checks


class ClippedGradients(NamedTuple):
    """What `clip_gradients` returns.

    Attributes:
      gradients: the nest that was given, with clipped gradients.
      global_norm: [], the root of the sum of squares of all entries before clipping.
    """

    gradients: types.NestedTensor
    global_norm: tf.Tensor


def clip_gradients(
    gradients: types.NestedTensor,
    *,
    grad_clip: Any = None,
    grad_clip_by: str = "value",
) -> ClippedGradients:
    """Limits gradients; what came in stays as it is.

    RLlib's `clip_gradients`, which works in place, returns the joint norm for
    `'global_norm'` alone, and fails on None in the two other ways.

    Args:
      gradients: nest of float tensors of any shapes, or of None, which is kept.
        `tf.IndexedSlices` are made dense.
      grad_clip: the limit, a number (or scalar tensor) above 0; None for no limit.
      grad_clip_by: `'global_norm'` multiplies every gradient with
        limit / max(joint norm, limit), `'norm'` each one with limit / max(its own norm,
        limit), and `'value'` clips every entry to -limit ... limit.

    Returns:
      `ClippedGradients`, in the dtypes that came in. If a norm that is used isn't finite,
      all that it scales becomes NaN, rather than a silent 0. Norms of half-precision
      gradients are computed in float32, which also is the dtype of the joint norm then.

    Raises:
      TypeError: a gradient is not of a floating-point dtype.
      ValueError: `grad_clip` is not above 0, or `grad_clip_by` is none of the three.
    """
    if grad_clip_by not in _WAYS:
        raise ValueError(f"grad_clip_by is {grad_clip_by!r}, but must be one of {list(_WAYS)}.")
    flat = [_dense(path, leaf) for path, leaf in tree.flatten_with_path(gradients)]
    tensors = [x for x in flat if x is not None]
    joint = _norm(tensors)
    if grad_clip is not None:
        limit = _limit(grad_clip, joint.dtype)
        tensors = _WAYS[grad_clip_by](tensors, limit)
    rest = iter(tensors)
    clipped = tree.unflatten_as(gradients, [None if x is None else next(rest) for x in flat])
    return ClippedGradients(clipped, joint)


def _dense(path: tuple, leaf: Any) -> Optional[tf.Tensor]:
    if leaf is None:
        return None
    name = "/".join(map(str, path))
    (tensor,) = checks.float_tensors(**{f"gradient {name}" if name else "the gradient": leaf})
    return tensor


def _limit(grad_clip: Any, dtype: tf.DType) -> tf.Tensor:
    limit = checks.scalar_in_range("grad_clip", grad_clip, dtype, 0.0)
    if tf.get_static_value(limit) == 0:
        raise ValueError("grad_clip is 0, but must be more: pass None for no limit.")
    return limit


def _norm(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Root of the sum of squares, in float32 or, if a tensor is float64, in that."""
    double = any(x.dtype == tf.float64 for x in tensors)
    dtype = tf.float64 if double else tf.float32
    squares = [tf.reduce_sum(tf.square(tf.cast(x, dtype))) for x in tensors]
    return tf.sqrt(tf.add_n([tf.zeros([], dtype), *squares]))


def _scaled(tensor: tf.Tensor, norm: tf.Tensor, limit: tf.Tensor) -> tf.Tensor:
    """`tensor` times limit / norm if norm is above the limit; NaN if norm is not finite."""
    limit = tf.cast(limit, norm.dtype)
    # Not limit / max(norm, limit): that is NaN for an infinite limit, or two zeros.
    scale = tf.where(norm > limit, limit / norm, tf.ones_like(norm))
    scale = tf.where(tf.math.is_finite(norm), scale, tf.cast(math.nan, norm.dtype))
    return tf.cast(tf.cast(tensor, norm.dtype) * scale, tensor.dtype)


def _by_global_norm(tensors: Sequence[tf.Tensor], limit: tf.Tensor) -> list[tf.Tensor]:
    norm = _norm(tensors)
    return [_scaled(x, norm, limit) for x in tensors]


def _by_norm(tensors: Sequence[tf.Tensor], limit: tf.Tensor) -> list[tf.Tensor]:
    return [_scaled(x, _norm([x]), limit) for x in tensors]


def _by_value(tensors: Sequence[tf.Tensor], limit: tf.Tensor) -> list[tf.Tensor]:
    limits = [tf.cast(limit, x.dtype) for x in tensors]
    return [tf.clip_by_value(x, -bound, bound) for x, bound in zip(tensors, limits)]


_WAYS: dict[str, Callable[..., list[tf.Tensor]]] = {
    "global_norm": _by_global_norm,
    "norm": _by_norm,
    "value": _by_value,
}
