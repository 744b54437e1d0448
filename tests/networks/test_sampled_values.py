"""Values of sampled actions in rounds, against all of them in one batch."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from tests.ops import modes
from tfagents_x import networks
from tfagents_x.networks import sampled_values

pytestmark = pytest.mark.usefixtures("seeded")

S, M, A, D = 6, 5, 2, 3


class Plain(snt.Module):
    """A critic that nothing is known about."""

    def __init__(self):
        super().__init__()
        self.torso, self.head = snt.Linear(4), snt.Linear(1)

    def __call__(self, observation, action):
        return self.head(tf.tanh(self.torso(tf.concat([observation, action], -1))))


CRITICS = {
    "plain": Plain,
    "multiplexer": lambda: networks.CriticMultiplexer(
        snt.nets.MLP([4, 1], activation=tf.tanh), observation_network=snt.Linear(3)
    ),
    "sequence": lambda: snt.Sequential(
        [networks.CriticMultiplexer(snt.Linear(4)), tf.tanh, snt.Linear(1), lambda x: x[:, 0]]
    ),
}


def make(name):
    rng = np.random.default_rng(0)
    draw = lambda *shape: tf.constant(rng.normal(size=shape), tf.float32)
    critic, observations, actions = CRITICS[name](), draw(M, D), draw(S, M, A)
    critic(observations, actions[0])
    return critic, observations, actions


def in_one_batch(critic, observations, actions):
    tiled = tf.tile(observations, [S, 1])
    return tf.reshape(critic(tiled, tf.reshape(actions, [S * M, A])), [S, M])


def value_and_gradient(function, actions):
    with tf.GradientTape() as tape:
        tape.watch(actions)
        values = function(actions)
        total = tf.reduce_sum(values * tf.reshape(tf.range(S * M, dtype=tf.float32), [S, M]))
    return values, tape.gradient(total, actions)


@pytest.mark.parametrize("rows", [1, 2 * M, 3 * M + 1, 10_000], ids=["1", "2", "3", "all"])
@pytest.mark.parametrize("name", CRITICS)
@pytest.mark.parametrize("mode", modes.MODES)
def test_equal_to_one_batch(monkeypatch, mode, name, rows):
    monkeypatch.setattr(sampled_values, "_ROWS", rows)
    critic, observations, actions = make(name)
    ours = lambda x: sampled_values.sampled_values(critic, observations, x)
    found = modes.MODES[mode](lambda a: value_and_gradient(ours, a))(actions)
    wanted = value_and_gradient(lambda x: in_one_batch(critic, observations, x), actions)
    for a, b in zip(found, wanted):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_no_gradient_where_none_is_wanted():
    critic, observations, actions = make("plain")
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(actions)
        value = lambda **kwargs: sampled_values.sampled_values(
            critic, observations, actions, **kwargs
        )
        constant, differentiable = value(differentiable=False), value()
    np.testing.assert_allclose(constant, differentiable, rtol=1e-6)
    assert tape.gradient(constant, actions) is None
    assert tape.gradient(differentiable, critic.trainable_variables) == (None,) * 4


@pytest.mark.parametrize(
    ("samples", "states", "wanted"),
    [(10, 320, 10), (10, 2560, 1), (10, 1000, 2), (7, 1000, 1), (3, None, 1), (3, 10_000, 1)],
)
def test_samples_in_a_round(samples, states, wanted):
    assert sampled_values._samples_at_once(samples, states) == wanted
