"""ClippedGaussian."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.networks import builds
from tfagents_x.networks.noise import ClippedGaussian


def test_size_of_the_noise():
    noise = ClippedGaussian(0.1)(tf.zeros([200, 100])).numpy()
    assert noise.std() == pytest.approx(0.1, rel=0.03)
    assert abs(noise.mean()) < 0.003
    assert np.unique(noise).size > 19_000


def test_clipped():
    noisy = ClippedGaussian(0.5)(tf.fill([50, 20], 0.9)).numpy()
    assert noisy.max() == 1.0
    assert noisy.min() >= -1.0
    assert np.all(ClippedGaussian(0.0)(tf.constant([[-3.0, 0.5, 2.0]])) == [[-1, 0.5, 1]])


def test_samples_come_from_the_distribution(monkeypatch):
    layer = ClippedGaussian(0.1)
    monkeypatch.setattr(layer._noise, "_sample_n", lambda n, seed=None: tf.fill([n], 0.25))
    np.testing.assert_allclose(layer(tf.zeros([2, 3])), np.full([2, 3], 0.25))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_graphs_draw_anew(jit_compile):
    layer = ClippedGaussian(0.1)
    signature = [tf.TensorSpec([None, 3])]
    call = tf.function(layer, signature, autograph=False, jit_compile=jit_compile)
    assert call.get_concrete_function().output_shapes == [None, 3]
    first, second = call(tf.zeros([4, 3])), call(tf.zeros([4, 3]))
    assert first.shape == [4, 3]
    assert not np.any(first == second)
    assert np.unique(first).size == 12


def test_nests_and_dtypes():
    inputs = {"a": builds.floats(4, 2), "b": (tf.zeros([3], tf.bfloat16),)}
    outputs = ClippedGaussian(0.1)(inputs)
    assert outputs["a"].shape == [4, 2]
    assert outputs["b"][0].dtype == tf.bfloat16


def test_stddev_can_be_scheduled():
    stddev = tf.Variable(0.0)
    call = tf.function(ClippedGaussian(stddev), autograph=False)
    assert not np.any(call(tf.zeros([4])))
    stddev.assign(0.1)
    assert np.all(call(tf.zeros([4])) != 0)


def test_errors():
    for stddev in (-0.1, np.nan, np.inf):
        with pytest.raises(ValueError, match="stddev must be finite and at least 0"):
            ClippedGaussian(stddev)
    for stddev in (None, "a"):
        with pytest.raises(TypeError, match="stddev must be a number, got"):
            ClippedGaussian(stddev)
    with pytest.raises(TypeError, match="ClippedGaussian needs floating-point inputs, got int32"):
        ClippedGaussian(0.1)(tf.zeros([4], tf.int32))
