"""Speed of `RecurrentExpQWeightedPolicy`, next to mapping over the batch.

    python -m benchmarks.samplers [--batch 256] [--samples 16] [--hidden 256] [--seconds 10]

Prints a Markdown table: seconds of the first call (tracing included, networks made anew)
and milliseconds of a later one. `vectorized_map` evaluates N candidates of one batch element
and lets TensorFlow vectorize that over the batch, as Acme does. Of ours there are three
rows: a policy that ends in a sampling head, as Acme builds them; the same inside a module
that hides its layers, so that it is called for all N * B rows; and one that returns a
distribution. At a low temperature, all must pick the same candidate.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any, Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from tfagents_x.networks import cores, distributional, samplers, stochastic

tfd = tfp.distributions

_OBSERVATION, _ACTION, _ATOMS = 32, 6, 51


class Opaque(snt.RNNCore):
    """A core that does what another does, but can't be taken apart."""

    def __init__(self, core: snt.RNNCore):
        super().__init__()
        self._core = core

    def __call__(self, inputs: Any, prev_state: Any) -> Any:
        """One step of the other core."""
        return self._core(inputs, prev_state)

    def initial_state(self, batch_size: Any, **kwargs: Any) -> Any:
        """The other core's."""
        return self._core.initial_state(batch_size, **kwargs)


class Mapped(snt.RNNCore):
    """The sampler as a function of one batch element, mapped over the batch."""

    def __init__(self, policy: Any, critic: Any, beta: float, num_samples: int):
        super().__init__()
        self._policy, self._critic = policy, critic
        self._beta, self._num_samples = beta, num_samples

    def __call__(self, inputs: Any, prev_state: Any) -> Any:
        """[B, ...] and the pair of states -> actions and states."""
        return tf.vectorized_map(self._one, (inputs, prev_state))

    def initial_state(self, batch_size: Any, **kwargs: Any) -> Any:
        """The pair of the networks' states."""
        states = (core.initial_state(batch_size, **kwargs) for core in (self._policy, self._critic))
        return samplers.PolicyCriticRNNState(*states)

    def _one(self, row: Any) -> Any:
        observation, state = tree.map_structure(lambda x: tf.stack([x] * self._num_samples), row)
        actions, policy_state = self._policy(observation, state.policy)
        values, critic_state = self._critic(observation, actions, state.critic)
        index = tfd.Categorical(logits=values.mean() / self._beta).sample()
        states = samplers.PolicyCriticRNNState(policy_state, critic_state)
        return tree.map_structure(lambda x: x[index], (actions, states))


def networks(hidden: int, kind: str) -> tuple[snt.RNNCore, snt.RNNCore]:
    """New policy and critic networks; `kind` is sampling, hidden or distribution."""
    head = distributional.MultivariateNormalDiagHead(_ACTION)
    layers = [snt.nets.MLP([hidden], activate_final=True), snt.LSTM(hidden), head]
    if kind != "distribution":
        layers.append(stochastic.StochasticSamplingHead())
    policy = snt.DeepRNN(layers)
    first = lambda observation, action: tf.concat([observation, action], -1)
    torso = snt.nets.MLP([hidden], activate_final=True)
    values = distributional.DiscreteValuedHead(-10.0, 10.0, _ATOMS)
    critic = cores.CriticDeepRNN([first, torso, snt.LSTM(hidden), values])
    return Opaque(policy) if kind == "hidden" else policy, critic


VERSIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "vectorized_map": (Mapped, "sampling"),
    "ours, sampling head": (samplers.RecurrentExpQWeightedPolicy, "sampling"),
    "ours, layers hidden": (samplers.RecurrentExpQWeightedPolicy, "hidden"),
    "ours, distribution": (samplers.RecurrentExpQWeightedPolicy, "distribution"),
}


def make_inputs(batch: int, hidden: int) -> tuple[tf.Tensor, samplers.PolicyCriticRNNState]:
    """Random observations and states."""
    rng = np.random.default_rng(0)
    normal = lambda size: tf.constant(rng.normal(size=[batch, size]), tf.float32)
    state = lambda: (snt.LSTMState(normal(hidden), normal(hidden)),)
    return normal(_OBSERVATION), samplers.PolicyCriticRNNState(state(), state())


def first_calls(args: argparse.Namespace, inputs: Any) -> tuple[dict[str, Any], dict[str, float]]:
    """Compiled samplers with networks of their own, and the best seconds of their first calls."""
    compiled: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    for _ in range(args.repeats):
        for name, (sampler, kind) in VERSIONS.items():
            policy, critic = networks(args.hidden, kind)
            fn = tf.function(sampler(policy, critic, 1.0, args.samples), jit_compile=args.xla)
            start = time.perf_counter()
            fn(*inputs)[0].numpy()
            spent = time.perf_counter() - start
            seconds[name] = min(spent, seconds.get(name, spent))
            compiled[name] = fn
    return compiled, seconds


def later_calls(compiled: dict[str, Any], inputs: Any, budget: float) -> dict[str, float]:
    """Best seconds of a call, in turns: other work on the machine only ever adds time."""
    best = dict.fromkeys(compiled, float("inf"))
    end = time.perf_counter() + budget
    while time.perf_counter() < end:
        for name, fn in compiled.items():
            start = time.perf_counter()
            fn(*inputs)[0].numpy()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


class Numbered(snt.Module):
    """Gives each row its own fixed noise, so that all versions see the same candidates."""

    def __init__(self, noise: tf.Tensor):
        super().__init__()
        self._noise = noise

    def __call__(self, distribution: tfd.Distribution) -> tf.Tensor:
        """Samples [N * B, A], of which the n-th for each batch element has noise n."""
        loc = distribution.mean()
        copies = tf.shape(loc)[0] // tf.shape(self._noise)[0]
        return loc + distribution.stddev() * tf.repeat(self._noise, copies, axis=0)


def check_agreement(args: argparse.Namespace, inputs: Any) -> None:
    """Asserts that at a low temperature both ways pick the same actions and states."""
    tf.random.set_seed(0)
    policy, critic = networks(args.hidden, "distribution")
    policy = snt.DeepRNN([*policy._layers, Numbered(tf.random.normal([args.samples, _ACTION]))])
    results = []
    for sampler in (Mapped, samplers.RecurrentExpQWeightedPolicy):
        fn = tf.function(sampler(policy, critic, 1e-9, args.samples))
        results.append(tree.flatten(fn(*inputs)))
    # Two candidates may be so close that rounding decides.
    same = np.isclose(*(result[0].numpy() for result in results), atol=1e-4).all(axis=1)
    assert same.mean() > 0.98, f"only {same.mean():.1%} of the picks agree"
    for ours, mapped in zip(*results):
        np.testing.assert_allclose(ours[same], mapped[same], atol=1e-4)
    print(f"\nSame pick at temperature 1e-9: {same.sum()} of {same.size}, with the same states.")


def main() -> None:
    """Parses the arguments and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--xla", action="store_true", help="compile with XLA")
    parser.add_argument("--repeats", type=int, default=3, help="first calls, of which the best")
    parser.add_argument("--seconds", type=float, default=20.0, help="time for the later calls")
    args = parser.parse_args()
    print(f"TensorFlow {tf.__version__}, B = {args.batch}, N = {args.samples}, LSTM {args.hidden}")
    inputs = make_inputs(args.batch, args.hidden)
    compiled, first = first_calls(args, inputs)
    later = later_calls(compiled, inputs, args.seconds)
    print("\n| version | first call (s) | later calls (ms) |\n|---|--:|--:|")
    for name in VERSIONS:
        print(f"| {name} | {first[name]:.2f} | {later[name] * 1e3:.1f} |")
    check_agreement(args, inputs)


if __name__ == "__main__":
    main()
