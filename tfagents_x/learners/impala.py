"""IMPALA: actor-critic on queued trajectories, corrected off-policy by V-trace.

Espeholt et al., 2018, arXiv:1802.01561; `acme.agents.jax.impala` (numbers and
metrics) and `acme.agents.tf.impala` (constructor).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import numpy as np
import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import specs, types
from tfagents_x.learners import base, checks
from tfagents_x.networks import recurrence
from tfagents_x.ops import policy_gradient, vtrace
from tfagents_x.utils import counting, distribute, loggers, nest

# Limits of 0 would leave no reward, and no gradient.
_LIMIT = (1e-30, np.inf)
_RANGES = {
    "discount": (0.0, 1.0),
    "learning_rate": (0.0, np.inf),
    "entropy_cost": (-np.inf, np.inf),
    "baseline_cost": (-np.inf, np.inf),
    "max_abs_reward": _LIMIT,
    "max_gradient_norm": _LIMIT,
}


class IMPALALearner(base.Learner):
    """Learns a recurrent policy and its value function from sequences of behaviour.

    Batches are `ReplaySample`s whose `data` is a `Step` of [B, T, ...]: row t holds the
    reward and discount that followed `action[t]`, and `extras` holds
    `'core_state'` (the network's state before each step; only the first is used) and
    `'logits'` (of the policy that chose the actions, [B, T, A]). The last step of a
    sequence serves only as bootstrap.
    """

    def __init__(
        self,
        environment_spec: specs.EnvironmentSpec,
        network: snt.RNNCore,
        dataset: Any,
        learning_rate: float,
        discount: float = 0.99,
        entropy_cost: float = 0.0,
        baseline_cost: float = 1.0,
        max_abs_reward: Optional[float] = None,
        max_gradient_norm: Optional[float] = None,
        counter: Optional[counting.Counter] = None,
        logger: Optional[loggers.Logger] = None,
        *,
        optimizer: Optional[snt.Optimizer] = None,
        accelerator_strategy: Optional[tf.distribute.Strategy] = None,
        jit_compile: bool = False,
        prefetch_size: int = 2,
        num_sgd_steps_per_step: int = 1,
        mask_episode_ends: bool = False,
        compatibility: str = "acme_jax",
    ):
        """Positional order and defaults are those of Acme's TensorFlow learner.

        Args:
          environment_spec: its action spec must be discrete.
          network: recurrent core from observations to `(logits [B, A], value [B])`.
            Its variables are created here if they don't exist yet.
          dataset: see `base.Learner`.
          learning_rate: of Adam; not used if `optimizer` is given.
          discount: multiplies the environment's discounts.
          entropy_cost: weight of the negative entropy in the loss.
          baseline_cost: weight of the squared value error in the loss (there is no 1/2).
          max_abs_reward: rewards are clipped to +- this; None or infinity for no clipping.
          max_gradient_norm: global norm that gradients are clipped to; None for no clipping.
          counter: see `base.Learner`, as for `logger` and the keyword arguments of these names.
          logger: see `base.Learner`.
          optimizer: replaces Adam.
          accelerator_strategy: see `base.Learner`.
          jit_compile: see `base.Learner`.
          prefetch_size: see `base.Learner`.
          num_sgd_steps_per_step: see `base.Learner`.
          mask_episode_ends: for sequences that run on into the next episode. The core's state
            is reset where an episode starts (`start_of_episode`), and the row before it, which
            an adder writes for an episode's final observation, is left out of the loss and of
            the returns. The sources do neither.
          compatibility: `'acme_jax'` reports `loss, policy_loss, critic_loss, entropy_loss,
            entropy, param_norm, param_updates_norm`, the parts of the loss weighted by
            their costs and `entropy` *negative*, as that source does. `'acme_tf'` reports
            `loss, policy_gradient_loss, critic_loss, entropy_loss`, unweighted, and counts
            `walltime`. The update is the same.

        Raises:
          ValueError: the action space isn't discrete, or a number is out of range.
        """
        numbers = {
            "discount": discount,
            "entropy_cost": entropy_cost,
            "baseline_cost": baseline_cost,
            "max_abs_reward": max_abs_reward,
            "max_gradient_norm": max_gradient_norm,
        }
        if optimizer is None:
            numbers["learning_rate"] = learning_rate
        _check_arguments(environment_spec, network, numbers)
        if compatibility not in ("acme_jax", "acme_tf"):
            raise ValueError(
                f"compatibility must be 'acme_jax' or 'acme_tf', got {compatibility!r}."
            )
        self._acme_tf = compatibility == "acme_tf"
        if self._acme_tf:
            self._time_key = "walltime"
        strategy = distribute.get_strategy(accelerator_strategy)
        with distribute.scope(strategy):
            if not nest.variables_of(network):
                nest.create_variables(network, [environment_spec.observations])
            optimizer = optimizer or snt.optimizers.Adam(learning_rate)
        self._network = network
        self._spec = environment_spec
        self._discount = discount
        self._entropy_cost = entropy_cost
        self._baseline_cost = baseline_cost
        self._mask_episode_ends = mask_episode_ends
        self._max_abs_reward = np.inf if max_abs_reward is None else max_abs_reward
        super().__init__(
            networks={"network": network},
            trained={
                "network": base.Trained(network.trainable_variables, optimizer, max_gradient_norm)
            },
            dataset=dataset,
            accelerator_strategy=strategy,
            jit_compile=jit_compile,
            num_sgd_steps_per_step=num_sgd_steps_per_step,
            prefetch_size=prefetch_size,
            update_norms=() if self._acme_tf else ("param_norm", "param_updates_norm"),
            counter=counter,
            logger=logger,
        )

    def _losses(self, data: types.Step) -> base.Losses:
        core_state = _check_batch(data, self._spec, self._network.initial_state(1))
        if self._mask_episode_ends:
            flags = tf.TensorSpec([], tf.bool)
            shape = tuple(data.action.shape)
            checks.check_leaves("start_of_episode", data.start_of_episode, flags, shape)
        data = nest.batch_to_sequence(data._replace(extras=data.extras["logits"]))
        state = tree.map_structure(lambda x: x[:, 0], core_state)
        resets = data.start_of_episode if self._mask_episode_ends else None
        outputs, _ = recurrence.unroll(self._network, data.observation, state, resets)
        _check_outputs(outputs, self._spec.actions.num_values)
        logits, values = outputs

        # The last step has a value to bootstrap from, but no outcome of its own.
        target_logits, v_tm1, bootstrap_value = logits[:-1], values[:-1], values[-1]
        actions = data.action[:-1]
        rewards = self._clip(tf.cast(data.reward[:-1], values.dtype))
        valid = self._valid(data.start_of_episode, rewards)
        behaviour_logits = data.extras[:-1]
        log_rhos = _log_prob(target_logits, actions) - _log_prob(behaviour_logits, actions)
        returns = vtrace.from_importance_weights(
            # With weight 0 a row's target is its own value, which is what the row before needs.
            log_rhos=tf.where(valid, log_rhos, -np.inf),
            discounts=self._discount * tf.cast(data.discount[:-1], values.dtype),
            rewards=rewards,
            values=v_tm1,
            bootstrap_value=bootstrap_value,
        )
        weights = tf.cast(valid, values.dtype)
        policy_loss = tf.reduce_mean(
            policy_gradient.policy_gradient_loss(
                target_logits, actions, returns.pg_advantages, weights
            )
        )
        critic_loss = tf.reduce_mean(tf.math.squared_difference(returns.vs, v_tm1))
        entropy_loss = tf.reduce_mean(policy_gradient.entropy_loss(target_logits, weights))
        loss = policy_loss + self._baseline_cost * critic_loss + self._entropy_cost * entropy_loss
        return base.Losses(
            {"network": loss}, self._metrics(loss, policy_loss, critic_loss, entropy_loss)
        )

    def _valid(self, starts: tf.Tensor, rewards: tf.Tensor) -> tf.Tensor:
        """[T - 1, B], False where the next row belongs to another episode, if that matters."""
        if not self._mask_episode_ends:
            return tf.ones_like(rewards, tf.bool)
        return tf.logical_not(tf.cast(starts[1:], tf.bool))

    def _clip(self, rewards: tf.Tensor) -> tf.Tensor:
        if np.isinf(self._max_abs_reward):
            return rewards
        return tf.clip_by_value(rewards, -self._max_abs_reward, self._max_abs_reward)

    def _metrics(
        self, loss: tf.Tensor, policy: tf.Tensor, critic: tf.Tensor, entropy: tf.Tensor
    ) -> base.Metrics:
        if self._acme_tf:
            return {
                "loss": loss,
                "policy_gradient_loss": policy,
                "critic_loss": critic,
                "entropy_loss": entropy,
            }
        return {
            "loss": loss,
            "policy_loss": policy,
            "critic_loss": self._baseline_cost * critic,
            "entropy_loss": self._entropy_cost * entropy,
            "entropy": entropy,
        }


def _log_prob(logits: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
    return -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=actions, logits=logits)


def _check_arguments(environment_spec: Any, network: Any, numbers: Mapping[str, Any]) -> None:
    if not isinstance(environment_spec, specs.EnvironmentSpec):
        raise TypeError(
            f"environment_spec must be a specs.EnvironmentSpec, got {environment_spec!r}. "
            "specs.make_environment_spec(environment) makes one."
        )
    if not isinstance(environment_spec.actions, specs.DiscreteArray):
        raise ValueError(
            "IMPALA needs one discrete action (specs.DiscreteArray), got "
            f"{environment_spec.actions!r}. Discretise the action space, or use a learner for "
            "continuous control."
        )
    if not isinstance(network, snt.RNNCore):
        raise TypeError(
            f"network must be a recurrent core (snt.RNNCore), got {network!r}. Wrap a "
            "feed-forward one in snt.DeepRNN([network])."
        )
    for name, value in numbers.items():
        checks.check_number(name, value, *_RANGES[name], optional=name.startswith("max_"))


def _check_batch(data: types.Step, spec: specs.EnvironmentSpec, state: Any) -> Any:
    """At trace time, from static shapes. Returns the core state in the structure of `state`."""
    extras = data.extras if isinstance(data.extras, dict) else {}
    missing = {"core_state", "logits"} - set(extras)
    if missing:
        raise ValueError(
            f"IMPALA needs {sorted(missing)} in the batch's extras, got "
            f"{sorted(extras) or data.extras}. The actor must record, at every step, the network's "
            "state before the step and the logits it sampled from."
        )
    if not data.action.dtype.is_integer:
        raise TypeError(f"IMPALA needs integer actions, got {data.action.dtype.name}.")
    leading = tuple(data.action.shape) if data.action.shape.rank == 2 else (None, None)
    if leading[0] == 0 or (leading[1] or 2) < 2:
        raise ValueError(
            "IMPALA needs at least one sequence of at least 2 steps (the last one only serves as "
            f"bootstrap), got [B, T] = {list(leading)}."
        )
    scalar, logits = tf.TensorSpec([], tf.float32), [spec.actions.num_values]
    floats = {"reward": data.reward, "discount": data.discount, "logits": extras["logits"]}
    wanted = {"reward": scalar, "discount": scalar, "logits": tf.TensorSpec(logits, tf.float32)}
    checks.check_leaves("action", data.action, tf.TensorSpec([], data.action.dtype), leading)
    checks.check_leaves("batch", floats, wanted, leading)
    checks.check_leaves("observation", data.observation, spec.observations, leading)
    return _core_state(extras["core_state"], state, leading)


def _core_state(recorded: Any, state: Any, leading: tuple) -> Any:
    """Recorded states [B, T, ...], whatever their containers, in those of the network."""
    leaves = tree.flatten(recorded)
    if len(leaves) != len(tree.flatten(state)):
        raise ValueError(
            f"extras['core_state'] has {len(leaves)} tensors, {checks.describe(recorded)}, but the "
            f"network's state is {checks.describe(state)}."
        )
    recorded = tree.unflatten_as(state, leaves)
    spec = tree.map_structure(lambda x: tf.TensorSpec(x.shape[1:], x.dtype), state)
    checks.check_leaves("core_state", recorded, spec, leading)
    return recorded


def _check_outputs(outputs: Any, num_actions: int) -> None:
    shapes = [x.shape for x in outputs] if isinstance(outputs, tuple) else []
    if len(shapes) != 2 or shapes[0].rank != 3 or shapes[1].rank != 2:
        raise ValueError(
            "IMPALA's network must return (logits [B, A], value [B]), got, for [T, B] steps, "
            f"{checks.describe(outputs)}. networks.policy_value.PolicyValueHead is such a head."
        )
    if shapes[0][-1] != num_actions:
        raise ValueError(
            f"The network has logits for {shapes[0][-1]} actions, the environment {num_actions}."
        )
