"""Priorities of replayed sequences."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfagents_x.ops import checks


def compute_priority(errors: Any, alpha: Any) -> tf.Tensor:
    """Mixes largest and mean error: alpha * max_t |errors| + (1 - alpha) * mean_t |errors|.

    Kapturowski et al., 2019, "Recurrent Experience Replay in Distributed Reinforcement
    Learning" (R2D2), section 2.3, where alpha is called eta; Acme's `compute_priority`.

    Args:
      errors: floats [T, B, ...], TD errors of each step.
      alpha: from 0 to 1, the weight of the largest error (R2D2 uses 0.9).

    Returns:
      Floats [B, ...], in the dtype of `errors`; NaN where an error is NaN.

    Raises:
      TypeError: `errors` is not of a floating-point dtype.
      ValueError: `errors` has no step, or `alpha` is not a number from 0 to 1.
    """
    (errors,) = checks.float_tensors(errors=errors)
    checks.common_shape(errors=errors)
    # Half precision would overflow in the sum under the mean.
    dtype = tf.float64 if errors.dtype == tf.float64 else tf.float32
    alpha = checks.scalar_in_range("alpha", alpha, dtype, 0.0, 1.0)
    magnitude = tf.cast(tf.abs(errors), dtype)
    mean, largest = tf.reduce_mean(magnitude, axis=0), tf.reduce_max(magnitude, axis=0)
    return tf.cast(alpha * largest + (1 - alpha) * mean, errors.dtype)
