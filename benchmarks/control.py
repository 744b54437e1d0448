"""Recurrent CRR and SVG0 as benchmark cases: ours, and the update as Acme builds it.

The references are the same algorithms in the structure of Acme's TensorFlow learners: a
Python loop over time in the traced update, every network called once per step and sample,
a dense projection, Sonnet's Adam. They are here so that the ratio can be measured anywhere.
"""

from __future__ import annotations

import itertools
from typing import Any, Callable

import numpy as np
import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import networks, specs, types, utils
from tfagents_x.learners.rcrr import RCRRLearner
from tfagents_x.learners.svg0 import SVG0Learner
from tfagents_x.ops import retrace
from tfagents_x.utils import loggers

Step = Callable[[], Any]
FEATURES, ACTIONS, ATOMS = 24, 6, 51
_OBSERVATION = specs.Array((FEATURES,), np.float32)
_ACTION = specs.BoundedArray((ACTIONS,), np.float32, -1.0, 1.0)


def _batch(batch: int, length: int) -> types.Step:
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.normal(size=(batch, length, *shape)).astype(np.float32)
    return types.Step(
        observation=normal(FEATURES),
        action=np.clip(normal(ACTIONS), -1, 1),
        reward=normal(),
        discount=np.ones((batch, length), np.float32),
        start_of_episode=np.zeros((batch, length), bool),
        extras={"log_prob": -5.0 + normal()},
    )


# Recurrent CRR.


def _rcrr_networks(hidden: int) -> dict[str, snt.RNNCore]:
    def policy() -> snt.RNNCore:
        head = networks.MultivariateNormalDiagHead(ACTIONS)
        return networks.DeepRNN([snt.Linear(hidden), tf.nn.elu, snt.LSTM(hidden), head])

    def critic() -> snt.RNNCore:
        first = networks.CriticMultiplexer(snt.Sequential([snt.Linear(hidden), tf.nn.elu]))
        head = networks.DiscreteValuedHead(-150.0, 150.0, ATOMS)
        return networks.CriticDeepRNN([first, snt.LSTM(hidden), head])

    made = {"policy": policy(), "critic": critic()}
    made.update(target_policy=policy(), target_critic=critic())
    for name, network in made.items():
        inputs = [_OBSERVATION, _ACTION] if name.endswith("critic") else [_OBSERVATION]
        utils.create_variables(network, inputs)
    return made


def rcrr_flops(batch: int, length: int, hidden: int) -> float:
    """Matrix products of one update: two online and two target unrolls, two sampled critics."""
    steps = batch * (length - 1)
    core, recurrent = 4 * hidden * hidden, 4 * hidden * hidden
    policy = FEATURES * hidden + core + recurrent + 2 * hidden * ACTIONS
    critic = (FEATURES + ACTIONS) * hidden + core + recurrent + hidden * ATOMS
    # Forward and backward of the online networks; forward of the targets and of 1 + 4 samples,
    # whose recurrent products are shared.
    samples = 5 * (critic - recurrent) + 2 * recurrent
    return 2.0 * steps * (3 * (policy + critic) + policy + critic + samples)


def make_rcrr(batch: int, length: int, hidden: int) -> Step:
    """Our learner."""
    made = _rcrr_networks(hidden)
    learner = RCRRLearner(
        **{f"{name}_network": network for name, network in made.items()},
        dataset=itertools.repeat(_batch(batch, length)),
        logger=loggers.NoOpLogger(),
    )
    return lambda: {k: v.numpy() for k, v in learner.step().items()}


def make_rcrr_acme(batch: int, length: int, hidden: int) -> Step:
    """The step-by-step update."""
    made = _rcrr_networks(hidden)
    optimizers = {name: snt.optimizers.Adam(1e-4) for name in ("critic", "policy")}
    pairs = [(made[n].variables, made[f"target_{n}"].variables) for n in optimizers]
    num_steps = tf.Variable(0)
    data = tree.map_structure(tf.constant, _batch(batch, length))

    @tf.function
    def step(data: types.Step) -> dict[str, tf.Tensor]:
        data = utils.batch_to_sequence(data)
        with tf.GradientTape(persistent=True) as tape:
            losses = _rcrr_loop(made, data, length)
        for name, optimizer in optimizers.items():
            variables = made[name].trainable_variables
            gradients = tape.gradient(losses[f"{name}_loss"], variables)
            optimizer.apply(tf.clip_by_global_norm(gradients, 40.0)[0], variables)
        if num_steps % 100 == 0:
            for online, target in pairs:
                for source, copy in zip(online, target):
                    copy.assign(source)
        num_steps.assign_add(1)
        return losses

    return lambda: {k: v.numpy() for k, v in step(data).items()}


def _rcrr_loop(made: dict[str, Any], data: types.Step, length: int) -> dict[str, tf.Tensor]:
    batch = data.reward.shape[1]
    states = {name: network.initial_state(batch) for name, network in made.items()}
    critic_loss = policy_loss = coefficient = 0.0
    for t in range(1, length):
        o_tm1, a_tm1, o_t = data.observation[t - 1], data.action[t - 1], data.observation[t]
        if t > 1:
            _, states["target_critic"] = made["target_critic"](
                o_tm1, a_tm1, states["target_critic"]
            )
        z_tm1, next_state = made["critic"](o_tm1, a_tm1, states["critic"])
        pi_t, states["target_policy"] = made["target_policy"](o_t, states["target_policy"])
        sampled = _sampled(made["target_critic"], o_t, pi_t.sample(1), states["target_critic"])
        logits = tf.reshape(sampled.logits, [1, batch, ATOMS])
        q_t = tf.nn.softmax(tf.reduce_logsumexp(tf.math.log_softmax(logits), 0))
        values = data.reward[t - 1][:, None] + 0.99 * data.discount[t - 1][:, None] * z_tm1.values
        target = tf.stop_gradient(_dense_projection(values, q_t, z_tm1.values))
        critic_loss += tf.reduce_mean(
            tf.nn.softmax_cross_entropy_with_logits(labels=target, logits=z_tm1.logits)
        )
        pi_tm1, states["policy"] = made["policy"](o_tm1, states["policy"])
        sampled = _sampled(made["critic"], o_tm1, pi_tm1.sample(4), states["critic"])
        baseline = tf.reduce_mean(tf.reshape(sampled.mean(), [4, -1]), 0)
        weights = tf.stop_gradient(tf.minimum(tf.exp(z_tm1.mean() - baseline), 20.0))
        policy_loss += tf.reduce_mean(-pi_tm1.log_prob(a_tm1) * weights)
        coefficient += tf.reduce_mean(weights)
        states["critic"] = next_state
    losses = {
        "critic_loss": critic_loss,
        "policy_loss": policy_loss,
        "policy_loss_coef": coefficient,
    }
    return {name: loss / length for name, loss in losses.items()}


def _sampled(critic: Any, observation: tf.Tensor, actions: tf.Tensor, state: Any) -> Any:
    tiled = utils.tile_nested((observation, state), actions.shape[0])
    merged = tree.map_structure(lambda x: snt.merge_leading_dims(x, 2), (*tiled, actions))
    return critic(merged[0], merged[2], merged[1])[0]


def _dense_projection(values: tf.Tensor, probs: tf.Tensor, support: tf.Tensor) -> tf.Tensor:
    """[B, N] onto an evenly spaced support, by a [B, N, N] array."""
    values = tf.clip_by_value(values, support[0], support[-1])
    distance = tf.abs(values[:, None, :] - support[None, :, None]) / (support[1] - support[0])
    return tf.reduce_sum(tf.maximum(0.0, 1.0 - distance) * probs[:, None, :], 2)


# SVG0.


def _svg0_networks(policy_sizes: list[int], critic_sizes: list[int]) -> dict[str, snt.Module]:
    def policy() -> snt.Module:
        head = networks.MultivariateNormalDiagHead(
            ACTIONS, tanh_mean=True, min_scale=0.3, init_scale=0.7
        )
        torso = networks.LayerNormMLP(policy_sizes, activate_final=True)
        return snt.Sequential([utils.batch_concat, torso, head])

    def critic() -> snt.Module:
        first = networks.CriticMultiplexer(action_network=networks.ClipToSpec(_ACTION))
        torso = networks.LayerNormMLP(critic_sizes, activate_final=True)
        return snt.Sequential([first, torso, networks.NearZeroInitializedLinear(1)])

    made = {"policy": policy(), "critic": critic()}
    made.update(target_policy=policy(), target_critic=critic())
    for name, network in made.items():
        inputs = [_OBSERVATION, _ACTION] if name.endswith("critic") else [_OBSERVATION]
        utils.create_variables(network, inputs)
    return made


def _mlp_flops(inputs: int, sizes: list[int], outputs: int) -> float:
    widths = [inputs, *sizes, outputs]
    return float(sum(a * b for a, b in zip(widths, widths[1:])))


def svg0_flops(
    batch: int, length: int, policy_sizes: list[int], critic_sizes: list[int], samples: int = 10
) -> float:
    """Matrix products of one update."""
    steps = batch * (length - 1)
    policy = _mlp_flops(FEATURES, policy_sizes, 2 * ACTIONS)
    critic = _mlp_flops(FEATURES + ACTIONS, critic_sizes, 1)
    # Online policy and critic forward and backward, target policy and critic forward; target
    # critic on two sets of samples, through one of which the policy's gradient goes.
    per_step = 3 * policy + 3 * critic + policy + critic + samples * (critic + 2 * critic)
    return 2.0 * steps * per_step


def make_svg0(batch: int, length: int, policy_sizes: list[int], critic_sizes: list[int]) -> Step:
    """Our learner."""
    made = _svg0_networks(policy_sizes, critic_sizes)
    learner = SVG0Learner(
        **{f"{name}_network": network for name, network in made.items()},
        discount=0.99,
        target_update_period=100,
        dataset_iterator=itertools.repeat(_batch(batch, length)),
        checkpoint=False,
        logger=loggers.NoOpLogger(),
    )
    return lambda: {k: v.numpy() for k, v in learner.step().items()}


def make_svg0_acme(
    batch: int, length: int, policy_sizes: list[int], critic_sizes: list[int]
) -> Step:
    """The step-by-step update."""
    made = _svg0_networks(policy_sizes, critic_sizes)
    optimizers = {name: snt.optimizers.Adam(1e-4) for name in ("critic", "policy")}
    pairs = [(made[n].variables, made[f"target_{n}"].variables) for n in optimizers]
    num_steps = tf.Variable(0)
    data = tree.map_structure(tf.constant, _batch(batch, length))

    @tf.function
    def step(data: types.Step) -> dict[str, tf.Tensor]:
        if num_steps % 100 == 0:
            for online, target in pairs:
                for source, copy in zip(online, target):
                    copy.assign(source)
        num_steps.assign_add(1)
        data = utils.batch_to_sequence(data)
        with tf.GradientTape(persistent=True) as tape:
            losses = _svg0_loop(made, data, length)
        for name, optimizer in optimizers.items():
            variables = made[name].trainable_variables
            optimizer.apply(tape.gradient(losses[f"{name}_loss"], variables), variables)
        return losses

    return lambda: {k: v.numpy() for k, v in step(data).items()}


def _svg0_loop(made: dict[str, Any], data: types.Step, length: int) -> dict[str, tf.Tensor]:
    rows: list[tuple] = []
    for t in range(length):
        observation, action = data.observation[t], data.action[t]
        pi, target_pi = made["policy"](observation), made["target_policy"](observation)
        samples = pi.sample(10)
        rows.append(
            (
                samples,
                target_pi.sample(10),
                target_pi.log_prob(action),
                pi.log_prob(tf.stop_gradient(samples)),
                made["critic"](observation, action)[:, 0],
                made["target_critic"](observation, action)[:, 0],
            )
        )
    online, target, log_probs, entropy, online_q, target_q = (tf.stack(x) for x in zip(*rows))
    tiled = utils.tile_nested(data.observation, 10)
    merge = lambda x: snt.merge_leading_dims(x, 3)

    def values(samples: tf.Tensor) -> tf.Tensor:
        samples = tf.transpose(samples, [1, 0, 2, 3])
        flat = made["target_critic"](merge(tiled), merge(samples))
        return tf.reduce_mean(tf.reshape(flat, samples.shape[:3]), 0)

    v_t = values(target)
    returns = retrace.retrace_from_importance_weights(
        log_rhos=(log_probs - data.extras["log_prob"])[:-1],
        discounts=0.99 * data.discount[:-1],
        rewards=data.reward[:-1],
        q_values=target_q[:-1],
        values=v_t[:-1],
        bootstrap_value=v_t[-1],
    )
    critic = 0.5 * tf.math.squared_difference(tf.stop_gradient(returns.qs), online_q[:-1])
    policy = -(values(online) - 1e-3 * tf.reduce_mean(entropy, 1))[:-1]
    return {"critic_loss": tf.reduce_mean(critic), "policy_loss": tf.reduce_mean(policy)}
