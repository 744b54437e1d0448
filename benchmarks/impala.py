"""IMPALA as a benchmark case: ours, and the update in the structure of Acme's TensorFlow learner.

The reference unrolls by `snt.static_unroll`, scans by `tf.scan`, always clips, and uses
Sonnet's Adam.
"""

from __future__ import annotations

import itertools
from typing import Any, Callable

import numpy as np
import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import networks, specs, types, utils
from tfagents_x.learners.impala import IMPALALearner
from tfagents_x.utils import loggers

Step = Callable[[], Any]
HIDDEN, FEATURES, ACTIONS = 256, 64, 8


def flops(batch: int, length: int) -> float:
    """Products of one update: input, recurrent, heads; forward, and twice that backward."""
    per_step = FEATURES * 4 * HIDDEN + HIDDEN * 4 * HIDDEN + HIDDEN * (ACTIONS + 1)
    # No gradient is needed for the observations.
    return 2.0 * batch * length * (3 * per_step - FEATURES * 4 * HIDDEN)


def _parts(batch: int, length: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.normal(size=(batch, length, *shape)).astype(np.float32)
    state = snt.LSTMState(hidden=normal(HIDDEN) * 0, cell=normal(HIDDEN) * 0)
    step = types.Step(
        observation=normal(FEATURES),
        action=rng.integers(ACTIONS, size=(batch, length)).astype(np.int32),
        reward=normal(),
        discount=np.ones((batch, length), np.float32),
        start_of_episode=np.zeros((batch, length), bool),
        extras={"core_state": (state,), "logits": normal(ACTIONS)},
    )
    spec = specs.EnvironmentSpec(
        specs.Array((FEATURES,), np.float32),
        specs.DiscreteArray(ACTIONS),
        specs.Array((), np.float32),
        specs.BoundedArray((), np.float32, 0.0, 1.0),
    )
    network = snt.DeepRNN([snt.LSTM(HIDDEN), networks.PolicyValueHead(ACTIONS)])
    return network, spec, step


def make(batch: int, length: int) -> Step:
    """Our learner, fed with the same batch again and again."""
    network, spec, data = _parts(batch, length)
    learner = IMPALALearner(
        spec,
        network,
        itertools.repeat(types.ReplaySample((), data)),
        1e-3,
        entropy_cost=0.01,
        max_gradient_norm=40.0,
        logger=loggers.NoOpLogger(),
    )
    return lambda: {k: v.numpy() for k, v in learner.step().items()}


def make_acme(batch: int, length: int) -> Step:
    """The same update as Acme's TensorFlow learner builds it."""
    network, spec, data = _parts(batch, length)
    utils.create_variables(network, [spec.observations])
    optimizer = snt.optimizers.Adam(1e-3)

    @tf.function
    def step(data: Any) -> dict[str, Any]:
        data = utils.batch_to_sequence(data)
        state = tree.map_structure(lambda x: x[0], data.extras["core_state"])
        with tf.GradientTape() as tape:
            (logits, values), _ = snt.static_unroll(network, data.observation, state)
            loss, metrics = _acme_loss(logits, values, data)
        gradients = tape.gradient(loss, network.trainable_variables)
        gradients, _ = tf.clip_by_global_norm(gradients, 40.0)
        optimizer.apply(gradients, network.trainable_variables)
        return metrics

    tensors = tree.map_structure(tf.convert_to_tensor, data)
    return lambda: {k: v.numpy() for k, v in step(tensors).items()}


def _acme_loss(logits: Any, values: Any, data: Any) -> tuple[Any, dict[str, Any]]:
    actions, discounts, rewards = data.action[:-1], 0.99 * data.discount[:-1], data.reward[:-1]
    log_prob = lambda x: -tf.nn.sparse_softmax_cross_entropy_with_logits(actions, x[:-1])
    rhos = tf.minimum(1.0, tf.exp(log_prob(logits) - log_prob(data.extras["logits"])))
    deltas = rhos * (rewards + discounts * values[1:] - values[:-1])
    scanned = tf.scan(
        lambda acc, x: x[0] + x[1] * acc,
        (deltas, discounts * rhos),
        tf.zeros_like(values[-1]),
        reverse=True,
    )
    vs = tf.stop_gradient(values[:-1] + scanned)
    next_vs = tf.concat([vs[1:], values[-1:]], 0)
    advantages = tf.stop_gradient(rhos * (rewards + discounts * next_vs - values[:-1]))
    policy_loss = -tf.reduce_mean(log_prob(logits) * advantages)
    critic_loss = tf.reduce_mean(tf.square(vs - values[:-1]))
    policy = tf.nn.softmax(logits[:-1])
    entropy_loss = tf.reduce_mean(tf.reduce_sum(policy * tf.nn.log_softmax(logits[:-1]), -1))
    loss = policy_loss + critic_loss + 0.01 * entropy_loss
    names = ("loss", "policy_loss", "critic_loss", "entropy_loss")
    return loss, dict(zip(names, (loss, policy_loss, critic_loss, entropy_loss)))
