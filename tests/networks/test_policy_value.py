"""PolicyValueHead: shapes, and layers that the two heads don't share."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.networks import builds
from tfagents_x.networks.policy_value import PolicyValueHead

FEATURES = np.random.default_rng(0).normal(size=[5, 3]).astype(np.float32)


def test_two_linear_layers():
    head = PolicyValueHead(4)
    logits, value = head(FEATURES)
    assert logits.shape == (5, 4) and value.shape == (5,)
    assert sorted(tuple(v.shape) for v in head.variables) == [(1,), (3, 1), (3, 4), (4,)]


def test_heads_share_nothing():
    head = PolicyValueHead(4, hidden_sizes=(6,))
    with tf.GradientTape() as tape:
        _, value = head(FEATURES)
        loss = tf.reduce_sum(value)
    gradients = tape.gradient(loss, head.trainable_variables)
    touched = {v.name for v, g in zip(head.trainable_variables, gradients) if g is not None}
    assert len(touched) == 4 and all("value" in name for name in touched)


def test_value_scale():
    plain, scaled = PolicyValueHead(4), PolicyValueHead(4, value_scale=10.0)
    for head in (plain, scaled):
        head(FEATURES)
    for a, b in zip(plain.variables, scaled.variables):
        b.assign(a)
    np.testing.assert_allclose(scaled(FEATURES)[1], 10 * plain(FEATURES)[1], rtol=1e-5)
    np.testing.assert_allclose(scaled(FEATURES)[0], plain(FEATURES)[0])


def test_acme_order_of_variables():
    head = PolicyValueHead(4)
    builds.assert_works(head, [builds.floats(5, 3)])
    assert builds.shapes(head) == [(4,), (3, 4), (1,), (3, 1)]


def test_sequences():
    head = PolicyValueHead(4)
    logits, value = head(builds.floats(2, 5, 3))
    assert logits.shape == [2, 5, 4] and value.shape == [2, 5]


def test_errors():
    with pytest.raises(ValueError, match="num_actions must be at least 1, got 0"):
        PolicyValueHead(0)
    with pytest.raises(ValueError, match=r"hidden_sizes\[0\] must be at least 1, got -3"):
        PolicyValueHead(4, hidden_sizes=[-3])
    with pytest.raises(TypeError, match="value_scale must be a number, got 'a'"):
        PolicyValueHead(4, value_scale="a")
    with pytest.raises(ValueError, match="PolicyValueHead needs a batch of vectors"):
        PolicyValueHead(4)(FEATURES[0])
    with pytest.raises(TypeError, match="PolicyValueHead needs floating-point inputs, got int64"):
        PolicyValueHead(4)(np.zeros([5, 3], np.int64))
