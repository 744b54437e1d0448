"""Distributions of DreamerV3: unimixed categoricals, its Gaussian, and how they are sampled.

Hafner et al., 2023, arXiv:2301.04104 ("unimix", straight-through gradients); the numbers are
those of RLlib's TensorFlow models.
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

# The share of the uniform distribution in every categorical.
UNIMIX = 0.01
_MIN_STD, _MAX_STD = 0.1, 1.0


def unimix(logits: tf.Tensor) -> tf.Tensor:
    """0.99 softmax(logits) + 0.01 / C over the last axis: no probability is ever 0.

    Args:
      logits: floats [..., C].

    Returns:
      Probabilities [..., C].
    """
    return varying_share(logits) + UNIMIX / logits.shape[-1]


def varying_share(logits: tf.Tensor) -> tf.Tensor:
    """0.99 softmax(logits), what is not uniform in `unimix`; [..., C]."""
    return (1.0 - UNIMIX) * tf.nn.softmax(logits)


def straight_through(one_hot: tf.Tensor, probs: tf.Tensor) -> tf.Tensor:
    """The value of `one_hot` (to a rounding error) with the gradient of `probs`, [..., C]."""
    return tf.stop_gradient(one_hot) + probs - tf.stop_gradient(probs)


def unimix_vjp(varying: tf.Tensor, cotangent: tf.Tensor) -> tf.Tensor:
    """The gradient at the logits of `unimix`, of which `varying_share` is given; all [..., C]."""
    own = varying * cotangent
    return own - varying * (tf.reduce_sum(own, -1, keepdims=True) / (1.0 - UNIMIX))


def gaussian_params(raw_mean: tf.Tensor, raw_std: tf.Tensor) -> tf.Tensor:
    """Mean within -1 ... 1 and standard deviation within 0.1 ... 1, joined: [..., 2 A].

    Args:
      raw_mean: floats [..., A].
      raw_std: floats [..., A].
    """
    std = (_MAX_STD - _MIN_STD) * tf.sigmoid(raw_std + 2.0) + _MIN_STD
    return tf.concat([tf.tanh(raw_mean), std], -1)


def categorical_entropy(params: tf.Tensor) -> tf.Tensor:
    """Entropy [...] of the categorical whose logits are `params` [..., C]."""
    log_probs = tf.nn.log_softmax(params)
    return -tf.reduce_sum(tf.exp(log_probs) * log_probs, -1)


def gaussian_entropy(params: tf.Tensor) -> tf.Tensor:
    """Entropy [...] of the diagonal Gaussian `params` [..., 2 A]."""
    _, std = tf.split(params, 2, -1)
    return tf.reduce_sum(0.5 * math.log(2.0 * math.pi * math.e) + tf.math.log(std), -1)


def gaussian_log_prob(params: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
    """Log density [...] of `actions` [..., A] under the diagonal Gaussian `params` [..., 2 A]."""
    mean, std = tf.split(params, 2, -1)
    distance = (actions - mean) / std
    terms = 0.5 * (tf.square(distance) + math.log(2.0 * math.pi)) + tf.math.log(std)
    return -tf.reduce_sum(terms, -1)


class Sampler:
    """Draws samples; a subclass may decide otherwise, which makes a run deterministic."""

    def categorical(self, logits: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Draws from the unimixed categoricals, without forming their probabilities.

        Args:
          logits: floats [M, C], before `unimix`.
          seed: int32 [2].

        Returns:
          One-hot rows [M, C].
        """
        size = logits.shape[-1]
        drawn = tf.random.stateless_categorical(logits, 1, seed, tf.int32)[:, 0]
        # One number both decides for the uniform part and, spread out again, chooses there.
        position = tf.random.stateless_uniform(tf.shape(drawn), seed + [0, 1 << 20])
        uniform = tf.cast(position * (size / UNIMIX), tf.int32)
        index = tf.where(position < UNIMIX, tf.minimum(uniform, size - 1), drawn)
        return tf.one_hot(index, size, dtype=logits.dtype)

    def gaussian(self, mean: tf.Tensor, std: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Draws from diagonal Gaussians.

        Args:
          mean: floats [M, A].
          std: floats [M, A].
          seed: int32 [2].

        Returns:
          Floats [M, A].
        """
        return mean + std * tf.random.stateless_normal(tf.shape(mean), seed, dtype=mean.dtype)


class ModeSampler(Sampler):
    """No chance: the likeliest class, and the mean plus `eps` standard deviations."""

    def __init__(self, eps: float = 0.0):
        self._eps = eps

    def categorical(self, logits: tf.Tensor, seed: Any = None) -> tf.Tensor:
        """The one-hot rows of the largest logits, [M, C]."""
        return tf.one_hot(tf.argmax(logits, -1, tf.int32), logits.shape[-1], dtype=logits.dtype)

    def gaussian(self, mean: tf.Tensor, std: tf.Tensor, seed: Any = None) -> tf.Tensor:
        """The mean plus eps * std, [M, A]."""
        return mean + self._eps * std
