"""Acme's recurrent cores: stepping as Sonnet's do, and unrolling."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x.networks import cores, recurrence

pytestmark = pytest.mark.usefixtures("seeded")

T, B, D, A = 5, 3, 4, 2


class Critic(snt.Module):
    def __init__(self):
        super().__init__()
        self.linear = snt.Linear(6)

    def __call__(self, observation, action):
        return self.linear(tf.concat([observation, action], -1))


class CriticCore(snt.RNNCore):
    def __init__(self):
        super().__init__()
        self.lstm = snt.LSTM(3)

    def __call__(self, observation, action, state):
        return self.lstm(tf.concat([observation, action], -1), state)

    def initial_state(self, batch_size):
        return self.lstm.initial_state(batch_size)


def normal(*shape, seed=0):
    return tf.random.Generator.from_seed(seed).normal(shape)


def test_unpack_wrappers():
    observation, action = normal(B, D), normal(B, A)
    critic, core = Critic(), CriticCore()
    state = core.initial_state(B)
    np.testing.assert_array_equal(
        cores.UnpackWrapper(critic)((observation, action)), critic(observation, action)
    )
    wrapped = cores.RNNUnpackWrapper(core)
    tree.assert_same_structure(wrapped.initial_state(B), state)
    got, want = wrapped((observation, action), state), core(observation, action, state)
    tree.map_structure(np.testing.assert_array_equal, got, want)
    assert len(wrapped.trainable_variables) == 3


@pytest.mark.parametrize("first", [Critic, CriticCore], ids=["module", "core"])
def test_critic_deep_rnn(first):
    critic = cores.CriticDeepRNN([first(), tf.tanh, snt.GRU(3), snt.Linear(1)])
    observations, actions = normal(T, B, D), normal(T, B, A, seed=1)
    state = critic.initial_state(B)
    outputs, final = recurrence.unroll(critic, (observations, actions), state)
    states = state
    for t in range(T):
        output, states = critic(observations[t], actions[t], states)
        np.testing.assert_allclose(outputs[t], output, rtol=1e-5, atol=1e-6)
    tree.map_structure(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), final, states)


def test_critic_that_overrides_the_call_is_stepped():
    class Negated(cores.CriticDeepRNN):
        def __call__(self, inputs, action, prev_state):
            output, state = super().__call__(inputs, action, prev_state)
            return -output, state

    critic = cores.CriticDeepRNN([Critic(), snt.LSTM(3)])
    negated = Negated([Critic(), snt.LSTM(3)])
    inputs = normal(T, B, D), normal(T, B, A)
    assert recurrence.has_own(critic, "unroll_all")
    assert not recurrence.has_own(negated, "unroll_all")
    # Not silently: what can't be stepped with a pair says so.
    with pytest.raises(TypeError, match="RNNUnpackWrapper"):
        recurrence.unroll(negated, inputs, negated.initial_state(B))
    wrapped = cores.RNNUnpackWrapper(negated)
    outputs, _ = recurrence.unroll(wrapped, inputs, wrapped.initial_state(B))
    want, _ = negated(inputs[0][0], inputs[1][0], negated.initial_state(B))
    np.testing.assert_allclose(outputs[0], want, rtol=1e-5, atol=1e-6)


def test_unroll_methods():
    inputs = normal(T, B, D)
    for core in (cores.LSTM(3), cores.DeepRNN([snt.Linear(3), cores.LSTM(3), tf.nn.relu])):
        state = core.initial_state(B)
        want, last = snt.static_unroll(core, inputs[:4], state)
        got, final = core.unroll(inputs, state, 4)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
        tree.map_structure(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), final, last)
        assert core.unroll(inputs, state)[0].shape == (T, B, 3)
        with pytest.raises(ValueError, match="sequence_length is 6.*5 steps"):
            core.unroll(inputs, state, 6)


def test_errors():
    with pytest.raises(ValueError, match="at least one layer"):
        cores.CriticDeepRNN([])
    with pytest.raises(TypeError, match="list of layers"):
        cores.CriticDeepRNN(snt.Linear(2))
    with pytest.raises(TypeError, match="modules or functions, got 3"):
        cores.CriticDeepRNN([snt.Linear(2), 3])
    with pytest.raises(TypeError, match="modules or functions, got 3"):
        cores.UnpackWrapper(3)
    with pytest.raises(TypeError, match="needs a recurrent core.*UnpackWrapper"):
        cores.RNNUnpackWrapper(snt.Linear(2))
    with pytest.raises(TypeError, match="arguments as one tuple"):
        cores.UnpackWrapper(Critic())(normal(B, D))
    critic = cores.CriticDeepRNN([Critic(), snt.LSTM(3)])
    with pytest.raises(ValueError, match=r"pair \(observations, actions\)"):
        recurrence.unroll(critic, normal(T, B, D), critic.initial_state(B))
