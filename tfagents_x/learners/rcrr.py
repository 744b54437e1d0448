"""Recurrent CRR: critic-regularised regression on sequences, offline or from replay.

Wang et al., 2020, arXiv:2006.15134; `acme.agents.tf.crr.recurrent_learning`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import types
from tfagents_x.learners import base, checks, continuous, saving, targets
from tfagents_x.networks import action_values, batched, cores, distributions, recurrence, stochastic
from tfagents_x.ops import categorical
from tfagents_x.utils import counting, distribute, loggers, nest

_REDUCE = {"mean": tf.reduce_mean, "max": tf.reduce_max, "min": tf.reduce_min}
_MODES = ("exp", "binary", "all")


class RCRRLearner(base.Learner):
    """Learns a policy by regression on the actions of a dataset, weighted by their advantage.

    Batches are `Step`s of [B, T, ...] (bare, or as the data of a `ReplaySample`) with T of
    at least 2: row t holds the observation, the action taken there, and the reward and
    discount that followed. Action, reward and discount of the last row are not used.
    All networks start each sequence from their initial state. The source leaves episode
    boundaries to the dataset: one inside a sequence is treated like any other transition
    (a zero discount cuts the value, nothing cuts the state), unless
    `reset_at_episode_start`.
    """

    _draws = True
    _time_key = "wall_time"

    def __init__(
        self,
        policy_network: snt.RNNCore,
        critic_network: cores.CriticDeepRNN,
        target_policy_network: snt.RNNCore,
        target_critic_network: cores.CriticDeepRNN,
        dataset: Any,
        accelerator_strategy: Optional[tf.distribute.Strategy] = None,
        behavior_network: Optional[snt.Module] = None,
        cwp_network: Optional[snt.Module] = None,
        policy_optimizer: Optional[snt.Optimizer] = None,
        critic_optimizer: Optional[snt.Optimizer] = None,
        discount: float = 0.99,
        target_update_period: int = 100,
        num_action_samples_td_learning: int = 1,
        num_action_samples_policy_weight: int = 4,
        baseline_reduce_function: str = "mean",
        clipping: bool = True,
        policy_improvement_modes: str = "exp",
        ratio_upper_bound: float = 20.0,
        beta: float = 1.0,
        counter: Optional[counting.Counter] = None,
        logger: Optional[loggers.Logger] = None,
        checkpoint: bool = False,
        *,
        max_gradient_norm: float = 40.0,
        reset_at_episode_start: bool = False,
        jit_compile: bool = False,
        prefetch_size: int = 2,
        num_sgd_steps_per_step: int = 1,
        seed: Optional[int] = None,
        directory: str = saving.DIRECTORY,
    ):
        """Positional order and defaults are those of Acme's learner.

        Args:
          policy_network: recurrent core from observations to a multivariate distribution over
            actions, batch [B].
          critic_network: `critic(observation, action, state)` to a
            `DiscreteValuedDistribution`, batch [B], and the next state. A `CriticDeepRNN`
            unrolls fast, any other core of that signature works.
          target_policy_network: another policy of the same make.
          target_critic_network: another critic of the same make.
          dataset: see `base.Learner`.
          accelerator_strategy: see `base.Learner`.
          behavior_network: exported as the snapshot `policy`; not trained.
          cwp_network: exported as the snapshot `cwp_policy`, usually a
            `RecurrentExpQWeightedPolicy` of policy and critic; not trained.
          policy_optimizer: by default Adam with a learning rate of 1e-4.
          critic_optimizer: the same for the critic.
          discount: multiplies the environment's discounts.
          target_update_period: targets are overwritten after updates 1, P + 1, 2 P + 1, ...
          num_action_samples_td_learning: actions that the critic's target averages over.
          num_action_samples_policy_weight: actions that the baseline of the advantage is
            estimated from.
          baseline_reduce_function: how: `'mean'`, `'max'` or `'min'`.
          clipping: whether the two gradients are each clipped to `max_gradient_norm`.
          policy_improvement_modes: the regression's weights: `'exp'`,
            min(exp(advantage / beta), ratio_upper_bound); `'binary'`, 1 if the advantage is
            positive, else 0; `'all'`, 1, which is behaviour cloning.
          ratio_upper_bound: see `'exp'`.
          beta: see `'exp'`.
          counter: see `base.Learner`.
          logger: see `base.Learner`.
          checkpoint: write checkpoints and snapshots, now and then every 30 minutes.
          max_gradient_norm: fixed at 40 in the source.
          reset_at_episode_start: reset all states where `start_of_episode` is True, and leave
            the transitions that lead there out of both losses.
          jit_compile: see `base.Learner`.
          prefetch_size: see `base.Learner`.
          num_sgd_steps_per_step: see `base.Learner`.
          seed: of the sampled actions; see `base.Learner`.
          directory: where `checkpoint` writes; see `saving.PeriodicSaver`.

        Raises:
          TypeError: a network or optimizer is none.
          ValueError: a number is out of range, a mode unknown, or a target differs from its
            online network.
        """
        checks.check_choice("baseline_reduce_function", baseline_reduce_function, _REDUCE)
        checks.check_choice("policy_improvement_modes", policy_improvement_modes, _MODES)
        checks.check_number("discount", discount, 0.0, 1.0)
        checks.check_number("ratio_upper_bound", ratio_upper_bound, *checks.POSITIVE)
        checks.check_number("beta", beta, *checks.POSITIVE)
        checks.check_number("max_gradient_norm", max_gradient_norm, *checks.POSITIVE)
        checks.check_count("num_action_samples_td_learning", num_action_samples_td_learning)
        checks.check_count("num_action_samples_policy_weight", num_action_samples_policy_weight)
        networks = {
            "policy": policy_network,
            "critic": critic_network,
            "target_policy": target_policy_network,
            "target_critic": target_critic_network,
        }
        for name, network in networks.items():
            checks.check_core(f"{name}_network", network)
        checks.check_flag("clipping", clipping)
        checks.check_flag("reset_at_episode_start", reset_at_episode_start)
        strategy = distribute.get_strategy(accelerator_strategy)
        with distribute.scope(strategy):
            policy_optimizer = policy_optimizer or snt.optimizers.Adam(1e-4)
            critic_optimizer = critic_optimizer or snt.optimizers.Adam(1e-4)
        self._critic, self._target_critic = critic_network, target_critic_network
        self._policy, self._target_policy = policy_network, target_policy_network
        self._discount = discount
        self._td_samples = num_action_samples_td_learning
        self._weight_samples = num_action_samples_policy_weight
        self._reduce = _REDUCE[baseline_reduce_function]
        self._mode = policy_improvement_modes
        self._ratio_upper_bound = ratio_upper_bound
        self._beta = beta
        self._reset_at_start = reset_at_episode_start
        limit = max_gradient_norm if clipping else None
        snapshots = {
            "raw_policy": snt.DeepRNN([policy_network, stochastic.StochasticSamplingHead()]),
            "critic": cores.CriticDeepRNN([critic_network, stochastic.StochasticMeanHead()]),
            "policy": behavior_network,
            "cwp_policy": cwp_network,
        }
        snapshots = {name: module for name, module in snapshots.items() if module is not None}
        online, target = targets.pair(
            (critic_network, target_critic_network), (policy_network, target_policy_network)
        )
        super().__init__(
            networks=networks,
            trained={
                "policy": base.Trained(policy_network.trainable_variables, policy_optimizer, limit),
                "critic": base.Trained(critic_network.trainable_variables, critic_optimizer, limit),
            },
            dataset=dataset,
            target_copy=targets.TargetCopy(online, target, target_update_period),
            accelerator_strategy=strategy,
            jit_compile=jit_compile,
            num_sgd_steps_per_step=num_sgd_steps_per_step,
            prefetch_size=prefetch_size,
            counter=counter,
            logger=logger,
            seed=seed,
            saver=saving.PeriodicSaver(directory, snapshots) if checkpoint else None,
        )

    def get_variables(self, names: Sequence[str]) -> list[list[np.ndarray]]:
        """As `base.Learner`; `policy` and `critic` are the *target* networks, as in the source."""
        acting = {"policy": "target_policy", "critic": "target_critic"}
        return super().get_variables([acting.get(name, name) for name in names])

    def _losses(self, data: types.Step) -> base.Losses:
        _check_batch(data, self._reset_at_start)
        starts = data.start_of_episode if self._reset_at_start else None
        data = nest.batch_to_sequence(data._replace(start_of_episode=(), extras=()))
        starts = None if starts is None else tf.transpose(starts)
        before, after = _rows(data, slice(None, -1)), _rows(data, slice(1, None))
        starts_tm1 = None if starts is None else starts[:-1]

        z_tm1, critic_states = self._unroll_critic(before, starts_tm1)
        pi_tm1 = self._unroll_policy(self._policy, before, starts_tm1)
        # The targets never see an episode's first observation: unrolled over one step more than
        # the online networks, they would rely on more than those ever know. So they begin at
        # the row after a start.
        pi_t = self._unroll_policy(self._target_policy, after, starts_tm1)
        seed_t, seed_tm1 = self._seeds(2)
        q_t = self._bootstrap(pi_t, after, starts_tm1, seed_t)

        valid = tf.cast(1.0 if starts is None else ~starts[1:], before.reward.dtype)
        discounts = self._discount * before.discount
        critic_losses = valid * categorical.categorical(z_tm1, before.reward, discounts, q_t)
        weights = tf.stop_gradient(self._weights(z_tm1, pi_tm1, before, critic_states, seed_tm1))
        policy_losses = -valid * weights * pi_tm1.log_prob(before.action)
        # The source sums T - 1 transitions and divides by T.
        mean = lambda x: tf.reduce_sum(tf.reduce_mean(x, axis=1)) / data.reward.shape[0]
        critic_loss, policy_loss = mean(critic_losses), mean(policy_losses)
        return base.Losses(
            {"critic": critic_loss, "policy": policy_loss},
            {
                "critic_loss": critic_loss,
                "policy_loss": policy_loss,
                "policy_loss_coef": mean(valid * weights),
            },
        )

    def _unroll_policy(self, policy: snt.RNNCore, steps: types.Step, starts: Any) -> Any:
        """The policy's distributions, [T, B]; the target's states begin like the online's."""
        state = self._policy.initial_state(batched.batch_size(steps.observation, axis=1))
        distribution, _ = recurrence.unroll(policy, steps.observation, state, starts)
        return continuous.check_policy(distribution, batch_rank=2, actions=steps.action)

    def _unroll_critic(self, steps: types.Step, starts: Any) -> tuple[Any, Any]:
        """The critic's distributions, [T, B], and the states before each step."""
        core, inputs = cores.as_pair(self._critic), (steps.observation, steps.action)
        state = core.initial_state(batched.batch_size(inputs, axis=1))
        values, states = recurrence.unroll(core, inputs, state, starts, return_all_states=True)
        _check_critic(values)
        return values, recurrence.states_before(core, state, states, starts)

    def _bootstrap(self, policy: Any, steps: types.Step, starts: Any, seed: tf.Tensor) -> Any:
        """The target critic's distribution, averaged over actions of the target policy."""
        core, inputs = cores.as_pair(self._target_critic), (steps.observation, steps.action)
        state = self._critic.initial_state(batched.batch_size(inputs, axis=1))
        states = recurrence.unroll_before(core, inputs, state, starts)
        actions = policy.sample(self._td_samples, seed=seed)
        values = _sampled_values(self._target_critic, steps.observation, actions, states)
        _check_critic(values, "target critic")
        # Probabilities are averaged, not logits.
        log_probs = tf.reduce_logsumexp(tf.math.log_softmax(values.logits), axis=0)
        return distributions.DiscreteValuedDistribution(values=values.values, logits=log_probs)

    def _weights(
        self, values: Any, policy: Any, steps: types.Step, states: Any, seed: tf.Tensor
    ) -> tf.Tensor:
        """Weight of each action in the regression, [T, B]."""
        mean = values.mean()
        if self._mode == "all":
            return tf.ones_like(mean)
        actions = policy.sample(self._weight_samples, seed=seed)
        sampled = _sampled_values(self._critic, steps.observation, actions, states)
        advantages = mean - self._reduce(sampled.mean(), axis=0)
        if self._mode == "binary":
            return tf.cast(advantages > 0, mean.dtype)
        return tf.minimum(tf.exp(advantages / self._beta), self._ratio_upper_bound)


def _rows(data: types.Step, rows: slice) -> types.Step:
    return tree.map_structure(lambda x: x[rows], data)


def _sampled_values(critic: Any, observations: Any, actions: Any, states: Any) -> Any:
    """Value distributions of `actions` [N, T, B, ...], each from the state of its step."""
    num_steps = actions.shape[1]
    merge = lambda nested: tree.map_structure(lambda x: snt.merge_leading_dims(x, 2), nested)
    actions = tf.reshape(actions, [actions.shape[0], -1, *actions.shape[3:]])
    values, _ = action_values.evaluate_actions(critic, merge(observations), actions, merge(states))
    split = lambda x: tf.reshape(x, [x.shape[0], num_steps, -1, *x.shape[2:]])
    return batched.map_leaves(split, values)


def _check_critic(values: Any, name: str = "critic") -> None:
    if not isinstance(values, distributions.DiscreteValuedDistribution):
        raise TypeError(
            f"RCRR's {name} must return a DiscreteValuedDistribution, got {values!r}. End it with "
            "networks.DiscreteValuedHead(vmin, vmax, num_atoms)."
        )


def _check_batch(data: types.Step, needs_starts: bool) -> None:
    """At trace time, from static shapes."""
    continuous.check_step("RCRR", data)
    leading = tuple(data.reward.shape)
    if (leading[1] or 2) < 2:
        raise ValueError(
            "RCRR needs sequences of at least 2 steps, the last one for its observation only; "
            f"got [B, T] = {list(leading)}."
        )
    if needs_starts:
        flags = tf.TensorSpec([], tf.bool)
        checks.check_leaves("start_of_episode", data.start_of_episode, flags, leading)
