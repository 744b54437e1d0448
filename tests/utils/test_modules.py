"""Functions as modules."""

from __future__ import annotations

import pytest
import sonnet as snt
import tensorflow as tf

from tfagents_x.utils import modules


def test_a_function_becomes_a_module_without_variables():
    module = modules.to_sonnet_module(lambda a, b=1: {"sum": a + b})
    assert isinstance(module, modules.TransformationWrapper) and isinstance(module, snt.Module)
    assert module(1)["sum"] == 2 and module(1, b=2)["sum"] == 3
    assert module.variables == () and module.trainable_variables == ()


def test_a_module_stays_itself():
    linear = snt.Linear(1)
    assert modules.to_sonnet_module(linear) is linear


def test_variables_of_what_is_wrapped():
    class Scale(tf.Module):
        def __init__(self):
            super().__init__()
            self.factor = tf.Variable(2.0)

        def __call__(self, x):
            return self.factor * x

    scale = Scale()
    module = modules.TransformationWrapper(scale, name="scaled")
    assert module.name == "scaled" and module(3.0) == 6.0
    assert module.variables == (scale.factor,)


@pytest.mark.parametrize("make", [modules.to_sonnet_module, modules.TransformationWrapper])
def test_what_can_not_be_called(make):
    with pytest.raises(TypeError, match="transformation is a int, but must be a function"):
        make(3)
