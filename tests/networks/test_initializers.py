"""One initializer for many layers, without two layers drawing the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from tests.networks import builds
from tfagents_x.networks import continuous, initializers


def draws(w_init, count=3):
    """What layers of one shape would start with, their variables made in one graph."""

    @tf.function
    def draw():
        return [each([4, 4], tf.float32) for each in initializers.distinct(w_init, count)]

    return [x.numpy() for x in draw()]


@pytest.mark.parametrize(
    "w_init",
    [
        snt.initializers.RandomNormal(seed=3),
        snt.initializers.VarianceScaling(seed=3),
        snt.initializers.Orthogonal(),
        tf.initializers.VarianceScaling(),
        tf.initializers.VarianceScaling(seed=3),
    ],
    ids=["seeded", "seeded-scaling", "unseeded", "tensorflow", "tensorflow-seeded"],
)
def test_layers_differ(w_init):
    first, second, third = draws(w_init)
    assert not np.allclose(first, second)
    assert not np.allclose(first, third)
    assert not np.allclose(second, third)


def test_shared_seed_gives_equal_weights_without_this():
    """The trap itself, so that this module can go when it closes."""
    w_init = snt.initializers.RandomNormal(seed=3)
    same = tf.function(lambda: [w_init([4, 4], tf.float32) for _ in range(2)])()
    np.testing.assert_array_equal(*same)


def test_seeds_repeat():
    for kind in (snt.initializers.RandomNormal, tf.initializers.RandomNormal):
        for a, b in zip(draws(kind(seed=3)), draws(kind(seed=3))):
            np.testing.assert_array_equal(a, b)


def test_first_layer_keeps_the_seed():
    w_init = snt.initializers.RandomNormal(seed=3)
    assert [i.seed for i in initializers.distinct(w_init, 3)] == [3, 4, 5]
    assert w_init.seed == 3


def test_others_stay_as_they_are():
    def ones(shape, dtype):
        return tf.ones(shape, dtype)

    zeros = snt.initializers.Zeros()
    assert initializers.distinct(ones, 2) == [ones, ones]
    assert initializers.distinct(zeros, 2) == [zeros, zeros]
    assert initializers.distinct(None, 2) == [None, None]


def test_uniform_has_the_bounds_of_its_fan_out():
    weights = initializers.uniform()([50, 200], tf.float32).numpy()
    bound = np.sqrt(3 * 0.333 / 200)
    assert bound * 0.99 < np.abs(weights).max() <= bound
    assert abs(weights.mean()) < 0.03 * bound


@pytest.mark.parametrize("seed", [None, 3])
def test_mlp_made_in_a_graph(seed):
    w_init = snt.initializers.VarianceScaling(seed=seed)
    network = continuous.LayerNormMLP([5, 5, 5, 5], w_init=w_init)
    tf.function(network)(builds.floats(2, 5))
    builds.assert_distinct_draws(network.variables)
