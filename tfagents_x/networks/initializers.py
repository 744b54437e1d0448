"""Initial weights: the default of continuous control, and one initializer for many layers."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Optional

import sonnet as snt
import tensorflow as tf


def uniform() -> snt.initializers.VarianceScaling:
    """Uniform in +-sqrt(1 / fan_out), nearly: Acme's initializer for continuous control."""
    return snt.initializers.VarianceScaling(scale=0.333, mode="fan_out", distribution="uniform")


class Orthogonal(snt.initializers.Orthogonal):
    """Sonnet's `Orthogonal`, also for float16 and bfloat16, in which there is no QR."""

    def __call__(self, shape: Sequence[int], dtype: tf.DType) -> tf.Tensor:
        """Computes the weights in float32 at least, and casts them to `dtype`."""
        narrow = tf.as_dtype(dtype) in (tf.float16, tf.bfloat16)
        return tf.cast(super().__call__(shape, tf.float32 if narrow else dtype), dtype)


def distinct(w_init: Optional[Any], count: int) -> list[Optional[Any]]:
    """One initializer for each of `count` layers, so that no two layers draw the same numbers.

    An initializer with a seed draws the same numbers each time it is called while a graph is
    traced, and TensorFlow's own ones even without a seed: layers of equal shape that share
    one start with equal weights. So layer i gets a copy with the seed `seed + i`.

    Args:
      w_init: a Sonnet initializer, or another function `(shape, dtype) -> tensor`; None
        stands for Sonnet's default. One that has no `seed` or `get_config` is used as it is.
      count: number of layers.
    """
    return [_variant(w_init, i) for i in range(count)]


def _variant(w_init: Any, index: int) -> Any:
    seed = getattr(w_init, "seed", None)
    shifted = seed + index if isinstance(seed, int) else seed
    if hasattr(w_init, "get_config") and hasattr(w_init, "from_config"):
        config = w_init.get_config()
        return type(w_init).from_config({**config, "seed": shifted} if "seed" in config else config)
    if seed is None or index == 0:
        return w_init
    variant = copy.copy(w_init)
    variant.seed = shifted
    return variant
