"""What learners of continuous control check alike: policies' distributions, and batches."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow_probability as tfp

from tfagents_x import types
from tfagents_x.learners import checks

_HOW = "networks.MultivariateNormalDiagHead makes one, and so does tfd.Independent(..., 1)."


def check_policy(
    distribution: Any, batch_rank: int, actions: tf.Tensor
) -> tfp.distributions.Distribution:
    """Returns a policy's output if it is a distribution over whole actions.

    Args:
      distribution: what the policy returned.
      batch_rank: number of batch axes that it must have.
      actions: what the data holds, with those batch axes.

    Raises:
      TypeError: no distribution, or one of integers.
      ValueError: other batch axes, as a collection of distributions of single numbers has, or
        actions of another shape than the data's.
    """
    if not isinstance(distribution, tfp.distributions.Distribution):
        raise TypeError(
            f"The policy must return a tfp distribution, got {distribution!r}. End it with a head "
            f"that returns one; {_HOW}"
        )
    if distribution.dtype.is_integer:
        raise TypeError(
            f"The policy's distribution is one over {distribution.dtype.name}; this learner is for "
            "continuous actions. For discrete ones there are IMPALA, R2D2 and BC."
        )
    check_events(distribution, batch_rank, actions)
    return distribution


def check_events(
    distribution: tfp.distributions.Distribution, batch_rank: int, actions: tf.Tensor
) -> None:
    """Refuses a distribution that is not one over whole actions, as the data's.

    Args:
      distribution: what a policy returned, discrete or continuous.
      batch_rank: number of batch axes that it must have.
      actions: what the data holds, with those batch axes.

    Raises:
      ValueError: other batch axes, or actions of another shape.
    """
    if distribution.batch_shape.rank != batch_rank:
        raise ValueError(
            "The policy must return one distribution over whole actions (event [A]) for each "
            f"observation, got batch {distribution.batch_shape} and event "
            f"{distribution.event_shape}, a collection of distributions of single numbers. {_HOW}"
        )
    if not distribution.event_shape.is_compatible_with(actions.shape[batch_rank:]):
        raise ValueError(
            f"The policy's actions have shape {distribution.event_shape}, those of the data "
            f"{actions.shape[batch_rank:]}."
        )


def check_reparameterized(distribution: tfp.distributions.Distribution) -> None:
    """Refuses a policy whose samples have no gradient (TypeError)."""
    if distribution.reparameterization_type != tfp.distributions.FULLY_REPARAMETERIZED:
        raise TypeError(
            f"Samples of the policy's {type(distribution).__name__} have no gradient, by which "
            f"this learner improves it: use a fully reparameterized distribution. {_HOW}"
        )


def kl_divergence(policy: Any, prior: Any) -> tf.Tensor:
    """KL(policy || prior), of the distributions' batch shape.

    Raises:
      TypeError: tfp knows no formula for it.
    """
    try:
        return policy.kl_divergence(prior)
    except NotImplementedError as error:
        raise TypeError(
            f"There is no analytic KL of {type(policy).__name__} and {type(prior).__name__}. Let "
            "policy and prior end in the same head, such as networks.MultivariateNormalDiagHead, "
            "or register one with tfp.distributions.RegisterKL."
        ) from error


def check_step(learner: str, data: Any) -> None:
    """Refuses a batch that is no `Step` of sequences of continuous actions.

    Args:
      learner: how messages call it.
      data: what the dataset yielded, leaves [B, T, ...].

    Raises:
      TypeError: no `Step`, or a leaf of the wrong dtype.
      ValueError: a leaf of another shape.
    """
    if not isinstance(data, types.Step):
        raise TypeError(
            f"{learner} learns from sequences: the dataset must yield types.Step of [B, T, ...], "
            f"or ReplaySample of them, got a {type(data).__name__}."
        )
    action = data.action
    if not tf.is_tensor(action) or not action.dtype.is_floating:
        raise TypeError(
            f"{learner} needs continuous actions, one float tensor [B, T, ...], got "
            f"{getattr(action, 'dtype', type(action).__name__)}."
        )
    if action.shape.rank is None or action.shape.rank < 2:
        raise ValueError(f"{learner} needs actions [B, T, ...], got shape {action.shape}.")
    leading, scalar = tuple(action.shape[:2]), tf.TensorSpec([], tf.float32)
    floats = {"reward": data.reward, "discount": data.discount}
    checks.check_leaves("batch", floats, dict.fromkeys(floats, scalar), leading)
    checks.check_leading("observation", data.observation, leading)
