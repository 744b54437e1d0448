"""Networks of Atari: layers, order of variables, steps against sequences."""

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tree

from tests.networks import builds
from tfagents_x import types
from tfagents_x.networks import atari, base, recurrence

A, B, T = 4, 2, 3
IMAGES = tf.cast(builds.images(B, 20, 12, 3), tf.float32) / 255

TORSO = [(32,), (8, 8, 3, 32), (64,), (4, 4, 32, 64), (64,), (3, 3, 64, 64)]
FEATURES = 3 * 2 * 64


def lstm(inputs, size):
    return [(size, 4 * size), (inputs, 4 * size), (4 * size,)]


def duelling(inputs):
    layer = [(512,), (inputs, 512)]
    return [*layer, (A,), (512, A), *layer, (1,), (512, 1)]


POLICY_VALUE = [(256,), (256, 256), (A,), (256, A), (1,), (256, 1)]


def inputs(*leading):
    """`types.OAR` with small images."""
    rng = np.random.default_rng(1)
    return types.OAR(
        observation=tf.cast(builds.images(*leading, 20, 12, 3), tf.float32) / 255,
        action=tf.constant(rng.integers(0, A, leading), tf.int32),
        reward=builds.floats(*leading),
    )


# ---- AtariTorso, DQNAtariNetwork ----


def test_torso():
    torso = atari.AtariTorso()
    outputs = builds.assert_works(torso, [IMAGES])
    assert builds.shapes(torso) == TORSO
    b0, w0, b1, w1, b2, w2 = torso.variables
    x = tf.nn.relu(tf.nn.conv2d(IMAGES, w0, 4, "SAME") + b0)
    x = tf.nn.relu(tf.nn.conv2d(x, w1, 2, "SAME") + b1)
    x = tf.nn.relu(tf.nn.conv2d(x, w2, 1, "SAME") + b2)
    np.testing.assert_allclose(outputs, tf.reshape(x, [B, -1]), rtol=1e-4, atol=1e-5)


def test_torso_size_for_84_pixels():
    signature = [tf.TensorSpec([None, 84, 84, 4])]
    traced = tf.function(atari.AtariTorso(), signature, autograph=False).get_concrete_function()
    assert traced.output_shapes == [None, 7744]


def test_torso_casts_integers_without_scaling():
    torso = atari.AtariTorso()
    pixels = builds.images(B, 20, 12, 3)
    np.testing.assert_allclose(torso(pixels), torso(tf.cast(pixels, tf.float32)), rtol=1e-6)
    assert atari.AtariTorso()(tf.cast(IMAGES, tf.bfloat16)).dtype == tf.bfloat16


@pytest.mark.parametrize("shape", [[5], [B, 5], [20, 12, 3], [T, B, 20, 12, 3]])
def test_torso_needs_images(shape):
    with pytest.raises(ValueError, match="AtariTorso needs a batch of images"):
        atari.AtariTorso()(tf.zeros(shape))


def test_dqn():
    network = atari.DQNAtariNetwork(A)
    outputs = builds.assert_works(network, [IMAGES])
    assert outputs.shape == [B, A]
    assert builds.shapes(network) == TORSO + duelling(FEATURES)


# ---- Recurrent networks ----

# For each: the shapes of its variables, and those of its outputs for a batch of B.
R2D2 = [*lstm(FEATURES + A + 1, 512), *TORSO, *duelling(512)]
IMPALA = [*lstm(FEATURES + A + 1, 256), *TORSO, *POLICY_VALUE]
RECURRENT = {
    atari.R2D2AtariNetwork: (R2D2, [B, A]),
    atari.IMPALAAtariNetwork: (IMPALA, ([B, A], [B])),
    atari.DeepIMPALAAtariNetwork: (None, ([B, A], [B])),
}
each_network = pytest.mark.parametrize("kind", list(RECURRENT))


@each_network
def test_step(kind):
    network = kind(A)
    variables, output_shapes = RECURRENT[kind]
    outputs, state = builds.assert_works(network, [inputs(B), network.initial_state(B)])
    assert isinstance(state, snt.LSTMState)
    assert tree.map_structure(lambda x: x.shape.as_list(), outputs) == output_shapes
    if variables:
        assert builds.shapes(network) == variables


def test_deep_impala_variables():
    network = atari.DeepIMPALAAtariNetwork(A)
    network(inputs(B), network.initial_state(B))
    shapes = builds.shapes(network)
    assert shapes[:3] == lstm(256 + A + 1, 256) and shapes[-6:] == POLICY_VALUE
    assert len(shapes) == 3 + 32 + 6


def step_by_step(network, sequence, state):
    outputs, states = [], []
    for t in range(T):
        output, state = network(tree.map_structure(operator.itemgetter(t), sequence), state)
        outputs.append(output)
        states.append(state)
    stack = lambda *leaves: tf.stack(leaves)
    return tree.map_structure(stack, *outputs), tree.map_structure(stack, *states)


def start(network):
    return tree.map_structure(lambda x: x + 0.3, network.initial_state(B))


@each_network
def test_unroll_is_stepping(kind):
    network, sequence = kind(A), inputs(T, B)
    outputs, states = step_by_step(network, sequence, start(network))
    unrolled = network.unroll(sequence, start(network), T)
    builds.assert_close(unrolled, (outputs, tree.map_structure(lambda x: x[-1], states)))
    all_states = recurrence.unroll(network, sequence, start(network), return_all_states=True)
    builds.assert_close(all_states, (outputs, states))


@each_network
def test_gradients_of_unroll_are_those_of_stepping(kind):
    network, sequence = kind(A), inputs(T, B)
    gradients = []
    for run in (functools.partial(step_by_step, network), network.unroll):
        with tf.GradientTape() as tape:
            outputs, _ = run(sequence, start(network))
            loss = tf.add_n([tf.reduce_sum(tf.sin(x)) for x in tree.flatten(outputs)])
        gradients.append(tape.gradient(loss, network.trainable_variables))
    for a, b in zip(*gradients):
        scale = float(tf.reduce_max(tf.abs(a))) + 1e-6
        np.testing.assert_allclose(a / scale, b / scale, atol=1e-5)


@each_network
def test_resets_start_episodes(kind):
    network, sequence = kind(A), inputs(T, B)
    resets = tf.constant([[False, False], [True, False], [False, False]])
    outputs, _ = recurrence.unroll(network, sequence, start(network), resets)
    plain, _ = network.unroll(sequence, start(network))
    tail = tree.map_structure(lambda x: x[1:], sequence)
    fresh, _ = network.unroll(tail, network.initial_state(B))
    for reset, without, anew in zip(*map(tree.flatten, (outputs, plain, fresh))):
        np.testing.assert_allclose(reset[:, 1], without[:, 1], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(reset[1:, 0], anew[:, 0], rtol=1e-5, atol=1e-6)
        assert np.any(np.abs(reset[1:, 0] - without[1:, 0]) > 1e-5)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_unroll_in_graphs(jit_compile):
    network, sequence = atari.IMPALAAtariNetwork(A), inputs(T, B)
    expected = network.unroll(sequence, start(network))
    call = tf.function(network.unroll, autograph=False, jit_compile=jit_compile)
    builds.assert_close(call(sequence, start(network)), expected)


def test_unroll_does_not_grow_with_time():
    network = atari.R2D2AtariNetwork(A)
    sizes = []
    for steps in (10, 80):
        call = tf.function(network.unroll, autograph=False)
        traced = call.get_concrete_function(inputs(steps, B), network.initial_state(B))
        sizes.append(len(traced.graph.get_operations()))
    assert sizes[0] == sizes[1]


def test_first_steps_only():
    network, sequence = atari.R2D2AtariNetwork(A), inputs(T, B)
    state = network.initial_state(B)
    some = network.unroll(sequence, state, 2)
    builds.assert_close(some, network.unroll(tree.map_structure(lambda x: x[:2], sequence), state))
    with pytest.raises(ValueError, match="sequence_length is 4, but the inputs have 3 steps"):
        network.unroll(sequence, state, 4)


def test_r2d2_with_another_core():
    network = atari.R2D2AtariNetwork(A, snt.GRU(7))
    outputs, state = network(inputs(B), network.initial_state(B))
    assert outputs.shape == [B, A] and state.shape == [B, 7]
    unrolled, _ = network.unroll(inputs(T, B), start(network))
    builds.assert_close(unrolled, step_by_step(network, inputs(T, B), start(network))[0])


@each_network
def test_they_are_cores(kind):
    network = kind(A)
    assert isinstance(network, base.RNNCore)
    state = network.initial_state(tf.constant(3), dtype=tf.float32)
    assert state.hidden.shape[1] in (256, 512)


@each_network
def test_errors(kind):
    with pytest.raises(ValueError, match="num_actions must be at least 1, got 0"):
        kind(0)
    network = kind(A)
    with pytest.raises(TypeError, match=r"needs a types.OAR\(observation, action, reward\)"):
        network(IMAGES, network.initial_state(B))
    vectors = inputs(B)._replace(observation=tf.zeros([B, 5]))
    with pytest.raises(ValueError, match="needs a batch of images"):
        network(vectors, network.initial_state(B))


def test_core_must_be_one():
    with pytest.raises(TypeError, match="core must be a snt.RNNCore, got a Linear"):
        atari.R2D2AtariNetwork(A, snt.Linear(3))
