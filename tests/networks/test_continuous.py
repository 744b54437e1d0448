"""Feed-forward torsos of continuous control."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from tests.networks import builds
from tfagents_x.networks import continuous


def layer_norm(x, scale, offset, epsilon=1e-5):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * scale + offset


def elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


# ---- NearZeroInitializedLinear ----


def test_near_zero():
    layer = continuous.NearZeroInitializedLinear(300)
    builds.assert_works(layer, [builds.floats(3, 200)])
    assert builds.shapes(layer) == [(300,), (200, 300)]
    assert np.std(layer.w) == pytest.approx(np.sqrt(1e-4 / 200), rel=0.02)
    assert not np.any(layer.b)


def test_near_zero_scale():
    layer = continuous.NearZeroInitializedLinear(300, scale=0.25)
    layer(builds.floats(3, 200))
    assert np.std(layer.w) == pytest.approx(np.sqrt(0.25 / 200), rel=0.02)
    with pytest.raises(ValueError, match="scale must be positive, got 0"):
        continuous.NearZeroInitializedLinear(3, scale=0)
    with pytest.raises(TypeError, match="scale must be a number, got None"):
        continuous.NearZeroInitializedLinear(3, scale=None)
    with pytest.raises(ValueError, match="output_size must be at least 1, got 0"):
        continuous.NearZeroInitializedLinear(0)


# ---- LayerNormMLP ----


def test_layer_norm_mlp():
    network = continuous.LayerNormMLP([6, 5, 4])
    x = builds.floats(3, 7)
    outputs = builds.assert_works(network, [x])
    assert builds.shapes(network) == [(6,), (7, 6), (6,), (6,), (5,), (6, 5), (4,), (5, 4)]
    b0, w0, offset, scale, b1, w1, b2, w2 = (v.numpy() for v in network.variables)
    hidden = np.tanh(layer_norm(x.numpy() @ w0 + b0, scale, offset))
    np.testing.assert_allclose(outputs, elu(hidden @ w1 + b1) @ w2 + b2, rtol=1e-4, atol=1e-5)


def test_layer_norm_mlp_final_activation():
    sizes, x = [6, 5], builds.floats(3, 7)
    linear = continuous.LayerNormMLP(sizes, activation=tf.nn.relu)
    active = continuous.LayerNormMLP(sizes, activation=tf.nn.relu, activate_final=True)
    for network in (linear, active):
        network(x)
    for a, b in zip(linear.variables, active.variables):
        b.assign(a)
    assert np.any(linear(x) < 0)
    np.testing.assert_allclose(active(x), np.maximum(linear(x), 0), rtol=1e-6)


def test_layer_norm_mlp_of_one_layer():
    outputs = builds.assert_works(continuous.LayerNormMLP((6,)), [builds.floats(3, 7)])
    assert outputs.shape == [3, 6]
    assert np.all(np.abs(outputs) < 1)


def test_layer_norm_mlp_concatenates_nests():
    network = continuous.LayerNormMLP([6, 5])
    a, b = builds.floats(3, 2, 2), builds.floats(3, seed=1)
    outputs = network({"b": b, "a": a})
    flat = tf.concat([tf.reshape(a, [3, 4]), b[:, tf.newaxis]], 1)
    np.testing.assert_allclose(outputs, network(flat), rtol=1e-6)


def test_layer_norm_mlp_initializer():
    network = continuous.LayerNormMLP([300, 200], w_init=snt.initializers.Constant(0.5))
    network(builds.floats(2, 100))
    assert all(np.all(v == 0.5) for v in network.variables if v.shape.rank == 2)
    default = continuous.LayerNormMLP([300, 200])
    default(builds.floats(2, 100))
    for weights in (v.numpy() for v in default.variables if v.shape.rank == 2):
        bound = np.sqrt(3 * 0.333 / weights.shape[1])
        assert 0.99 * bound < np.abs(weights).max() <= bound


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16, tf.float64])
def test_layer_norm_mlp_keeps_the_dtype(dtype):
    x = builds.floats(3, 7)
    network, reference = continuous.LayerNormMLP([6, 5]), continuous.LayerNormMLP([6, 5])
    outputs, _ = network(tf.cast(x, dtype)), reference(x)
    assert outputs.dtype == dtype
    for a, b in zip(network.variables, reference.variables):
        b.assign(tf.cast(a, tf.float32))
    np.testing.assert_allclose(tf.cast(outputs, tf.float32), reference(x), atol=0.03)


def test_layer_norm_mlp_errors():
    with pytest.raises(ValueError, match="layer_sizes must have at least 1 entries"):
        continuous.LayerNormMLP([])
    with pytest.raises(ValueError, match=r"layer_sizes\[1\] must be at least 1, got -2"):
        continuous.LayerNormMLP([3, -2])
    with pytest.raises(TypeError, match="activation must be a module or function, got 3"):
        continuous.LayerNormMLP([3], activation=3)
    with pytest.raises(TypeError, match="w_init must be an initializer .*, got 'x'"):
        continuous.LayerNormMLP([3], w_init="x")
    with pytest.raises(TypeError, match="LayerNormMLP needs floating-point inputs, got uint8"):
        continuous.LayerNormMLP([3])(builds.images(2, 4))
    with pytest.raises(ValueError, match="shape"):
        continuous.LayerNormMLP([3])(tf.constant(1.0))


# ---- LayerNormAndResidualMLP ----


def test_residual_mlp():
    network = continuous.LayerNormAndResidualMLP(5, 2)
    x = builds.floats(3, 7)
    outputs = builds.assert_works(network, [x])
    block = [(5,), (5, 5), (5,), (5, 5), (5,), (5,)]
    assert builds.shapes(network) == [(5,), (7, 5), *block, *block]
    values = iter([v.numpy() for v in network.variables])
    b, w = next(values), next(values)
    y = x.numpy() @ w + b
    for _ in range(2):
        b0, w0, b1, w1, offset, scale = (next(values) for _ in range(6))
        y = layer_norm(y + np.maximum(y @ w0 + b0, 0) @ w1 + b1, scale, offset)
    np.testing.assert_allclose(outputs, y, rtol=1e-4, atol=1e-5)


def test_residual_mlp_without_blocks_is_linear():
    network = continuous.LayerNormAndResidualMLP(5, 0)
    x = builds.floats(3, 7)
    outputs = network(x)
    b, w = network.variables
    np.testing.assert_allclose(outputs, x @ w + b, rtol=1e-5)


def test_residual_mlp_takes_sequences():
    network, flat_network = (continuous.LayerNormAndResidualMLP(5, 1) for _ in range(2))
    x = builds.floats(4, 3, 7)
    network(x), flat_network(x[0])
    for a, b in zip(network.variables, flat_network.variables):
        b.assign(a)
    flat = flat_network(tf.reshape(x, [12, 7]))
    np.testing.assert_allclose(network(x), tf.reshape(flat, [4, 3, 5]), rtol=1e-5, atol=1e-6)


def test_residual_mlp_errors():
    with pytest.raises(ValueError, match="hidden_size must be at least 1, got 0"):
        continuous.LayerNormAndResidualMLP(0, 1)
    with pytest.raises(ValueError, match="num_blocks must be at least 0, got -1"):
        continuous.LayerNormAndResidualMLP(3, -1)
    with pytest.raises(ValueError, match="LayerNormAndResidualMLP needs a batch of vectors"):
        continuous.LayerNormAndResidualMLP(3, 1)(tf.zeros([7]))


def test_residual_wrapper_must_keep_the_shape():
    wrapped = continuous.ResidualLayernormWrapper(snt.Linear(1))
    with pytest.raises(ValueError, match="must keep the shape of its inputs"):
        wrapped(tf.zeros([2, 3]))
    with pytest.raises(TypeError, match="layer must be a module or function, got None"):
        continuous.ResidualLayernormWrapper(None)
