"""Gradients derived by hand against TensorFlow's, and how sampling is distributed."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tfagents_x.networks.dreamer import latents, layers, transition

SEED = tf.constant([3, 4])


def normal(*shape, seed=0):
    return tf.random.stateless_normal(shape, [seed, 7])


def test_hidden_layer_is_layer_norm_and_silu():
    layer = layers.Hidden(4, 6)
    layer.scale.assign(normal(6, seed=1))
    layer.offset.assign(normal(6, seed=2))
    x = normal(5, 4)

    def written_out(x):
        y = x @ layer.kernel
        mean, variance = tf.nn.moments(y, [-1], keepdims=True)
        y = (y - mean) / tf.sqrt(variance + 1e-3) * layer.scale + layer.offset
        return y * tf.sigmoid(y)

    def run(fn):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = fn(x)
            total = tf.reduce_sum(y * normal(5, 6, seed=3))
        return [y, *tape.gradient(total, [x, *layer.trainable_variables])]

    for got, want in zip(run(layer), run(written_out)):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_known_first_product_has_the_gradient_of_the_weights():
    mlp = layers.MLP(4, 5, 2, 3)
    x = normal(6, 4)

    def run(known):
        with tf.GradientTape() as tape:
            weights = mlp.weights()
            first = weights.first(x)
            y = weights.rest(weights.known_first(x, tf.stop_gradient(first)) if known else first)
            total = tf.reduce_sum(y * normal(6, 3, seed=3))
        return [y, *tape.gradient(total, mlp.trainable_variables)]

    for got, want in zip(run(True), run(False)):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_step_backward():
    """All gradients of one step, with z by the straight-through gradient."""
    u, g, k, c, b = 6, 5, 3, 4, 7
    shapes = [(k * c, u), (u,), (u,), (u, 3 * g), (g, 3 * g), (2, 3 * g), (g, u), (u,), (u,)]
    raw = [normal(*shape, seed=i) for i, shape in enumerate([*shapes, (u, k * c), (k * c,)])]
    raw[0], raw[6] = (x - tf.reduce_mean(x, -1, keepdims=True) for x in (raw[0], raw[6]))
    w = transition.Weights(*raw)
    h, z, act, obs = normal(b, g), normal(b, k * c), normal(b, u, seed=8), normal(b, u, seed=9)
    act, obs = (x - tf.reduce_mean(x, -1, keepdims=True) for x in (act, obs))
    d_h, d_z, d_logits = normal(b, g, seed=4), normal(b, k * c, seed=5), normal(b, k * c, seed=6)
    inputs = [h, z, act, obs, *w]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        h_next, logits, kept = transition.step(w, h, z, act, obs, tf.float32)
        probs = latents.unimix(tf.reshape(logits, [b, k, c]))
        total = tf.reduce_sum(h_next * d_h) + tf.reduce_sum(logits * d_logits)
        total += tf.reduce_sum(tf.reshape(probs, [b, k * c]) * d_z)
    want = tape.gradient(total, inputs)
    s = transition.slopes(w, h, logits, kept, c)
    args = (s, d_h, d_z, d_logits, c, tf.float32)
    got_h, got_z, d = transition.step_vjp(transition.transposed(w), *args)
    batch = lambda nest: tf.nest.map_structure(lambda x: x[tf.newaxis], nest)
    got_w = transition.weight_gradients(w, *batch((s, d)), *batch((h, z, h_next)), tf.float32)
    for got, expected in zip([got_h, got_z, d.pre, d.out, *got_w], want):
        # The layers before hand over rows of mean 0, so that only this part of it matters.
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)


def test_samples_follow_the_unimixed_probabilities():
    logits = tf.tile(tf.constant([[8.0, 0.0, -8.0, 1.0]]), [200_000, 1])
    drawn = latents.Sampler().categorical(logits, SEED).numpy()
    np.testing.assert_array_equal(drawn.sum(1), 1.0)
    np.testing.assert_allclose(drawn.mean(0), latents.unimix(logits[0]), atol=3e-4)


def test_gaussian_samples():
    mean, std = tf.constant([[1.0, -2.0]]), tf.constant([[0.5, 2.0]])
    spread = lambda x: tf.tile(x, [100_000, 1])
    drawn = latents.Sampler().gaussian(spread(mean), spread(std), SEED).numpy()
    np.testing.assert_allclose(drawn.mean(0), mean[0], atol=0.03)
    np.testing.assert_allclose(drawn.std(0), std[0], rtol=0.02)
    got = latents.ModeSampler(0.5).gaussian(mean, std)
    np.testing.assert_allclose(got, [[1.25, -1.0]])


def test_seeds_make_samples():
    logits = normal(50, 8)
    draw = lambda seed: latents.Sampler().categorical(logits, seed).numpy()
    np.testing.assert_array_equal(draw(SEED), draw(SEED))
    assert (draw(SEED) != draw(SEED + [0, 1])).any()
