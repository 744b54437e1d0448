"""Multihead: stacking, lists of distributions, and heads that don't fit together."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp

from tests.networks import builds
from tfagents_x.networks.multihead import Multihead

X = builds.floats(5, 7)


def normal(x):
    return tfp.distributions.Normal(x, 1.0)


def test_outputs_are_stacked_last():
    heads = [snt.Linear(3), snt.Linear(3)]
    outputs = builds.assert_works(Multihead(heads), [X])
    assert outputs.shape == [5, 3, 2]
    for i, head in enumerate(heads):
        np.testing.assert_array_equal(outputs[..., i], head(X))


def test_variables_are_those_of_the_heads():
    network = Multihead((snt.Linear(3), snt.Linear(3)))
    network(X)
    assert builds.shapes(network) == [(3,), (7, 3), (3,), (7, 3)]


def test_distributions_come_as_a_list():
    outputs = Multihead([normal, lambda x: tfp.distributions.Normal(x, 2.0)])(X)
    assert isinstance(outputs, list)
    assert [float(d.stddev()[0, 0]) for d in outputs] == [1.0, 2.0]


@pytest.mark.parametrize("heads", [[], (), None, tf.identity])
def test_there_must_be_heads(heads):
    with pytest.raises(ValueError, match="network_heads must be a sequence of at least one"):
        Multihead(heads)


def test_heads_must_be_callable():
    with pytest.raises(TypeError, match=r"network_heads\[1\] must be a module or function"):
        Multihead([tf.identity, 3])


def test_heads_must_be_of_one_kind():
    with pytest.raises(TypeError, match=r"some return a distribution.*Normal"):
        Multihead([tf.identity, normal])(X)


def test_outputs_must_agree():
    with pytest.raises(ValueError, match=r"same shape and dtype.*\(5, 7\).*\(5, 6\)"):
        Multihead([tf.identity, lambda x: x[:, 1:]])(X)
    with pytest.raises(ValueError, match="float16"):
        Multihead([tf.identity, lambda x: tf.cast(x, tf.float16)])(X)
