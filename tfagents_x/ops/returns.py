"""Bootstrapped returns: n-step, lambda, discounted, and those of DreamerV3.

All of them are cuts through one recursion (Sutton and Barto, "Reinforcement Learning: An
Introduction", chapter 12):

    G(k) = r_k + discount_k ((1 - lambda_k) v_k + lambda_k G(k + 1))

Everything is time-major: axis 0 is time, axis 1 usually the batch, and further axes may
follow, or none. Row k holds the reward and the discount of transition k, and the value of
the state after it; the discount multiplies all that comes after that row's reward.
"""

from __future__ import annotations

from typing import Any, Optional, Union

import tensorflow as tf

from tfagents_x.ops import checks, scan

Mixing = Union[float, tf.Tensor]

# Longer windows are cut here, which no sequence reaches: their size must fit into int32.
_LONGEST_WINDOW = 2**30


def lambda_returns(
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    v_t: tf.Tensor,
    lambda_: Mixing = 1.0,
    stop_target_gradients: bool = False,
) -> tf.Tensor:
    """Lambda returns up to the end of the sequence, G(T) = v_{T-1} (`rlax.lambda_returns`).

    A value that does not enter a return, because its lambda is 1, has no influence on it
    even if it is infinite or NaN; in rlax it makes the return NaN.

    Args:
      r_t: floats, [T, B, ...].
      discount_t: floats, [T, B, ...]; 0 where the episode ended.
      v_t: floats, [T, B, ...], values of the states after each transition.
      lambda_: 0 ... 1, from one-step returns to sums of all rewards; or floats
        [T, B, ...], whose range is not checked, since an importance ratio may be a factor.
      stop_target_gradients: whether the returns are constants for gradients.

    Returns:
      Floats, [T, B, ...].

    Raises:
      TypeError: an argument is not of a floating-point dtype, or two dtypes differ.
      ValueError: the shapes don't fit, or `lambda_` is a number outside 0 ... 1.
    """
    r_t, discount_t, v_t = checks.float_tensors(r_t=r_t, discount_t=discount_t, v_t=v_t)
    checks.common_shape(r_t=r_t, discount_t=discount_t, v_t=v_t)
    lambda_ = _mixing("lambda_", lambda_, r_t)
    deltas, decays = _one_step(r_t, discount_t, v_t, lambda_)
    return _target(scan.backward_scan(deltas, decays, v_t[-1]), stop_target_gradients)


def n_step_bootstrapped_returns(
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    v_t: tf.Tensor,
    n: int,
    lambda_t: Mixing = 1.0,
    stop_target_gradients: bool = False,
) -> tf.Tensor:
    """Returns over n rewards, then a value (`rlax.n_step_bootstrapped_returns`).

    n steps of the recursion from G(k + n) = v_{k+n-1}. Close to the end, and everywhere if
    n > T, fewer rewards enter, and the last value is bootstrapped from. The graph does not
    depend on T; it has log2(n) rounds that do the work of n steps.

    Args:
      r_t: floats, [T, B, ...].
      discount_t: floats, [T, B, ...]; 0 where the episode ended.
      v_t: floats, [T, B, ...], values of the states after each transition.
      n: at least 1, the number of rewards.
      lambda_t: as in `lambda_returns`.
      stop_target_gradients: whether the returns are constants for gradients.

    Returns:
      Floats, [T, B, ...].

    Raises:
      TypeError: `n` is not a Python int, an argument is not of a floating-point dtype, or
        two dtypes differ.
      ValueError: the shapes don't fit, n < 1, or `lambda_t` is a number outside 0 ... 1.
    """
    n = checks.positive_int("n", n)
    r_t, discount_t, v_t = checks.float_tensors(r_t=r_t, discount_t=discount_t, v_t=v_t)
    shape = checks.common_shape(r_t=r_t, discount_t=discount_t, v_t=v_t)
    lambda_t = _mixing("lambda_t", lambda_t, r_t)
    deltas, decays = _one_step(r_t, discount_t, v_t, lambda_t)

    columns = [tf.shape(r_t)[0], -1]
    n = min(n, _LONGEST_WINDOW)
    deltas, decays, v_t = (tf.reshape(x, columns) for x in (deltas, decays, v_t))
    windows = _windows(deltas, decays, v_t, n)
    returns = tf.ensure_shape(tf.reshape(windows, tf.shape(r_t)), shape)
    return _target(returns, stop_target_gradients)


def discounted_returns(
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    v_t: Union[float, tf.Tensor],
    stop_target_gradients: bool = False,
) -> tf.Tensor:
    """Sums of all rewards up to the end, then a value (`rlax.discounted_returns`).

    Args:
      r_t: floats, [T, B, ...].
      discount_t: floats, [T, B, ...]; 0 where the episode ended.
      v_t: what follows the last reward: floats [B, ...], one number for all, or floats
        [T, B, ...] of which the last row is taken.
      stop_target_gradients: whether the returns are constants for gradients.

    Returns:
      Floats, [T, B, ...].

    Raises:
      TypeError: an argument is not of a floating-point dtype, or two dtypes differ.
      ValueError: the shapes don't fit.
    """
    v_t = float(v_t) if isinstance(v_t, int) else v_t
    r_t, discount_t, v_t = checks.float_tensors(r_t=r_t, discount_t=discount_t, v_t=v_t)
    shape = checks.common_shape(r_t=r_t, discount_t=discount_t)
    if v_t.shape.rank == 0:
        v_t = tf.broadcast_to(v_t, tf.shape(r_t)[1:])
    elif v_t.shape.rank == shape.rank:
        checks.require_shape("v_t", v_t, shape, "as the rewards")
        v_t = v_t[-1]
    checks.require_shape("v_t", v_t, shape[1:], "one step of the rewards, or that of all rewards")
    return _target(scan.backward_scan(r_t, discount_t, v_t), stop_target_gradients)


def dreamer_lambda_returns(
    rewards: tf.Tensor,
    continues: tf.Tensor,
    values: tf.Tensor,
    gamma: Mixing = 0.997,
    gae_lambda: Mixing = 0.95,
    intrinsic_rewards: Optional[tf.Tensor] = None,
) -> tf.Tensor:
    """Value targets of DreamerV3 for a dreamed trajectory of H steps.

    Hafner et al., 2023, "Mastering Diverse Domains through World Models"
    (arXiv:2301.04104), the bootstrapped lambda returns of the critic; the arguments are
    those of `_compute_value_targets` in RLlib's learner. Row t belongs to the state s_t
    here, with the reward received on arriving there:

        R_t = r_{t+1} + gamma c_{t+1} ((1 - gae_lambda) v_{t+1} + gae_lambda R_{t+1})
        R_H = v_H

    So it is `lambda_returns` of rows 1 ... H, differentiable in all of them: row 0 has no
    influence.

    Args:
      rewards: floats, [H + 1, B, ...].
      continues: floats, [H + 1, B, ...], 1 (or a probability) where the episode goes on.
      values: floats, [H + 1, B, ...], in the scale of rewards (not symlog).
      gamma: 0 ... 1, the discount.
      gae_lambda: 0 ... 1.
      intrinsic_rewards: floats, [H, B, ...], added to rows 1 ... H of the rewards.

    Returns:
      Floats, [H, B, ...], R_0 ... R_{H-1}.

    Raises:
      TypeError: an argument is not of a floating-point dtype, or two dtypes differ.
      ValueError: the shapes don't fit, there is only one row, or `gamma` or `gae_lambda` is
        not a number within 0 ... 1.
    """
    rewards, continues, values = checks.float_tensors(
        rewards=rewards, continues=continues, values=values
    )
    shape = checks.common_shape(rewards=rewards, continues=continues, values=values)
    if shape.rank is not None and shape[0] == 1:
        raise ValueError(
            f"rewards, continues, values have shape {shape}, but need at least 2 rows: the "
            f"state where the dream starts, and one for each step of it."
        )
    gamma = checks.scalar_in_range("gamma", gamma, rewards.dtype, 0.0, 1.0)
    gae_lambda = checks.scalar_in_range("gae_lambda", gae_lambda, rewards.dtype, 0.0, 1.0)
    r_t = rewards[1:]
    if intrinsic_rewards is not None:
        _, extra = checks.float_tensors(rewards=rewards, intrinsic_rewards=intrinsic_rewards)
        checks.require_shape("intrinsic_rewards", extra, r_t.shape, "one row less than rewards")
        r_t += extra
    return lambda_returns(r_t, gamma * continues[1:], values[1:], gae_lambda)


def _mixing(name: str, value: Any, like: tf.Tensor) -> tf.Tensor:
    """A lambda: one number within 0 ... 1, or floats of the shape of `like`."""
    value = float(value) if isinstance(value, int) else value
    _, mixing = checks.float_tensors(r_t=like, **{name: value})
    if mixing.shape.rank == 0:
        return checks.scalar_in_range(name, mixing, like.dtype, 0.0, 1.0)
    checks.require_shape(name, mixing, like.shape, "as the rewards, or be a single number")
    return mixing


def _one_step(
    r_t: tf.Tensor, discount_t: tf.Tensor, v_t: tf.Tensor, lambda_: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """The recursion as G(k) = deltas_k + decays_k G(k + 1)."""
    # The share of v_t is 0 for lambda 1, and 0 * inf must be 0 here.
    entering = tf.math.multiply_no_nan(v_t, tf.broadcast_to(1.0 - lambda_, tf.shape(v_t)))
    return r_t + discount_t * entering, discount_t * lambda_


def _windows(deltas: tf.Tensor, decays: tf.Tensor, v_t: tf.Tensor, n: int) -> tf.Tensor:
    """G(k, n) for all k, where G(k, 0) = v_{k-1}, and v_{T-1} past the end; all [T, N].

    A window of `size` steps from k adds up to sums_k and multiplies what follows by
    decays_k, so G(k, j + size) = sums_k + decays_k G(k + size, j). Windows double in
    every round; the rounds that belong to the bits of n extend the returns.
    """
    last = v_t[-1:]
    zero, one = tf.zeros([], v_t.dtype), tf.ones([], v_t.dtype)
    # The first row would be the value before the sequence, which no return contains.
    returns = tf.concat([v_t[:1], v_t[:-1]], axis=0)
    for bit in range(n.bit_length()):
        size = 2**bit
        if n & size:
            returns = deltas + decays * _ahead(returns, size, last)
        if n >= 2 * size:
            deltas += decays * _ahead(deltas, size, zero)
            decays *= _ahead(decays, size, one)
    return returns


def _ahead(x: tf.Tensor, steps: int, fill: tf.Tensor) -> tf.Tensor:
    """x_{k+steps} for all k, and `fill` past the end; [T, N]."""
    num_steps, width = (static or size for static, size in zip(x.shape, tf.unstack(tf.shape(x))))
    past = tf.broadcast_to(fill, [tf.minimum(steps, num_steps), width])
    return tf.concat([x[steps:], past], axis=0)


def _target(returns: tf.Tensor, stop_gradients: bool) -> tf.Tensor:
    return tf.stop_gradient(returns) if stop_gradients else returns
