"""Several actions for each state at once, against asking the critic one by one."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import networks
from tfagents_x.networks import action_values

pytestmark = pytest.mark.usefixtures("seeded")

N, M, D, A = 4, 3, 5, 2


def normal(*shape, seed=0):
    return tf.random.Generator.from_seed(seed).normal(shape)


def multiplexer(**kwargs):
    return networks.CriticMultiplexer(snt.nets.MLP([6], activate_final=True), **kwargs)


class BlackBox(snt.RNNCore):
    def __init__(self):
        super().__init__()
        self.inner = networks.CriticDeepRNN([multiplexer(), snt.LSTM(4), snt.Linear(1)])

    def __call__(self, observation, action, state):
        return self.inner(observation, action, state)

    def initial_state(self, batch_size):
        return self.inner.initial_state(batch_size)


RECURRENT = {
    "lstm": lambda: networks.CriticDeepRNN([multiplexer(), snt.LSTM(4), snt.Linear(1)]),
    "embedded": lambda: networks.CriticDeepRNN(
        [multiplexer(observation_network=snt.Linear(7), action_network=tf.tanh), networks.LSTM(4)]
    ),
    "two_cores": lambda: networks.CriticDeepRNN([multiplexer(), snt.GRU(3), snt.LSTM(4)]),
    "atoms": lambda: networks.CriticDeepRNN(
        [multiplexer(), snt.LSTM(4), networks.DiscreteValuedHead(-1.0, 1.0, 11)]
    ),
    "projected": lambda: networks.CriticDeepRNN([multiplexer(), snt.LSTM(4, projection_size=2)]),
    "black_box": BlackBox,
}


def mean(values):
    return values if tf.is_tensor(values) else values.mean()


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_critics(name, mode):
    critic = RECURRENT[name]()
    observations, actions = normal(M, D), normal(N, M, A, seed=1)
    critic(observations, actions[0], critic.initial_state(M))
    states = tree.map_structure(lambda s: normal(*s.shape, seed=2), critic.initial_state(M))

    def together():
        with tf.GradientTape() as tape:
            tape.watch(actions)
            values, next_states = action_values.evaluate_actions(
                critic, observations, actions, states
            )
            total = tf.reduce_sum(tf.sin(mean(values)))
        return mean(values), next_states, tape.gradient(total, [actions, critic.variables[0]])

    def one_by_one():
        with tf.GradientTape() as tape:
            tape.watch(actions)
            results = [critic(observations, actions[n], states) for n in range(N)]
            values = tf.stack([mean(value) for value, _ in results])
            total = tf.reduce_sum(tf.sin(values))
        next_states = tree.map_structure(lambda *s: tf.stack(s), *[s for _, s in results])
        return values, next_states, tape.gradient(total, [actions, critic.variables[0]])

    if mode != "eager":
        together = tf.function(together, jit_compile=mode == "xla", autograph=False)
    for got, want in zip(tree.flatten(together()), tree.flatten(one_by_one())):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_feed_forward_critic():
    critic = snt.Sequential([multiplexer(), snt.Linear(1)])
    observations, actions = {"x": normal(M, D), "y": normal(M)}, normal(N, M, A)
    values, states = action_values.evaluate_actions(critic, observations, actions)
    assert states == () and values.shape == (N, M, 1)
    for n in range(N):
        np.testing.assert_allclose(values[n], critic(observations, actions[n]), atol=1e-6)


def test_observations_are_embedded_once():
    seen = []

    def embed(x):
        seen.append(x.shape[0])
        return x

    critic = networks.CriticDeepRNN([multiplexer(observation_network=embed), snt.LSTM(4)])
    states = critic.initial_state(M)
    action_values.evaluate_actions(critic, normal(M, D), normal(N, M, A), states)
    assert seen == [M]


def test_distributions_keep_their_kind():
    critic = RECURRENT["atoms"]()
    values, _ = action_values.evaluate_actions(
        critic, normal(M, D), normal(N, M, A), critic.initial_state(M)
    )
    assert isinstance(values, networks.DiscreteValuedDistribution)
    assert values.batch_shape == (N, M) and values.values.shape == (11,)


def test_unknown_batch():
    critic = RECURRENT["atoms"]()
    observations, actions = normal(M, D), normal(N, M, A)
    signature = [tf.TensorSpec([None, D]), tf.TensorSpec([N, None, A])]

    @tf.function(input_signature=signature)
    def run(observations, actions):
        states = critic.initial_state(tf.shape(observations)[0])
        return action_values.evaluate_actions(critic, observations, actions, states)[0].mean()

    want = action_values.evaluate_actions(critic, observations, actions, critic.initial_state(M))
    np.testing.assert_allclose(run(observations, actions), want[0].mean(), atol=1e-6)
