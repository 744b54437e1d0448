"""`unroll` against stepping the core: outputs, all states, gradients, trace size, errors."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from tests import golden_cases
from tfagents_x.networks import batched, cores, recurrence

tfd = tfp.distributions

pytestmark = pytest.mark.usefixtures("seeded")

T, B, D = 7, 3, 4


class GaussianHead(snt.Module):
    """Returns a distribution."""

    def __init__(self):
        super().__init__()
        self.loc, self.scale = snt.Linear(2), snt.Linear(2)

    def __call__(self, x):
        return tfd.MultivariateNormalDiag(self.loc(x), 0.1 + tf.nn.softplus(self.scale(x)))


class BlackBox(snt.RNNCore):
    """A core that nothing can be known about; its output holds a distribution."""

    def __init__(self):
        super().__init__()
        self.lstm, self.head = snt.LSTM(5), GaussianHead()

    def __call__(self, x, state):
        hidden, lstm_state = self.lstm(x, state["lstm"])
        return (self.head(hidden), hidden[:, 0]), {"lstm": lstm_state, "n": state["n"] + 1}

    def initial_state(self, batch_size):
        return {"lstm": self.lstm.initial_state(batch_size), "n": tf.zeros([batch_size])}


class Halved(snt.LSTM):
    """A subclass that steps in its own way must not be taken for its parent."""

    def __call__(self, x, state):
        hidden, state = super().__call__(x, state)
        return hidden / 2, state


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
    "distribution": lambda: cores.DeepRNN([snt.Linear(6), cores.LSTM(5), GaussianHead()]),
    "black_box": BlackBox,
    "subclass": lambda: Halved(5),
}


def stepwise(core, inputs, state, resets=None):
    results = []
    for t in range(T):
        if resets is not None:
            state = recurrence.reset(core, state, resets[t])
        output, state = core(inputs[t], state)
        results.append((output, state))
    stacked = [tf.stack(x) for x in zip(*[batched.flatten(r) for r in results])]
    return batched.unflatten_as(results[0], stacked)


def all_states(core, inputs, state, resets):
    return recurrence.unroll(core, inputs, state, resets, return_all_states=True)


def random_state(core):
    rng = tf.random.Generator.from_seed(1)
    return tree.map_structure(lambda s: rng.normal(s.shape), core.initial_state(B))


def value_and_gradients(unroll, core, inputs, state, resets):
    with tf.GradientTape() as tape:
        tape.watch((inputs, state))
        outputs, states = unroll(core, inputs, state, resets)
        results = batched.flatten(outputs), states
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
    run = lambda: value_and_gradients(all_states, core, inputs, state, resets)
    if compiled != "eager":
        run = tf.function(run, jit_compile=compiled == "xla", autograph=False)
    actual = run()
    tree.assert_same_structure(expected, actual)
    for want, got in zip(tree.flatten(expected), tree.flatten(actual)):
        # Gradients are sums of some hundred terms of up to 100.
        golden_cases.assert_close(got, want, rtol=1e-5, atol=2e-6, scaled=True)


@pytest.mark.parametrize("name", CORES)
def test_two_halves_equal_the_whole(name):
    core = CORES[name]()
    inputs = tf.random.Generator.from_seed(0).normal([T, B, D])
    core(inputs[0], core.initial_state(B))
    state = random_state(core)
    resets = tf.constant(np.random.default_rng(1).random([T, B]) < 0.3)
    outputs, final = recurrence.unroll(core, inputs, state, resets)
    first, middle = recurrence.unroll(core, inputs[:3], state, resets[:3])
    second, last = recurrence.unroll(core, inputs[3:], middle, resets[3:])
    for want, *halves in zip(*map(batched.flatten, (outputs, first, second))):
        np.testing.assert_allclose(tf.concat(halves, 0), want, rtol=1e-6, atol=1e-6)
    for want, got in zip(tree.flatten(final), tree.flatten(last)):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("with_resets", [False, True], ids=["", "resets"])
def test_states_before(with_resets):
    core = BlackBox()
    inputs = tf.random.Generator.from_seed(0).normal([T, B, D])
    resets = tf.constant(np.random.default_rng(2).random([T, B]) < 0.3) if with_resets else None
    core(inputs[0], core.initial_state(B))
    state = random_state(core)
    (_, outputs), states = all_states(core, inputs, state, resets)
    before = recurrence.states_before(core, state, states, resets)
    again = recurrence.unroll_before(core, inputs, state, resets)
    tree.map_structure(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), before, again)
    one = recurrence.unroll_before(core, inputs[:1], state, resets[:1] if with_resets else None)
    tree.map_structure(lambda a, b: np.testing.assert_allclose(a[:1], b), before, one)
    for t in range(T):
        (_, output), _ = core(inputs[t], tree.map_structure(lambda s, t=t: s[t], before))
        np.testing.assert_allclose(output, outputs[t], rtol=1e-5, atol=1e-6)


def test_unrolls_distributions_as_distributions():
    for name in ("distribution", "black_box"):
        core = CORES[name]()
        outputs, _ = recurrence.unroll(core, tf.ones([T, B, D]), core.initial_state(B))
        distribution = outputs if name == "distribution" else outputs[0]
        assert type(distribution) is tfd.MultivariateNormalDiag
        assert distribution.batch_shape == (T, B) and distribution.sample(4).shape == (4, T, B, 2)


def test_unknown_batch_size():
    core = CORES["distribution"]()
    core(tf.zeros([B, D]), core.initial_state(B))

    @tf.function(input_signature=[tf.TensorSpec([T, None, D])])
    def run(inputs):
        outputs, _ = recurrence.unroll(core, inputs, core.initial_state(tf.shape(inputs)[1]))
        return outputs.mean()

    inputs = tf.random.Generator.from_seed(0).normal([T, B, D])
    want, _ = stepwise(core, inputs, core.initial_state(B))
    np.testing.assert_allclose(run(inputs), want.mean(), rtol=1e-5, atol=1e-6)


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
    assert size(500) == size(1000)


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


class Restarted(snt.LSTM):
    """Begins elsewhere than at zero."""

    def initial_state(self, batch_size, **kwargs):
        zeros = super().initial_state(batch_size, **kwargs)
        return tree.map_structure(lambda s: s + 0.7, zeros)


def test_resets_go_to_the_cores_own_initial_state():
    core, inputs = Restarted(3), tf.random.Generator.from_seed(0).normal([T, B, D])
    resets = tf.constant(np.random.default_rng(0).random([T, B]) < 0.4)
    state = core.initial_state(B)
    want, _ = stepwise(core, inputs, state, resets)
    got, _ = recurrence.unroll(core, inputs, state, resets)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["lstm", "gru", "deep"])
def test_a_reset_ends_what_is_not_finite(name):
    core = CORES[name]()
    inputs = tf.random.Generator.from_seed(0).normal([T, B, D])
    core(inputs[0], core.initial_state(B))
    state = tree.map_structure(lambda s: s * np.nan, core.initial_state(B))
    resets = tf.constant([[True] * B] + [[False] * B] * (T - 1))
    with tf.GradientTape() as tape:
        outputs, _ = recurrence.unroll(core, inputs, state, resets)
        total = tf.add_n([tf.reduce_sum(x) for x in tree.flatten(outputs)])
    for x in [total, *tape.gradient(total, core.trainable_variables)]:
        assert np.isfinite(x).all()


def test_arrays_and_other_containers():
    core = snt.DeepRNN([snt.LSTM(2)])
    inputs, resets = np.ones([T, B, D], np.float32), np.zeros([T, B], bool)
    (state,) = core.initial_state(B)
    plain = [(state.hidden.numpy(), state.cell.numpy())]
    got, last = recurrence.unroll(core, inputs, plain, resets)
    want, _ = recurrence.unroll(core, inputs, (state,))
    np.testing.assert_allclose(got, want)
    assert isinstance(last[0], snt.LSTMState)


BAD_ARGUMENTS = {
    "float resets": ({"resets": np.zeros([T, B], np.float32)}, "resets must be bool.*float32"),
    "resets of rank 3": ({"resets": np.zeros([T, B, 1], bool)}, r"resets must be \[T, B\]"),
    "one reset": ({"resets": True}, r"resets must be \[T, B\]"),
    "inputs of None": ({"inputs": None}, "inputs is no tensor, but a NoneType"),
    "state of None": ({"initial_state": None}, "structure of lstm.initial_state"),
    "state of another batch": (
        {"initial_state": snt.LSTMState(np.zeros([B + 1, 2]), np.zeros([B + 1, 2]))},
        r"initial_state/0|hidden.*shape \(4, 2\)",
    ),
    "state of another width": (
        {"initial_state": snt.LSTMState(*[np.zeros([B, 3], np.float32)] * 2)},
        r"float32 of shape \(3, 3\), but lstm has float32 of shape \(3, 2\)",
    ),
    "states of all steps": (
        {"initial_state": snt.LSTMState(*[np.zeros([T, B, 2], np.float32)] * 2)},
        r"shape \(7, 3, 2\), but lstm has",
    ),
    "float64 state": (
        {"initial_state": snt.LSTMState(*[np.zeros([B, 2])] * 2)},
        "is float64 of shape.*has float32",
    ),
}


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_bad_arguments_are_explained(name):
    changes, message = BAD_ARGUMENTS[name]
    core = snt.LSTM(2)
    arguments = {"inputs": tf.zeros([T, B, D]), "initial_state": core.initial_state(B), **changes}
    with pytest.raises((TypeError, ValueError), match=message):
        recurrence.unroll(core, **arguments)


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
    with pytest.raises(ValueError, match=r"structure of lstm.initial_state.*hidden"):
        recurrence.unroll(core, tf.zeros([T, B, D]), (state, state))
    deep = snt.DeepRNN([lambda x: "no tensor"])
    with pytest.raises(TypeError, match="must return tensors"):
        recurrence.unroll(deep, tf.zeros([T, B, D]), deep.initial_state(B))
