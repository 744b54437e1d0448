"""Encoder and decoder of images, four strided convolutions each.

RLlib's `CNNAtari` and `ConvTransposeAtari`, also for grey and for other sizes of which height
and width are multiples of 16.
"""

from __future__ import annotations

from collections.abc import Sequence

import sonnet as snt
import tensorflow as tf

from tfagents_x.networks.dreamer import layers

_KERNEL = [4, 4]
STRIDE = 16


class _Norm(snt.Module):
    """silu(layer_norm(x)) over channels, for inputs of mean 0."""

    def __init__(self, channels: int, name: str = "norm"):
        super().__init__(name=name)
        self.scale = tf.Variable(tf.ones([channels]), name="scale")
        self.offset = tf.Variable(tf.zeros([channels]), name="offset")

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        return layers.norm_silu(
            x, tf.convert_to_tensor(self.scale), tf.convert_to_tensor(self.offset)
        )


class ImageEncoder(snt.Module):
    """Images [N, H, W, C] -> features [N, H / 16 * W / 16 * 8 m]."""

    def __init__(
        self,
        shape: Sequence[int],
        multiplier: int,
        dtype: tf.DType = tf.float32,
        name: str = "image_encoder",
    ):
        """Makes the variables.

        Args:
          shape: H, W, C of images.
          multiplier: m, the channels of the first convolution.
          dtype: of the convolutions.
          name: of the module.
        """
        super().__init__(name=name)
        self._dtype = dtype
        channels = [shape[2], *(multiplier * 2**i for i in range(4))]
        make = lambda size: tf.Variable(
            layers.glorot()([*_KERNEL, *size], tf.float32), name="kernel"
        )
        self.kernels = [make(pair) for pair in zip(channels, channels[1:])]
        self.norms = [_Norm(size) for size in channels[1:]]
        self.output_size = shape[0] // STRIDE * (shape[1] // STRIDE) * channels[-1]

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        """Scaled images, float32."""
        x = images
        for kernel, norm in zip(self.kernels, self.norms):
            kernel = kernel - tf.reduce_mean(kernel, 3, keepdims=True)
            x, kernel = tf.cast(x, self._dtype), tf.cast(kernel, self._dtype)
            x = norm(tf.cast(tf.nn.conv2d(x, kernel, 2, "SAME"), tf.float32))
        return tf.reshape(x, [-1, self.output_size])


class ImageDecoder(snt.Module):
    """States [N, S] -> means of images, flat [N, H * W * C], around 0.5."""

    def __init__(
        self,
        inputs: int,
        shape: Sequence[int],
        multiplier: int,
        dtype: tf.DType = tf.float32,
        name: str = "image_decoder",
    ):
        """Makes the variables.

        Args:
          inputs: S.
          shape: H, W, C of images.
          multiplier: m, half the channels before the last convolution.
          dtype: of the convolutions.
          name: of the module.
        """
        super().__init__(name=name)
        self._dtype, self._shape = dtype, tuple(shape)
        self._start = [shape[0] // STRIDE, shape[1] // STRIDE, 8 * multiplier]
        self.dense = layers.Linear(inputs, self._start[0] * self._start[1] * self._start[2], dtype)
        channels = [8 * multiplier, 4 * multiplier, 2 * multiplier, multiplier, shape[2]]
        make = lambda size: tf.Variable(
            layers.glorot()([*_KERNEL, *size], tf.float32), name="kernel"
        )
        # Transposed convolutions keep their kernels the other way round.
        self.kernels = [make(pair[::-1]) for pair in zip(channels, channels[1:])]
        self.norms = [_Norm(size) for size in channels[1:4]]
        self.bias = tf.Variable(tf.zeros([shape[2]]), name="bias")

    def __call__(self, states: tf.Tensor) -> tf.Tensor:
        """[N, S] -> [N, H * W * C]."""
        x = tf.reshape(self.dense(states), [-1, *self._start])
        for i, kernel in enumerate(self.kernels):
            last = i == len(self.norms)
            if not last:
                kernel = kernel - tf.reduce_mean(kernel, 2, keepdims=True)
            size = [y // STRIDE * 2 ** (i + 1) for y in self._shape[:2]]
            shape = [tf.shape(x)[0], *size, kernel.shape[2]]
            x, kernel = tf.cast(x, self._dtype), tf.cast(kernel, self._dtype)
            x = tf.nn.conv2d_transpose(x, kernel, shape, 2, "SAME")
            x = tf.cast(x, tf.float32)
            x = tf.nn.bias_add(x, self.bias) + 0.5 if last else self.norms[i](x)
        return tf.reshape(x, [-1, self._shape[0] * self._shape[1] * self._shape[2]])
