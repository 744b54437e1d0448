"""Transformed values: Bellman updates on h(Q) instead of Q, and the loss of R2D2.

Pohlen et al., 2018, "Observe and Look Further" (arXiv:1805.11593); Kapturowski et al.,
2019, "Recurrent Experience Replay in Distributed Reinforcement Learning"; van Hasselt et
al., 2019, "General non-linear Bellman equations" (arXiv:1907.03687). A network that
predicts h(return) sees targets of one scale whatever the rewards are; a pair of
functions, h and its inverse, leads there and back:

    target_t = h(n-step return of rewards, discounts and h^-1(Q_{t+1}))

The names are those of rlax, and, for `transformed_n_step_loss`, of Acme. Everything is
time-major, [T, B, ...].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_x.ops import checks, indexing, returns, transforms


class TxPair(NamedTuple):
    """A transformation of values and its inverse, both element-wise functions of a tensor.

    Attributes:
      apply: to the scale that the network predicts.
      apply_inv: back to the scale of rewards.
    """

    apply: transforms.Elementwise
    apply_inv: transforms.Elementwise


IDENTITY_PAIR = TxPair(transforms.identity, transforms.identity)
SIGNED_LOGP1_PAIR = TxPair(transforms.signed_logp1, transforms.signed_expm1)
SIGNED_HYPERBOLIC_PAIR = TxPair(transforms.signed_hyperbolic, transforms.signed_parabolic)
HYPERBOLIC_SIN_PAIR = TxPair(transforms.hyperbolic_arcsin, transforms.hyperbolic_sin)
DISCOUNT_TRANSFORM_PAIR = TxPair(transforms.discount_to_horizon, transforms.horizon_to_discount)


class TransformedLossExtra(NamedTuple):
    """Beside the loss of `transformed_n_step_loss`.

    Attributes:
      targets: [T, B, ...], n-step returns in the scale of rewards, 0 where masked.
      errors: [T, B, ...], prediction minus transformed target, 0 where masked.
    """

    targets: tf.Tensor
    errors: tf.Tensor


class TransformedLoss(NamedTuple):
    """What `transformed_n_step_loss` returns.

    Attributes:
      loss: [B, ...], summed over time.
      extra: targets and errors.
    """

    loss: tf.Tensor
    extra: TransformedLossExtra


def transformed_n_step_returns(
    tx_pair: TxPair,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    v_t: tf.Tensor,
    n: int,
    lambda_t: returns.Mixing = 1.0,
    stop_target_gradients: bool = False,
) -> tf.Tensor:
    """n-step returns of transformed values, transformed (`rlax.transformed_n_step_returns`).

    Args:
      tx_pair: the transformation and its inverse.
      r_t: floats, [T, B, ...].
      discount_t: floats, [T, B, ...]; 0 where the episode ended.
      v_t: floats, [T, B, ...], transformed values of the states after each transition.
      n: at least 1, the number of rewards.
      lambda_t: as in `returns.lambda_returns`.
      stop_target_gradients: whether the returns are constants for gradients.

    Returns:
      Floats, [T, B, ...], in the transformed scale.

    Raises:
      TypeError: `tx_pair` is no pair of functions, `n` no Python int, an argument is not of
        a floating-point dtype, or two dtypes differ.
      ValueError: the shapes don't fit, n < 1, or `lambda_t` is a number outside 0 ... 1.
    """
    _check_pair(tx_pair)
    r_t, discount_t, v_t = checks.float_tensors(r_t=r_t, discount_t=discount_t, v_t=v_t)
    v_t = tx_pair.apply_inv(v_t)
    return tx_pair.apply(
        returns.n_step_bootstrapped_returns(
            r_t, discount_t, v_t, n, lambda_t, stop_target_gradients
        )
    )


def transformed_n_step_q_learning(
    q_tm1: tf.Tensor,
    a_tm1: tf.Tensor,
    target_q_t: tf.Tensor,
    a_t: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    n: int,
    stop_target_gradients: bool = True,
    tx_pair: TxPair = IDENTITY_PAIR,
) -> tf.Tensor:
    """n-step TD errors of transformed action values (`rlax.transformed_n_step_q_learning`).

    Unlike rlax it takes whole [T, B, ...] batches.

    Args:
      q_tm1: floats, [T, B, A], transformed Q values before each transition.
      a_tm1: integers, [T, B], the actions taken.
      target_q_t: floats, [T, B, A], of the target network, after each transition.
      a_t: integers, [T, B], the actions whose values are bootstrapped from: the best ones of
        `target_q_t`, or for double Q-learning those of the online network.
      r_t: floats, [T, B].
      discount_t: floats, [T, B]; 0 where the episode ended.
      n: at least 1, the number of rewards; fewer where the sequence ends.
      stop_target_gradients: whether the targets are constants for gradients.
      tx_pair: the transformation of the Q values and its inverse.

    Returns:
      Floats, [T, B], target minus prediction, in the transformed scale.

    Raises:
      TypeError: `tx_pair` is no pair of functions, `n` no Python int, another dtype is
        wrong, or two differ.
      ValueError: the shapes don't fit, or n < 1.
    """
    q_tm1, target_q_t, r_t, discount_t = checks.float_tensors(
        q_tm1=q_tm1, target_q_t=target_q_t, r_t=r_t, discount_t=discount_t
    )
    steps = checks.action_value_shape(q_tm1=q_tm1, target_q_t=target_q_t)[:-1]
    checks.require_shape("r_t", r_t, steps, "as q_tm1 without actions")
    checks.require_shape("discount_t", discount_t, steps, "as q_tm1 without actions")
    v_t = indexing.batched_index(target_q_t, checks.action_indices("a_t", a_t, steps))
    target_tm1 = transformed_n_step_returns(
        tx_pair, r_t, discount_t, v_t, n, stop_target_gradients=stop_target_gradients
    )
    return target_tm1 - indexing.batched_index(q_tm1, checks.action_indices("a_tm1", a_tm1, steps))


def transformed_n_step_loss(
    qs: tf.Tensor,
    targnet_qs: tf.Tensor,
    actions: tf.Tensor,
    rewards: tf.Tensor,
    pcontinues: tf.Tensor,
    target_policy_probs: tf.Tensor,
    bootstrap_n: int,
    stop_targnet_gradients: bool = True,
    name: str = "transformed_n_step_loss",
) -> TransformedLoss:
    """Loss of R2D2 with the signed hyperbolic pair (`acme.tf.losses.transformed_n_step_loss`).

    Steps whose return is not finite are masked: they add nothing to the loss, and pass no
    gradient. As in the original, an infinite value of the target network masks the returns
    that contain it also if a discount or a probability of 0 stands before it. Unlike the
    original, sizes may be unknown while a function is traced.

    Args:
      qs: floats, [T + 1, B, A], transformed Q values that are learned; the last row is not
        used.
      targnet_qs: floats, [T + 1, B, A], of the target network; the first row is not used.
      actions: integers, [T + 1, B]; the last row is not used.
      rewards: floats, [T, B].
      pcontinues: floats, [T, B], discounts; 0 where the episode ended.
      target_policy_probs: floats, [T + 1, B, A], probabilities (for Q-learning one-hot) that
        weigh the values of the target network; the first row is not used.
      bootstrap_n: at least 1, the number of rewards; fewer where the sequence ends.
      stop_targnet_gradients: whether the targets are constants for gradients.
      name: of the scope around the operations.

    Raises:
      TypeError: `bootstrap_n` is no Python int, another dtype is wrong, or two differ.
      ValueError: the shapes don't fit, there is only one row of Q values, or
        bootstrap_n < 1.
    """
    with tf.name_scope(name):
        bootstrap_n = checks.positive_int("bootstrap_n", bootstrap_n)
        qs, targnet_qs, probs, rewards, pcontinues = checks.float_tensors(
            qs=qs,
            targnet_qs=targnet_qs,
            target_policy_probs=target_policy_probs,
            rewards=rewards,
            pcontinues=pcontinues,
        )
        states = checks.action_value_shape(qs=qs, targnet_qs=targnet_qs, target_policy_probs=probs)[
            :-1
        ]
        steps = _without_last_row(states)
        checks.require_shape("rewards", rewards, steps, "one row less than qs, no actions")
        checks.require_shape("pcontinues", pcontinues, steps, "one row less than qs, no actions")
        actions = checks.action_indices("actions", actions, states)[:-1]

        targets, finite = _masked_targets(
            rewards, pcontinues, targnet_qs[1:], probs[1:], bootstrap_n, stop_targnet_gradients
        )
        errors = indexing.batched_index(qs[:-1], actions) - transforms.signed_hyperbolic(targets)
        errors = tf.where(finite, errors, tf.zeros_like(errors))
        loss = 0.5 * tf.reduce_sum(tf.square(errors), axis=0)
        return TransformedLoss(loss, TransformedLossExtra(targets, errors))


def _masked_targets(
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    q_t: tf.Tensor,
    probs_t: tf.Tensor,
    n: int,
    stop_gradients: bool,
) -> tuple[tf.Tensor, tf.Tensor]:
    """n-step returns, 0 where they are not finite, and where they are finite."""
    v_t = tf.reduce_sum(probs_t * transforms.signed_parabolic(q_t), axis=-1)
    targets = returns.n_step_bootstrapped_returns(
        r_t, discount_t, v_t, n, stop_target_gradients=True
    )
    finite = tf.math.is_finite(targets)
    if not stop_gradients:
        # 0 * inf is NaN in gradients too. The returns left are the same without infinities.
        v_t = tf.reduce_sum(probs_t * _finite(transforms.signed_parabolic(_finite(q_t))), axis=-1)
        targets = returns.n_step_bootstrapped_returns(_finite(r_t), discount_t, v_t, n)
    return tf.where(finite, targets, tf.zeros_like(targets)), finite


def _finite(x: tf.Tensor) -> tf.Tensor:
    """x, with 0 in the place of what is not finite."""
    return tf.where(tf.math.is_finite(x), x, tf.zeros_like(x))


def _without_last_row(shape: tf.TensorShape) -> tf.TensorShape:
    """[T, B, ...], of [T + 1, B, ...]."""
    if shape[0] == 1:
        raise ValueError("qs has one row, but needs at least 2: T transitions take T + 1 states.")
    rows = None if shape[0] is None else shape[0] - 1
    return tf.TensorShape([rows]).concatenate(shape[1:])


def _check_pair(pair: Any) -> None:
    if callable(getattr(pair, "apply", None)) and callable(getattr(pair, "apply_inv", None)):
        return
    raise TypeError(
        f"tx_pair is {pair!r}, but must be a TxPair, two functions `apply` and `apply_inv`: pass "
        f"for instance nonlinear_bellman.SIGNED_HYPERBOLIC_PAIR, not its name."
    )
