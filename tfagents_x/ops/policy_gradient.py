"""Policy-gradient and entropy losses, and importance ratios of categorical policies.

Two families, named as in the libraries they follow:

* from logits (rlax): `policy_gradient_loss`, `entropy_loss`,
  `categorical_importance_sampling_ratios`. Time is the last axis before the logits,
  and the losses are means over it.
* from tfp distributions (TRFL): `policy_gradient`, `sequence_policy_gradient_loss`,
  `policy_entropy_loss`. Time is axis 0, and only the second function sums over it.

Logits of -inf rule an action out; losses, entropies and gradients stay finite as long
as no ruled-out action was taken.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional

import tensorflow as tf

from tfagents_x import types
from tfagents_x.ops import checks


class PolicyEntropyLoss(NamedTuple):
    """What `policy_entropy_loss` returns.

    Attributes:
      loss: [T, B, ...], -scale * entropy.
      entropy: [T, B, ...], sum of the entropies of all policies.
    """

    loss: tf.Tensor
    entropy: tf.Tensor


def policy_gradient_loss(
    logits_t: tf.Tensor,
    a_t: tf.Tensor,
    adv_t: tf.Tensor,
    w_t: tf.Tensor,
    use_stop_gradient: bool = True,
) -> tf.Tensor:
    """- mean over time of w_t adv_t log pi(a_t) (`rlax.policy_gradient_loss`).

    Weights only scale: a step of weight 0 still counts in the mean, but nothing else
    of it does, not even an action that the logits rule out.

    Args:
      logits_t: floats, [..., T, A].
      a_t: integers, [..., T].
      adv_t: floats, [..., T], advantages.
      w_t: floats, [..., T], weights of the steps.
      use_stop_gradient: whether the advantages are constants for gradients.

    Returns:
      Floats, [...]: one loss for each sequence.

    Raises:
      TypeError: a dtype is wrong, or two differ.
      ValueError: the shapes don't fit.
    """
    logits_t, adv_t, w_t = checks.float_tensors(logits_t=logits_t, adv_t=adv_t, w_t=w_t)
    shape = _steps_shape("logits_t", logits_t)
    checks.require_shape("adv_t", adv_t, shape, "one number for each step")
    checks.require_shape("w_t", w_t, shape, "one number for each step")
    if use_stop_gradient:
        adv_t = tf.stop_gradient(adv_t)
    log_pi_a_t = _log_prob("logits_t", logits_t, a_t)
    return -tf.reduce_mean(tf.math.multiply_no_nan(log_pi_a_t, w_t * adv_t), axis=-1)


def entropy_loss(logits_t: tf.Tensor, w_t: tf.Tensor) -> tf.Tensor:
    """- mean over time of w_t H(pi_t) (`rlax.entropy_loss`).

    Args:
      logits_t: floats, [..., T, A].
      w_t: floats, [..., T], weights of the steps.

    Returns:
      Floats, [...]: one loss for each sequence.

    Raises:
      TypeError: a dtype is wrong, or two differ.
      ValueError: the shapes don't fit.
    """
    logits_t, w_t = checks.float_tensors(logits_t=logits_t, w_t=w_t)
    shape = _steps_shape("logits_t", logits_t)
    checks.require_shape("w_t", w_t, shape, "one number for each step")
    return -tf.reduce_mean(w_t * _entropy(logits_t), axis=-1)


def categorical_importance_sampling_ratios(
    pi_logits_t: tf.Tensor, mu_logits_t: tf.Tensor, a_t: tf.Tensor
) -> tf.Tensor:
    """pi(a_t) / mu(a_t) (`rlax.categorical_importance_sampling_ratios`).

    Args:
      pi_logits_t: floats, [..., A], of the target policy.
      mu_logits_t: floats, [..., A], of the behaviour policy.
      a_t: integers, [...].

    Returns:
      Floats, [...]. NaN where both policies rule the action out.

    Raises:
      TypeError: a dtype is wrong, or two differ.
      ValueError: the shapes don't fit.
    """
    pi_logits_t, mu_logits_t = checks.float_tensors(
        pi_logits_t=pi_logits_t, mu_logits_t=mu_logits_t
    )
    checks.require_shape("mu_logits_t", mu_logits_t, pi_logits_t.shape, "the shape of pi_logits_t")
    log_pi_a_t = _log_prob("pi_logits_t", pi_logits_t, a_t)
    return tf.exp(log_pi_a_t - _log_prob("mu_logits_t", mu_logits_t, a_t))


def policy_gradient(policies: Any, actions: tf.Tensor, action_values: tf.Tensor) -> tf.Tensor:
    """- log pi(a) * action_values for each step (`trfl.policy_gradient`).

    Args:
      policies: tfp distribution of batch shape [T, B, ...].
      actions: [T, B, ...] and the event shape of the distribution.
      action_values: floats, [T, B, ...], advantages or returns; constants for gradients.

    Returns:
      Floats, [T, B, ...]; differentiable in the parameters of the policies only.

    Raises:
      TypeError: `policies` is no distribution, `actions` are no tensor, or the dtype of
        `action_values` is not that of the log-probabilities.
      ValueError: the shapes don't fit.
    """
    actions = tf.stop_gradient(checks.tensor("actions", actions))
    log_prob = checks.action_log_prob("policies", policies, actions)
    log_prob, values = checks.float_tensors(log_prob=log_prob, action_values=action_values)
    checks.require_shape("action_values", values, log_prob.shape, "one number for each action")
    return -log_prob * tf.stop_gradient(values)


def sequence_policy_gradient_loss(
    policies: types.Nest, actions: types.NestedTensor, action_values: tf.Tensor
) -> tf.Tensor:
    """- sum over time and policies of log pi(a) * action_values (`trfl.policy_gradient_loss`).

    Args:
      policies: tfp distribution of batch shape [T, B, ...], or a nest of them (one for
        each part of an action).
      actions: tensor or nest, one entry for each policy.
      action_values: floats, [T, B, ...], advantages or returns; constants for gradients.

    Returns:
      Floats, [B, ...].

    Raises:
      TypeError: as in `policy_gradient`.
      ValueError: the numbers of policies and actions differ, or the shapes don't fit.
    """
    flat_policies = _flat_policies(policies)
    flat_actions = tf.nest.flatten(actions)
    if len(flat_policies) != len(flat_actions):
        raise ValueError(
            f"There are {len(flat_policies)} policies and {len(flat_actions)} actions, but each "
            f"policy needs its action: pass nests of the same structure."
        )
    losses = [
        tf.reduce_sum(policy_gradient(policy, action, action_values), axis=0)
        for policy, action in zip(flat_policies, flat_actions)
    ]
    return tf.add_n(losses)


def policy_entropy_loss(
    policies: types.Nest, scale_op: Optional[Callable[[types.Nest], Any]] = None
) -> PolicyEntropyLoss:
    """Loss that rewards entropy (`trfl.policy_entropy_loss`), for each step.

    Args:
      policies: tfp distribution of batch shape [T, B, ...], or a nest of them.
      scale_op: called with `policies`, returns the factor of the loss (for instance one
        over the largest possible entropy); 1 if None.

    Raises:
      TypeError: `policies` holds something that is no distribution, or `scale_op`
        can't be called.
      ValueError: the policies differ in batch shape.
    """
    flat_policies = _flat_policies(policies)
    if scale_op is not None and not callable(scale_op):
        raise TypeError(
            f"scale_op is a {type(scale_op).__name__}, but must be a function of the policies: "
            f"pass for instance `lambda policies: 0.5`."
        )
    entropies = {f"the entropy of policy {i}": p.entropy() for i, p in enumerate(flat_policies)}
    checks.common_shape(**entropies)
    entropy = tf.add_n(list(entropies.values()))
    if scale_op is None:
        return PolicyEntropyLoss(-entropy, entropy)
    return PolicyEntropyLoss(-entropy * tf.cast(scale_op(policies), entropy.dtype), entropy)


def _flat_policies(policies: types.Nest) -> list[Any]:
    flat = tf.nest.flatten(policies)
    if not flat:
        raise ValueError("policies is empty: pass at least one tfp distribution.")
    for policy in flat:
        if not callable(getattr(policy, "entropy", None)):
            raise TypeError(
                f"policies holds a {type(policy).__name__}, but must hold tfp distributions."
            )
    return flat


def _steps_shape(name: str, logits: tf.Tensor) -> tf.TensorShape:
    """[..., T], of logits [..., T, A]."""
    if logits.shape.rank is not None and logits.shape.rank < 2:
        raise ValueError(f"{name} has shape {logits.shape}, but must have [..., T, A].")
    return logits.shape[:-1]


def _log_prob(name: str, logits: tf.Tensor, actions: Any) -> tf.Tensor:
    """Log softmax(logits)[actions], finite gradients where other logits are -inf."""
    actions = checks.tensor("a_t", actions)
    checks.require_integer("a_t", actions)
    checks.require_shape("a_t", actions, logits.shape[:-1], f"one action for each row of {name}")
    return -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=actions, logits=logits)


def _entropy(logits: tf.Tensor) -> tf.Tensor:
    """- sum of p log p, where actions with p = 0 count as 0, in the gradient too."""
    probs = tf.nn.softmax(logits)
    log_probs = tf.nn.log_softmax(logits)
    # Without the selection, 0 * -inf is NaN, and so is its gradient.
    log_probs = tf.where(probs > 0, log_probs, tf.zeros_like(log_probs))
    return -tf.reduce_sum(probs * log_probs, axis=-1)
