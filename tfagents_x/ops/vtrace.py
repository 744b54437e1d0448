"""V-trace: off-policy corrected value targets and policy-gradient advantages.

Espeholt et al., 2018, "IMPALA: Scalable Distributed Deep-RL with Importance Weighted
Actor-Learner Architectures" (arXiv:1802.01561), section 4.1. With the target policy
pi, the behaviour policy mu and rho_t = pi(a_t | x_t) / mu(a_t | x_t):

    delta_t = min(rho_bar, rho_t) (r_t + discount_t V(x_{t+1}) - V(x_t))
    c_t     = lambda min(1, rho_t)
    vs_t    = V(x_t) + delta_t + discount_t c_t (vs_{t+1} - V(x_{t+1}))

Everything is time-major: axis 0 is time, axis 1 the batch, and further axes may follow.
Row t holds the action taken in x_t and the reward and discount that followed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional, Union

import tensorflow as tf
import tensorflow_probability as tfp

from tfagents_x.ops import checks, scan

Threshold = Optional[Union[float, tf.Tensor]]
DistributionFn = Callable[[tf.Tensor], Any]


class VTraceReturns(NamedTuple):
    """Both are constants for gradients.

    Attributes:
      vs: [T, B, ...], targets for the values.
      pg_advantages: [T, B, ...], advantages for the policy gradient.
    """

    vs: tf.Tensor
    pg_advantages: tf.Tensor


class VTraceFromLogitsReturns(NamedTuple):
    """`VTraceReturns`, and the log-probabilities they came from.

    Attributes:
      vs: [T, B, ...], targets for the values.
      pg_advantages: [T, B, ...], advantages for the policy gradient.
      log_rhos: [T, B, ...], log pi(a) - log mu(a), summed over the action heads.
      behaviour_action_log_probs: [T, B, ...], log mu(a), or a list with one per head.
      target_action_log_probs: [T, B, ...], log pi(a), or a list with one per head.
    """

    vs: tf.Tensor
    pg_advantages: tf.Tensor
    log_rhos: tf.Tensor
    behaviour_action_log_probs: Union[tf.Tensor, list[tf.Tensor]]
    target_action_log_probs: Union[tf.Tensor, list[tf.Tensor]]


class VTraceOutput(NamedTuple):
    """What `td_error_and_advantage` returns.

    Attributes:
      errors: [T, B, ...], target minus value.
      pg_advantage: [T, B, ...], advantages for the policy gradient.
      q_estimate: [T, B, ...], estimate of Q(x_t, a_t).
    """

    errors: tf.Tensor
    pg_advantage: tf.Tensor
    q_estimate: tf.Tensor


def from_importance_weights(
    log_rhos: tf.Tensor,
    discounts: tf.Tensor,
    rewards: tf.Tensor,
    values: tf.Tensor,
    bootstrap_value: tf.Tensor,
    clip_rho_threshold: Threshold = 1.0,
    clip_pg_rho_threshold: Threshold = 1.0,
) -> VTraceReturns:
    """V-trace from log importance ratios (`vtrace_from_importance_weights` of RLlib and TRFL).

    c_t is clipped at 1 whatever the thresholds are.

    Args:
      log_rhos: floats, [T, B, ...], log pi(a_t | x_t) - log mu(a_t | x_t).
      discounts: floats, [T, B, ...], of x_{t+1}; 0 where the episode ended.
      rewards: floats, [T, B, ...].
      values: floats, [T, B, ...], V(x_0) ... V(x_{T-1}).
      bootstrap_value: floats, [B, ...], V(x_T).
      clip_rho_threshold: rho_bar, the limit of the ratios in `vs`; None for no limit.
      clip_pg_rho_threshold: limit of the ratios in `pg_advantages`; None for no limit.

    Raises:
      TypeError: an argument is not of a floating-point dtype, or two dtypes differ.
      ValueError: the shapes don't fit, or a threshold is negative or not a scalar.
    """
    log_rhos, discounts, rewards, values, bootstrap_value = checks.float_tensors(
        log_rhos=log_rhos,
        discounts=discounts,
        rewards=rewards,
        values=values,
        bootstrap_value=bootstrap_value,
    )
    shape = checks.common_shape(
        log_rhos=log_rhos, discounts=discounts, rewards=rewards, values=values
    )
    checks.require_shape("bootstrap_value", bootstrap_value, shape[1:], "one step of the values")

    log_rhos, discounts, rewards, values, bootstrap_value = (
        tf.stop_gradient(x) for x in (log_rhos, discounts, rewards, values, bootstrap_value)
    )
    rhos = tf.exp(log_rhos)
    clipped_rhos = _clip("clip_rho_threshold", rhos, clip_rho_threshold)
    pg_rhos = _clip("clip_pg_rho_threshold", rhos, clip_pg_rho_threshold)

    values_t = _shifted(values, bootstrap_value)
    deltas = clipped_rhos * (rewards + discounts * values_t - values)
    vs = values + scan.backward_scan(deltas, discounts * tf.minimum(rhos, 1.0))
    pg_advantages = pg_rhos * (rewards + discounts * _shifted(vs, bootstrap_value) - values)
    return VTraceReturns(vs, pg_advantages)


def from_logits(
    behaviour_policy_logits: tf.Tensor,
    target_policy_logits: tf.Tensor,
    actions: tf.Tensor,
    discounts: tf.Tensor,
    rewards: tf.Tensor,
    values: tf.Tensor,
    bootstrap_value: tf.Tensor,
    dist_class: DistributionFn = tfp.distributions.Categorical,
    model: Any = None,
    clip_rho_threshold: Threshold = 1.0,
    clip_pg_rho_threshold: Threshold = 1.0,
) -> VTraceFromLogitsReturns:
    """V-trace of policies with one action head (RLlib's `from_logits`).

    See `multi_from_logits`, of which this is the case of one head: the logits and
    actions, and the log-probabilities returned, are single tensors instead of lists.
    """
    result = multi_from_logits(
        [behaviour_policy_logits],
        [target_policy_logits],
        [actions],
        discounts,
        rewards,
        values,
        bootstrap_value,
        dist_class,
        model,
        clip_rho_threshold=clip_rho_threshold,
        clip_pg_rho_threshold=clip_pg_rho_threshold,
    )
    return result._replace(
        behaviour_action_log_probs=result.behaviour_action_log_probs[0],
        target_action_log_probs=result.target_action_log_probs[0],
    )


def multi_from_logits(
    behaviour_policy_logits: Sequence[tf.Tensor],
    target_policy_logits: Sequence[tf.Tensor],
    actions: Sequence[tf.Tensor],
    discounts: tf.Tensor,
    rewards: tf.Tensor,
    values: tf.Tensor,
    bootstrap_value: tf.Tensor,
    dist_class: DistributionFn = tfp.distributions.Categorical,
    model: Any = None,
    behaviour_action_log_probs: Optional[Union[tf.Tensor, Sequence[tf.Tensor]]] = None,
    clip_rho_threshold: Threshold = 1.0,
    clip_pg_rho_threshold: Threshold = 1.0,
) -> VTraceFromLogitsReturns:
    """V-trace of policies with several independent action heads (RLlib's `multi_from_logits`).

    `log_rhos` and the log-probabilities keep their gradients; `vs` and
    `pg_advantages` are constants.

    Args:
      behaviour_policy_logits: list of H float tensors [T, B, ..., A_h], parameters of mu.
      target_policy_logits: list of H float tensors [T, B, ..., A_h], parameters of pi.
      actions: list of H tensors, [T, B, ...] and the event shape of the distribution.
      discounts: floats, [T, B, ...]; and so `rewards`, `values` and `bootstrap_value`
        as in `from_importance_weights`.
      rewards: see `discounts`.
      values: see `discounts`.
      bootstrap_value: see `discounts`.
      dist_class: makes a tfp distribution of batch shape [T, B, ...] from the logits
        of one head.
      model: not used; it holds the place that it has in RLlib.
      behaviour_action_log_probs: [T, B, ...] or a list with one such tensor, log mu(a)
        as recorded while acting. With one head it replaces what the behaviour logits
        would give. With several heads it is ignored, as RLlib does.
      clip_rho_threshold: limit of the ratios in `vs`; None for no limit.
      clip_pg_rho_threshold: limit of the ratios in `pg_advantages`; None for no limit.

    Raises:
      TypeError: logits or actions are no lists, or as in `from_importance_weights`.
      ValueError: the lists are empty or differ in length, an action does not fit its
        distribution, or as in `from_importance_weights`.
    """
    del model
    num_heads = _num_heads(
        behaviour_policy_logits=behaviour_policy_logits,
        target_policy_logits=target_policy_logits,
        actions=actions,
    )
    target = _log_probs("target_policy_logits", target_policy_logits, actions, dist_class)
    if behaviour_action_log_probs is None or num_heads > 1:
        _check_same_shapes(behaviour_policy_logits, target_policy_logits)
        behaviour = _log_probs(
            "behaviour_policy_logits", behaviour_policy_logits, actions, dist_class
        )
    else:
        behaviour = _recorded(behaviour_action_log_probs, target[0])
    (reward_tensor,) = checks.float_tensors(rewards=rewards)  # arrays get their dtype below
    log_rhos = _joint_log_rhos(target, behaviour, reward_tensor.shape)
    returns = from_importance_weights(
        log_rhos,
        discounts,
        rewards,
        values,
        bootstrap_value,
        clip_rho_threshold=clip_rho_threshold,
        clip_pg_rho_threshold=clip_pg_rho_threshold,
    )
    return VTraceFromLogitsReturns(
        vs=returns.vs,
        pg_advantages=returns.pg_advantages,
        log_rhos=log_rhos,
        behaviour_action_log_probs=behaviour,
        target_action_log_probs=target,
    )


def td_error_and_advantage(
    v_tm1: tf.Tensor,
    v_t: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    rho_tm1: tf.Tensor,
    lambda_: Union[float, tf.Tensor] = 1.0,
    clip_rho_threshold: Threshold = 1.0,
    clip_pg_rho_threshold: Threshold = 1.0,
    stop_target_gradients: bool = True,
) -> VTraceOutput:
    """V-trace errors, advantages and Q estimates (`rlax.vtrace_td_error_and_advantage`).

    Unlike rlax it takes whole [T, B, ...] batches, and None for no threshold. Only the
    target is a constant for gradients: a policy loss must stop `pg_advantage` itself.

    Args:
      v_tm1: floats, [T, B, ...], values before each transition.
      v_t: floats, [T, B, ...], values after each transition.
      r_t: floats, [T, B, ...].
      discount_t: floats, [T, B, ...].
      rho_tm1: floats, [T, B, ...], importance ratios (no logarithms).
      lambda_: 0 ... 1, scales c_t and mixes the Q estimate: 0 for one-step targets.
      clip_rho_threshold: limit of the ratios in the targets; None for no limit.
      clip_pg_rho_threshold: limit of the ratios in `pg_advantage`; None for no limit.
      stop_target_gradients: whether the targets are constants for gradients.

    Raises:
      TypeError: an argument is not of a floating-point dtype, or two dtypes differ.
      ValueError: the shapes differ, a threshold is negative or not a scalar, or
        `lambda_` is outside 0 ... 1.
    """
    v_tm1, v_t, r_t, discount_t, rho_tm1 = checks.float_tensors(
        v_tm1=v_tm1, v_t=v_t, r_t=r_t, discount_t=discount_t, rho_tm1=rho_tm1
    )
    checks.common_shape(v_tm1=v_tm1, v_t=v_t, r_t=r_t, discount_t=discount_t, rho_tm1=rho_tm1)
    lambda_ = checks.scalar_in_range("lambda_", lambda_, v_tm1.dtype, 0.0, 1.0)

    clipped_rhos = _clip("clip_rho_threshold", rho_tm1, clip_rho_threshold)
    pg_rhos = _clip("clip_pg_rho_threshold", rho_tm1, clip_pg_rho_threshold)

    deltas = clipped_rhos * (r_t + discount_t * v_t - v_tm1)
    decays = discount_t * lambda_ * tf.minimum(rho_tm1, 1.0)
    target_tm1 = v_tm1 + scan.backward_scan(deltas, decays)
    if stop_target_gradients:
        target_tm1 = tf.stop_gradient(target_tm1)

    mixed = lambda_ * target_tm1 + (1.0 - lambda_) * v_tm1
    q_estimate = r_t + discount_t * _shifted(mixed, v_t[-1])
    return VTraceOutput(
        errors=target_tm1 - v_tm1,
        pg_advantage=pg_rhos * (q_estimate - v_tm1),
        q_estimate=q_estimate,
    )


def _shifted(x: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
    """x_{t+1} for every t, with `last` after the end."""
    return tf.concat([x[1:], last[tf.newaxis]], axis=0)


def _clip(name: str, rhos: tf.Tensor, threshold: Threshold) -> tf.Tensor:
    if threshold is None:
        return rhos
    return tf.minimum(rhos, checks.scalar_in_range(name, threshold, rhos.dtype, 0.0))


def _num_heads(**heads: Any) -> int:
    """Number of heads, the same in all three lists."""
    for name, value in heads.items():
        if not isinstance(value, (list, tuple)):
            raise TypeError(
                f"{name} is a {type(value).__name__}, but must be a list with one tensor per "
                f"action head; for a single head use from_logits."
            )
    lengths = {name: len(value) for name, value in heads.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise ValueError(
            f"One tensor per action head is wanted in each list, but their lengths are {lengths}."
        )
    return len(heads["actions"])


def _check_same_shapes(behaviour: Sequence[Any], target: Sequence[Any]) -> None:
    """Both policies have parameters of one kind, so a difference is a mistake."""
    for head, (mu, pi) in enumerate(zip(behaviour, target)):
        checks.require_shape(
            f"behaviour_policy_logits[{head}]",
            checks.tensor(f"behaviour_policy_logits[{head}]", mu),
            checks.tensor(f"target_policy_logits[{head}]", pi).shape,
            "as target_policy_logits",
        )


def _log_probs(
    name: str, logits: Sequence[tf.Tensor], actions: Sequence[Any], dist_class: DistributionFn
) -> list[tf.Tensor]:
    """Log p(a) of each head."""
    found = []
    for head, (head_logits, head_actions) in enumerate(zip(logits, actions)):
        label = f"{name}[{head}]"
        (head_logits,) = checks.float_tensors(**{label: head_logits})
        policy = dist_class(head_logits)
        found.append(checks.action_log_prob(f"dist_class({label})", policy, head_actions))
    return found


def _recorded(log_probs: Any, target: tf.Tensor) -> list[tf.Tensor]:
    """The given log mu(a) of the only head, as a list."""
    if isinstance(log_probs, (list, tuple)):
        if len(log_probs) != 1:
            raise ValueError(
                f"behaviour_action_log_probs has {len(log_probs)} entries, but there is one "
                f"action head: pass one tensor of shape {target.shape}."
            )
        log_probs = log_probs[0]
    _, recorded = checks.float_tensors(target=target, behaviour_action_log_probs=log_probs)
    checks.require_shape(
        "behaviour_action_log_probs", recorded, target.shape, "as the log-probabilities of pi"
    )
    return [recorded]


def _joint_log_rhos(
    target: Sequence[tf.Tensor], behaviour: Sequence[tf.Tensor], shape: tf.TensorShape
) -> tf.Tensor:
    """Log ratio of all heads together: the heads are independent, so it is a sum."""
    named = {
        f"the log-probability that dist_class gives for head {head} of {policy}": log_prob
        for policy, log_probs in (("pi", target), ("mu", behaviour))
        for head, log_prob in enumerate(log_probs)
    }
    checks.float_tensors(**named)
    for name, log_prob in named.items():
        checks.require_shape(
            name,
            log_prob,
            shape,
            "as the rewards; wrap the distribution in tfp.distributions.Independent if it "
            "treats the parts of an action as separate actions",
        )
    return tf.add_n(list(target)) - tf.add_n(list(behaviour))
