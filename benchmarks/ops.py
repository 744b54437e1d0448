"""Speed of the backward scan, next to the two usual ways of writing it.

    python -m benchmarks.ops [--batch 32] [--lengths 20 100 1000]

Prints a Markdown table: seconds of the first call (tracing and compiling included) and
microseconds of a later one, for the V-trace recursion alone and with its gradient.
`unrolled` is a Python loop over time, `tf.scan` is what RLlib's and TRFL's V-trace use;
both compute the same recursion, and the results are compared.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

from tfagents_x.ops import scan

# XLA needs many minutes for longer unrolled graphs, which says all there is to say.
_LONGEST_UNROLLED_XLA = 100


def unrolled(deltas: tf.Tensor, decays: tf.Tensor) -> tf.Tensor:
    """The recursion as a Python loop: one set of nodes for every time step."""
    acc, rows = tf.zeros_like(deltas[0]), []
    for t in reversed(range(deltas.shape[0])):
        acc = deltas[t] + decays[t] * acc
        rows.append(acc)
    return tf.stack(rows[::-1])


def tf_scan(deltas: tf.Tensor, decays: tf.Tensor) -> tf.Tensor:
    """The recursion as `tf.scan`: one loop iteration for every time step."""
    return tf.scan(
        lambda acc, row: row[0] + row[1] * acc,
        (deltas, decays),
        initializer=tf.zeros_like(deltas[0]),
        parallel_iterations=1,
        reverse=True,
    )


VERSIONS = {"backward_scan": scan.backward_scan, "tf.scan": tf_scan, "unrolled": unrolled}


def value(fn: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """`fn` with two arguments only: defaults would cost time in each call."""
    return lambda deltas, decays: fn(deltas, decays)


def with_gradient(fn: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """Returns the gradients by deltas and decays of the sum of `fn`, stacked."""

    def wrapped(deltas: tf.Tensor, decays: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch([deltas, decays])
            total = tf.reduce_sum(fn(deltas, decays))
        return tf.stack(tape.gradient(total, [deltas, decays]))

    return wrapped


def steady_seconds(fn: Callable[[], tf.Tensor], budget: float) -> float:
    """Best mean of short runs of calls: other work on the machine only ever adds time."""
    best, end = float("inf"), time.perf_counter() + budget
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(10):
            result = fn()
        result.numpy()
        best = min(best, (time.perf_counter() - start) / 10)
    return best


def warm_up() -> None:
    """Pays what the first trace and the first compilation of a process cost once."""
    for fn in VERSIONS.values():
        tf.function(with_gradient(fn), jit_compile=True)(tf.ones([2, 1]), tf.ones([2, 1]))


def measure(num_steps: int, batch: int, budget: float) -> None:
    """Prints the rows of one sequence length."""
    rng = np.random.default_rng(0)
    deltas = tf.constant(rng.normal(size=(num_steps, batch)), tf.float32)
    decays = tf.constant(rng.uniform(0, 1, size=(num_steps, batch)), tf.float32)
    for gradient in (False, True):
        for jit in (False, True):
            expected = None
            for name, fn in VERSIONS.items():
                label = f"| {num_steps} | {'yes' if gradient else 'no'} | {'yes' if jit else 'no'}"
                if name == "unrolled" and jit and num_steps > _LONGEST_UNROLLED_XLA:
                    print(f"{label} | {name} | not run | not run |", flush=True)
                    continue
                wrap = with_gradient if gradient else value
                compiled = tf.function(wrap(fn), jit_compile=jit)
                start = time.perf_counter()
                result = compiled(deltas, decays).numpy()
                first = time.perf_counter() - start
                expected = result if expected is None else expected
                np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
                steady = steady_seconds(lambda f=compiled: f(deltas, decays), budget)
                print(f"{label} | {name} | {first:.2f} | {steady * 1e6:.0f} |", flush=True)


def main() -> None:
    """Parses the arguments and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lengths", type=int, nargs="+", default=[20, 100, 1000])
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each steady figure")
    args = parser.parse_args()
    print(f"TensorFlow {tf.__version__}, B = {args.batch}, float32\n")
    print("| T | gradient | XLA | version | first call (s) | later calls (us) |")
    print("|--:|---|---|---|--:|--:|")
    warm_up()
    for num_steps in args.lengths:
        measure(num_steps, args.batch, args.seconds)


if __name__ == "__main__":
    main()
