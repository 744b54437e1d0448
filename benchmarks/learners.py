"""What a learner costs: first step, updates per second, peak memory, share of the matrix rate.

    python -m benchmarks.learners [impala ...] [--length T] [--batch B]

Every row runs in a process of its own, so that first steps and memory are those of a
user's first call. `acme` rows are the same update in the structure of Acme's
TensorFlow learner (`snt.static_unroll`, V-trace by `tf.scan`, clipping always on,
Sonnet's Adam), written here for comparison.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import time
from typing import Any, Callable

COLUMNS = ("learner", "B", "T", "first step s", "updates/s", "peak GB", "share of sgemm")
HIDDEN, FEATURES, ACTIONS = 256, 64, 8


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("learners", nargs="*", default=["impala", "impala_acme"])
    parser.add_argument("--length", type=int, nargs="*", default=[20, 200])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=8.0)
    arguments = parser.parse_args()
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    context = multiprocessing.get_context("spawn")
    for length in arguments.length:
        for name in arguments.learners:
            with context.Pool(1) as pool:
                row = pool.apply(measure, (name, arguments.batch, length, arguments.seconds))
            cells = [f"{x:.3g}" if isinstance(x, float) else str(x) for x in row.values()]
            print("| " + " | ".join(cells) + " |", flush=True)


def measure(name: str, batch: int, length: int, seconds: float) -> dict[str, Any]:
    """One row of the table, to be run in a fresh process."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    start = time.perf_counter()
    step, flops = globals()[f"make_{name}"](batch, length)
    step()
    first = time.perf_counter() - start - _import_seconds
    for _ in range(3):
        step()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        step()
        count += 1
    rate = count / (time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return dict(zip(COLUMNS, (name, batch, length, first, rate, peak, rate * flops / _sgemm())))


_import_seconds = 0.0


def _import() -> Any:
    """TensorFlow, whose import is not part of anybody's first step."""
    global _import_seconds
    start = time.perf_counter()
    import tensorflow as tf

    from tfagents_x.learners import impala  # noqa: F401

    _import_seconds = time.perf_counter() - start
    return tf


def _sgemm() -> float:
    """FLOP/s of a large float32 matrix product, on all cores."""
    import tensorflow as tf

    size = 2048
    a = tf.random.normal([size, size])
    product = tf.function(lambda: tf.matmul(a, a))
    product()
    start = time.perf_counter()
    for _ in range(5):
        product()
    return 5 * 2 * size**3 / (time.perf_counter() - start)


def _impala_flops(batch: int, length: int) -> float:
    """Products of one update: input, recurrent, heads; forward, and twice that backward."""
    per_step = FEATURES * 4 * HIDDEN + HIDDEN * 4 * HIDDEN + HIDDEN * (ACTIONS + 1)
    # No gradient is needed for the observations.
    return 2.0 * batch * length * (3 * per_step - FEATURES * 4 * HIDDEN)


def _impala_parts(batch: int, length: int) -> tuple[Any, Any, Any]:
    import numpy as np
    import sonnet as snt

    from tfagents_x import specs, types
    from tfagents_x.networks.policy_value import PolicyValueHead

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
    network = snt.DeepRNN([snt.LSTM(HIDDEN), PolicyValueHead(ACTIONS)])
    return network, spec, step


def make_impala(batch: int, length: int) -> tuple[Callable[[], Any], float]:
    """Our learner, fed with the same batch again and again."""
    _import()
    import itertools

    from tfagents_x import types
    from tfagents_x.learners.impala import IMPALALearner
    from tfagents_x.utils import loggers

    network, spec, data = _impala_parts(batch, length)
    learner = IMPALALearner(
        spec,
        network,
        itertools.repeat(types.ReplaySample((), data)),
        1e-3,
        entropy_cost=0.01,
        max_gradient_norm=40.0,
        logger=loggers.NoOpLogger(),
    )
    return lambda: {k: v.numpy() for k, v in learner.step().items()}, _impala_flops(batch, length)


def make_impala_acme(batch: int, length: int) -> tuple[Callable[[], Any], float]:
    """The same update as Acme's TensorFlow learner builds it."""
    tf = _import()
    import sonnet as snt
    import tree

    from tfagents_x.utils import nest

    network, spec, data = _impala_parts(batch, length)
    nest.create_variables(network, [spec.observations])
    optimizer = snt.optimizers.Adam(1e-3)

    @tf.function
    def step(data: Any) -> dict[str, Any]:
        data = nest.batch_to_sequence(data)
        state = tree.map_structure(lambda x: x[0], data.extras["core_state"])
        with tf.GradientTape() as tape:
            (logits, values), _ = snt.static_unroll(network, data.observation, state)
            loss, metrics = _acme_loss(tf, logits, values, data)
        gradients = tape.gradient(loss, network.trainable_variables)
        gradients, _ = tf.clip_by_global_norm(gradients, 40.0)
        optimizer.apply(gradients, network.trainable_variables)
        return metrics

    tensors = tree.map_structure(tf.convert_to_tensor, data)
    return lambda: {k: v.numpy() for k, v in step(tensors).items()}, _impala_flops(batch, length)


def _acme_loss(tf: Any, logits: Any, values: Any, data: Any) -> tuple[Any, dict[str, Any]]:
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


if __name__ == "__main__":
    main()
