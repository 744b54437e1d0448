"""DuellingMLP."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.networks import builds
from tfagents_x.networks.duelling import DuellingMLP


def test_values_and_advantages():
    network = DuellingMLP(4, (6,))
    x = builds.floats(3, 7)
    outputs = builds.assert_works(network, [x])
    advantage = [(6,), (7, 6), (4,), (6, 4)]
    assert builds.shapes(network) == [*advantage, (6,), (7, 6), (1,), (6, 1)]
    values = [v.numpy() for v in network.variables]
    mlp = lambda b0, w0, b1, w1: np.maximum(x.numpy() @ w0 + b0, 0) @ w1 + b1
    a, v = mlp(*values[:4]), mlp(*values[4:])
    np.testing.assert_allclose(outputs, v + a - a.mean(1, keepdims=True), rtol=1e-4, atol=1e-5)


def test_mean_over_actions_is_the_value():
    network = DuellingMLP(4, ())
    x = builds.floats(3, 7)
    mean = tf.reduce_mean(network(x), axis=-1, keepdims=True)
    np.testing.assert_allclose(mean, network._value_mlp(x), rtol=1e-4, atol=1e-6)


def test_sequences():
    network = DuellingMLP(4, [6])
    x = builds.floats(2, 3, 7)
    expected = tf.reshape(network(tf.reshape(x, [6, 7])), [2, 3, 4])
    np.testing.assert_allclose(network(x), expected, rtol=1e-5, atol=1e-6)


def test_half_precision():
    assert DuellingMLP(4, [6])(tf.zeros([3, 7], tf.bfloat16)).dtype == tf.bfloat16


def test_errors():
    with pytest.raises(ValueError, match="num_actions must be at least 1, got 0"):
        DuellingMLP(0, [6])
    with pytest.raises(ValueError, match=r"hidden_sizes\[0\] must be at least 1, got 0"):
        DuellingMLP(4, [0])
    with pytest.raises(ValueError, match="DuellingMLP needs a batch of vectors"):
        DuellingMLP(4, [6])(tf.zeros([7]))
    with pytest.raises(TypeError, match="DuellingMLP needs floating-point inputs, got int32"):
        DuellingMLP(4, [6])(tf.zeros([3, 7], tf.int32))
