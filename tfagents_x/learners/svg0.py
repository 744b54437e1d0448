"""SVG0 with an optional learnt prior, off-policy with Retrace.

Heess et al., 2015, arXiv:1510.09142 (SVG(0)); Galashov et al., 2019, arXiv:1905.01240
(the prior); Munos et al., 2016, arXiv:1606.02647 (Retrace);
`acme.agents.tf.svg0_prior.learning`.
"""

from __future__ import annotations

import math
from typing import Any, Optional

import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import types
from tfagents_x.learners import base, checks, continuous, saving, targets
from tfagents_x.networks import recurrence, sampled_values
from tfagents_x.ops import retrace
from tfagents_x.utils import counting, distribute, loggers, nest

_MIN_LOG_RHO = math.log(1e-20)
_RANGES = {
    "discount": (0.0, 1.0),
    "lambda_": (0.0, 1.0),
    "distillation_cost": (-checks.LARGEST, checks.LARGEST),
    "entropy_regularizer_cost": (-checks.LARGEST, checks.LARGEST),
}


class SVG0Learner(base.Learner):
    """Learns a policy by the gradient of a critic through its sampled actions.

    Batches are `ReplaySample`s (or bare `Step`s) of [B, T, ...] with T of at least 2: row t
    holds the observation, the action taken there, the reward and discount that followed, and
    `extras['log_prob']`, log mu(a_t) of the policy that acted. `start_of_episode[t]` says that
    row t is the first of an episode; the transition that leads there is void. Only the
    observation and the flag of the last row are used.
    """

    _draws = True
    _time_key = "walltime"

    def __init__(
        self,
        policy_network: snt.Module,
        critic_network: snt.Module,
        target_policy_network: snt.Module,
        target_critic_network: snt.Module,
        discount: float,
        target_update_period: int,
        dataset_iterator: Any,
        prior_network: Optional[snt.Module] = None,
        target_prior_network: Optional[snt.Module] = None,
        policy_optimizer: Optional[snt.Optimizer] = None,
        critic_optimizer: Optional[snt.Optimizer] = None,
        prior_optimizer: Optional[snt.Optimizer] = None,
        distillation_cost: Optional[float] = 1e-3,
        entropy_regularizer_cost: Optional[float] = 1e-3,
        num_action_samples: int = 10,
        lambda_: float = 1.0,
        counter: Optional[counting.Counter] = None,
        logger: Optional[loggers.Logger] = None,
        checkpoint: bool = True,
        *,
        accelerator_strategy: Optional[tf.distribute.Strategy] = None,
        jit_compile: bool = False,
        prefetch_size: int = 2,
        num_sgd_steps_per_step: int = 1,
        seed: Optional[int] = None,
        max_gradient_norm: Optional[float] = None,
        directory: str = saving.DIRECTORY,
    ):
        """Positional order and defaults are those of Acme's learner.

        Args:
          policy_network: from observations to a multivariate distribution over actions, batch
            [B], reparameterised (its samples have gradients).
          critic_network: `critic(observation, action)` to [B, 1] or [B].
          target_policy_network: another policy of the same make.
          target_critic_network: another critic of the same make.
          discount: multiplies the environment's discounts.
          target_update_period: targets are overwritten before updates 1, P + 1, 2 P + 1, ...
          dataset_iterator: see `base.Learner`'s `dataset`.
          prior_network: from observations to a distribution that the policy stays close to;
            trained to follow the policy. None for none.
          target_prior_network: another prior of the same make; needed with a prior.
          policy_optimizer: by default Adam with a learning rate of 1e-4.
          critic_optimizer: the same for the critic.
          prior_optimizer: the same for the prior.
          distillation_cost: weight of KL(policy || target prior) in the policy's loss and in the
            values.
          entropy_regularizer_cost: weight of the entropy in the policy's loss. The source
            estimates it from fixed samples; the expectation of that gradient is zero.
          num_action_samples: actions over which values and losses average.
          lambda_: of Retrace.
          counter: see `base.Learner`.
          logger: see `base.Learner`.
          checkpoint: write checkpoints and snapshots, now and then every 30 minutes.
          accelerator_strategy: see `base.Learner`.
          jit_compile: see `base.Learner`.
          prefetch_size: see `base.Learner`.
          num_sgd_steps_per_step: see `base.Learner`.
          seed: of the sampled actions; see `base.Learner`.
          max_gradient_norm: each network's gradients are clipped to this global norm; the
            source does not clip.
          directory: where `checkpoint` writes; see `saving.PeriodicSaver`.

        Raises:
          TypeError: a network or optimizer is none.
          ValueError: a number is out of range, a prior has no target or a target no prior, or a
            target differs from its online network.
        """
        numbers = {
            "discount": discount,
            "lambda_": lambda_,
            "distillation_cost": distillation_cost,
            "entropy_regularizer_cost": entropy_regularizer_cost,
        }
        for name, value in numbers.items():
            checks.check_number(name, value, *_RANGES[name])
        checks.check_count("num_action_samples", num_action_samples)
        checks.check_number("max_gradient_norm", max_gradient_norm, *checks.POSITIVE, optional=True)
        if (prior_network is None) != (target_prior_network is None):
            raise ValueError(
                "prior_network and target_prior_network belong together, got "
                f"{prior_network!r} and {target_prior_network!r}."
            )
        online = {"policy": policy_network, "critic": critic_network, "prior": prior_network}
        target = {
            "target_policy": target_policy_network,
            "target_critic": target_critic_network,
            "target_prior": target_prior_network,
        }
        given = {"policy": policy_optimizer, "critic": critic_optimizer, "prior": prior_optimizer}
        networks = {
            k: v for k, v in {**online, **target}.items() if v is not None or "prior" not in k
        }
        for name, network in networks.items():
            if isinstance(network, snt.RNNCore):
                raise TypeError(
                    f"{name}_network is a recurrent core, {network!r}; SVG0's networks have no "
                    "state. For recurrent ones there is RCRRLearner."
                )
            checks.check_network(f"{name}_network", network)
        online = {name: network for name, network in online.items() if name in networks}
        strategy = distribute.get_strategy(accelerator_strategy)
        with distribute.scope(strategy):
            trained = {
                name: base.Trained(
                    network.trainable_variables,
                    given[name] or snt.optimizers.Adam(1e-4),
                    max_gradient_norm,
                )
                for name, network in online.items()
            }
        self._policy, self._target_policy = policy_network, target_policy_network
        self._critic, self._target_critic = critic_network, target_critic_network
        self._prior, self._target_prior = prior_network, target_prior_network
        self._discount = discount
        self._lambda = lambda_
        self._num_samples = num_action_samples
        self._distillation_cost = distillation_cost
        self._entropy_cost = entropy_regularizer_cost
        pairs = [(networks[name], networks[f"target_{name}"]) for name in online]
        super().__init__(
            networks=networks,
            trained=trained,
            dataset=dataset_iterator,
            target_copy=targets.TargetCopy(
                *targets.pair(*pairs), target_update_period, at_start=True
            ),
            accelerator_strategy=strategy,
            jit_compile=jit_compile,
            num_sgd_steps_per_step=num_sgd_steps_per_step,
            prefetch_size=prefetch_size,
            counter=counter,
            logger=logger,
            seed=seed,
            saver=saving.PeriodicSaver(directory, online) if checkpoint else None,
        )

    def _losses(self, data: types.Step) -> base.Losses:
        log_prob = _check_batch(data)
        data = nest.batch_to_sequence(data._replace(extras=log_prob))
        rows = lambda s: tree.map_structure(lambda x: x[s], data.observation)
        o_tm1, o_t = rows(slice(None, -1)), rows(slice(1, None))
        a_tm1, d_t = data.action[:-1], self._discount * data.discount[:-1]
        valid = ~data.start_of_episode[1:]

        pi = self._distribution(self._policy, data)
        continuous.check_reparameterized(pi)
        target_pi = self._distribution(self._target_policy, data)
        kl = self._divergence(pi, self._target_prior, data)

        q_tm1 = _apply_critic(self._critic, o_tm1, a_tm1)

        # Retrace for the critic. V(x_0) enters no target.
        seed_t, seed = self._seeds(2)
        samples_t = target_pi.sample(self._num_samples, seed=seed_t)[:, 1:]
        v_t = tf.reduce_mean(self._values(o_t, samples_t, differentiable=False), 0)
        v_t -= self._distillation_cost * kl[1:]
        log_rhos = target_pi.log_prob(data.action)[:-1] - data.extras[:-1]
        returns = retrace.retrace_from_importance_weights(
            # Masked as a logarithm: a ratio that overflows would give 0 * inf.
            log_rhos=tf.where(valid, log_rhos, _MIN_LOG_RHO),
            discounts=d_t,
            rewards=data.reward[:-1],
            q_values=_apply_critic(self._target_critic, o_tm1, a_tm1),
            values=tf.concat([tf.zeros_like(v_t[:1]), v_t[:-1]], 0),
            bootstrap_value=v_t[-1],
            lambda_=self._lambda,
        )
        critic_losses = 0.5 * tf.math.squared_difference(tf.stop_gradient(returns.qs), q_tm1)

        # The policy's loss: the target critic's gradient through the samples.
        samples = pi.sample(self._num_samples, seed=seed)
        expected_q = tf.reduce_mean(self._values(o_tm1, samples[:, :-1]), 0)
        entropy = -tf.reduce_mean(pi.log_prob(tf.stop_gradient(samples))[:, :-1], 0)
        policy_losses = -(expected_q + self._entropy_cost * entropy)
        policy_losses += self._distillation_cost * kl[:-1]

        # Means run over all transitions, the void ones with a loss of 0.
        mean = lambda x: tf.reduce_mean(x * tf.cast(valid, x.dtype))
        losses = {"policy": mean(policy_losses), "critic": mean(critic_losses)}
        if self._prior is not None:
            losses["prior"] = mean(self._divergence(pi, self._prior, data)[:-1])
        return base.Losses(losses, {f"{name}_loss": loss for name, loss in losses.items()})

    def _distribution(self, network: snt.Module, data: types.Step) -> Any:
        """A policy's or prior's distributions of all steps, [T, B]."""
        distribution = recurrence.batch_apply(network, data.observation)
        return continuous.check_policy(distribution, batch_rank=2, actions=data.action)

    def _divergence(self, pi: Any, prior: Optional[snt.Module], data: types.Step) -> tf.Tensor:
        """KL(pi || prior) of all steps, [T, B]; 0 without a prior."""
        if prior is None:
            return tf.zeros_like(data.reward)
        return continuous.kl_divergence(pi, self._distribution(prior, data))

    def _values(
        self, observations: types.NestedTensor, actions: tf.Tensor, differentiable: bool = True
    ) -> tf.Tensor:
        """The target critic's values of `actions` [S, T, B, ...]: [S, T, B]."""
        shape = actions.shape
        states = tree.map_structure(lambda x: snt.merge_leading_dims(x, 2), observations)
        flat = tf.reshape(actions, [shape[0], -1, *shape[3:]])
        values = sampled_values.sampled_values(self._target_critic, states, flat, differentiable)
        return tf.reshape(values, [shape[0], shape[1], -1])


def _apply_critic(critic: snt.Module, observations: types.NestedTensor, actions: tf.Tensor) -> Any:
    """Values [T, B] of observations and actions [T, B, ...]."""
    values = recurrence.batch_apply(lambda inputs: critic(*inputs), (observations, actions))
    if not tf.is_tensor(values) or values.shape[2:].num_elements() != 1:
        raise ValueError(
            "SVG0's critic must return one value for each state and action, [B, 1] or [B], got "
            f"{checks.describe(values)} for steps [T, B]."
        )
    return tf.reshape(values, tf.shape(values)[:2])


def _check_batch(data: types.Step) -> tf.Tensor:
    """At trace time, from static shapes. Returns log mu(a_t)."""
    continuous.check_step("SVG0", data)
    leading = tuple(data.reward.shape)
    if (leading[1] or 2) < 2:
        raise ValueError(
            "SVG0 needs sequences of at least 2 steps, the last one for its observation only; "
            f"got [B, T] = {list(leading)}."
        )
    extras = data.extras if isinstance(data.extras, dict) else {}
    if "log_prob" not in extras:
        raise ValueError(
            f"SVG0 needs 'log_prob' in the batch's extras, got {sorted(extras) or data.extras}. "
            "The actor must record, at every step, the log-probability of the action it took."
        )
    scalar = tf.TensorSpec([], tf.float32)
    checks.check_leaves("log_prob", extras["log_prob"], scalar, leading)
    flags = tf.TensorSpec([], tf.bool)
    checks.check_leaves("start_of_episode", data.start_of_episode, flags, leading)
    return extras["log_prob"]
