"""`unroll` against stepping the core: outputs, states, gradients, trace size, errors."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x.networks import recurrence

T, B, D = 7, 3, 4


class Heads(snt.Module):
    """Returns a nest, as policy-value heads do."""

    def __init__(self):
        super().__init__()
        self.a, self.b = snt.Linear(2), snt.Linear(1)

    def __call__(self, x):
        return {"logits": self.a(x), "value": tf.squeeze(self.b(x), -1)}


CORES = {
    "lstm": lambda: snt.LSTM(5),
    "lstm_projected": lambda: snt.LSTM(5, projection_size=3),
    "gru": lambda: snt.GRU(5),
    "vanilla": lambda: snt.VanillaRNN(5),
    "deep": lambda: snt.DeepRNN(
        [snt.Linear(6), tf.nn.relu, snt.LSTM(5), snt.Linear(4), snt.GRU(3), Heads()]
    ),
    "skip": lambda: snt.deep_rnn_with_skip_connections([snt.LSTM(5), snt.LSTM(4)]),
    "residual": lambda: snt.deep_rnn_with_residual_connections([snt.LSTM(D), snt.GRU(D)]),
    "stateless": lambda: snt.DeepRNN([snt.Linear(2)]),
}


def stepwise(core, inputs, state, resets=None):
    outputs = []
    for t in range(T):
        if resets is not None:
            state = recurrence._reset(core, state, resets[t])
        output, state = core(inputs[t], state)
        outputs.append(output)
    return tree.map_structure(lambda *x: tf.stack(x), *outputs), state


def random_state(core):
    rng = tf.random.Generator.from_seed(1)
    return tree.map_structure(lambda s: rng.normal(s.shape), core.initial_state(B))


def value_and_gradients(unroll, core, inputs, state, resets):
    with tf.GradientTape() as tape:
        tape.watch((inputs, state))
        results = unroll(core, inputs, state, resets)
        # Weighted by time and by leaf, so that no two contributions can be exchanged.
        total = tf.add_n(
            [
                (i + 1.0) * tf.reduce_sum(tf.cumsum(tf.sin(x), axis=0))
                for i, x in enumerate(tree.flatten(results))
            ]
        )
    sources = [*core.trainable_variables, inputs, *tree.flatten(state)]
    return results, tape.gradient(total, sources, unconnected_gradients="zero")


@pytest.mark.parametrize("with_resets", [False, True], ids=["", "resets"])
@pytest.mark.parametrize("compiled", ["eager", "graph", "xla"])
@pytest.mark.parametrize("name", CORES)
def test_equals_stepping(name, compiled, with_resets):
    core = CORES[name]()
    inputs = tf.random.Generator.from_seed(0).normal([T, B, D])
    core(inputs[0], core.initial_state(B))
    state = random_state(core)
    resets = None
    if with_resets:
        resets = tf.constant(np.random.default_rng(0).random([T, B]) < 0.3)
    expected = value_and_gradients(stepwise, core, inputs, state, resets)
    run = lambda: value_and_gradients(recurrence.unroll, core, inputs, state, resets)
    if compiled != "eager":
        run = tf.function(run, jit_compile=compiled == "xla", autograph=False)
    actual = run()
    tree.assert_same_structure(expected, actual)
    for want, got in zip(tree.flatten(expected), tree.flatten(actual)):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def nodes(function):
    graph = function.get_concrete_function().graph.as_graph_def()
    return len(graph.node) + sum(len(f.node_def) for f in graph.library.function)


@pytest.mark.parametrize("name", ["lstm", "gru", "deep"])
def test_trace_does_not_grow_with_time(name):
    core = CORES[name]()
    core(tf.zeros([B, D]), core.initial_state(B))

    def size(steps):
        def run():
            with tf.GradientTape() as tape:
                outputs, _ = recurrence.unroll(core, tf.zeros([steps, B, D]), core.initial_state(B))
                total = tf.add_n([tf.reduce_sum(x) for x in tree.flatten(outputs)])
            return tape.gradient(total, core.trainable_variables)

        return nodes(tf.function(run, autograph=False))

    # Both long enough for `tf.zeros` to be an op and not a constant.
    assert size(100) == size(1000)


def test_creates_the_variables_of_an_unused_core():
    for name, make in CORES.items():
        core = make()
        recurrence.unroll(core, tf.zeros([T, B, D]), core.initial_state(B))
        assert core.trainable_variables, name


def test_nested_inputs():
    core = snt.DeepRNN([lambda x: tf.concat([x["a"], x["b"]], -1), snt.LSTM(2)])
    inputs = {"a": tf.ones([T, B, 2]), "b": tf.ones([T, B, 1])}
    outputs, _ = recurrence.unroll(core, inputs, core.initial_state(B))
    assert outputs.shape == (T, B, 2)


def test_errors():
    core = snt.LSTM(2)
    state = core.initial_state(B)
    with pytest.raises(TypeError, match="recurrent core"):
        recurrence.unroll(snt.Linear(2), tf.zeros([T, B, D]), ())
    with pytest.raises(ValueError, match=r"\[T, B, ...\].*\(3,\)"):
        recurrence.unroll(core, tf.zeros([3]), state)
    with pytest.raises(ValueError, match="agree"):
        recurrence.unroll(core, tf.zeros([T, B, D]), state, resets=tf.zeros([T - 1, B], tf.bool))
    with pytest.raises(ValueError, match="at least 1"):
        recurrence.unroll(core, tf.zeros([0, B, D]), state)
    deep = snt.DeepRNN([lambda x: "no tensor"])
    with pytest.raises(TypeError, match="must return tensors"):
        recurrence.unroll(deep, tf.zeros([T, B, D]), deep.initial_state(B))
