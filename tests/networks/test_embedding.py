"""OAREmbedding."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from tests.networks import builds
from tfagents_x import types
from tfagents_x.networks.embedding import OAREmbedding

OBSERVATION = builds.floats(5, 3)
ACTION = tf.constant([0, 1, 3, 2, 0])
REWARD = tf.constant([0.0, 1.0, -2.0, 0.5, 9.0])
INPUTS = types.OAR(OBSERVATION, ACTION, REWARD)


def test_parts():
    torso = snt.Linear(2)
    outputs = builds.assert_works(OAREmbedding(torso, 4), [INPUTS])
    expected = [torso(OBSERVATION), np.eye(4)[ACTION.numpy()], np.tanh(REWARD)[:, None]]
    np.testing.assert_allclose(outputs, np.concatenate(expected, 1), rtol=1e-6)


def test_reward_may_have_an_axis():
    network = OAREmbedding(tf.identity, 4)
    column = INPUTS._replace(reward=REWARD[:, tf.newaxis])
    np.testing.assert_array_equal(network(column), network(INPUTS))


def test_other_named_tuples_and_64_bit_actions():
    class Other(NamedTuple):
        observation: Any
        action: Any
        reward: Any

    network = OAREmbedding(tf.identity, 4)
    other = Other(OBSERVATION, tf.cast(ACTION, tf.int64), REWARD)
    np.testing.assert_array_equal(network(other), network(INPUTS))


def test_features_decide_the_dtype():
    network = OAREmbedding(lambda x: tf.cast(x, tf.bfloat16), 4)
    assert network(INPUTS).dtype == tf.bfloat16


def test_nested_observations():
    network = OAREmbedding(lambda x: x["pixels"], 4)
    outputs = network(INPUTS._replace(observation={"pixels": OBSERVATION}))
    assert outputs.shape == [5, 3 + 4 + 1]


def test_errors():
    network = OAREmbedding(tf.identity, 4)
    with pytest.raises(TypeError, match=r"needs a types.OAR\(observation, action, reward\)"):
        network(OBSERVATION)
    with pytest.raises(TypeError, match="index of a discrete action, got float32"):
        network(INPUTS._replace(action=REWARD))
    with pytest.raises(ValueError, match=r"one reward for each .*rewards \[B\] or \[B, 1\]"):
        network(INPUTS._replace(reward=tf.zeros([5, 2])))
    with pytest.raises(ValueError, match="of the same batch"):
        network(INPUTS._replace(observation=OBSERVATION[:4]))
    with pytest.raises(ValueError, match="of the same batch"):
        network(INPUTS._replace(action=ACTION[:, tf.newaxis], reward=REWARD[:, tf.newaxis]))
    for field in ("action", "reward"):
        with pytest.raises(TypeError, match=f"the {field} of OAREmbedding is a NoneType"):
            network(INPUTS._replace(**{field: None}))
    with pytest.raises(TypeError, match="The reward of OAREmbedding is string"):
        network(INPUTS._replace(reward=["a"] * 5))
    with pytest.raises(ValueError, match="num_actions must be at least 1, got 0"):
        OAREmbedding(tf.identity, 0)
    with pytest.raises(TypeError, match="torso must be a module or function, got a int"):
        OAREmbedding(3, 4)


def test_fields_are_those_of_acme():
    assert types.OAR._fields == ("observation", "action", "reward")
