"""IMPALA: actor-critic on queued trajectories, corrected off-policy by V-trace.

Espeholt et al., 2018, arXiv:1802.01561; `acme.agents.jax.impala` (numbers and
metrics) and `acme.agents.tf.impala` (constructor).
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import specs, types
from tfagents_x.learners import base
from tfagents_x.networks import recurrence
from tfagents_x.ops import policy_gradient, vtrace
from tfagents_x.utils import counting, distribute, loggers, nest


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
        _check_arguments(environment_spec, discount, max_abs_reward, max_gradient_norm)
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
        self._num_actions = environment_spec.actions.num_values
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
        _check_batch(data, self._num_actions)
        data = nest.batch_to_sequence(data)
        state = tree.map_structure(lambda x: x[0], data.extras["core_state"])
        resets = data.start_of_episode if self._mask_episode_ends else None
        (logits, values), _ = recurrence.unroll(self._network, data.observation, state, resets)

        # The last step has a value to bootstrap from, but no outcome of its own.
        target_logits, v_tm1, bootstrap_value = logits[:-1], values[:-1], values[-1]
        actions = data.action[:-1]
        rewards = self._clip(tf.cast(data.reward[:-1], values.dtype))
        valid = self._valid(data.start_of_episode, rewards)
        log_rhos = _log_prob(target_logits, actions) - _log_prob(
            data.extras["logits"][:-1], actions
        )
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


def _check_arguments(
    environment_spec: specs.EnvironmentSpec,
    discount: float,
    max_abs_reward: Optional[float],
    max_gradient_norm: Optional[float],
) -> None:
    actions = environment_spec.actions
    if not isinstance(actions, specs.DiscreteArray):
        raise ValueError(
            f"IMPALA needs one discrete action (specs.DiscreteArray), got {actions!r}. "
            "Discretise the action space, or use a learner for continuous control."
        )
    if not 0.0 <= discount <= 1.0:
        raise ValueError(f"discount must be in [0, 1], got {discount}.")
    for name, value in {
        "max_abs_reward": max_abs_reward,
        "max_gradient_norm": max_gradient_norm,
    }.items():
        if value is not None and not value > 0:
            raise ValueError(f"{name} must be positive or None, got {value}.")


def _check_batch(data: types.Step, num_actions: int) -> None:
    """At trace time, from static shapes; the loss below can then rely on them."""
    extras = data.extras if isinstance(data.extras, dict) else {}
    missing = {"core_state", "logits"} - set(extras)
    if missing:
        raise ValueError(
            f"IMPALA needs {sorted(missing)} in the batch's extras, got "
            f"{sorted(extras) or data.extras}. The actor must record, at every step, the network's "
            "state before the step and the logits it sampled from."
        )
    if not data.action.dtype.is_integer:
        raise TypeError(f"IMPALA needs integer actions, got {data.action.dtype}.")
    shapes = {
        "action": data.action.shape,
        "reward": data.reward.shape,
        "discount": data.discount.shape,
        "logits": extras["logits"].shape[:-1],
    }
    if any(s.rank != 2 or not s.is_compatible_with(data.action.shape) for s in shapes.values()):
        listed = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        raise ValueError(f"IMPALA needs leaves that agree on [B, T], got {listed}.")
    if extras["logits"].shape[-1] != num_actions:
        raise ValueError(
            f"The environment has {num_actions} actions, the recorded logits are for "
            f"{extras['logits'].shape[-1]}."
        )
    if data.action.shape[1] is not None and data.action.shape[1] < 2:
        raise ValueError(
            f"IMPALA needs sequences of at least 2 steps (the last one only serves as bootstrap), "
            f"got [B, T] = {tuple(data.action.shape)}."
        )
