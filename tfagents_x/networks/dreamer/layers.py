"""The layers that all of DreamerV3's networks are made of, with gradients derived by hand.

A hidden layer is silu(layer_norm(x @ kernel)). Its mean is taken out of the kernel's columns
instead of the result, (x @ kernel) - mean = x @ (kernel - row means): the same numbers for two
passes less over the result, forward and backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import sonnet as snt
import tensorflow as tf

EPSILON = 1e-3


def glorot() -> snt.initializers.VarianceScaling:
    """Glorot's uniform initializer."""
    return snt.initializers.VarianceScaling(1.0, "fan_avg", "uniform")


def product(x: tf.Tensor, kernel: tf.Tensor, dtype: tf.DType = tf.float32) -> tf.Tensor:
    """The product x @ kernel [M, D], multiplied in `dtype`, and returned in float32."""
    if dtype == tf.float32:
        return tf.matmul(x, kernel)
    return tf.cast(tf.matmul(tf.cast(x, dtype), tf.cast(kernel, dtype)), tf.float32)


def known_product(
    x: tf.Tensor, kernel: tf.Tensor, value: tf.Tensor, dtype: tf.DType = tf.float32
) -> tf.Tensor:
    """`value`, which is x @ kernel computed before, with the gradient for `kernel` only.

    Args:
      x: floats [M, I], a constant for gradients.
      kernel: floats [I, D].
      value: floats [M, D].
      dtype: in which gradients are multiplied.
    """

    @tf.custom_gradient
    def known(kernel: tf.Tensor) -> tuple[tf.Tensor, Any]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            return weight_gradient(x, upstream, dtype)

        return tf.identity(value), gradient

    return known(kernel)


def weight_gradient(x: tf.Tensor, upstream: tf.Tensor, dtype: tf.DType = tf.float32) -> tf.Tensor:
    """transposed(x) @ upstream, all leading axes summed over; in float32."""
    x, upstream = (tf.reshape(y, [-1, y.shape[-1]]) for y in (x, upstream))
    result = tf.matmul(tf.cast(x, dtype), tf.cast(upstream, dtype), transpose_a=True)
    return tf.cast(result, tf.float32)


def normalize(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Rows of mean 0 -> rows of variance 1 (nearly), and what they were multiplied with."""
    scale = tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + EPSILON)
    return x * scale, scale


@tf.custom_gradient
def norm_silu(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> tuple[tf.Tensor, Any]:
    """silu(layer_norm(x)) of rows [..., D] whose mean is 0 already.

    Keeps `x` alone for the backward pass.
    """
    normalized, _ = normalize(x)
    y = normalized * scale + offset

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        normalized, by = normalize(x)
        d_y = upstream * silu_slope(normalized * scale + offset)
        axes = list(range(x.shape.rank - 1))
        d_scale, d_offset = tf.reduce_sum(d_y * normalized, axes), tf.reduce_sum(d_y, axes)
        return normalize_vjp(normalized, by, d_y * scale), d_scale, d_offset

    return y * tf.sigmoid(y), gradient


def silu_slope(y: tf.Tensor) -> tf.Tensor:
    """The derivative of y * sigmoid(y)."""
    gate = tf.sigmoid(y)
    return gate * (1.0 + y * (1.0 - gate))


def normalize_vjp(normalized: tf.Tensor, by: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
    """The gradient for the input of `normalize`, which gave `normalized` and `by`."""
    along = tf.reduce_mean(upstream * normalized, -1, keepdims=True)
    return by * (upstream - normalized * along)


class HiddenWeights(NamedTuple):
    """A hidden layer on plain tensors.

    Attributes:
      kernel: [I, D], without its rows' means.
      scale: [D].
      offset: [D].
    """

    kernel: tf.Tensor
    scale: tf.Tensor
    offset: tf.Tensor


class Hidden(snt.Module):
    """A hidden layer, `silu(layer_norm(x @ kernel))`, without bias."""

    def __init__(self, inputs: int, units: int, dtype: tf.DType = tf.float32, name: str = "hidden"):
        """Makes the variables.

        Args:
          inputs: width of what comes in.
          units: width of what goes out.
          dtype: in which products are formed.
          name: of the module.
        """
        super().__init__(name=name)
        self._dtype = dtype
        self.kernel = tf.Variable(glorot()([inputs, units], tf.float32), name="kernel")
        self.scale = tf.Variable(tf.ones([units]), name="scale")
        self.offset = tf.Variable(tf.zeros([units]), name="offset")

    def weights(self) -> HiddenWeights:
        """The variables, read."""
        kernel = self.kernel - tf.reduce_mean(self.kernel, -1, keepdims=True)
        read = tf.convert_to_tensor
        return HiddenWeights(kernel, read(self.scale), read(self.offset))

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """[M, inputs] -> [M, units]."""
        kernel, scale, offset = self.weights()
        return norm_silu(product(x, kernel, self._dtype), scale, offset)


class Linear(snt.Module):
    """x @ kernel + bias."""

    def __init__(
        self,
        inputs: int,
        units: int,
        dtype: tf.DType = tf.float32,
        zeros: bool = False,
        name: str = "linear",
    ):
        """Makes the variables.

        Args:
          inputs: width of what comes in.
          units: width of what goes out.
          dtype: in which products are formed.
          zeros: begin with a kernel of zeros.
          name: of the module.
        """
        super().__init__(name=name)
        self._dtype = dtype
        w_init = snt.initializers.Zeros() if zeros else glorot()
        self.kernel = tf.Variable(w_init([inputs, units], tf.float32), name="kernel")
        self.bias = tf.Variable(tf.zeros([units]), name="bias")

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """[M, inputs] -> [M, units]."""
        return tf.nn.bias_add(product(x, self.kernel, self._dtype), self.bias)


class MLPWeights(NamedTuple):
    """An MLP on plain tensors, for loops, in which reading variables costs time.

    Attributes:
      hidden: of each hidden layer.
      out: kernel and bias of the linear layer.
      dtype: in which products are formed.
    """

    hidden: Sequence[HiddenWeights]
    out: tuple[tf.Tensor, tf.Tensor]
    dtype: tf.DType

    def first(self, x: tf.Tensor) -> tf.Tensor:
        """The product of the first layer, [M, inputs] -> [M, units]: most of the work."""
        return product(x, self.hidden[0].kernel, self.dtype)

    def known_first(self, x: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
        """`first(x)` from its value, with the gradient for the kernel; see `known_product`."""
        return known_product(x, self.hidden[0].kernel, value, self.dtype)

    def rest(self, first: tf.Tensor) -> tf.Tensor:
        """All that follows `first`, [M, units] -> [M, outputs]."""
        x = norm_silu(first, *self.hidden[0][1:])
        for kernel, scale, offset in self.hidden[1:]:
            x = norm_silu(product(x, kernel, self.dtype), scale, offset)
        kernel, bias = self.out
        return tf.nn.bias_add(product(x, kernel, self.dtype), bias)

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """[M, inputs] -> [M, outputs]."""
        return self.rest(self.first(x))


class MLP(snt.Module):
    """Hidden layers, then a linear one."""

    def __init__(
        self,
        inputs: int,
        units: int,
        layers: int,
        outputs: int,
        dtype: tf.DType = tf.float32,
        zeros: bool = False,
        name: str = "mlp",
    ):
        """Makes the variables.

        Args:
          inputs: width of what comes in.
          units: width of the hidden layers.
          layers: their number, one at least.
          outputs: width of the linear layer.
          dtype: in which products are formed.
          zeros: begin with a linear layer of zeros.
          name: of the module.
        """
        super().__init__(name=name)
        self._dtype = dtype
        widths = [inputs, *[units] * layers]
        self.hidden = [Hidden(*pair, dtype=dtype) for pair in zip(widths, widths[1:])]
        self.out = Linear(units, outputs, dtype, zeros)

    def weights(self) -> MLPWeights:
        """The variables, read."""
        out = tf.convert_to_tensor(self.out.kernel), tf.convert_to_tensor(self.out.bias)
        return MLPWeights([layer.weights() for layer in self.hidden], out, self._dtype)

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """[M, inputs] -> [M, outputs]."""
        return self.weights()(x)
