"""Distributions taken apart and put together again along their batch axes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tfagents_x.networks import batched

tfd, tfb = tfp.distributions, tfp.bijectors
T, B, A, K = 4, 3, 2, 5


def normal(*shape, seed=0):
    return tf.random.Generator.from_seed(seed).normal(shape)


def mixture(n):
    components = tfd.Normal(normal(n, A, K), tf.ones([n, A, K]))
    same_family = tfd.MixtureSameFamily(tfd.Categorical(normal(n, A, K, seed=1)), components)
    return tfd.Independent(same_family, 1)


DISTRIBUTIONS = {
    "normal": lambda n: tfd.Normal(normal(n), 0.5),
    "diagonal": lambda n: tfd.MultivariateNormalDiag(normal(n, A), tf.ones([A])),
    "scale_broadcast": lambda n: tfd.MultivariateNormalDiag(normal(n, A), tf.ones([1, A])),
    "array_parameters": lambda n: tfd.Normal(np.arange(n, dtype=np.float32), np.float32(2)),
    "categorical": lambda n: tfd.Categorical(logits=normal(n, K)),
    "one_hot": lambda n: tfd.OneHotCategorical(logits=normal(n, K)),
    "independent": lambda n: tfd.Independent(tfd.Normal(normal(n, A), 1.0), 1),
    "shared_inside": lambda n: tfd.MixtureSameFamily(
        tfd.Categorical(normal(n, K)), tfd.Normal(tf.range(float(K)), 1.0)
    ),
    "mixture": mixture,
    "squashed": lambda n: tfd.TransformedDistribution(
        tfd.MultivariateNormalDiag(normal(n, A)), tfb.Tanh()
    ),
    "in_bounds": lambda n: tfd.TransformedDistribution(
        tfd.MultivariateNormalDiag(normal(n, A)),
        tfb.Chain([tfb.Shift(tf.ones([A])), tfb.Scale(tf.fill([A], 2.0)), tfb.Tanh()]),
    ),
}


def value(distribution):
    """A value inside the support, with the distribution's batch shape."""
    shape = [*distribution.batch_shape, *distribution.event_shape]
    if distribution.dtype.is_integer:
        hot = tf.one_hot(tf.ones(distribution.batch_shape, tf.int32), K, dtype=tf.int32)
        return hot if distribution.event_shape.rank else tf.ones(shape, tf.int32)
    return tf.fill(shape, 0.3)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_split_batch(name):
    flat = DISTRIBUTIONS[name](T * B)
    deep = batched.map_leaves(lambda x: batched.split(x, [T, B]) if x.shape[0] > 1 else x, flat)
    assert type(deep) is type(flat) and deep.batch_shape == (T, B)
    assert deep.event_shape == flat.event_shape
    np.testing.assert_allclose(
        tf.reshape(deep.log_prob(value(deep)), [-1]), flat.log_prob(value(flat)), rtol=1e-5
    )
    assert deep.sample(2).shape == [2, T, B, *flat.event_shape]


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_flatten_and_unflatten(name):
    nest = {"d": DISTRIBUTIONS[name](B), "x": tf.ones([B, 7])}
    tensors = batched.flatten(nest)
    stacked = batched.unflatten_as(nest, [tf.stack([x] * T) for x in tensors])
    assert stacked["d"].batch_shape == (T, B) and stacked["x"].shape == (T, B, 7)
    want = nest["d"].log_prob(value(nest["d"]))
    got = stacked["d"].log_prob(value(stacked["d"]))
    np.testing.assert_allclose(got, np.broadcast_to(want, [T, B]), rtol=1e-5)


def test_keeps_subclasses_and_what_is_not_batched():
    class Shifted(tfd.MultivariateNormalDiag):
        def _sample_n(self, n, seed=None):
            return self.loc + tf.reshape(tf.range(float(n)), [n, *[1] * self.loc.shape.rank])

        _call_sample_n = tfd.Distribution._call_sample_n

    deep = batched.map_leaves(
        lambda x: batched.split(x, [T, B]), Shifted(tf.zeros([T * B, A]), tf.ones([A]))
    )
    np.testing.assert_array_equal(deep.sample(3)[2], np.full([T, B, A], 2.0))
    scalar = tfd.Normal(0.0, 1.0)
    assert batched.flatten(scalar) == [] and batched.map_leaves(tf.identity, scalar) is scalar


def test_split_shapes():
    assert batched.split(tf.zeros([T * B, A]), [T, None]).shape[0] == T
    with pytest.raises(tf.errors.InvalidArgumentError):
        batched.split(tf.zeros([7, A]), [T, B])


def test_errors():
    with pytest.raises(TypeError, match="returned a str"):
        batched.flatten({"x": "text"})
    learnt = tfd.TransformedDistribution(
        tfd.MultivariateNormalDiag(normal(B, A)), tfb.Shift(tf.ones([B, A]))
    )
    with pytest.raises(TypeError, match="bijector with a batch of"):
        batched.flatten(learnt)

    class Odd(tfd.Normal):
        def __init__(self, both):
            super().__init__(both, both)

    with pytest.raises(TypeError, match="Odd can't be made again"):
        batched.flatten(Odd(tf.ones([B])))
