"""DiscreteValuedDistribution: Acme's numbers, and passing through everything TensorFlow has."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp

from tests import golden_cases
from tests.ops import modes
from tfagents_x.networks.distributions import DiscreteValuedDistribution, ForwardedMode

tfd, tfb = tfp.distributions, tfp.bijectors

CASES = golden_cases.load("ops_categorical", "discrete_valued__")
STATISTICS = ("mean", "variance", "entropy", "log_prob")


def floats(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def atoms(*shape):
    """[*components, N], other ones for every component."""
    steps = np.linspace(-1, 1, shape[-1], dtype=np.float32)
    factors = np.arange(1, 1 + np.prod(shape[:-1], dtype=int), dtype=np.float32)
    return factors.reshape(*shape[:-1], 1) * steps


# ---- Golden values ----


@modes.with_gradients(grad=list(STATISTICS), **{f"grad_{name}": [name] for name in STATISTICS})
def statistics(index, **parameters):
    dist = DiscreteValuedDistribution(**parameters)
    found = {name: getattr(dist, name)() for name in ("mean", "variance", "entropy", "mode")}
    return {**found, "log_prob": dist.log_prob(index)}


@modes.all_modes
@pytest.mark.parametrize("case", CASES, ids=golden_cases.ids)
def test_discrete_valued(case, mode):
    outputs, gradients = modes.run(mode, statistics, case.under("in"))
    for key, expected in case.under("out").items():
        field, _, parameter = key.partition(".")
        if parameter:
            found = gradients[field][parameter]
            golden_cases.assert_close(found, expected, rtol=1e-4, atol=2e-5)
        elif field == "mode":
            assert outputs[field].dtype == tf.int32
            np.testing.assert_array_equal(outputs[field], expected)
        else:
            golden_cases.assert_close(outputs[field], expected, rtol=1e-5, atol=1e-5)


# ---- Samples, values and positions ----


@pytest.mark.parametrize("batch", [(), (4,), (4, 2)])
@pytest.mark.parametrize("components", [(), (3,), (2, 3)])
@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_shapes(batch, components, kind):
    parameter = np.abs(floats(*batch, *components, 5))
    dist = DiscreteValuedDistribution(atoms(*components, 5), **{kind: parameter})
    assert dist.batch_shape == batch and dist.event_shape == components
    np.testing.assert_array_equal(dist.batch_shape_tensor(), batch)
    np.testing.assert_array_equal(dist.event_shape_tensor(), components)
    for name in ("mean", "variance", "stddev", "mode", "entropy", "sample"):
        assert getattr(dist, name)().shape == batch + components, name
    sample = dist.sample([6, 7])
    assert sample.shape == (6, 7, *batch, *components)
    assert dist.log_prob(dist.index_of(sample)).shape == sample.shape
    assert dist.stddev().numpy() == pytest.approx(np.sqrt(dist.variance()))


@modes.all_modes
def test_samples_follow_the_probabilities(mode):
    """Of each component, on its own atoms."""
    values = atoms(2, 4) + np.array([[0], [10]], np.float32)
    logits = floats(3, 2, 4)

    def draw():
        return DiscreteValuedDistribution(values, logits=logits).sample(20000)

    tf.random.set_seed(1)
    samples = modes.MODES[mode](draw)().numpy()
    assert samples.dtype == np.float32
    hits = samples[..., None] == values
    assert hits.any(-1).all()
    np.testing.assert_allclose(hits.mean(0), tf.nn.softmax(logits), atol=0.02)


def test_index_of_is_the_inverse_of_value_of():
    dist = DiscreteValuedDistribution(atoms(3, 5), logits=floats(3, 5))
    index = np.random.default_rng(0).integers(5, size=[6, 7, 3])
    values = dist.value_of(index)
    expected = [[[atoms(3, 5)[c, row[c]] for c in range(3)] for row in rows] for rows in index]
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(dist.index_of(values), index)
    np.testing.assert_array_equal(dist.index_of(values + 0.1), index)  # the nearest one


def test_probabilities_of_positions():
    probs = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    dist = DiscreteValuedDistribution(atoms(4), probs=probs)
    for index in (2, np.int64(2), tf.constant(2), tf.constant(2, tf.int64)):
        np.testing.assert_allclose(dist.prob(index), 0.3, rtol=1e-5)
        np.testing.assert_allclose(dist.cdf(index), 0.6, rtol=1e-5)


def test_divergence():
    p, q = (DiscreteValuedDistribution(atoms(3, 5), logits=floats(4, 3, 5, seed=s)) for s in (0, 1))
    log_p, log_q = (tf.nn.log_softmax(d.logits).numpy() for d in (p, q))
    expected = (np.exp(log_p) * (log_p - log_q)).sum(-1)
    np.testing.assert_allclose(tfd.kl_divergence(p, q), expected, rtol=1e-4)


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_other_dtypes(dtype):
    dist = DiscreteValuedDistribution(atoms(5), logits=tf.cast(floats(4, 5), dtype))
    assert dist.values.dtype == dist.mean().dtype == dist.sample().dtype == dtype
    expected = DiscreteValuedDistribution(atoms(5), logits=floats(4, 5)).mean()
    np.testing.assert_allclose(tf.cast(dist.mean(), tf.float32), expected, atol=0.02)


# ---- What it passes through ----


def make(*batch, kind="logits", seed=0):
    parameter = np.abs(floats(*batch, 3, 5, seed=seed))
    return DiscreteValuedDistribution(atoms(3, 5), **{kind: parameter})


def assert_same(found, expected):
    assert type(found) is DiscreteValuedDistribution
    assert (found.logits is None) == (expected.logits is None)
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.logits_parameter(), expected.logits_parameter())


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_functions_take_and_return_it(kind):
    traces = []

    @tf.function
    def same(dist):
        traces.append(dist)
        return dist, dist.mean()

    for seed in (0, 1):
        dist = make(4, kind=kind, seed=seed)
        found, mean = same(dist)
        assert_same(found, dist)
        np.testing.assert_allclose(mean, dist.mean(), rtol=1e-6)
    assert len(traces) == 1
    assert_same(tf.function(same, jit_compile=True)(dist)[0], dist)


def test_gradients_cross_functions():
    logits = tf.constant(floats(4, 5))
    make_dist = tf.function(lambda x: DiscreteValuedDistribution(atoms(5), logits=x))
    with tf.GradientTape() as tape:
        tape.watch(logits)
        mean = make_dist(logits).mean()
    p = tf.nn.softmax(logits).numpy()
    expected = p * (atoms(5) - (p * atoms(5)).sum(-1, keepdims=True))
    np.testing.assert_allclose(tape.gradient(mean, logits), expected, rtol=1e-4, atol=1e-6)


def test_it_is_a_nest_of_tensors():
    dist = make(4)
    assert tf.nest.flatten(dist) == [dist]
    values, logits = sorted(
        tf.nest.flatten(dist, expand_composites=True), key=lambda t: t.shape.rank
    )
    assert values.shape == (3, 5) and logits.shape == (4, 3, 5)
    doubled = tf.nest.map_structure(lambda x: 2 * x, dist, expand_composites=True)
    np.testing.assert_array_equal(doubled.values, 2 * dist.values)
    assert tfp.experimental.as_composite(dist) is dist


def test_loops_carry_it():
    def body(i, dist):
        return i + 1, dist.copy(logits=dist.logits + tf.cast(i, tf.float32))

    start = make(4)
    for loop in (tf.while_loop, tf.function(tf.while_loop)):
        found = loop(lambda i, dist: i < 3, body, [0, start])[1]
        np.testing.assert_allclose(found.logits, start.logits + 3, rtol=1e-6)
        np.testing.assert_array_equal(found.values, start.values)


def test_branches_return_it():
    choose = tf.function(lambda yes, a, b: tf.cond(yes, lambda: a, lambda: b))
    a, b = make(4), make(4, seed=1)
    assert_same(choose(tf.constant(False), a, b), b)


@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize(
    "key", [0, np.s_[1:3], np.s_[:, 1], np.s_[..., 0], np.s_[None, :, ::-1], np.s_[1, 0]], ids=str
)
def test_slices_are_those_of_the_batch(key, kind):
    dist = make(4, 2, kind=kind)
    part = dist[key]
    parameter = getattr(part, kind)
    batch = np.empty([4, 2])[key].shape
    assert part.batch_shape == batch and parameter.shape == (*batch, 3, 5)
    np.testing.assert_array_equal(part.values, dist.values)
    expected = getattr(dist, kind).numpy()
    axes = [expected[..., i, n][key] for i in range(3) for n in range(5)]
    np.testing.assert_array_equal(parameter, np.stack(axes, -1).reshape(parameter.shape))
    assert part[...].batch_shape == batch
    assert part.copy(name="other").name == "other"


def test_it_is_made_again_from_its_parameters():
    dist = make(4, kind="probs")
    tensors = {k: v for k, v in dist.parameters.items() if tf.is_tensor(v)}
    assert set(tensors) == {"values", "probs"}
    assert_same(type(dist)(**tensors), dist)
    assert_same(dist.copy(), dist)


def test_properties_of_parameters():
    dist = make(4, 2)
    properties = dist.parameter_properties(dtype=dist.dtype)
    found = {name: p.instance_event_ndims(dist) for name, p in properties.items()}
    assert found == {"values": 2, "logits": 2, "probs": 2}
    assert all(p.is_tensor for p in properties.values())


def test_broadcasting_leaves_the_atoms_alone():
    components = DiscreteValuedDistribution(atoms(5), logits=floats(4, 5))
    wide = tfd.BatchBroadcast(components, with_shape=[3, 1])
    assert wide.batch_shape == (3, 4)
    np.testing.assert_allclose(wide.mean()[1], components.mean(), rtol=1e-6)


def test_batch_apply():
    def head(x):
        return DiscreteValuedDistribution(atoms(5), logits=x)

    inputs = tf.constant(floats(4, 2, 5))
    means = snt.BatchApply(lambda x: head(x).mean())(inputs)
    np.testing.assert_allclose(means, head(inputs).mean(), rtol=1e-6)
    assert snt.BatchApply(head)(inputs).batch_shape == (8,)  # as Sonnet treats what is no tensor


def test_sizes_that_are_not_known_while_tracing():
    @tf.function(input_signature=[tf.TensorSpec([None, None, 3, 5])])
    def f(logits):
        dist = DiscreteValuedDistribution(atoms(3, 5), logits=logits)
        assert dist.batch_shape.as_list() == [None, None]
        part = dist[1:]
        return dist, dist.sample(6), part.mean(), dist.batch_shape_tensor()

    logits = floats(4, 2, 3, 5)
    dist, sample, mean, batch = f(logits)
    assert dist.batch_shape == (4, 2) and sample.shape == (6, 4, 2, 3)
    np.testing.assert_allclose(mean, dist.mean()[1:], rtol=1e-6)
    np.testing.assert_array_equal(batch, [4, 2])


def test_saved_models_return_it(tmp_path):
    class Network(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 3, 5])])
        def __call__(self, x):
            squashed = tfd.Normal(x[:, 0, 0], 1.0)
            return {
                "value": DiscreteValuedDistribution(atoms(3, 5), logits=x),
                "from_probs": DiscreteValuedDistribution(atoms(3, 5), probs=tf.exp(x)),
                "mode": ForwardedMode(squashed, tfb.Tanh()),
            }

    tf.saved_model.save(Network(), str(tmp_path))
    inputs = floats(4, 3, 5)
    np.save(tmp_path / "inputs.npy", inputs)
    code = f"""
        import numpy as np, tensorflow as tf
        from tfagents_x.networks import distributions
        network = tf.saved_model.load({str(tmp_path)!r})
        out = network(tf.constant(np.load({str(tmp_path / "inputs.npy")!r})))
        assert isinstance(out["value"], distributions.DiscreteValuedDistribution)
        assert out["value"].batch_shape == (4,) and out["value"].event_shape == (3,)
        assert out["value"].sample().shape == (4, 3)
        assert out["from_probs"].logits is None
        np.savez({str(tmp_path / "outputs.npz")!r}, value=out["value"].mean(),
                 from_probs=out["from_probs"].variance(), mode=out["mode"].mode())
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    with np.load(tmp_path / "outputs.npz") as found:
        dist = DiscreteValuedDistribution(atoms(3, 5), logits=inputs)
        np.testing.assert_allclose(found["value"], dist.mean(), rtol=1e-5, atol=1e-6)
        raw = DiscreteValuedDistribution(atoms(3, 5), probs=np.exp(inputs))
        np.testing.assert_allclose(found["from_probs"], raw.variance(), rtol=1e-5)
        np.testing.assert_allclose(found["mode"], np.tanh(inputs[:, 0, 0]), rtol=1e-5)


# ---- ForwardedMode ----


def test_forwarded_mode_is_the_distribution_it_was():
    loc = tf.constant(floats(4))
    plain = tfd.TransformedDistribution(tfd.Normal(loc, 0.5), tfb.Tanh())
    dist = ForwardedMode(tfd.Normal(loc, 0.5), tfb.Tanh())
    x = tf.constant(0.3)
    np.testing.assert_array_equal(dist.log_prob(x), plain.log_prob(x))
    np.testing.assert_array_equal(dist[1:].mode(), tf.tanh(loc[1:]))
    np.testing.assert_array_equal(tf.function(lambda d: d)(dist).mode(), tf.tanh(loc))
    np.testing.assert_array_equal(dist.copy().mode(), tf.tanh(loc))
    assert tfd.kl_divergence(dist, plain).shape == (4,)


# ---- Errors ----


@pytest.mark.parametrize(
    "parameters, wanted",
    [
        ({}, "got neither of logits and probs"),
        ({"logits": floats(4, 5), "probs": floats(4, 5)}, "got both of logits and probs"),
        ({"logits": floats(4, 6)}, r"logits has shape \(4, 6\), but must end in \(5,\)"),
        ({"probs": floats(4, 1)}, r"probs has shape \(4, 1\), but must end in \(5,\)"),
        ({"logits": floats()}, r"logits has shape \(\), but must end in \(5,\)"),
        ({"values": floats(), "logits": floats(4, 5)}, r"values has shape \(\)"),
        ({"values": atoms(3, 5), "logits": floats(4, 5)}, r"must end in \(3, 5\)"),
        ({"values": atoms(3, 5), "logits": floats(5)}, r"must end in \(3, 5\)"),
        ({"values": [], "probs": np.zeros([3, 0], np.float32)}, "needs at least one atom"),
        ({"probs": [0.5, 0.7, -0.2, 0, 0]}, "probs must not be negative, but the least is -0.2"),
    ],
)
def test_values_that_do_not_fit(parameters, wanted):
    with pytest.raises(ValueError, match=wanted):
        DiscreteValuedDistribution(**{"values": atoms(5), **parameters})


@pytest.mark.parametrize(
    "parameters, wanted",
    [
        ({"logits": np.ones([4, 5], int)}, "logits is int64"),
        ({"values": np.arange(5), "logits": floats(4, 5)}, "values is int64"),
        ({"probs": tf.ones([4, 5], tf.float64)}, "values is float32, but probs is float64"),
        ({"logits": "abc"}, "logits is string"),
    ],
)
def test_dtypes_that_do_not_fit(parameters, wanted):
    with pytest.raises(TypeError, match=wanted):
        DiscreteValuedDistribution(**{"values": tf.constant(atoms(5)), **parameters})


@pytest.mark.parametrize("method", ["log_prob", "prob", "cdf", "value_of"])
@pytest.mark.parametrize("value", [0.5, [1.0, 2.0], np.float32(1), tf.constant(1.0)], ids=str)
def test_positions_are_integers(method, value):
    dist = DiscreteValuedDistribution(atoms(5), logits=floats(5))
    with pytest.raises(TypeError, match=r"index of an atom is float.*dist\.index_of\(value\)"):
        getattr(dist, method)(value)


def test_values_are_not_integers():
    dist = DiscreteValuedDistribution(atoms(5), logits=floats(5))
    with pytest.raises(TypeError, match="value is int32"):
        dist.index_of(tf.constant(1))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_nan_is_near_no_atom(dtype):
    dist = DiscreteValuedDistribution(atoms(5), logits=tf.cast(floats(5), dtype))
    with pytest.raises(ValueError, match="value has a NaN"):
        dist.index_of(tf.constant([1.0, np.nan], dtype))
