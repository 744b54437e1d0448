"""NetworkWithMaskedEpsilonGreedy."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from tests.networks import builds
from tfagents_x.networks.masked_epsilon_greedy import NetworkWithMaskedEpsilonGreedy

VALUES = tf.constant([[1.0, 3.0, 2.0]] * 6)
# The best action is illegal in the second row.
MASK = tf.constant([[1.0, 1.0, 1.0], [1.0, 0.0, 1.0]] * 3)
OBSERVATION = {"values": VALUES, "legal_actions_mask": MASK}


def values_of(observation):
    return observation["values"]


def test_greedy_actions_are_legal():
    """In Acme's the greedy action of the second row would be 1, which is illegal."""
    actions = NetworkWithMaskedEpsilonGreedy(values_of, 0.0)(OBSERVATION)
    assert actions.dtype == tf.int32
    np.testing.assert_array_equal(actions, [1, 2] * 3)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_random_actions_are_legal_and_drawn_anew(jit_compile):
    network = NetworkWithMaskedEpsilonGreedy(values_of, tf.constant(1.0))
    many = {name: tf.tile(value, [100, 1]) for name, value in OBSERVATION.items()}
    signature = [{name: tf.TensorSpec([None, 3]) for name in many}]
    call = tf.function(network, signature, autograph=False, jit_compile=jit_compile)
    first, second = call(many).numpy(), call(many).numpy()
    assert set(first[::2]) == {0, 1, 2}
    assert set(first[1::2]) == {0, 2}
    assert np.any(first != second)


def test_network_sees_the_whole_observation():
    layer = snt.Linear(3)
    network = NetworkWithMaskedEpsilonGreedy(lambda o: layer(o["values"]), 0.0)
    observation = {**OBSERVATION, "values": builds.floats(6, 4)}
    expected = tf.where(MASK == 1, layer(observation["values"]), -np.inf)
    np.testing.assert_array_equal(network(observation), tf.argmax(expected, -1))


def test_variables_are_those_of_the_network():
    network = NetworkWithMaskedEpsilonGreedy(snt.Sequential([values_of, snt.Linear(3)]), 0.1)
    network(OBSERVATION)
    assert builds.shapes(network) == [(3,), (3, 3)]


def test_epsilon_of_a_schedule():
    epsilon = tf.Variable(1.0)
    call = tf.function(NetworkWithMaskedEpsilonGreedy(values_of, epsilon), autograph=False)
    call(OBSERVATION)
    epsilon.assign(0.0)
    np.testing.assert_array_equal(call(OBSERVATION), [1, 2] * 3)


def test_errors():
    with pytest.raises(ValueError, match="epsilon must be given"):
        NetworkWithMaskedEpsilonGreedy(values_of)
    network = NetworkWithMaskedEpsilonGreedy(values_of, 0.1)
    with pytest.raises(TypeError, match="must be a dictionary with the key 'legal_actions_mask'"):
        network(VALUES)
    with pytest.raises(ValueError, match=r"no 'legal_actions_mask', only \['values'\]"):
        network({"values": VALUES})
    with pytest.raises(ValueError, match="legal actions have shape"):
        network({**OBSERVATION, "legal_actions_mask": MASK[:, :2]})
    with pytest.raises(ValueError, match="epsilon is 2, but must be from 0 to 1"):
        NetworkWithMaskedEpsilonGreedy(values_of, 2.0)
    with pytest.raises(TypeError, match="epsilon must be a number, got 'a'"):
        NetworkWithMaskedEpsilonGreedy(values_of, "a")
    with pytest.raises(TypeError, match="network must be a module or function, got None"):
        NetworkWithMaskedEpsilonGreedy(None, 0.1)
