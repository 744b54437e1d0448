"""Retrace(lambda): off-policy corrected targets for action values.

Munos et al., 2016, "Safe and efficient off-policy reinforcement learning"
(arXiv:1606.02647). With the target policy pi, the behaviour policy mu and the traces

    c_t = lambda min(1, pi(a_t | x_t) / mu(a_t | x_t))

the target of Q(x_t, a_t) is

    target_t = r_t + discount_t (V(x_{t+1}) + c_{t+1} (target_{t+1} - Q(x_{t+1}, a_{t+1})))

with V the expectation of Q under pi. Two forms, named as in TRFL:

* `retrace_from_importance_weights`, `retrace_from_action_log_probs`: from the Q values of
  the actions taken, and state values; for any kind of action.
* `retrace`, `retrace_core`: from a Q value for each of A discrete actions.

Everything is time-major: axis 0 is time, axis 1 the batch, and further axes may follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Optional, Union

import tensorflow as tf

from tfagents_x.ops import checks, indexing, scan

Scalar = Union[float, tf.Tensor]


class RetraceReturns(NamedTuple):
    """All are constants for gradients, [T, B, ...].

    Attributes:
      qs: targets for Q(x_t, a_t).
      importance_weights: rho_t = pi(a_t | x_t) / mu(a_t | x_t), not clipped.
      log_importance_weights: log rho_t.
      truncated_importance_weights: row t holds c_{t+1}, the last row lambda.
      deltas: one-step errors.
      vs_minus_q_xs: the targets minus Q(x_t, a_t).
    """

    qs: tf.Tensor
    importance_weights: tf.Tensor
    log_importance_weights: tf.Tensor
    truncated_importance_weights: tf.Tensor
    deltas: tf.Tensor
    vs_minus_q_xs: tf.Tensor


class RetraceCoreExtra(NamedTuple):
    """Beside the loss.

    Attributes:
      retrace_weights: [T, B, ...], c_t.
      target: [T, B, ...], the targets.
    """

    retrace_weights: tf.Tensor
    target: tf.Tensor


class RetraceLoss(NamedTuple):
    """What `retrace` and `retrace_core` return.

    Attributes:
      loss: [T, B, ...], half the squared error of each step.
      extra: None from `retrace`.
    """

    loss: tf.Tensor
    extra: Optional[RetraceCoreExtra]


def retrace_from_importance_weights(
    log_rhos: tf.Tensor,
    discounts: tf.Tensor,
    rewards: tf.Tensor,
    q_values: tf.Tensor,
    values: tf.Tensor,
    bootstrap_value: tf.Tensor,
    lambda_: Scalar = 1.0,
    name: str = "retrace_from_importance_weights",
) -> RetraceReturns:
    """Retrace from log importance ratios (`trfl.continuous_retrace_ops`).

    Args:
      log_rhos: floats, [T, B, ...], log pi(a_t | x_t) - log mu(a_t | x_t). The first row has
        no influence on the targets, since a_0 is given.
      discounts: floats, [T, B, ...], of x_{t+1}; 0 where the episode ended.
      rewards: floats, [T, B, ...].
      q_values: floats, [T, B, ...], Q(x_t, a_t).
      values: floats, [T, B, ...], V(x_0) ... V(x_{T-1}) under pi.
      bootstrap_value: floats, [B, ...], V(x_T).
      lambda_: 0 ... 1, from one-step targets to long traces.
      name: of the scope around the operations.

    Raises:
      TypeError: an argument is not of a floating-point dtype, or two dtypes differ.
      ValueError: the shapes don't fit, or `lambda_` is not a number within 0 ... 1.
    """
    with tf.name_scope(name):
        log_rhos, discounts, rewards, q_values, values, bootstrap_value = checks.float_tensors(
            log_rhos=log_rhos,
            discounts=discounts,
            rewards=rewards,
            q_values=q_values,
            values=values,
            bootstrap_value=bootstrap_value,
        )
        shape = checks.common_shape(
            log_rhos=log_rhos,
            discounts=discounts,
            rewards=rewards,
            q_values=q_values,
            values=values,
        )
        checks.require_shape(
            "bootstrap_value", bootstrap_value, shape[1:], "one step of the values"
        )
        lambda_ = checks.scalar_in_range("lambda_", lambda_, log_rhos.dtype, 0.0, 1.0)

        # Clipped before `exp`, so that no ratio is too large for it.
        clipped = tf.exp(tf.minimum(log_rhos, 0.0))
        cs = lambda_ * tf.concat([clipped[1:], tf.ones_like(clipped[-1:])], axis=0)
        values_t = tf.concat([values[1:], bootstrap_value[tf.newaxis]], axis=0)
        deltas = rewards + discounts * values_t - q_values
        errors = scan.backward_scan(*map(tf.stop_gradient, (deltas, discounts * cs)))
        outputs = (q_values + errors, tf.exp(log_rhos), log_rhos, cs, deltas, errors)
        return RetraceReturns(*map(tf.stop_gradient, outputs))


def retrace_from_action_log_probs(
    behaviour_action_log_probs: tf.Tensor,
    target_action_log_probs: tf.Tensor,
    discounts: tf.Tensor,
    rewards: tf.Tensor,
    q_values: tf.Tensor,
    values: tf.Tensor,
    bootstrap_value: tf.Tensor,
    lambda_: Scalar = 1.0,
    name: str = "retrace_from_action_log_probs",
) -> RetraceReturns:
    """Retrace from log-probabilities of the actions taken (`trfl.continuous_retrace_ops`).

    Args:
      behaviour_action_log_probs: floats, [T, B, ...], log mu(a_t | x_t).
      target_action_log_probs: floats, [T, B, ...], log pi(a_t | x_t).
      discounts: and the others as in `retrace_from_importance_weights`.
      rewards: floats, [T, B, ...].
      q_values: floats, [T, B, ...].
      values: floats, [T, B, ...].
      bootstrap_value: floats, [B, ...].
      lambda_: 0 ... 1.
      name: of the scope around the operations.

    Raises:
      TypeError: an argument is not of a floating-point dtype, or two dtypes differ.
      ValueError: the shapes don't fit, or `lambda_` is not a number within 0 ... 1.
    """
    with tf.name_scope(name):
        log_probs = {
            "behaviour_action_log_probs": behaviour_action_log_probs,
            "target_action_log_probs": target_action_log_probs,
        }
        behaviour, target = checks.float_tensors(**log_probs)
        checks.common_shape(**dict(zip(log_probs, (behaviour, target))))
        # An action that neither policy takes: the trace ends there, where TRFL gives NaN.
        impossible = tf.logical_and(tf.math.is_inf(target), target < 0)
        log_rhos = tf.where(impossible, target, target - behaviour)
        return retrace_from_importance_weights(
            log_rhos, discounts, rewards, q_values, values, bootstrap_value, lambda_
        )


def retrace(
    lambda_: Scalar,
    qs: tf.Tensor,
    targnet_qs: tf.Tensor,
    actions: tf.Tensor,
    rewards: tf.Tensor,
    pcontinues: tf.Tensor,
    target_policy_probs: tf.Tensor,
    behaviour_policy_probs: tf.Tensor,
    stop_targnet_gradients: bool = True,
    name: str = "retrace",
) -> RetraceLoss:
    """Retrace loss for discrete actions over T transitions (`trfl.retrace`).

    Row t of every argument belongs to x_t, so there are T + 1 of them.

    Args:
      lambda_: 0 ... 1, from one-step targets to long traces.
      qs: floats, [T + 1, B, A], Q values that are learned; the last row is not used.
      targnet_qs: floats, [T + 1, B, A], of the target network; the first is not used.
      actions: integers, [T + 1, B].
      rewards: floats, [T + 1, B], that followed the actions; the last row is not used.
      pcontinues: floats, [T + 1, B], discounts; the last row is not used.
      target_policy_probs: floats, [T + 1, B, A], pi; the first row is not used.
      behaviour_policy_probs: floats, [T + 1, B], mu(a_t); the first row is not used.
      stop_targnet_gradients: whether the targets are constants for gradients.
      name: of the scope around the operations.

    Returns:
      `loss`, [T, B], one for each transition, and no `extra`.

    Raises:
      TypeError: a dtype is wrong, or two differ.
      ValueError: the shapes don't fit, there is only one row, or `lambda_` is not a number
        within 0 ... 1.
    """
    with tf.name_scope(name):
        (qs, targnet_qs, target_probs, rewards, pcontinues, behaviour_probs, actions) = _inputs(
            {"qs": qs, "targnet_qs": targnet_qs, "target_policy_probs": target_policy_probs},
            {
                "rewards": rewards,
                "pcontinues": pcontinues,
                "behaviour_policy_probs": behaviour_policy_probs,
            },
            {"actions": actions},
        )
        if qs.shape[0] == 1:
            raise ValueError(
                f"qs has shape {qs.shape}, but needs at least 2 rows: T transitions take T + 1."
            )
        core = retrace_core(
            lambda_,
            q_tm1=qs[:-1],
            a_tm1=actions[:-1],
            r_t=rewards[:-1],
            pcont_t=pcontinues[:-1],
            target_policy_t=target_probs[1:],
            behaviour_policy_t=behaviour_probs[1:],
            targnet_q_t=targnet_qs[1:],
            a_t=actions[1:],
            stop_targnet_gradients=stop_targnet_gradients,
        )
        return RetraceLoss(core.loss, None)


def retrace_core(
    lambda_: Scalar,
    q_tm1: tf.Tensor,
    a_tm1: tf.Tensor,
    r_t: tf.Tensor,
    pcont_t: tf.Tensor,
    target_policy_t: tf.Tensor,
    behaviour_policy_t: tf.Tensor,
    targnet_q_t: tf.Tensor,
    a_t: tf.Tensor,
    stop_targnet_gradients: bool = True,
    name: str = "retrace_core",
) -> RetraceLoss:
    """`retrace` with the two ends of each transition apart (`trfl.retrace_ops`).

    An action that both policies rule out ends the trace (TRFL gives NaN).

    Args:
      lambda_: 0 ... 1, from one-step targets to long traces.
      q_tm1: floats, [T, B, A], Q values before each transition, that are learned.
      a_tm1: integers, [T, B], actions of the transitions.
      r_t: floats, [T, B].
      pcont_t: floats, [T, B], discounts.
      target_policy_t: floats, [T, B, A], pi after each transition.
      behaviour_policy_t: floats, [T, B], mu(a_t) after each transition.
      targnet_q_t: floats, [T, B, A], of the target network, after each transition.
      a_t: integers, [T, B], actions after each transition.
      stop_targnet_gradients: whether the targets are constants for gradients; if not, they
        flow into all floats, `lambda_` included.
      name: of the scope around the operations.

    Returns:
      `loss`, [T, B], and `extra` with `retrace_weights` and `target`, [T, B] each.

    Raises:
      TypeError: a dtype is wrong, or two differ.
      ValueError: the shapes don't fit, or `lambda_` is not a number within 0 ... 1.
    """
    with tf.name_scope(name):
        (q_tm1, targnet_q_t, target_probs, r_t, pcont_t, behaviour_probs, a_tm1, a_t) = _inputs(
            {"q_tm1": q_tm1, "targnet_q_t": targnet_q_t, "target_policy_t": target_policy_t},
            {"r_t": r_t, "pcont_t": pcont_t, "behaviour_policy_t": behaviour_policy_t},
            {"a_tm1": a_tm1, "a_t": a_t},
        )
        lambda_ = checks.scalar_in_range("lambda_", lambda_, q_tm1.dtype, 0.0, 1.0)
        retrace_weights = lambda_ * _clipped_ratios(
            indexing.batched_index(target_probs, a_t), behaviour_probs
        )
        # Nothing follows the last row, so its trace multiplies nothing.
        c_t = tf.concat([retrace_weights[:-1], tf.zeros_like(retrace_weights[-1:])], axis=0)
        expected = tf.reduce_sum(target_probs * targnet_q_t, axis=-1)
        corrected = r_t + pcont_t * (expected - c_t * indexing.batched_index(targnet_q_t, a_t))
        target = scan.backward_scan(corrected, pcont_t * c_t)
        if stop_targnet_gradients:
            target = tf.stop_gradient(target)
        loss = 0.5 * tf.square(target - indexing.batched_index(q_tm1, a_tm1))
        return RetraceLoss(loss, RetraceCoreExtra(retrace_weights, target))


def _inputs(
    values: Mapping[str, Any], steps: Mapping[str, Any], actions: Mapping[str, Any]
) -> list[tf.Tensor]:
    """All arguments as tensors in this order, checked: [T, B, A], [T, B], and integers [T, B]."""
    floats = dict(zip([*values, *steps], checks.float_tensors(**values, **steps)))
    shape = checks.action_value_shape(**{name: floats[name] for name in values})[:-1]
    for name in steps:
        checks.require_shape(name, floats[name], shape, f"as {next(iter(values))} without actions")
    indices = [checks.action_indices(name, value, shape) for name, value in actions.items()]
    return [*floats.values(), *indices]


def _clipped_ratios(target: tf.Tensor, behaviour: tf.Tensor) -> tf.Tensor:
    """min(1, target / behaviour), and 0 for 0 / 0, where the gradient must not be NaN either."""
    below_one = behaviour > target
    ratios = target / tf.where(below_one, behaviour, tf.ones_like(behaviour))
    return tf.where(below_one, ratios, tf.sign(target))
