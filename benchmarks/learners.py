"""What a learner costs: first step, updates per second, cores, memory, share of the matrix rate.

    python -m benchmarks.learners [impala rcrr_small ...] [--seconds 8] [--no-reference]

Every row runs in a process of its own, so that first steps and memory are those of a
user's first call. Rows of the kind `acme` are the same update in the structure of Acme's
TensorFlow learner, written here for comparison (Acme itself no longer installs). The two
processes of a case take turns, so that both see the same machine.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import resource
import time
from typing import Any, NamedTuple

COLUMNS = (
    *("case", "kind", "B", "T", "first step s", "updates/s", "core-s/update", "peak GB"),
    "share of sgemm",
)


class Case(NamedTuple):
    """A learner at one size.

    Attributes:
      module, name: where `make<name>`, `make<name>_acme` and `<name>_flops` are.
      batch, length: B and T.
      sizes: further arguments.
    """

    module: str
    name: str
    batch: int
    length: int
    sizes: tuple = ()


CASES = {
    "impala": Case("impala", "", 32, 20),
    "impala_long": Case("impala", "", 32, 200),
    "rcrr": Case("control", "rcrr", 32, 20, (256,)),
    "rcrr_long": Case("control", "rcrr", 64, 40, (256,)),
    "rcrr_small": Case("control", "rcrr", 16, 20, (64,)),
    # Acme's default networks.
    "svg0": Case("control", "svg0", 256, 11, ([256, 256, 256], [512, 512, 256])),
    "svg0_small": Case("control", "svg0", 32, 11, ([64, 64], [64, 64])),
    "r2d2": Case("r2d2", "", 32, 40),
    "r2d2_long": Case("r2d2", "", 32, 160),
    # The last number is of updates in one call of `step()`, each on as much of the batch.
    "bc": Case("bc", "", 256, 1, (1,)),
    "bc_16": Case("bc", "", 256, 1, (16,)),
    # Whether actions are discrete. Without a reference: see the module.
    "dreamer_discrete": Case("dreamer", "", 16, 64, (True,)),
    "dreamer_box": Case("dreamer", "", 16, 64, (False,)),
    "dreamer_long": Case("dreamer", "", 16, 128, (True,)),
}
_ROUNDS = 4


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--seconds", type=float, default=8.0, help="of steady running, per row")
    parser.add_argument("--no-reference", action="store_true", help="leave out the acme rows")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.cases) - set(CASES))
    if unknown:
        parser.error(f"unknown case {unknown[0]}; there are {', '.join(CASES)}")
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    kinds = ("ours",) if arguments.no_reference else ("ours", "acme")
    for name in arguments.cases:
        for row in compare(name, kinds, arguments.seconds):
            cells = [f"{x:.3g}" if isinstance(x, float) else str(x) for x in row]
            print("| " + " | ".join(cells) + " |", flush=True)


def compare(name: str, kinds: tuple[str, ...], seconds: float) -> list[tuple]:
    """The rows of one case; first steps one after the other, then turns of steady running."""
    case, context = CASES[name], multiprocessing.get_context("spawn")
    if case.module == "dreamer":
        kinds = ("ours",)
    pools = {kind: context.Pool(1) for kind in kinds}
    try:
        firsts = {k: pool.apply(_first_step, (case, k)) for k, pool in pools.items()}
        times: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
        for _ in range(_ROUNDS):
            for kind, pool in pools.items():
                times[kind] += pool.apply(_run, (seconds / _ROUNDS,))
        peaks = {kind: pool.apply(_peak) for kind, pool in pools.items()}
        rate, flops = pools[kinds[0]].apply(_sgemm), pools[kinds[0]].apply(_flops, (case,))
    finally:
        for pool in pools.values():
            pool.terminate()
    rows = []
    for kind in kinds:
        seconds, busy = (sorted(x)[len(x) // 2] for x in zip(*times[kind]))
        share = flops / rate / seconds
        row = (case.batch, case.length, firsts[kind], 1.0 / seconds, busy, peaks[kind], share)
        rows.append((name, kind, *row))
    return rows


_step: Any = None


def _first_step(case: Case, kind: str) -> float:
    """Makes the learner and runs its first step; seconds, without TensorFlow's import."""
    global _step
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    module = importlib.import_module(f"benchmarks.{case.module}")
    name = "_".join(["make", *filter(None, [case.name]), *(["acme"] if kind == "acme" else [])])
    start = time.perf_counter()
    _step = getattr(module, name)(case.batch, case.length, *case.sizes)
    _step()
    return time.perf_counter() - start


def _run(seconds: float) -> list[tuple[float, float]]:
    """Seconds of each of the steps that fit, at least three; and those of all cores together."""
    times: list[tuple[float, float]] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start, busy = time.perf_counter(), time.process_time()
        _step()
        times.append((time.perf_counter() - start, time.process_time() - busy))
    return times


def _peak() -> float:
    """Resident memory at its highest, GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def _flops(case: Case) -> float:
    """Floating-point operations of the matrix products of one update."""
    module = importlib.import_module(f"benchmarks.{case.module}")
    name = "_".join([*filter(None, [case.name]), "flops"])
    return getattr(module, name)(case.batch, case.length, *case.sizes)


def _sgemm() -> float:
    """FLOP/s of a large float32 matrix product, on all cores."""
    import tensorflow as tf

    size = 2048
    a = tf.random.normal([size, size])
    product = tf.function(lambda: tf.matmul(a, a))
    product()
    times = []
    for _ in range(20):
        start = time.perf_counter()
        product()
        times.append(time.perf_counter() - start)
    return 2 * size**3 / min(times)


if __name__ == "__main__":
    main()
