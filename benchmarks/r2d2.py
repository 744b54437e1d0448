"""R2D2 as a benchmark case: ours, and the update in the structure of Acme's TensorFlow learner.

The reference unrolls by `snt.static_unroll`, twice for the burn-in, and uses Sonnet's Adam.
Its loss is `nonlinear_bellman.transformed_n_step_loss`, which is no slower than Acme's.
"""

from __future__ import annotations

import itertools
from typing import Any, Callable

import numpy as np
import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import specs, types, utils
from tfagents_x.learners.r2d2 import R2D2Learner
from tfagents_x.ops import nonlinear_bellman
from tfagents_x.utils import loggers

Step = Callable[[], Any]
HIDDEN, FEATURES, ACTIONS, BURN_IN = 256, 64, 6, 10


def flops(batch: int, length: int) -> float:
    """Products of one update: both networks forward, the online one also backward."""
    inputs, recurrent, head = FEATURES * 4 * HIDDEN, HIDDEN * 4 * HIDDEN, HIDDEN * ACTIONS
    # No gradient is needed for the observations; the burn-in needs no action values.
    core = length * (4 * (inputs + recurrent) - inputs)
    return 2.0 * batch * (core + (length - BURN_IN) * 4 * head)


def _parts(batch: int, length: int) -> tuple[Any, list, types.ReplaySample]:
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.normal(size=(batch, length, *shape)).astype(np.float32)
    state = snt.LSTMState(hidden=normal(HIDDEN) * 0, cell=normal(HIDDEN) * 0)
    step = types.Step(
        observation=normal(FEATURES),
        action=rng.integers(ACTIONS, size=(batch, length)).astype(np.int32),
        reward=normal(),
        discount=np.ones((batch, length), np.float32),
        start_of_episode=np.zeros((batch, length), bool),
        extras={"core_state": (state,)},
    )
    info = types.SampleInfo(
        key=np.arange(batch, dtype=np.uint64),
        probability=rng.uniform(1e-4, 1e-2, batch),
        table_size=np.full(batch, 1000),
        priority=np.ones(batch),
    )
    spec = specs.EnvironmentSpec(
        specs.Array((FEATURES,), np.float32),
        specs.DiscreteArray(ACTIONS),
        specs.Array((), np.float32),
        specs.BoundedArray((), np.float32, 0.0, 1.0),
    )
    pair = [snt.DeepRNN([snt.LSTM(HIDDEN), snt.Linear(ACTIONS)]) for _ in range(2)]
    return spec, pair, types.ReplaySample(info, step)


def make(batch: int, length: int) -> Step:
    """Our learner, fed with the same batch again and again."""
    spec, pair, sample = _parts(batch, length)
    learner = R2D2Learner(
        *(spec, *pair, BURN_IN, length, itertools.repeat(sample)), logger=loggers.NoOpLogger()
    )
    return lambda: {k: v.numpy() for k, v in learner.step().items()}


def make_acme(batch: int, length: int) -> Step:
    """The same update as Acme's TensorFlow learner builds it."""
    spec, (network, target_network), sample = _parts(batch, length)
    for module in (network, target_network):
        utils.create_variables(module, [spec.observations])
    optimizer = snt.optimizers.Adam(1e-3, epsilon=1e-3)
    num_steps = tf.Variable(0.0)

    @tf.function
    def step(data: Any, probability: Any) -> Any:
        data = utils.batch_to_sequence(data)
        state = tree.map_structure(lambda x: x[0], data.extras["core_state"])
        burn_in = data.observation[:BURN_IN]
        states = [snt.static_unroll(network, burn_in, state, BURN_IN)[1] for _ in range(2)]
        data = tree.map_structure(lambda x: x[BURN_IN:], data._replace(extras=()))
        with tf.GradientTape() as tape:
            q, _ = snt.static_unroll(network, data.observation, states[0], length)
            target_q, _ = snt.static_unroll(target_network, data.observation, states[1], length)
            policy = tf.one_hot(tf.argmax(q, -1), ACTIONS)
            rewards, discounts = data.reward[:-1], 0.99 * data.discount[:-1]
            losses, extra = nonlinear_bellman.transformed_n_step_loss(
                q, target_q, data.action, rewards, discounts, policy, 5
            )
            weights = (1.0 / (1_000_000 * probability)) ** 0.2
            weights /= tf.reduce_max(weights)
            loss = tf.reduce_mean(losses * tf.cast(weights, tf.float32))
        optimizer.apply(
            tape.gradient(loss, network.trainable_variables), network.trainable_variables
        )
        if tf.math.mod(num_steps, 100) == 0:
            for source, copy in zip(network.variables, target_network.variables):
                copy.assign(source)
        num_steps.assign_add(1)
        return loss, extra.errors

    data = tree.map_structure(tf.convert_to_tensor, (sample.data, sample.info.probability))
    return lambda: {"loss": step(*data)[0].numpy()}
