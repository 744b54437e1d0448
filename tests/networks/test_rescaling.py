"""Bringing outputs into the bounds of a spec."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tests.networks import builds
from tfagents_x import specs
from tfagents_x.networks.rescaling import ClipToSpec, RescaleToSpec, TanhToSpec

tfd = tfp.distributions

LOW, HIGH = np.array([-1, -2, 0.5], np.float32), np.array([1, 3, 0.75], np.float32)
SPEC = specs.BoundedArray([3], np.float32, LOW, HIGH)
X = 3 * builds.floats(5, 3)
LAYERS = [ClipToSpec, RescaleToSpec, TanhToSpec]
all_layers = pytest.mark.parametrize("layer", LAYERS)


def test_numbers():
    x = X.numpy()
    unit = lambda y: LOW + (y + 1) / 2 * (HIGH - LOW)
    expected = [np.clip(x, LOW, HIGH), unit(x), unit(np.tanh(x))]
    for layer, numbers in zip(LAYERS, expected):
        outputs = builds.assert_works(layer(SPEC), [X])
        np.testing.assert_allclose(outputs, numbers, rtol=1e-5, atol=1e-6)


@all_layers
def test_sequences_and_scalar_bounds(layer):
    network = layer(specs.BoundedArray([3], np.float64, -2.0, 0.5))
    x = builds.floats(4, 5, 3)
    assert network(x).dtype == tf.float32
    np.testing.assert_allclose(network(x)[2], network(x[2]), rtol=1e-6)


@all_layers
def test_scalar_actions(layer):
    outputs = layer(specs.BoundedArray([], np.float32, -2.0, 0.5))(builds.floats(5))
    assert outputs.shape == [5]


@all_layers
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64])
def test_dtypes(layer, dtype):
    outputs = layer(SPEC)(tf.cast(X, dtype))
    assert outputs.dtype == dtype
    np.testing.assert_allclose(tf.cast(outputs, tf.float32), layer(SPEC)(X), rtol=0.02, atol=0.05)


def test_gradient_at_and_beyond_the_bounds():
    x = tf.constant([[0.0, -5.0, 0.6]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(ClipToSpec(SPEC)(x))
    np.testing.assert_array_equal(tape.gradient(total, x), [[1, 0, 1]])


def test_names():
    assert [layer(SPEC).name for layer in LAYERS] == [
        "clip_to_spec",
        "rescale_to_spec",
        "tanh_to_spec",
    ]
    assert ClipToSpec(SPEC, "mine").name == "mine"


# ---- Distributions ----

DISTRIBUTIONS = {
    "diag": lambda x: tfd.MultivariateNormalDiag(x, 0.5 * tf.ones_like(x)),
    "independent": lambda x: tfd.Independent(tfd.Normal(x, 0.5), 1),
    "elementwise": lambda x: tfd.Normal(x, 0.5),
}


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_tanh_of_distributions(kind):
    base = DISTRIBUTIONS[kind](0.1 * X)
    squashed = TanhToSpec(SPEC)(base)
    assert squashed.batch_shape == base.batch_shape and squashed.event_shape == base.event_shape
    raw = base.sample(seed=1)
    action = TanhToSpec(SPEC)(raw)
    # The change of variables, by hand.
    slope = np.log((HIGH - LOW) / 2 * (1 - np.tanh(raw) ** 2))
    slope = slope if kind == "elementwise" else slope.sum(-1)
    np.testing.assert_allclose(
        squashed.log_prob(action), base.log_prob(raw) - slope, rtol=1e-3, atol=1e-3
    )


def test_samples_of_distributions_are_inside():
    squashed = TanhToSpec(SPEC)(tfd.MultivariateNormalDiag(X, tf.ones_like(X)))
    samples = tf.function(lambda: squashed.sample(100))().numpy()
    assert np.all(samples >= LOW) and np.all(samples <= HIGH)
    assert np.all(samples.std(0) > 0)


def test_distribution_leaves_a_graph():
    layer = TanhToSpec(SPEC)
    make = lambda x: layer(tfd.MultivariateNormalDiag(x, tf.ones_like(x)))
    action = layer(tf.zeros([5, 3]))
    made = tf.function(make, autograph=False)(X)
    np.testing.assert_allclose(made.log_prob(action), make(X).log_prob(action), rtol=1e-5)
    assert made.sample().shape == [5, 3]


# ---- Errors ----


@all_layers
def test_spec_without_bounds(layer):
    with pytest.raises(TypeError, match=f"{layer.__name__} needs the bounds"):
        layer(specs.Array([3], np.float32))
    for low, high in ((-np.inf, 1.0), (0.0, np.inf), (np.nan, 1.0)):
        with pytest.raises(ValueError, match="finite bounds|minimum"):
            layer(specs.BoundedArray([3], np.float32, low, high))


@all_layers
def test_discrete_spec(layer):
    with pytest.raises(TypeError, match=f"{layer.__name__} is for continuous actions"):
        layer(specs.DiscreteArray(3))


@pytest.mark.parametrize("layer", [RescaleToSpec, TanhToSpec])
def test_range_too_wide(layer):
    largest = np.finfo(np.float32).max
    wide = specs.BoundedArray([2], np.float32, -largest, largest)
    with pytest.raises(ValueError, match="needs a finite range"):
        layer(wide)
    np.testing.assert_array_equal(ClipToSpec(wide)(X[:, :2]), X[:, :2])


@all_layers
@pytest.mark.parametrize("shape", [[5, 1], [3, 5], [5]])
def test_other_shapes_are_not_broadcast(layer, shape):
    with pytest.raises(ValueError, match=r"made for actions of shape \(3,\)"):
        layer(SPEC)(tf.zeros(shape))


@all_layers
def test_integers(layer):
    with pytest.raises(TypeError, match="floating-point"):
        layer(SPEC)(tf.zeros([5, 3], tf.int32))


def test_distribution_between_equal_bounds():
    spec = specs.BoundedArray([2], np.float32, [0, 1], [1, 1])
    with pytest.raises(ValueError, match="no density"):
        TanhToSpec(spec)(tfd.MultivariateNormalDiag(tf.zeros([5, 2])))
    np.testing.assert_allclose(TanhToSpec(spec)(tf.zeros([5, 2])), [[0.5, 1]] * 5)


def test_distribution_of_another_shape():
    with pytest.raises(ValueError, match="made for actions of shape"):
        TanhToSpec(SPEC)(tfd.MultivariateNormalDiag(tf.zeros([5, 2])))
