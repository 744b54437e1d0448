"""CriticMultiplexer: every combination of networks, sequences, and inputs that don't fit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp

from tests.networks import builds
from tfagents_x.networks import cores, multiplexers, recurrence
from tfagents_x.networks.multiplexers import CriticMultiplexer

OBS, ACT = builds.floats(5, 7), builds.floats(5, 2, seed=1)


@pytest.mark.parametrize("parts", list(itertools.product([False, True], repeat=3)))
def test_every_combination(parts):
    sizes = {"critic_network": 4, "observation_network": 3, "action_network": 6}
    networks = {name: snt.Linear(sizes[name]) for name, given in zip(sizes, parts) if given}
    critic = CriticMultiplexer(**networks)
    outputs = builds.assert_works(critic, [OBS, ACT])
    same = lambda x: x
    inner = [
        networks.get("observation_network", same)(OBS),
        networks.get("action_network", same)(ACT),
    ]
    expected = networks.get("critic_network", same)(tf.concat(inner, 1))
    np.testing.assert_allclose(outputs, expected, rtol=1e-6)


def test_positional_order():
    networks = [snt.Linear(1), snt.Linear(2), snt.Linear(3)]
    CriticMultiplexer(*networks)(OBS, ACT)
    assert [n.w.shape.as_list() for n in networks] == [[5, 1], [7, 2], [2, 3]]


def test_nests_are_flattened_in_their_order():
    observation = {"b": builds.floats(5), "a": builds.floats(5, 2, 3)}
    outputs = CriticMultiplexer()(observation, (ACT, builds.floats(5, 1)))
    a = tf.reshape(observation["a"], [5, 6])
    expected = tf.concat([a, observation["b"][:, tf.newaxis], ACT, builds.floats(5, 1)], 1)
    np.testing.assert_array_equal(outputs, expected)


def test_discrete_actions_are_cast():
    outputs = CriticMultiplexer()(OBS, tf.constant([0, 1, 2, 3, 4]))
    assert outputs.dtype == tf.float32
    np.testing.assert_array_equal(outputs[:, -1], [0, 1, 2, 3, 4])


def test_half_precision():
    outputs = CriticMultiplexer(snt.Linear(1))(tf.cast(OBS, tf.bfloat16), ACT)
    assert outputs.dtype == tf.bfloat16


def test_critic_may_return_a_distribution():
    head = lambda x: tfp.distributions.Normal(x[:, 0], 1.0)
    assert CriticMultiplexer(head)(OBS, ACT).batch_shape == [5]


def test_sequences():
    critic = CriticMultiplexer(snt.nets.MLP([4, 1]), snt.Linear(3))
    observations, actions = builds.floats(6, 5, 7), builds.floats(6, 5, 2)
    expected = [critic(o, a) for o, a in zip(observations, actions)]
    np.testing.assert_allclose(
        snt.BatchApply(critic)(observations, actions), expected, rtol=1e-5, atol=1e-6
    )
    core = cores.CriticDeepRNN([critic, snt.LSTM(2)])
    outputs, _ = recurrence.unroll(core, (observations, actions), core.initial_state(5))
    assert outputs.shape == [6, 5, 2]


def test_parts_are_the_whole():
    critic = CriticMultiplexer(snt.Linear(4), snt.Linear(3), snt.Linear(2))
    parts = critic.combine(critic.embed_observation(OBS), critic.embed_action(ACT))
    np.testing.assert_array_equal(critic(OBS, ACT), parts)


def test_batch_sizes_must_agree():
    with pytest.raises(ValueError, match=r"same batch axis.*'observation': \(5, 7\)"):
        CriticMultiplexer()(OBS, ACT[:4])
    shrink = lambda x: x[:2]
    with pytest.raises(ValueError, match="after their networks"):
        CriticMultiplexer(observation_network=shrink)(OBS, ACT)
    with pytest.raises(ValueError, match="same batch axis"):
        CriticMultiplexer(action_network=tf.reduce_sum)(OBS, ACT)


def test_integer_observations_dont_round_actions():
    with pytest.raises(TypeError, match="action is float32 but the observation uint8"):
        CriticMultiplexer()(builds.images(5, 7), ACT)


def test_dtypes_in_nests_must_agree():
    with pytest.raises(TypeError, match="int32"):
        CriticMultiplexer()({"a": OBS, "b": tf.zeros([5, 1], tf.int32)}, ACT)


def test_networks_must_return_tensors():
    nothing = lambda x: None
    with pytest.raises(TypeError, match="let observation_network return a nest of tensors"):
        CriticMultiplexer(observation_network=nothing)(OBS, ACT)


@pytest.mark.parametrize("name", ["critic_network", "observation_network", "action_network"])
def test_networks_must_be_callable(name):
    with pytest.raises(TypeError, match=f"{name} must be a module or function, or None, got a int"):
        multiplexers.CriticMultiplexer(**{name: 3})
