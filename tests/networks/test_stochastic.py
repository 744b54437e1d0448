"""Sampling, mean and mode as layers."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp

from tfagents_x.networks import distributional, distributions, stochastic

tfd, tfb = tfp.distributions, tfp.bijectors

HEADS = [
    stochastic.StochasticSamplingHead,
    stochastic.StochasticMeanHead,
    stochastic.StochasticModeHead,
]
each_head = pytest.mark.parametrize("head", HEADS)


def normal(batch=4):
    loc = np.random.default_rng(0).normal(size=[batch, 3]).astype(np.float32)
    return tfd.MultivariateNormalDiag(loc=loc, scale_diag=np.full([batch, 3], 0.5, np.float32))


def test_mean_and_mode():
    dist = tfd.Gamma(concentration=[3.0, 5.0], rate=2.0)
    np.testing.assert_allclose(stochastic.StochasticMeanHead()(dist), [1.5, 2.5])
    np.testing.assert_allclose(stochastic.StochasticModeHead()(dist), [1.0, 2.0])


def test_samples_are_what_the_distribution_draws(monkeypatch):
    """So that whoever replaces its `_sample_n` decides them."""
    drawn = np.arange(12, dtype=np.float32).reshape(1, 4, 3)
    dist = tfd.Independent(tfd.Normal(tf.zeros([4, 3]), 1.0), 1)
    monkeypatch.setattr(tfd.Normal, "_sample_n", lambda self, n, seed=None: tf.constant(drawn))
    np.testing.assert_array_equal(stochastic.StochasticSamplingHead()(dist), drawn[0])


def test_samples_differ_and_can_be_repeated():
    head = stochastic.StochasticSamplingHead()
    runs = []
    for _ in range(2):
        tf.random.set_seed(7)
        sample = tf.function(lambda: head(normal()))
        runs.append([sample().numpy() for _ in range(3)])
    np.testing.assert_array_equal(*runs)
    assert not np.array_equal(runs[0][0], runs[0][1])


def test_mode_of_values_is_a_position():
    dist = distributions.DiscreteValuedDistribution(
        values=np.array([-5.0, 0.0, 5.0], np.float32), logits=[[0.0, 1.0, 0.5], [3.0, 1.0, 0.5]]
    )
    np.testing.assert_array_equal(stochastic.StochasticModeHead()(dist), [1, 0])


@each_head
def test_at_the_end_of_a_network(head):
    network = snt.Sequential(
        [snt.nets.MLP([8]), distributional.MultivariateNormalDiagHead(3), head()]
    )
    spec = tf.TensorSpec([None, 5])
    call = tf.function(network, input_signature=[spec], jit_compile=True)
    assert call(tf.ones([4, 5])).shape == (4, 3)
    assert snt.BatchApply(network)(tf.ones([6, 4, 5])).shape == (6, 4, 3)


@each_head
@pytest.mark.parametrize("wrong", [tf.zeros([4, 3]), np.zeros([4, 3]), None], ids=["tf", "np", "-"])
def test_tensors_are_no_distributions(head, wrong):
    """Not even arrays, which have a mean."""
    with pytest.raises(TypeError, match=rf"{head.__name__} got a .*MultivariateNormalDiagHead"):
        head()(wrong)


def test_a_mode_that_is_not_known():
    dist = tfd.TransformedDistribution(tfd.Normal([0.5], 1.0), tfb.Tanh())
    head = stochastic.StochasticModeHead()
    with pytest.raises(NotImplementedError, match="put networks.ApproximateMode"):
        head(dist)
    found = head(distributional.ApproximateMode()(dist))
    np.testing.assert_allclose(found, np.tanh([0.5]), rtol=1e-6)
