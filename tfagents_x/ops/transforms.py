"""Element-wise transformations of values, and their inverses.

The names are those of rlax (`rlax._src.transforms`). They take floats of any shape, and
raise a TypeError for anything else. Derivatives are the true ones, also at 0, where those
of rlax are 0 (sgn and abs count as flat there). Where the gradient that arrives is 0, the
one that leaves is 0 too: entries that were masked out do no harm, even if they overflowed.
"""

from __future__ import annotations

from typing import Callable, Union

import tensorflow as tf

from tfagents_x.ops import checks

Elementwise = Callable[[tf.Tensor], tf.Tensor]
Scalar = Union[float, tf.Tensor]


def identity(x: tf.Tensor) -> tf.Tensor:
    """The floats given, as a tensor."""
    return checks.float_tensors(x=x)[0]


def signed_logp1(x: tf.Tensor) -> tf.Tensor:
    """sgn(x) log(1 + |x|)."""
    return _odd(x, tf.math.log1p, lambda a: 1.0 / (1.0 + a))


def signed_expm1(x: tf.Tensor) -> tf.Tensor:
    """sgn(x) (exp(|x|) - 1), the inverse of `signed_logp1`."""
    return _odd(x, tf.math.expm1, tf.exp)


def signed_hyperbolic(x: tf.Tensor, eps: Scalar = 1e-3) -> tf.Tensor:
    """sgn(x) (sqrt(|x| + 1) - 1) + eps x (Pohlen et al., 2018, arXiv:1805.11593).

    Computed without the difference of two numbers near 1, so small values keep their digits.

    Args:
      x: floats of any shape.
      eps: at least 0, the slope far from 0; a constant for gradients.

    Raises:
      TypeError: `x` holds no floats.
      ValueError: `eps` is negative or not a scalar.
    """
    (x,) = checks.float_tensors(x=x)
    eps = checks.scalar_in_range("eps", eps, x.dtype, 0.0)
    return _odd(
        x,
        lambda a: a / (tf.sqrt(a + 1.0) + 1.0) + eps * a,
        lambda a: 0.5 * tf.math.rsqrt(a + 1.0) + eps,
    )


def signed_parabolic(x: tf.Tensor, eps: Scalar = 1e-3) -> tf.Tensor:
    """The inverse of `signed_hyperbolic`.

    sgn(x) (z^2 - 1) with z = (sqrt(1 + 4 eps (|x| + 1 + eps)) - 1) / (2 eps). In float32
    that difference of numbers near 500 costs rlax and Acme all digits of small values.
    Here, with s the root and c = 1 + 2 eps, it is

        z - 1 = (s - c) / (2 eps) = 2 |x| / (s + c),     s = sqrt(c^2 + 4 eps |x|),

    which is exact to rounding, and covers eps = 0.

    Args:
      x: floats of any shape.
      eps: at least 0; a constant for gradients.

    Raises:
      TypeError: `x` holds no floats.
      ValueError: `eps` is negative or not a scalar.
    """
    (x,) = checks.float_tensors(x=x)
    eps = checks.scalar_in_range("eps", eps, x.dtype, 0.0)
    c = 1.0 + 2.0 * eps

    def parts(a: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        s = tf.sqrt(c * c + 4.0 * eps * a)
        return s, a / (0.5 * (s + c))

    def value(a: tf.Tensor) -> tf.Tensor:
        _, u = parts(a)
        return u * (u + 2.0)

    def slope(a: tf.Tensor) -> tf.Tensor:
        s, u = parts(a)
        return 2.0 * (u + 1.0) / s

    return _odd(x, value, slope)


def hyperbolic_arcsin(x: tf.Tensor) -> tf.Tensor:
    """The inverse of `hyperbolic_sin`."""
    return _transform(x, tf.asinh, lambda x: 1.0 / tf.cosh(tf.asinh(x)))


def hyperbolic_sin(x: tf.Tensor) -> tf.Tensor:
    """sinh(x)."""
    return _transform(x, tf.sinh, tf.cosh)


def discount_to_horizon(x: tf.Tensor) -> tf.Tensor:
    """- log(1 - x) for 0 <= x < 1, which is about the horizon 1 / (1 - x) in logarithms."""
    return _transform(x, lambda x: -tf.math.log1p(-x), lambda x: 1.0 / (1.0 - x))


def horizon_to_discount(x: tf.Tensor) -> tf.Tensor:
    """1 - exp(-x), the inverse of `discount_to_horizon`."""
    return _transform(x, lambda x: -tf.math.expm1(-x), lambda x: tf.exp(-x))


def _transform(x: tf.Tensor, value: Elementwise, slope: Elementwise) -> tf.Tensor:
    """value(x), with derivative slope(x), and without gradient where none arrives."""

    @tf.custom_gradient
    def transform(x: tf.Tensor) -> tuple[tf.Tensor, Elementwise]:
        return value(x), lambda dy: tf.math.multiply_no_nan(slope(x), dy)

    return transform(checks.float_tensors(x=x)[0])


def _odd(x: tf.Tensor, value: Elementwise, slope: Elementwise) -> tf.Tensor:
    """`_transform` by sgn(x) value(|x|), where infinity stays what it is."""

    def odd(x: tf.Tensor) -> tf.Tensor:
        # `value` may be a fraction of two infinities there.
        return tf.where(tf.math.is_inf(x), x, tf.sign(x) * value(tf.abs(x)))

    return _transform(x, odd, lambda x: slope(tf.abs(x)))
