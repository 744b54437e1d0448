"""Online and target networks in one call, stepped over sequences."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp

from tfagents_x.utils import pi_q, sequences

T, B, S, A = 4, 3, 5, 2
tfd = tfp.distributions
rng = np.random.default_rng(0)
NOISE = rng.normal(size=[S, 1, A]).astype(np.float32)
OBSERVATIONS = tf.constant(rng.normal(size=[T, B, 6]).astype(np.float32))
ACTIONS = tf.constant(rng.normal(size=[T, B, A]).astype(np.float32))


class SameNoise(tfd.Normal):
    """Draws the same noise for every row."""

    def _sample_n(self, n, seed=None):
        return self.loc + self.scale * NOISE[:n]


class Policy(snt.Module):
    def __init__(self):
        super().__init__()
        self._linear = snt.Linear(2 * A)

    def __call__(self, observation):
        mean, scale = tf.split(self._linear(observation), 2, axis=-1)
        return tfd.Independent(SameNoise(mean, tf.nn.softplus(scale) + 0.1), 1)


class Critic(snt.Module):
    def __init__(self):
        super().__init__()
        self._linear = snt.Linear(1)

    def __call__(self, observation, action):
        return self._linear(tf.concat([observation, action], axis=-1))


def networks():
    tf.random.set_seed(1)
    return {
        **{"online_pi": Policy(), "online_q": Critic(), "target_pi": Policy()},
        **{"target_q": Critic(), "num_samples": S},
    }


def priors():
    return {"online_prior": Policy(), "target_prior": Policy()}


def test_fields():
    given = networks()
    out = pi_q.OnlineTargetPiQ(**given)((OBSERVATIONS[0], ACTIONS[0]))
    online, target = given["online_pi"](OBSERVATIONS[0]), given["target_pi"](OBSERVATIONS[0])
    samples = online.mean() + online.stddev() * NOISE
    np.testing.assert_allclose(out.online_samples, samples, rtol=1e-6)
    np.testing.assert_allclose(out.target_samples, target.mean() + target.stddev() * NOISE)
    np.testing.assert_allclose(out.target_log_probs_behavior_actions, target.log_prob(ACTIONS[0]))
    np.testing.assert_allclose(out.online_log_probs, online.log_prob(samples), rtol=1e-5)
    for name in ("online_q", "target_q"):
        np.testing.assert_allclose(
            getattr(out, name), given[name](OBSERVATIONS[0], ACTIONS[0]), rtol=1e-6
        )
    assert not hasattr(out, "analytic_kl_divergence")


def test_priors():
    given = {**networks(), **priors()}
    out = pi_q.OnlineTargetPiQ(**given)((OBSERVATIONS[0], ACTIONS[0]))
    online = given["online_pi"](OBSERVATIONS[0])
    for field, prior in zip(("divergence", "to_target"), ("online_prior", "target_prior")):
        kl = online.kl_divergence(given[prior](OBSERVATIONS[0]))
        actual = out.analytic_kl_divergence if field == "divergence" else out.analytic_kl_to_target
        np.testing.assert_allclose(actual, kl, rtol=1e-6)
    assert out._fields[: len(pi_q.PiQ._fields)] == pi_q.PiQ._fields


def test_no_gradient_passes_through_the_samples_into_their_log_probs():
    given = networks()
    core = pi_q.OnlineTargetPiQ(**given)
    with tf.GradientTape() as tape:
        log_probs = core((OBSERVATIONS[0], ACTIONS[0])).online_log_probs
    actual = tape.gradient(log_probs, given["online_pi"].trainable_variables)
    with tf.GradientTape() as tape:
        distribution = given["online_pi"](OBSERVATIONS[0])
        log_probs = distribution.log_prob(tf.stop_gradient(distribution.sample(S)))
    expected = tape.gradient(log_probs, given["online_pi"].trainable_variables)
    for one, other in zip(actual, expected):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize("extra", [dict, priors])
def test_over_a_sequence(extra):
    core = pi_q.OnlineTargetPiQ(**networks(), **extra())
    out = sequences.static_rnn(core, (OBSERVATIONS, ACTIONS), T)
    steps = [core((OBSERVATIONS[t], ACTIONS[t])) for t in range(T)]
    shapes = {"online_samples": (T, S, B, A), "online_log_probs": (T, S, B), "target_q": (T, B, 1)}
    for name, shape in shapes.items():
        assert getattr(out, name).shape == shape
    for name, value in out._asdict().items():
        expected = np.stack([getattr(step, name) for step in steps])
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)


def test_variables_of_all_networks():
    core = pi_q.OnlineTargetPiQ(**networks(), **priors())
    core((OBSERVATIONS[0], ACTIONS[0]))
    assert len(core.trainable_variables) == 12


BAD = {
    "one prior": ({"online_prior": Policy()}, ValueError, "target_prior is missing: give both"),
    "other prior": ({"target_prior": Policy()}, ValueError, "online_prior is missing"),
    "samples": ({"num_samples": 0}, ValueError, "num_samples is 0, but must be at least 1"),
    "fraction": ({"num_samples": 2.5}, TypeError, "num_samples is 2.5, but must be an int"),
    "none": ({"num_samples": None}, TypeError, "num_samples is None, but must be an int"),
    "policy": ({"online_pi": 1}, TypeError, "online_pi is 1, but must be a network to call"),
    "critic": ({"target_q": 4}, TypeError, "target_q is 4, but must be a network to call"),
    "priors": ({"online_prior": 1, "target_prior": 2}, TypeError, "online_prior is 1, but"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments(name):
    changes, error, message = BAD[name]
    with pytest.raises(error, match=message):
        pi_q.OnlineTargetPiQ(**{**networks(), **changes})


def test_policies_must_return_distributions():
    core = pi_q.OnlineTargetPiQ(**{**networks(), "target_pi": snt.Linear(A)})
    with pytest.raises(TypeError, match="target_pi returned a .*, but must return a tfp distrib"):
        core((OBSERVATIONS[0], ACTIONS[0]))


@pytest.mark.parametrize("given", [(OBSERVATIONS[0], ACTIONS[0]), (OBSERVATIONS[0],), (None,)])
def test_input_is_a_pair(given):
    core = pi_q.OnlineTargetPiQ(**networks())
    with pytest.raises(
        TypeError, match=r"takes one argument, the pair \(observation, action\), got"
    ):
        core(*given)
