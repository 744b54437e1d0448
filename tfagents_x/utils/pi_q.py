"""Online and target policies and critics, evaluated together as in Acme's SVG0.

Heess et al., 2015, "Learning Continuous Control Policies by Stochastic Value
Gradients"; Galashov et al., 2019, "Information asymmetry in KL-regularized RL" for the
priors.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Union

import sonnet as snt
import tensorflow as tf

from tfagents_x import types
from tfagents_x.utils import nest


class PiQ(NamedTuple):
    """What `OnlineTargetPiQ` returns without priors, for S samples and a batch of B.

    Attributes:
      online_samples: [S, B, A], actions sampled from the online policy.
      target_samples: [S, B, A], actions sampled from the target policy.
      target_log_probs_behavior_actions: [B], log-probability that the target policy gives
        to the actions that were taken.
      online_log_probs: [S, B], log-probability that the online policy gives to
        `online_samples`, through which no gradient passes.
      online_q: the online critic's output for the actions that were taken.
      target_q: the target critic's.
    """

    online_samples: tf.Tensor
    target_samples: tf.Tensor
    target_log_probs_behavior_actions: tf.Tensor
    online_log_probs: tf.Tensor
    online_q: types.NestedTensor
    target_q: types.NestedTensor


class PiQWithPriors(NamedTuple):
    """What `OnlineTargetPiQ` returns with priors: the fields of `PiQ`, and two more.

    Attributes:
      online_samples: see `PiQ`.
      target_samples: see `PiQ`.
      target_log_probs_behavior_actions: see `PiQ`.
      online_log_probs: see `PiQ`.
      online_q: see `PiQ`.
      target_q: see `PiQ`.
      analytic_kl_divergence: [B], KL(online policy, online prior).
      analytic_kl_to_target: [B], KL(online policy, target prior).
    """

    online_samples: tf.Tensor
    target_samples: tf.Tensor
    target_log_probs_behavior_actions: tf.Tensor
    online_log_probs: tf.Tensor
    online_q: types.NestedTensor
    target_q: types.NestedTensor
    analytic_kl_divergence: tf.Tensor
    analytic_kl_to_target: tf.Tensor


class OnlineTargetPiQ(snt.Module):
    """Online and target policies and critics in one call (Acme's `OnlineTargetPiQ`)."""

    def __init__(
        self,
        online_pi: snt.Module,
        online_q: snt.Module,
        target_pi: snt.Module,
        target_q: snt.Module,
        num_samples: int,
        online_prior: Optional[snt.Module] = None,
        target_prior: Optional[snt.Module] = None,
        name: str = "OnlineTargetPiQ",
    ):
        """Keeps the networks.

        Args:
          online_pi: policy, from observations to a tfp distribution over actions.
          online_q: critic of observations and actions.
          target_pi: slow copy of the policy.
          target_q: slow copy of the critic.
          num_samples: S, the number of actions that each policy samples.
          online_prior: from observations to a tfp distribution; with it comes
            `target_prior`, or neither.
          target_prior: slow copy of the prior.
          name: of the module.

        Raises:
          TypeError: a network can't be called, or `num_samples` is no int.
          ValueError: only one of the priors is given, or `num_samples` is less than 1.
        """
        super().__init__(name)
        if (online_prior is None) != (target_prior is None):
            missing = "online_prior" if online_prior is None else "target_prior"
            raise ValueError(f"{missing} is missing: give both priors, or neither.")
        nest.require_int("num_samples", num_samples)
        given = dict(online_pi=online_pi, online_q=online_q, target_pi=target_pi, target_q=target_q)
        if online_prior is not None:
            given.update(online_prior=online_prior, target_prior=target_prior)
        _require_networks(given)
        self._online_pi = online_pi
        self._online_q = online_q
        self._target_pi = target_pi
        self._target_q = target_q
        self._num_samples = num_samples
        self._online_prior = online_prior
        self._target_prior = target_prior

    def __call__(
        self, input_obs_and_action: tuple[types.NestedTensor, tf.Tensor], *others: Any
    ) -> Union[PiQ, PiQWithPriors]:
        """Evaluates all networks.

        Args:
          input_obs_and_action: nest of observations [B, ...], and the actions [B, A] that
            were taken there.
          *others: none; here to say so when the two are given one by one.

        Raises:
          TypeError: the input is not that pair, or a policy or a prior does not return a
            distribution.
        """
        observation, action = _pair(input_obs_and_action, *others)
        online = _distribution("online_pi", self._online_pi, observation)
        target = _distribution("target_pi", self._target_pi, observation)
        samples = online.sample(self._num_samples)
        outputs = PiQ(
            online_samples=samples,
            target_samples=target.sample(self._num_samples),
            target_log_probs_behavior_actions=target.log_prob(action),
            online_log_probs=online.log_prob(tf.stop_gradient(samples)),
            online_q=self._online_q(observation, action),
            target_q=self._target_q(observation, action),
        )
        if self._online_prior is None:
            return outputs
        priors = (("online_prior", self._online_prior), ("target_prior", self._target_prior))
        kls = [online.kl_divergence(_distribution(k, p, observation)) for k, p in priors]
        return PiQWithPriors(*outputs, *kls)


def _require_networks(given: dict[str, Any]) -> None:
    for name, network in given.items():
        if not callable(network):
            raise TypeError(f"{name} is {network!r}, but must be a network to call.")


def _pair(*arguments: Any) -> tuple[types.NestedTensor, tf.Tensor]:
    """The one argument, if it is a pair."""
    if len(arguments) == 1 and isinstance(arguments[0], (tuple, list)) and len(arguments[0]) == 2:
        return arguments[0][0], arguments[0][1]
    kinds = ", ".join(type(argument).__name__ for argument in arguments)
    raise TypeError(
        f"OnlineTargetPiQ takes one argument, the pair (observation, action), got {kinds}: call "
        "it as core((observation, action))."
    )


def _distribution(name: str, network: Any, observation: types.NestedTensor) -> Any:
    output = network(observation)
    if not (hasattr(output, "log_prob") and hasattr(output, "sample")):
        raise TypeError(
            f"{name} returned a {type(output).__name__}, but must return a tfp distribution: end "
            "it with a head that makes one."
        )
    return output
