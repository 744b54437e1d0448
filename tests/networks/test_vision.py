"""Torsos of pixels: layer order, weights, and images that don't fit."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.networks import builds
from tfagents_x.networks import vision

IMAGES = builds.images(2, 17, 16, 3)


def conv(x, weights, bias, stride=1, padding="SAME"):
    return tf.nn.conv2d(x, weights, stride, padding) + bias


# ---- ResNetTorso ----


def small(**kwargs):
    return vision.ResNetTorso((4, 5), (1, 2), (6, 3), **kwargs)


def test_resnet():
    torso = small()
    outputs = builds.assert_works(torso, [IMAGES])
    # As in Acme, a group's blocks come before the convolution in front of them.
    assert builds.shapes(torso) == [
        *[(4,), (3, 3, 4, 4)] * 2,
        *[(4,), (3, 3, 3, 4)],
        *[(5,), (3, 3, 5, 5)] * 4,
        *[(5,), (3, 3, 4, 5)],
        *[(6,), (5 * 4 * 5, 6)],
        *[(3,), (6, 3)],
    ]
    np.testing.assert_allclose(outputs, resnet(torso), rtol=1e-4, atol=1e-5)


def resnet(torso):
    """The same, written out."""
    first, second = torso._resnet._layers[:2]
    x = tf.cast(IMAGES, tf.float32) / 255
    for group, blocks in ((first, 1), (second, 2)):
        down = group._downscale._layers[0]
        x = tf.nn.max_pool2d(conv(x, down.w, down.b), 3, 2, "SAME")
        for a, b in group._convs[:blocks]:
            x += conv(tf.nn.relu(conv(tf.nn.relu(x), a.w, a.b)), b.w, b.b)
    x = tf.reshape(tf.nn.relu(x), [2, -1])
    hidden, last = torso._resnet._layers[-1]._layers
    return tf.nn.relu(x @ hidden.w + hidden.b) @ last.w + last.b


def test_resnet_defaults_are_those_of_impala():
    torso = vision.ResNetTorso()
    assert torso(builds.images(1, 16, 16, 3)).shape == [1, 256]
    channels = [v.shape[-1] for v in torso.variables if v.shape.rank == 4]
    assert channels == [16] * 5 + [32] * 10
    assert len(torso.variables) == 32


@pytest.mark.parametrize("dtype", [tf.uint8, tf.uint16])
def test_resnet_scales_integers_to_one(dtype):
    torso = small()
    whole = tf.fill([2, 8, 8, 3], tf.constant(dtype.max, dtype))
    np.testing.assert_allclose(torso(whole), torso(tf.ones([2, 8, 8, 3])), rtol=1e-5)


def test_resnet_stacked_frames_become_channels():
    torso = small()
    frames = builds.floats(2, 9, 8, 3, 2)
    np.testing.assert_array_equal(torso(frames), torso(tf.reshape(frames, [2, 9, 8, 6])))


def test_resnet_in_half_precision():
    assert small(output_dtype=tf.bfloat16)(IMAGES).dtype == tf.bfloat16


def test_resnet_windows():
    torso = small(conv_shape=[1, 2], pool_size=(2, 3), pool_stride=(4, 1), activation=tf.nn.elu)
    torso(IMAGES)
    assert builds.shapes(torso)[:4] == [(4,), (1, 2, 4, 4)] * 2
    assert [v.shape[0] for v in torso.variables if v.shape.rank == 2] == [2 * 16 * 5, 6]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"num_channels": (4,), "num_blocks": (1, 1)}, "one entry for each group"),
        ({"num_channels": (4, 0, 4)}, r"num_channels\[1\] must be at least 1, got 0"),
        ({"num_channels": (), "num_blocks": ()}, "num_channels must have at least 1"),
        ({"num_blocks": (1, -1, 1)}, r"num_blocks\[1\] must be at least 0, got -1"),
        ({"num_output_hidden": (0,)}, r"num_output_hidden\[0\] must be at least 1, got 0"),
        ({"conv_stride": 2}, "conv_stride must be 1 where there are residual blocks, got 2"),
        ({"conv_shape": 0}, "conv_shape must be at least 1, got 0"),
        ({"pool_size": 0}, "pool_size must be at least 1, got 0"),
        ({"pool_stride": (1, 2, 3)}, "pool_stride must be one number, or height and width"),
        ({"data_format": "HWC"}, "data_format must be 'NHWC' or 'NCHW', got 'HWC'"),
    ],
)
def test_resnet_arguments(kwargs, message):
    with pytest.raises(ValueError, match=message):
        vision.ResNetTorso(**kwargs)


@pytest.mark.parametrize("torso", [vision.ResNetTorso, vision.DrQTorso])
@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"output_dtype": tf.int32}, "output_dtype must be a floating-point dtype"),
        ({"output_dtype": "abc"}, "output_dtype must be .* got 'abc'"),
        ({"activation": None}, "activation must be a module or function, got None"),
        ({"activation": 3}, "activation must be a module or function, got 3"),
    ],
)
def test_arguments_of_another_type(torso, kwargs, message):
    with pytest.raises(TypeError, match=message):
        torso(**kwargs)


# ---- DrQTorso ----


def test_drq():
    torso = vision.DrQTorso()
    outputs = builds.assert_works(torso, [IMAGES])
    assert builds.shapes(torso) == [(32,), (3, 3, 3, 32), *[(32,), (3, 3, 32, 32)] * 3]
    x = tf.cast(IMAGES, tf.float32) / 255
    for b, w, stride in zip(torso.variables[::2], torso.variables[1::2], (2, 1, 1, 1)):
        x = tf.nn.relu(conv(x, w, b, stride, "VALID"))
    np.testing.assert_allclose(outputs, tf.reshape(x, [2, -1]), rtol=1e-4, atol=1e-5)


def test_drq_weights_are_orthogonal_with_the_gain_of_relu():
    torso = vision.DrQTorso()
    torso(IMAGES)
    for weights in (v for v in torso.variables if v.shape.rank == 4):
        flat = tf.reshape(weights, [-1, 32]).numpy()
        smaller = flat @ flat.T if flat.shape[0] < 32 else flat.T @ flat
        np.testing.assert_allclose(smaller, 2 * np.eye(len(smaller)), atol=1e-4)


def test_drq_size_of_the_paper():
    signature = [tf.TensorSpec([None, 84, 84, 9], tf.uint8)]
    traced = tf.function(vision.DrQTorso(), signature, autograph=False).get_concrete_function()
    assert traced.output_shapes == [None, 32 * 35 * 35]


def test_drq_arguments():
    torso = vision.DrQTorso(activation=tf.nn.elu, output_dtype=tf.bfloat16)
    outputs = torso(IMAGES)
    assert outputs.dtype == tf.bfloat16 and np.any(tf.cast(outputs, tf.float32) < 0)
    with pytest.raises(ValueError, match="data_format must be 'NHWC' or 'NCHW', got 'HWC'"):
        vision.DrQTorso(data_format="HWC")


def test_drq_smallest_image():
    assert vision.DrQTorso()(builds.images(2, 15, 15, 3)).shape == [2, 32]
    with pytest.raises(ValueError, match="images of at least 15 x 15 pixels"):
        vision.DrQTorso()(builds.images(2, 20, 14, 3))


# ---- Both ----


@pytest.mark.parametrize("torso", [small, vision.DrQTorso])
def test_images_that_do_not_fit(torso):
    with pytest.raises(ValueError, match="needs a batch of images"):
        torso()(IMAGES[0])
    with pytest.raises(ValueError, match="needs a batch of images"):
        torso()(builds.floats(2, 5))
    with pytest.raises(TypeError, match="uint8, uint16 or floats, got int32"):
        torso()(tf.cast(IMAGES, tf.int32))
    with pytest.raises(TypeError, match="the input of .*Torso is a NoneType"):
        torso()(None)


def group(data_format):
    return vision.ResidualBlockGroup(1, 4, 3, 1, 3, 2, data_format)


@pytest.mark.parametrize("make", [group, lambda f: vision.DrQTorso(data_format=f)])
def test_channels_first(make):
    images = builds.floats(2, 17, 16, 3)
    last, first = make("NHWC"), make("NCHW")
    expected = last(images)
    call = tf.function(first, autograph=False, jit_compile=True)
    moved = tf.transpose(images, [0, 3, 1, 2])
    call(moved)
    for a, b in zip(last.variables, first.variables):
        b.assign(a)
    outputs = tf.reshape(call(moved), [2, first.variables[0].shape[0], -1])
    expected = tf.reshape(expected, [2, -1, last.variables[0].shape[0]])
    np.testing.assert_allclose(tf.transpose(outputs, [0, 2, 1]), expected, rtol=1e-4, atol=1e-5)
