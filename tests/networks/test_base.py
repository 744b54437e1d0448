"""The abstract bases."""

from __future__ import annotations

import pytest
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp

from tfagents_x.networks import base


@pytest.mark.parametrize("kind", [base.Module, base.DistributionalModule, base.RNNCore])
def test_bases_are_abstract(kind):
    with pytest.raises(TypeError, match="abstract"):
        kind()


def test_what_a_subclass_leaves_out():
    class Core(base.RNNCore):
        def __call__(self, inputs, state):
            return inputs, state

        def initial_state(self, batch_size, **kwargs):
            return tf.zeros([batch_size, 1])

    class Empty(base.Module):
        pass

    class EmptyHead(base.DistributionalModule):
        pass

    with pytest.raises(NotImplementedError, match="Core must define unroll"):
        Core().unroll(tf.zeros([3, 2, 1]), tf.zeros([2, 1]))
    for kind in (Empty, EmptyHead):
        with pytest.raises(NotImplementedError, match=f"{kind.__name__} must define __call__"):
            kind()(tf.zeros([2, 1]))


def test_subclasses_are_sonnet_modules():
    class Doubled(base.Module):
        def __call__(self, inputs):
            return 2 * inputs

    class Noisy(base.DistributionalModule):
        def __call__(self, inputs):
            return tfp.distributions.Normal(inputs, 1.0)

    assert isinstance(Doubled(name="twice"), snt.Module)
    assert Doubled()(3) == 6
    assert Noisy()(tf.zeros([2])).batch_shape == [2]
    assert issubclass(base.RNNCore, snt.RNNCore)
