"""R2D2: recurrent double Q-learning from prioritised sequences, with burnt-in states.

Kapturowski et al., 2019, "Recurrent Experience Replay in Distributed Reinforcement
Learning"; `acme.agents.jax.r2d2` (numbers and metrics) and `acme.agents.tf.r2d2`
(constructor).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import numpy as np
import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import specs, types
from tfagents_x.learners import base, checks, discrete, priorities, saving, targets
from tfagents_x.networks import batched, recurrence
from tfagents_x.ops import nonlinear_bellman
from tfagents_x.ops import priorities as priority_ops
from tfagents_x.utils import counting, distribute, loggers, nest

_HYPERBOLIC = nonlinear_bellman.SIGNED_HYPERBOLIC_PAIR
_RANGES = {
    "discount": (0.0, 1.0),
    "importance_sampling_exponent": (0.0, checks.LARGEST),
    "learning_rate": (0.0, checks.LARGEST),
    "max_priority_weight": (0.0, 1.0),
    "clip_grad_norm": checks.POSITIVE,
    "max_abs_reward": checks.POSITIVE,
}


class R2D2Learner(base.Learner):
    """Learns the action values of a recurrent network from replayed sequences.

    Batches are `ReplaySample`s. `data` is a `Step` of [B, T, ...]: row t holds the
    observation, the action taken there, and the reward and discount that followed; of the
    last row only the observation is used. `extras['core_state']` holds the network's state
    before each step, [B, T, ...], or before the first one, [B, ...]. `info` holds the
    probability and the key of each item, [B].

    Of each sequence, the first `burn_in_length` steps only bring the states of both networks
    up to date. What follows gives, with Q of the online and Q' of the target network, and
    the pair (h, h^-1) in whose scale they are,

        a*_t = argmax_a Q_t(a),    v_t = h^-1(Q'_t(a*_t))
        delta_t = h(n-step return from r_t on, ending in v_{t+n}) - Q_t(a_t)
        loss = mean over the batch of w * sum_t delta_t^2 / 2
        priority = eta max_t |delta_t| + (1 - eta) mean_t |delta_t|

    where the importance weights w = (1 / (probability + 1e-6))^exponent are divided by the
    largest one of the batch, that of all replicas together. As in the sources, an episode's
    end inside a sequence cuts the return, but not the state, and what is behind it counts.
    New priorities go to replay in the background (`PriorityUpdater`).
    """

    def __init__(
        self,
        environment_spec: specs.EnvironmentSpec,
        network: snt.RNNCore,
        target_network: snt.RNNCore,
        burn_in_length: int,
        sequence_length: int,
        dataset: Any,
        reverb_client: Any = None,
        counter: Optional[counting.Counter] = None,
        logger: Optional[loggers.Logger] = None,
        discount: float = 0.99,
        target_update_period: int = 100,
        importance_sampling_exponent: float = 0.2,
        max_replay_size: int = 1_000_000,
        learning_rate: float = 1e-3,
        store_lstm_state: Optional[bool] = None,
        max_priority_weight: float = 0.9,
        n_step: int = 5,
        clip_grad_norm: Optional[float] = None,
        *,
        optimizer: Optional[snt.Optimizer] = None,
        tx_pair: nonlinear_bellman.TxPair = _HYPERBOLIC,
        clip_rewards: bool = False,
        max_abs_reward: float = 1.0,
        use_core_state: Optional[bool] = None,
        accelerator_strategy: Optional[tf.distribute.Strategy] = None,
        jit_compile: bool = False,
        prefetch_size: int = 2,
        num_sgd_steps_per_step: int = 1,
        mask_episode_ends: bool = False,
        checkpoint: bool = False,
        directory: str = saving.DIRECTORY,
        compatibility: str = "acme_jax",
    ):
        """Positional order and defaults are those of Acme's TensorFlow learner.

        Args:
          environment_spec: its action spec must be discrete.
          network: recurrent core from observations to action values [B, A]. Its variables are
            created here if they don't exist yet.
          target_network: another one of the same make. If its variables are created here, they
            begin as copies of the online ones.
          burn_in_length: steps at the start of each sequence that are not learned from.
          sequence_length: T, burn-in included, as Acme's agent passes it. What Acme's learner
            calls so, T - `burn_in_length`, is accepted too. Only compared with the data.
          dataset: see `base.Learner`.
          reverb_client: gets the new priorities, under `priorities.TABLE`: a `reverb.Client`, a
            `reverb.TFClient` or a store of `tfagents_x.replay`; None if nobody wants them.
          counter: see `base.Learner`, as for `logger`.
          logger: see `base.Learner`.
          discount: multiplies the environment's discounts.
          target_update_period: the target is overwritten after updates P, 2 P, ...
          importance_sampling_exponent: 0 for equal weights.
          max_replay_size: accepted for Acme's sake. There it divides all importance weights
            before the largest is made 1, and so has no influence.
          learning_rate: of Adam, whose epsilon is 1e-3; not used if `optimizer` is given.
          store_lstm_state: whether to begin from the recorded states, which is the default, or
            from the network's initial state.
          max_priority_weight: eta above.
          n_step: rewards in the returns; fewer where the sequence ends.
          clip_grad_norm: global norm that gradients are clipped to; None for no clipping.
          optimizer: replaces Adam.
          tx_pair: h and its inverse; `nonlinear_bellman.IDENTITY_PAIR` for plain Q-learning.
          clip_rewards: whether rewards are clipped to +- `max_abs_reward`.
          max_abs_reward: see `clip_rewards`.
          use_core_state: the seed's name for `store_lstm_state`; give one of them.
          accelerator_strategy: see `base.Learner`.
          jit_compile: see `base.Learner`.
          prefetch_size: see `base.Learner`.
          num_sgd_steps_per_step: see `base.Learner`; the largest importance weight is then that
            of the minibatch, on all replicas.
          mask_episode_ends: for sequences that run on into the next episode. The state is reset
            where an episode starts (`start_of_episode`), and errors count as 0 in the row
            before it, which an adder writes for an episode's final observation, and where a
            return would run over a time limit. The sources do neither.
          checkpoint: write checkpoints and snapshots of `network`, now and then every 30
            minutes, as Acme's agent does.
          directory: where `checkpoint` writes; see `saving.PeriodicSaver`.
          compatibility: `'acme_tf'` gives the numbers of Acme's TensorFlow learner:

            - both networks start from the state that the *online* one has after the burn-in,
              through which no gradient flows; by default each is burnt in with its own
              parameters, and the gradient flows through the online one;
            - the target is overwritten after updates 1, P + 1, 2 P + 1, ...;
            - steps whose return is not finite are left out (their error counts as 0), where by
              default they make the update fail;
            - the 1e-6 is not added to the probabilities;
            - wall time is counted as `walltime`.

        Raises:
          TypeError: an argument is of the wrong kind.
          ValueError: the action space isn't discrete, a number is out of range, the burn-in
            is not shorter than the sequence, the target differs from the online network, or
            two arguments contradict each other.
        """
        _check_numbers(
            burn_in_length=burn_in_length,
            sequence_length=sequence_length,
            discount=discount,
            target_update_period=target_update_period,
            importance_sampling_exponent=importance_sampling_exponent,
            max_replay_size=max_replay_size,
            learning_rate=learning_rate if optimizer is None else 0.0,
            max_priority_weight=max_priority_weight,
            n_step=n_step,
            clip_grad_norm=clip_grad_norm,
            max_abs_reward=max_abs_reward,
        )
        discrete.check_environment("R2D2", environment_spec)
        checks.check_flag("clip_rewards", clip_rewards)
        checks.check_flag("mask_episode_ends", mask_episode_ends)
        checks.check_choice("compatibility", compatibility, ("acme_jax", "acme_tf"))
        self._acme_tf = compatibility == "acme_tf"
        if self._acme_tf:
            self._time_key = "walltime"
            _check_acme_tf(tx_pair)
        self._num_actions = environment_spec.actions.num_values
        self._network, self._target_network = network, target_network
        self._burn_in_length = burn_in_length
        self._sequence_length = sequence_length
        self._discount = discount
        self._importance_exponent = importance_sampling_exponent
        self._use_core_state = _either(store_lstm_state, use_core_state)
        self._max_priority_weight = max_priority_weight
        self._n_step = n_step
        self._tx_pair = tx_pair
        self._max_abs_reward = max_abs_reward if clip_rewards else None
        self._mask_episode_ends = mask_episode_ends
        self._observations = environment_spec.observations
        self._priorities: Optional[priorities.PriorityUpdater] = None
        if reverb_client is not None:
            self._priorities = priorities.PriorityUpdater(reverb_client)
        strategy = distribute.get_strategy(accelerator_strategy)
        with distribute.scope(strategy):
            _create_variables(network, target_network, environment_spec.observations)
            optimizer = optimizer or snt.optimizers.Adam(learning_rate, epsilon=1e-3)
        online, target = targets.pair((network, target_network))
        trained = base.Trained(network.trainable_variables, optimizer, clip_grad_norm)
        super().__init__(
            networks={"network": network, "target_network": target_network},
            trained={"network": trained},
            dataset=dataset,
            target_copy=targets.TargetCopy(
                online, target, target_update_period, count_this=not self._acme_tf
            ),
            accelerator_strategy=strategy,
            jit_compile=jit_compile,
            num_sgd_steps_per_step=num_sgd_steps_per_step,
            prefetch_size=prefetch_size,
            counter=counter,
            logger=logger,
            saver=saving.PeriodicSaver(directory, {"network": network}) if checkpoint else None,
        )

    def flush_priorities(self, timeout: Optional[float] = None) -> bool:
        """Waits until replay has all new priorities so far, at most `timeout` seconds.

        Returns:
          Whether nothing is pending any more.
        """
        return self._priorities is None or self._priorities.flush(timeout)

    @property
    def num_failed_priority_updates(self) -> int:
        """Batches whose new priorities did not reach replay; see `PriorityUpdater`."""
        return 0 if self._priorities is None else self._priorities.num_failed

    def _split(self, sample: types.ReplaySample) -> tuple[Any, Any]:
        """Steps and probabilities for the device; keys, of 64 bits, for the host."""
        _check_sample(sample, self._use_core_state)
        info, data = sample.info, sample.data
        steps = types.Step(
            observation=data.observation,
            action=data.action,
            reward=data.reward,
            discount=data.discount,
            start_of_episode=data.start_of_episode if self._mask_episode_ends else (),
            extras=data.extras["core_state"] if self._use_core_state else (),
        )
        return (steps, info.probability), () if self._priorities is None else info.key

    def _after_update(self, kept: Any, per_item: Any) -> None:
        if self._priorities is not None:
            self._priorities.put(self._strategy.experimental_local_results(kept), per_item)

    def _exchange(self, data: Any) -> Any:
        """Importance weights in the place of the probabilities."""
        steps, probability = data
        batch_size, length = discrete.check_step("R2D2", steps).action.shape
        checks.check_leaves(
            "observation", steps.observation, self._observations, (batch_size, length)
        )
        if self._mask_episode_ends:
            flags = tf.TensorSpec([], tf.bool)
            checks.check_leaves(
                "start_of_episode", steps.start_of_episode, flags, (batch_size, length)
            )
        spec = tf.TensorSpec([], tf.float32)
        checks.check_leaves("info.probability", probability, spec, (batch_size,))
        inverse = 1.0 / (probability + (0.0 if self._acme_tf else 1e-6))
        largest = distribute.all_reduce_max(tf.reduce_max(inverse))
        return steps, (inverse / largest) ** self._importance_exponent

    def _losses(self, data: Any) -> base.Losses:
        steps, importance_weights = data
        self._check_length(steps)
        state = self._initial_state(steps)
        steps = nest.batch_to_sequence(steps._replace(extras=()))
        online_q, target_q = self._action_values(steps, state)
        learned = tree.map_structure(lambda x: x[self._burn_in_length :], steps)

        errors = self._td_errors(online_q, target_q, learned)
        if self._mask_episode_ends:
            whole = discrete.whole_returns(learned.start_of_episode, learned.discount, self._n_step)
            errors = tf.where(whole, errors, tf.zeros_like(errors))
        losses = 0.5 * tf.reduce_sum(tf.square(errors), axis=0)
        loss = tf.reduce_mean(importance_weights * losses)
        new_priorities = priority_ops.compute_priority(errors, self._max_priority_weight)
        return base.Losses({"network": loss}, {"loss": loss}, new_priorities)

    def _check_length(self, steps: types.Step) -> None:
        """At trace time: the sequences are as long as was said, and longer than the burn-in."""
        length, burn_in = steps.action.shape[1], self._burn_in_length
        if length - burn_in < 2:
            raise ValueError(
                "R2D2 needs at least 2 steps after the burn-in (the last one only serves as "
                f"bootstrap), got sequences of {length} and burn_in_length = {burn_in}."
            )
        if self._sequence_length not in (length, length - burn_in):
            raise ValueError(
                f"sequence_length = {self._sequence_length}, but the data has sequences of "
                f"{length} steps. Pass that (or {length - burn_in}, without the burn-in)."
            )

    def _initial_state(self, steps: types.Step) -> types.NestedTensor:
        """States [B, ...] that the sequences begin in, the same for both networks."""
        if not self._use_core_state:
            return self._network.initial_state(batched.batch_size(steps.action))
        own = self._network.initial_state(1)
        return discrete.first_states(steps.extras, own, steps.action.shape[0])

    def _action_values(self, steps: types.Step, state: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """Online and target values [T - burn_in_length, B, A] of the steps to learn from."""
        skipped = self._burn_in_length
        inputs = (steps.observation, steps.start_of_episode if self._mask_episode_ends else None)
        if self._acme_tf and skipped:
            rows = lambda part: tree.map_structure(lambda x: None if x is None else x[part], inputs)
            observations, resets = rows(slice(skipped))
            _, state = recurrence.unroll(self._network, observations, state, resets)
            state = tree.map_structure(tf.stop_gradient, state)
            inputs, skipped = rows(slice(skipped, None)), 0

        def learned(network: snt.RNNCore) -> tf.Tensor:
            observations, resets = inputs
            outputs, _ = recurrence.unroll(network, observations, state, resets)
            values = discrete.check_action_values("R2D2", outputs, self._num_actions)
            # Targets are a small difference of large numbers, whatever the network computes in.
            return tf.cast(values[skipped:], tf.float32)

        return learned(self._network), learned(self._target_network)

    def _td_errors(self, online_q: tf.Tensor, target_q: tf.Tensor, steps: types.Step) -> tf.Tensor:
        """[T - 1, B], of action values [T, B, A]; the last row only serves as bootstrap."""
        best_actions = tf.argmax(online_q, axis=-1, output_type=tf.int32)
        rewards = self._clip(steps.reward[:-1])
        discounts = self._discount * steps.discount[:-1]
        if self._acme_tf:
            policy = tf.one_hot(best_actions, self._num_actions, dtype=online_q.dtype)
            _, extra = nonlinear_bellman.transformed_n_step_loss(
                online_q, target_q, steps.action, rewards, discounts, policy, self._n_step
            )
            return extra.errors
        return nonlinear_bellman.transformed_n_step_q_learning(
            q_tm1=online_q[:-1],
            a_tm1=steps.action[:-1],
            target_q_t=target_q[1:],
            a_t=best_actions[1:],
            r_t=rewards,
            discount_t=discounts,
            n=self._n_step,
            tx_pair=self._tx_pair,
        )

    def _clip(self, rewards: tf.Tensor) -> tf.Tensor:
        if self._max_abs_reward is None:
            return rewards
        return tf.clip_by_value(rewards, -self._max_abs_reward, self._max_abs_reward)


def _check_numbers(**numbers: Any) -> None:
    for name, bounds in _RANGES.items():
        checks.check_number(name, numbers[name], *bounds, optional=name == "clip_grad_norm")
    for name, low in (("burn_in_length", 0), ("sequence_length", 2), ("n_step", 1)):
        checks.check_count(name, numbers[name], low)
    for name in ("target_update_period", "max_replay_size"):
        checks.check_count(name, numbers[name])
    if numbers["burn_in_length"] >= numbers["sequence_length"]:
        raise ValueError(
            f"burn_in_length = {numbers['burn_in_length']} leaves nothing to learn from: it must "
            f"be shorter than sequence_length = {numbers['sequence_length']}, the length of the "
            "sequences in replay, burn-in included."
        )


def _check_acme_tf(tx_pair: nonlinear_bellman.TxPair) -> None:
    if tx_pair is not _HYPERBOLIC:
        raise ValueError(
            "compatibility='acme_tf' knows no tx_pair but the default, the signed hyperbolic one. "
            "Leave out one of the two arguments."
        )


def _either(store_lstm_state: Optional[bool], use_core_state: Optional[bool]) -> bool:
    """The value of two names for one thing; True by default."""
    given = {"store_lstm_state": store_lstm_state, "use_core_state": use_core_state}
    given = {name: value for name, value in given.items() if value is not None}
    for name, value in given.items():
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name} must be a bool, got {value!r}.")
    if len(set(given.values())) > 1:
        raise ValueError(
            "store_lstm_state and use_core_state are two names for one thing, got "
            f"{store_lstm_state} and {use_core_state}. Leave out one of them."
        )
    return bool(next(iter(given.values()), True))


def _create_variables(network: Any, target_network: Any, observation_spec: Any) -> None:
    """Makes variables that don't exist yet; those of the target are then copies."""
    discrete.check_core("network", network)
    discrete.check_core("target_network", target_network)
    missing = [core for core in (network, target_network) if not nest.variables_of(core)]
    for core in missing:
        nest.create_variables(core, [observation_spec])
    if target_network in missing:
        online, target = targets.pair((network, target_network))
        targets.check_pairs(online, target)
        for source, copy in zip(online, target):
            copy.assign(source.numpy())


def _check_sample(sample: Any, needs_state: bool) -> None:
    fields = ("observation", "action", "reward", "discount", "extras")
    if not all(hasattr(sample.data, name) for name in fields):
        raise TypeError(
            "R2D2 learns from sequences: the data of its batches must be types.Step of "
            f"[B, T, ...], got a {type(sample.data).__name__}."
        )
    if not (hasattr(sample.info, "key") and hasattr(sample.info, "probability")):
        raise TypeError(
            "R2D2 needs to know how items were drawn: the info of its batches must be a SampleInfo "
            f"with key and probability, [B] each, got {sample.info!r}."
        )
    for name in ("key", "probability"):
        if getattr(sample.info, name) is None:
            raise TypeError(f"info.{name} is None, but must be one for each sequence, [B].")
    extras = sample.data.extras
    if needs_state and not (isinstance(extras, Mapping) and "core_state" in extras):
        raise ValueError(
            "R2D2 needs ['core_state'] in the batch's extras, got "
            f"{sorted(extras) if isinstance(extras, Mapping) else type(extras).__name__}. The "
            "actor must record the network's state before each step; or pass "
            "store_lstm_state=False to begin every sequence from the initial state."
        )
