"""Torsos that make feature vectors of pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Callable, Optional, Union

import sonnet as snt
import tensorflow as tf

from tfagents_x.networks import checks, initializers
from tfagents_x.ops import checks as ops_checks

Activation = Callable[[tf.Tensor], tf.Tensor]
Extent = Union[int, Sequence[int]]


class ResNetTorso(snt.Module):
    """The residual network of IMPALA: groups of convolutions, then an MLP.

    Figure 3, right, of Espeholt et al., https://arxiv.org/abs/1802.01561 (Acme's
    `ResNetTorso`, whose MLP likewise has no activation after its last layer).
    """

    def __init__(
        self,
        num_channels: Sequence[int] = (16, 32, 32),
        num_blocks: Sequence[int] = (2, 2, 2),
        num_output_hidden: Sequence[int] = (256,),
        conv_shape: Extent = 3,
        conv_stride: Extent = 1,
        pool_size: Extent = 3,
        pool_stride: Extent = 2,
        data_format: str = "NHWC",
        activation: Activation = tf.nn.relu,
        output_dtype: tf.DType = tf.float32,
        name: str = "resnet_torso",
    ):
        """Makes the layers; their variables come with the first call.

        Args:
          num_channels: channels of every group.
          num_blocks: residual blocks of every group, as many entries as `num_channels`.
          num_output_hidden: widths of the MLP after the convolutions.
          conv_shape: kernel of the convolutions, one number or height and width.
          conv_stride: their stride; 1 unless there are no blocks.
          pool_size: window of the max-pooling that begins a group.
          pool_stride: its stride.
          data_format: "NHWC" or "NCHW" (which TensorFlow only computes on GPUs or with XLA).
          activation: before every convolution of a block, after the last, and in the MLP.
          output_dtype: to which images are converted, and in which all is computed.
          name: of the module.

        Raises:
          TypeError: `activation` can't be called, or `output_dtype` is not floating-point.
          ValueError: a size is not positive, the lengths of `num_channels` and `num_blocks`
            differ, `conv_stride` is not 1, or `data_format` is another.
        """
        super().__init__(name=name)
        num_channels = checks.sizes("num_channels", num_channels, count=1)
        num_blocks = checks.sizes("num_blocks", num_blocks, at_least=0)
        if len(num_channels) != len(num_blocks):
            raise ValueError(
                "num_channels and num_blocks must have one entry for each group, got "
                f"{num_channels} and {num_blocks}."
            )
        if any(num_blocks) and checks.extent("conv_stride", conv_stride) != [1, 1]:
            raise ValueError(
                f"conv_stride must be 1 where there are residual blocks, got {conv_stride}: a "
                "block's output must have the size of its input. Use pool_stride to shrink images."
            )
        self._output_dtype = checks.float_dtype("output_dtype", output_dtype)
        activation = checks.function("activation", activation)
        data_format = _checked_format(data_format)
        groups = [
            ResidualBlockGroup(
                blocks,
                channels,
                conv_shape,
                conv_stride,
                pool_size,
                pool_stride,
                data_format=data_format,
                activation=activation,
            )
            for blocks, channels in zip(num_blocks, num_channels)
        ]
        output_sizes = checks.sizes("num_output_hidden", num_output_hidden)
        mlp = snt.nets.MLP(output_sizes, activation=activation)
        self._resnet = snt.Sequential([*groups, activation, snt.Flatten(), mlp])

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        """Computes features.

        Args:
          inputs: images [B, H, W, C]; further axes are flattened into the channels. uint8
            and uint16 are scaled to [0, 1], floats are taken as they are.

        Returns:
          Features [B, num_output_hidden[-1]] of `output_dtype`.

        Raises:
          TypeError: no tensor, or other integers, whose scale is unknown.
          ValueError: fewer than four axes.
        """
        return self._resnet(_to_floats("ResNetTorso", inputs, self._output_dtype))


class ResidualBlockGroup(snt.Module):
    """A convolution and max-pooling, then residual blocks of two convolutions each."""

    def __init__(
        self,
        num_blocks: int,
        num_output_channels: int,
        conv_shape: Extent,
        conv_stride: Extent,
        pool_shape: Extent,
        pool_stride: Extent,
        data_format: str = "NHWC",
        activation: Activation = tf.nn.relu,
        name: Optional[str] = None,
    ):
        """Makes the layers; see `ResNetTorso` for the arguments."""
        super().__init__(name=name)
        self._activation = checks.function("activation", activation)
        conv_shape = checks.extent("conv_shape", conv_shape)
        conv_stride = checks.extent("conv_stride", conv_stride)
        pool_shape = checks.extent("pool_size", pool_shape)
        pool_stride = checks.extent("pool_stride", pool_stride)

        def conv(name: str) -> snt.Conv2D:
            return snt.Conv2D(
                num_output_channels,
                conv_shape,
                stride=conv_stride,
                padding="SAME",
                data_format=data_format,
                name=name,
            )

        def pool(inputs: tf.Tensor) -> tf.Tensor:
            return tf.nn.max_pool2d(inputs, pool_shape, pool_stride, "SAME", data_format)

        self._downscale = snt.Sequential([conv("downscale"), pool])
        self._convs = [
            [conv(f"residual_block_{i}_0"), conv(f"residual_block_{i}_1")]
            for i in range(num_blocks)
        ]

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        """Images [B, H, W, C] -> [B, H / stride, W / stride, num_output_channels]."""
        outputs = self._downscale(inputs)
        for first, second in self._convs:
            inner = first(self._activation(outputs))
            outputs = outputs + second(self._activation(inner))
        return outputs


class DrQTorso(snt.Module):
    """The encoder of DrQ: four 3x3 convolutions of 32 channels, the first of stride 2.

    Yarats et al., https://arxiv.org/abs/2004.13649, without the linear layer
    that follows there in the critic: orthogonal weights with the gain of ReLU, an activation
    after every convolution, no padding.
    """

    def __init__(
        self,
        activation: Activation = tf.nn.relu,
        data_format: str = "NHWC",
        output_dtype: tf.DType = tf.float32,
        name: str = "drq_torso",
    ):
        """Makes the layers; their variables come with the first call.

        Args:
          activation: after every convolution.
          data_format: "NHWC" or "NCHW" (which TensorFlow only computes on GPUs or with XLA).
          output_dtype: to which images are converted, and in which all is computed.
          name: of the module.

        Raises:
          TypeError: `activation` can't be called, or `output_dtype` is not floating-point.
          ValueError: `data_format` is another.
        """
        super().__init__(name=name)
        self._data_format = _checked_format(data_format)
        self._output_dtype = checks.float_dtype("output_dtype", output_dtype)
        activation = checks.function("activation", activation)
        layers: list = []
        for stride in (2, 1, 1, 1):
            w_init = initializers.Orthogonal(gain=math.sqrt(2))
            conv = snt.Conv2D(
                32, 3, stride, padding="VALID", w_init=w_init, data_format=data_format
            )
            layers += [conv, activation]
        self._network = snt.Sequential([*layers, snt.Flatten()])

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        """Computes features.

        Args:
          inputs: images [B, H, W, C] of at least 15 x 15 pixels; further axes are flattened
            into the channels. uint8 and uint16 are scaled to [0, 1], floats are taken as
            they are.

        Returns:
          Features [B, 32 * h * w] of `output_dtype`, with h = (H - 1) // 2 - 6: 35 for the
          84 x 84 pixels of the paper.

        Raises:
          TypeError: no tensor, or other integers, whose scale is unknown.
          ValueError: fewer than four axes, or an image too small.
        """
        images = _to_floats("DrQTorso", inputs, self._output_dtype)
        start = 1 if self._data_format == "NHWC" else 2
        height_width = images.shape[start : start + 2]
        if any(extent is not None and extent < 15 for extent in height_width):
            raise ValueError(
                f"DrQTorso needs images of at least 15 x 15 pixels, got {height_width}: its four "
                "convolutions without padding would leave nothing."
            )
        return self._network(images)


def _checked_format(data_format: str) -> str:
    if data_format not in ("NHWC", "NCHW"):
        raise ValueError(f"data_format must be 'NHWC' or 'NCHW', got {data_format!r}.")
    return data_format


def _to_floats(torso: str, inputs: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """[B, H, W, C, ...] -> [B, H, W, C * ...] of `dtype`, integers scaled to [0, 1]."""
    images = ops_checks.tensor(f"the input of {torso}", inputs)
    if images.shape.rank is None or images.shape.rank < 4:
        raise ValueError(
            f"{torso} needs a batch of images [B, H, W, C], got shape {images.shape}. "
            "Add a batch axis to a single image, and use LayerNormMLP for vectors."
        )
    # TensorFlow scales an integer image by its dtype's maximum, so pixels kept as int32 would
    # all become nearly 0.
    if not images.dtype.is_floating and images.dtype not in (tf.uint8, tf.uint16):
        raise TypeError(
            f"{torso} needs images of uint8, uint16 or floats, got {images.dtype.name}: "
            "use tf.cast(images, tf.uint8)."
        )
    return tf.image.convert_image_dtype(snt.Flatten(preserve_dims=3)(images), dtype)
