"""DiscreteFilteredQNetwork."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from tests.networks import builds
from tfagents_x.networks.discrete import DiscreteFilteredQNetwork

Q = tf.constant([[1.0, 4.0, -2.0], [0.0, -1.0, 5.0]])
# Likelihoods relative to the likeliest action: 1, 0.5, 0.1.
LOGITS = tf.math.log([[1.0, 0.5, 0.1], [0.1, 0.5, 1.0]])


def filtered(threshold):
    return DiscreteFilteredQNetwork(lambda x: LOGITS + 3.0, lambda x: Q, threshold)(None)


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [
        (0.0, [[1, 4, -2], [0, -1, 5]]),
        (0.3, [[1, 4, -2], [-1, -1, 5]]),
        (0.7, [[1, -2, -2], [-1, -1, 5]]),
        (1.0, [[1, -2, -2], [-1, -1, 5]]),
    ],
)
def test_unlikely_actions_are_worth_the_least(threshold, expected):
    np.testing.assert_array_equal(filtered(threshold), expected)


def test_networks():
    g_network, q_network = snt.Linear(4), snt.Linear(4)
    network = DiscreteFilteredQNetwork(g_network, q_network, 0.5)
    assert network.g_network is g_network and network.q_network is q_network
    x = builds.floats(6, 3)
    calls = [tf.function(network, autograph=False, jit_compile=jit) for jit in (False, True)]
    for call in calls:
        builds.assert_close(call(x), network(x))
    assert builds.shapes(network) == [(4,), (3, 4), (4,), (3, 4)]
    builds.assert_distinct_draws(network.variables)


def test_gradient_reaches_the_q_network_alone():
    network = DiscreteFilteredQNetwork(snt.Linear(4), snt.Linear(4), 0.5)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(network(builds.floats(6, 3)))
    q, g = (n.trainable_variables for n in (network.q_network, network.g_network))
    gradients = tape.gradient(total, [*q, *g])
    assert all(np.all(np.isfinite(x)) for x in gradients[:2])
    assert gradients[2:] == [None, None]


@pytest.mark.parametrize("threshold", [-0.1, 1.1, np.nan])
def test_threshold_must_be_a_fraction(threshold):
    with pytest.raises(ValueError, match="threshold must be from 0 to 1"):
        DiscreteFilteredQNetwork(tf.identity, tf.identity, threshold)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, len, 0.1), "g_network must be a module or function, got 3"),
        ((len, None, 0.1), "q_network must be a module or function, got None"),
        ((len, len, "a"), "threshold must be a number, got 'a'"),
    ],
)
def test_arguments_of_another_type(arguments, message):
    with pytest.raises(TypeError, match=message):
        DiscreteFilteredQNetwork(*arguments)


def test_outputs_must_agree():
    network = DiscreteFilteredQNetwork(lambda x: x[:, :1], tf.identity, 0.5)
    with pytest.raises(ValueError, match=r"the same shape \[B, A\], got \(6, 1\) and \(6, 3\)"):
        network(builds.floats(6, 3))
    with pytest.raises(TypeError, match="after q_network.* needs floating-point inputs, got int32"):
        DiscreteFilteredQNetwork(tf.identity, tf.identity, 0.5)(tf.zeros([6, 3], tf.int32))
