"""The backward recursion under V-trace, Retrace and lambda returns.

    acc_t = delta_t + decay_t * acc_{t+1}

is linear, so windows of it can be joined: if a window of s steps that starts at t
adds up to `sum_t` and multiplies what follows by `decay_t`, then

    sum_t   <- sum_t + decay_t * sum_{t+s}
    decay_t <- decay_t * decay_{t+s}

makes windows of 2 s steps, for all t at once (Hillis and Steele, 1986, "Data
parallel algorithms"; the operator is that of Blelloch, 1990, "Prefix sums and their
applications"). ceil(log2 T) such rounds replace T steps that wait for each other.
The rounds are a `tf.while_loop`, so the graph is the same for every T.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

import tensorflow as tf

from tfagents_x.ops import checks

_BACKWARD = 1  # acc_t depends on acc_{t+1}
_FORWARD = -1  # acc_t depends on acc_{t-1}


def backward_scan(
    deltas: tf.Tensor, decays: tf.Tensor, final: Optional[tf.Tensor] = None
) -> tf.Tensor:
    """acc_t = deltas_t + decays_t * acc_{t+1} for t = T-1 ... 0, with acc_T = `final`.

    Differentiable in all three arguments; the gradient is one more scan in the other
    direction. Compiles with XLA where T is static. Meant for decays within -1 ... 1:
    the product of many larger ones overflows, also where the terms it multiplies are 0.

    Args:
      deltas: floats, [T, ...].
      decays: floats, [T, ...].
      final: floats, [...], the value after the last step; 0 if None.

    Returns:
      Floats, [T, ...].

    Raises:
      TypeError: an argument is not of a floating-point dtype, or two dtypes differ.
      ValueError: the shapes don't fit.
    """
    deltas, decays = checks.float_tensors(deltas=deltas, decays=decays)
    shape = checks.common_shape(deltas=deltas, decays=decays)
    if final is None:
        final = tf.zeros_like(deltas[0])
    _, final = checks.float_tensors(deltas=deltas, final=final)
    checks.require_shape("final", final, shape[1:], "one step of the deltas")
    # `final` becomes row T. Its decay of 0 ends every window there, which is what
    # the clipped index in `_neighbour` relies on.
    rows = tf.concat([deltas, final[tf.newaxis]], axis=0)
    return _recurrence(_BACKWARD)(rows, _pad(decays, _BACKWARD))[:-1]


def _recurrence(direction: int) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """y_t = x_t + w_t * y_{t+direction}, where w is 0 in the row that ends the chain.

    The gradient runs the transposed recurrence, h_t = g_t + w_{t-direction} *
    h_{t-direction}. Left to `tf.while_loop`, it would keep the inputs of every round
    and not compile with XLA; a persistent tape alone would have that effect, which is
    why the loop is hidden from tapes. So `gradient` needs a `y` that tapes do see,
    for derivatives of second order, and solves for it again.
    """

    @tf.custom_gradient
    def recurrence(x: tf.Tensor, w: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
        def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            dy = tf.convert_to_tensor(dy)  # it is `IndexedSlices` if the result was gathered
            used = w[:-1] if direction == _BACKWARD else w[1:]
            dx = _recurrence(-direction)(dy, _pad(used, -direction))
            y = _recurrence(direction)(x, w)
            return dx, dx * _neighbour(y, direction)

        return _join_windows(tf.stop_gradient(x), tf.stop_gradient(w), direction), gradient

    return recurrence


def _join_windows(x: tf.Tensor, w: tf.Tensor, direction: int) -> tf.Tensor:
    """Doubles the windows until they cover all rows of `x`."""
    num_rows = tf.shape(x)[0]

    def join(step: tf.Tensor, sums: tf.Tensor, decays: tf.Tensor) -> tuple[tf.Tensor, ...]:
        offset = direction * step
        sums = sums + decays * _neighbour(sums, offset)
        return 2 * step, sums, decays * _neighbour(decays, offset)

    state = (tf.constant(1), x, w)
    return tf.while_loop(lambda step, *_: step < num_rows, join, state)[1]


def _neighbour(x: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    """x_{t+offset} for all t, or the outermost row where there is none."""
    num_rows = tf.shape(x)[0]
    return tf.gather(x, tf.clip_by_value(tf.range(num_rows) + offset, 0, num_rows - 1))


def _pad(decays: tf.Tensor, direction: int) -> tf.Tensor:
    """Adds the row of zeros that ends the chain."""
    zero = tf.zeros_like(decays[:1])
    return tf.concat([decays, zero] if direction == _BACKWARD else [zero, decays], axis=0)
