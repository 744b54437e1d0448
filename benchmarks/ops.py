"""Speed of the ops that run over time, next to Python loops that compute the same.

    python -m benchmarks.ops [--ops vtrace retrace] [--batch 32] [--lengths 20 100 1000]

Prints a Markdown table: for each op and version the seconds of the first call (tracing and
compiling included) and the microseconds of a later one, for the values alone and for the
gradients of all inputs. `unrolled` is a Python loop: over time, or for n-step returns over
the n rewards, as rlax and Acme have it. `tf.scan` is how RLlib and TRFL compute the
recursion of V-trace. The results of all versions are compared.
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from collections.abc import Mapping
from typing import Any, Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

from tfagents_x.ops import nonlinear_bellman, retrace, returns, scan, transforms, vtrace

Tensors = Mapping[str, tf.Tensor]
Version = Callable[..., tf.Tensor]

_NUM_ACTIONS = 8
_LAMBDA = 0.9
# XLA needs many minutes for longer unrolled graphs, which says all there is to say.
_LONGEST_UNROLLED_XLA = 100


def unrolled(deltas: tf.Tensor, decays: tf.Tensor, acc: Any = 0.0) -> tf.Tensor:
    """The recursion as a Python loop: one set of nodes for every time step."""
    rows = []
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


def vtrace_errors(**inputs: tf.Tensor) -> tf.Tensor:
    """V-trace errors, differentiable in everything."""
    return vtrace.td_error_and_advantage(**inputs, stop_target_gradients=False).errors


def unrolled_vtrace(
    v_tm1: tf.Tensor, v_t: tf.Tensor, r_t: tf.Tensor, discount_t: tf.Tensor, rho_tm1: tf.Tensor
) -> tf.Tensor:
    """V-trace errors, one time step after the other."""
    rhos = tf.minimum(rho_tm1, 1.0)
    return unrolled(rhos * (r_t + discount_t * v_t - v_tm1), discount_t * rhos)


def retrace_targets(**inputs: tf.Tensor) -> tf.Tensor:
    """Retrace targets, differentiable in everything."""
    core = retrace.retrace_core(_LAMBDA, **inputs, stop_targnet_gradients=False)
    return core.extra.target


def unrolled_retrace(
    r_t: tf.Tensor,
    pcont_t: tf.Tensor,
    target_policy_t: tf.Tensor,
    behaviour_policy_t: tf.Tensor,
    targnet_q_t: tf.Tensor,
    a_t: tf.Tensor,
    **_: tf.Tensor,
) -> tf.Tensor:
    """Retrace targets, one time step after the other."""
    pi, q = (tf.gather(x, a_t, batch_dims=2) for x in (target_policy_t, targnet_q_t))
    cs = _LAMBDA * tf.minimum(pi / behaviour_policy_t, 1.0)
    expected = tf.reduce_sum(target_policy_t * targnet_q_t, axis=-1)
    return unrolled(r_t + pcont_t * (expected - cs * q), pcont_t * cs, q[-1])


def unrolled_lambda(r_t: tf.Tensor, discount_t: tf.Tensor, v_t: tf.Tensor) -> tf.Tensor:
    """Lambda returns, one time step after the other."""
    deltas = r_t + discount_t * (1.0 - _LAMBDA) * v_t
    return unrolled(deltas, discount_t * _LAMBDA, v_t[-1])


def whole_sequence(fn: Version) -> Version:
    """`fn` with n = T."""
    return lambda **inputs: fn(**inputs, n=inputs["r_t"].shape[0])


def unrolled_n_step(r_t: tf.Tensor, discount_t: tf.Tensor, v_t: tf.Tensor, n: int) -> tf.Tensor:
    """n-step returns of all steps, one reward after the other."""
    num_steps = r_t.shape[0]
    last = tf.repeat(v_t[-1:], min(n - 1, num_steps), axis=0)
    targets = tf.concat([v_t[n - 1 :], last], axis=0)
    r_t = tf.pad(r_t, [[0, n - 1], [0, 0]])
    discount_t = tf.pad(discount_t, [[0, n - 1], [0, 0]], constant_values=1.0)
    for i in reversed(range(n)):
        targets = r_t[i : i + num_steps] + discount_t[i : i + num_steps] * targets
    return targets


def q_learning(**inputs: tf.Tensor) -> tf.Tensor:
    """Errors of transformed 5-step Q-learning, differentiable in everything."""
    return nonlinear_bellman.transformed_n_step_q_learning(
        **inputs,
        n=5,
        stop_target_gradients=False,
        tx_pair=nonlinear_bellman.SIGNED_HYPERBOLIC_PAIR,
    )


def unrolled_q_learning(
    q_tm1: tf.Tensor,
    a_tm1: tf.Tensor,
    target_q_t: tf.Tensor,
    a_t: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
) -> tf.Tensor:
    """The same, one reward after the other."""
    v_t = transforms.signed_parabolic(tf.gather(target_q_t, a_t, batch_dims=2))
    targets = transforms.signed_hyperbolic(unrolled_n_step(r_t, discount_t, v_t, 5))
    return targets - tf.gather(q_tm1, a_tm1, batch_dims=2)


STEPS = ("r_t", "discount_t", "v_t")
# Inputs by name, and the versions.
OPS: dict[str, tuple[tuple[str, ...], dict[str, Version]]] = {
    "backward_scan": (
        ("deltas", "decays"),
        {"ours": scan.backward_scan, "unrolled": unrolled, "tf.scan": tf_scan},
    ),
    "vtrace": (
        ("v_tm1", "v_t", "r_t", "discount_t", "rho_tm1"),
        {"ours": vtrace_errors, "unrolled": unrolled_vtrace},
    ),
    "retrace": (
        (
            *("q_tm1", "a_tm1", "r_t", "pcont_t", "target_policy_t"),
            *("behaviour_policy_t", "targnet_q_t", "a_t"),
        ),
        {"ours": retrace_targets, "unrolled": unrolled_retrace},
    ),
    "lambda returns": (
        STEPS,
        {
            "ours": functools.partial(returns.lambda_returns, lambda_=_LAMBDA),
            "unrolled": unrolled_lambda,
        },
    ),
    "n-step, n = 5": (
        STEPS,
        {
            "ours": functools.partial(returns.n_step_bootstrapped_returns, n=5),
            "unrolled": functools.partial(unrolled_n_step, n=5),
        },
    ),
    "n-step, n = T": (
        STEPS,
        {
            "ours": whole_sequence(returns.n_step_bootstrapped_returns),
            "unrolled": whole_sequence(unrolled_n_step),
        },
    ),
    "5-step Q-learning": (
        ("q_tm1", "a_tm1", "target_q_t", "a_t", "r_t", "discount_t"),
        {"ours": q_learning, "unrolled": unrolled_q_learning},
    ),
}


def make_inputs(names: tuple[str, ...], num_steps: int, batch: int) -> Tensors:
    """Random numbers that fit the names."""
    rng = np.random.default_rng(0)
    rows = (num_steps, batch)

    def make(name: str) -> tf.Tensor:
        if name.startswith("a_"):
            return tf.constant(rng.integers(0, _NUM_ACTIONS, rows), tf.int32)
        if name == "target_policy_t":
            return tf.nn.softmax(tf.constant(rng.normal(size=(*rows, _NUM_ACTIONS)), tf.float32))
        if "q_t" in name:
            return tf.constant(rng.normal(size=(*rows, _NUM_ACTIONS)), tf.float32)
        positive = name in ("decays", "discount_t", "pcont_t", "behaviour_policy_t", "rho_tm1")
        return tf.constant(rng.uniform(0.1 if positive else -1.0, 1.0, rows), tf.float32)

    return {name: make(name) for name in names}


def values(fn: Version) -> Callable[[Tensors], Any]:
    """`fn` of one argument, the dictionary of its inputs."""
    return lambda inputs: fn(**inputs)


def gradients(fn: Version) -> Callable[[Tensors], Any]:
    """The gradients of the sum of `fn` by its inputs, as far as it depends on them."""

    def wrapped(inputs: Tensors) -> Any:
        floats = {name: x for name, x in inputs.items() if x.dtype.is_floating}
        with tf.GradientTape() as tape:
            tape.watch(floats)
            total = tf.reduce_sum(fn(**inputs))
        return {k: g for k, g in tape.gradient(total, floats).items() if g is not None}

    return wrapped


def steady_seconds(fn: Callable[[], Any], budget: float) -> float:
    """Best mean of short runs of calls: other work on the machine only ever adds time."""
    best, end = float("inf"), time.perf_counter() + budget
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(10):
            result = fn()
        tf.nest.map_structure(lambda x: x.numpy(), result)
        best = min(best, (time.perf_counter() - start) / 10)
    return best


def warm_up() -> None:
    """Pays what the first trace and the first compilation of a process cost once."""
    names, versions = OPS["backward_scan"]
    for fn in versions.values():
        tf.function(gradients(fn), jit_compile=True, autograph=False)(make_inputs(names, 2, 1))


def measure(op: str, num_steps: int, batch: int, budget: float) -> None:
    """Prints the rows of one op and one sequence length."""
    names, versions = OPS[op]
    inputs = make_inputs(names, num_steps, batch)
    for wrap in (values, gradients):
        for jit in (False, True):
            mode = f"{'gradient' if wrap is gradients else 'value'}{', XLA' if jit else ''}"
            expected = None
            for version, fn in versions.items():
                label = f"| {op} | {num_steps} | {mode} | {version} |"
                if version == "unrolled" and jit and num_steps > _LONGEST_UNROLLED_XLA:
                    print(f"{label} not run | not run |", flush=True)
                    continue
                compiled = tf.function(wrap(fn), jit_compile=jit, autograph=False)
                start = time.perf_counter()
                result = tf.nest.map_structure(lambda x: x.numpy(), compiled(inputs))
                first = time.perf_counter() - start
                expected = result if expected is None else expected
                tf.nest.map_structure(
                    functools.partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-3),
                    result,
                    expected,
                )
                steady = steady_seconds(lambda f=compiled: f(inputs), budget)
                print(f"{label} {first:.2f} | {steady * 1e6:.0f} |", flush=True)


def main() -> None:
    """Parses the arguments and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", nargs="+", choices=list(OPS), default=list(OPS))
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lengths", type=int, nargs="+", default=[20, 100, 1000])
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each steady figure")
    args = parser.parse_args()
    print(f"TensorFlow {tf.__version__}, B = {args.batch}, float32\n")
    print("| op | T | what | version | first call (s) | later calls (us) |")
    print("|---|--:|---|---|--:|--:|")
    warm_up()
    for op in args.ops:
        for num_steps in args.lengths:
            measure(op, num_steps, args.batch, args.seconds)


if __name__ == "__main__":
    main()
