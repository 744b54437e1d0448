"""Noise on actions, for exploration."""

from __future__ import annotations

import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from tfagents_x import types
from tfagents_x.networks import checks


class ClippedGaussian(snt.Module):
    """Adds normal noise and clips the sum to [-1, 1] (Acme's `ClippedGaussian`)."""

    def __init__(self, stddev: float, name: str = "clipped_gaussian"):
        """Makes the noise.

        Args:
          stddev: standard deviation, a number (0 only clips) or a scalar tensor or variable.
          name: of the module.

        Raises:
          TypeError: `stddev` is no number.
          ValueError: `stddev` is negative or not finite.
        """
        super().__init__(name=name)
        checks.number("stddev", stddev, "finite and at least 0", 0.0, tf.float32.max)
        self._noise = tfp.distributions.Normal(loc=0.0, scale=stddev)

    def __call__(self, inputs: types.NestedTensor) -> types.NestedTensor:
        """Nest of float tensors of any shape -> the same, every element with noise of its own.

        Raises:
          TypeError: a leaf is not floating-point.
        """
        return tree.map_structure(self._add_noise, inputs)

    def _add_noise(self, inputs: tf.Tensor) -> tf.Tensor:
        inputs = checks.floats("ClippedGaussian", inputs)
        noise = tf.cast(self._noise.sample(tf.shape(inputs)), inputs.dtype)
        # The sampled shape is only known when the graph runs; the inputs' is at least as good.
        noise = tf.ensure_shape(noise, inputs.shape)
        return tf.clip_by_value(inputs + noise, -1.0, 1.0)
