"""Behaviour cloning as a benchmark case: ours, and the update of Acme's TensorFlow learner.

Both read the same `tf.data.Dataset` of replay samples. The reference takes its batch inside
the update, as Acme does, uses Sonnet's Adam, and counts in a variable.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import sonnet as snt
import tensorflow as tf

from tfagents_x import specs, types, utils
from tfagents_x.learners.bc import BCLearner
from tfagents_x.utils import loggers

Step = Callable[[], Any]
HIDDEN, FEATURES, ACTIONS = (256, 256), 64, 6


def flops(batch: int, length: int, num_sgd_steps: int) -> float:
    """Products of one step: each row of the batch is in one of its updates."""
    del length, num_sgd_steps
    sizes = (FEATURES, *HIDDEN, ACTIONS)
    per_row = sum(a * b for a, b in zip(sizes[:-1], sizes[1:]))
    # No gradient is needed for the observations.
    return 2.0 * batch * (3 * per_row - FEATURES * HIDDEN[0])


def _parts(batch: int) -> tuple[snt.Module, tf.data.Dataset]:
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.normal(size=(batch, *shape)).astype(np.float32)
    transitions = types.Transition(
        observation=normal(FEATURES),
        action=rng.integers(ACTIONS, size=batch).astype(np.int32),
        reward=normal(),
        discount=np.ones(batch, np.float32),
        next_observation=normal(FEATURES),
    )
    network = snt.nets.MLP([*HIDDEN, ACTIONS])
    utils.create_variables(network, [specs.Array((FEATURES,), np.float32)])
    return network, tf.data.Dataset.from_tensors(types.ReplaySample((), transitions)).repeat()


def make(batch: int, length: int, num_sgd_steps: int) -> Step:
    """Our learner; `num_sgd_steps` updates in each step, on as many parts of its batch."""
    del length
    network, dataset = _parts(batch)
    learner = BCLearner(
        network,
        1e-3,
        dataset,
        logger=loggers.NoOpLogger(),
        checkpoint=False,
        num_sgd_steps_per_step=num_sgd_steps,
    )
    return lambda: {k: v.numpy() for k, v in learner.step().items()}


def make_acme(batch: int, length: int, num_sgd_steps: int) -> Step:
    """The same updates as Acme's TensorFlow learner makes them, each in a step of its own."""
    del length
    network, dataset = _parts(batch // num_sgd_steps)
    iterator = iter(dataset.prefetch(2))
    optimizer = snt.optimizers.Adam(1e-3)
    num_steps = tf.Variable(0)

    @tf.function
    def step() -> dict[str, Any]:
        transitions = next(iterator).data
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                transitions.action, network(transitions.observation)
            )
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply(gradients, network.trainable_variables)
        num_steps.assign_add(1)
        return {"loss": loss, "gradient_norm": tf.linalg.global_norm(gradients)}

    def steps() -> dict[str, Any]:
        for _ in range(num_sgd_steps):
            metrics = {k: v.numpy() for k, v in step().items()}
        return metrics

    return steps
