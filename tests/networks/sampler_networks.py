"""Networks for tests of the samplers: from golden weights, from tables, and ones that record."""

from __future__ import annotations

import json
import math

import numpy as np
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp

tfd = tfp.distributions


def settings(case):
    """The configuration of a golden case."""
    return json.loads(str(case["config"]))


class FixedNoise(tfd.Normal):
    """Gives loc + scale * eps[i] as sample i of N."""

    def __init__(self, loc, scale, eps, name="FixedNoise"):
        self._eps = tf.constant(eps)
        super().__init__(loc, scale, name=name)

    def _sample_n(self, n, seed=None):
        assert n == self._eps.shape[0], "one call must draw all samples"
        return self.loc + self.scale * self._eps[:, tf.newaxis]


class Layers(snt.Module):
    """Named linear layers with golden weights."""

    def __init__(self, weights):
        super().__init__()
        self._weights = {name: tf.Variable(value) for name, value in weights.items()}

    def __call__(self, name, x):
        return x @ self._weights[f"{name}.w"] + self._weights[f"{name}.b"]


def lstm(weights):
    """`snt.LSTM` with golden weights."""
    core = snt.LSTM(weights["lstm.w_h"].shape[0])
    core._initialize(tf.zeros([1, weights["lstm.w_i"].shape[0]]))
    for variable, name in ((core._w_i, "w_i"), (core._w_h, "w_h"), (core.b, "b")):
        variable.assign(weights[f"lstm.{name}"])
    return core


class DistributionHead(snt.Module):
    """A distribution whose i-th sample has the noise eps[i]."""

    def __init__(self, layers, eps):
        super().__init__()
        self._layers, self._eps = layers, eps

    def __call__(self, x):
        loc = self._layers("mean", x)
        return FixedNoise(loc, tf.nn.softplus(self._layers("scale", x)) + 0.1, self._eps)


class SampleHead(DistributionHead):
    """Adds eps[n] to row n * B + b, and so can't work on anything but N * B rows."""

    def __call__(self, x):
        distribution = super().__call__(x)
        batch = tf.shape(x)[0] // len(self._eps)
        return distribution.loc + distribution.scale * tf.repeat(self._eps, batch, axis=0)


def policy_layers(case, head):
    """Layers of a golden policy; `head` is one of the two above."""
    weights = case.under("weights.policy")
    layers = Layers(weights)
    core = [lstm(weights)] if "lstm.w_i" in weights else []
    return [lambda x: tf.tanh(layers("linear", x)), *core, head(layers, case["in.eps"])]


def critic_layers(case):
    """Layers of a golden critic, the first called with observation and action."""
    weights = case.under("weights.critic")
    layers, sizes = Layers(weights), settings(case)["sizes"]
    first = lambda o, a: tf.tanh(layers("linear", tf.concat([o, a], -1)))
    if "lstm.w_i" not in weights:
        return [first, lambda x: layers("out", x)]
    atoms = np.linspace(sizes["vmin"], sizes["vmax"], sizes["num_atoms"], dtype=np.float32)
    return [first, lstm(weights), lambda x: Values(layers("head", x), atoms)]


class Values(tfd.Categorical):
    """Categorical over real values, with a mean."""

    def __init__(self, logits, values):
        self._values = tf.constant(values)
        super().__init__(logits=logits, name="Values")

    def _mean(self):
        return tf.linalg.matvec(tf.nn.softmax(self.logits), self._values)


class Table(snt.Module):
    """Actor and critic of given candidates [B, N, A] and values [B, N].

    Observations are indices [M] of the table's batch elements.
    """

    def __init__(self, candidates, values):
        super().__init__()
        self._candidates, self._values = candidates, values
        self._num = values.shape[1]

    def _entries(self, table, index):
        number = tf.range(tf.size(index)) // (tf.size(index) // self._num)
        return tf.gather_nd(table, tf.stack([index, number], axis=1))

    def actor(self, index):
        return self._entries(self._candidates, index)

    def critic(self, index, action):
        return self._entries(self._values, index)


def critical_value(degrees, z=4.5):
    """Chi-squared value exceeded as seldom as z by a normal variable (Wilson and Hilferty)."""
    part = 2 / (9 * degrees)
    return degrees * (1 - part + z * math.sqrt(part)) ** 3


def assert_frequencies(counts, probs):
    """Chi-squared test of counts [N] against probabilities; rare ones are joined."""
    counts, expected = np.asarray(counts, np.float64), np.asarray(probs, np.float64)
    assert not counts[expected == 0].any(), "a candidate of probability 0 was picked"
    expected = expected / expected.sum() * counts.sum()
    rare = expected < 5
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    kept = expected >= 5
    statistic = np.sum((counts[kept] - expected[kept]) ** 2 / expected[kept])
    assert kept.sum() >= 2 and statistic < critical_value(kept.sum() - 1), statistic
