"""The checks that networks share."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfagents_x.networks import checks


def test_size_takes_integers_of_all_kinds():
    assert checks.size("n", np.int64(3)) == 3
    assert type(checks.size("n", np.int64(3))) is int
    assert checks.size("n", 0, at_least=0) == 0


@pytest.mark.parametrize("value", [0, -1])
def test_size_must_be_positive(value):
    with pytest.raises(ValueError, match=f"hidden_size must be at least 1, got {value}"):
        checks.size("hidden_size", value)


@pytest.mark.parametrize("value", [2.0, "3", None, [4]])
def test_size_must_be_an_integer(value):
    with pytest.raises(TypeError, match="hidden_size must be an integer"):
        checks.size("hidden_size", value)


def test_sizes():
    assert checks.sizes("layers", (3, np.int32(2))) == [3, 2]
    assert checks.sizes("layers", []) == []
    with pytest.raises(ValueError, match=r"layers\[1\] must be at least 1, got 0"):
        checks.sizes("layers", [3, 0])
    with pytest.raises(ValueError, match="layers must have at least 1 entries"):
        checks.sizes("layers", [], count=1)
    for wrong in (3, "34"):
        with pytest.raises(TypeError, match="layers must be a sequence of integers"):
            checks.sizes("layers", wrong)


def test_extent():
    assert checks.extent("stride", 2) == [2, 2]
    assert checks.extent("stride", (2, 3)) == [2, 3]
    with pytest.raises(ValueError, match="stride must be one number, or height and width"):
        checks.extent("stride", [1, 2, 3])
    with pytest.raises(ValueError, match="stride must be at least 1, got 0"):
        checks.extent("stride", 0)


BAD_ARGUMENTS = {
    "text": (checks.number, "a", TypeError, "x must be a number, got 'a'"),
    "none": (checks.number, None, TypeError, "x must be a number, got None"),
    "bool": (checks.number, True, TypeError, "x must be a number, got True"),
    "vector": (checks.number, [1.0], TypeError, "x must be a number"),
    "jagged": (checks.number, [[1], [2, 3]], TypeError, "x must be a number"),
    "tensor": (checks.number, tf.ones([2]), TypeError, "x must be a number"),
    "variable": (checks.number, tf.Variable([True]), TypeError, "x must be a number"),
    "nan": (checks.number, np.nan, ValueError, "x must be a number, got nan"),
    "overflow": (checks.number, 1e300, ValueError, "number that float32 can hold, got 1e"),
    "zero": (checks.positive, 0, ValueError, "x must be positive, got 0"),
    "infinity": (checks.positive, np.inf, ValueError, "x must be positive, got inf"),
    "function": (checks.function, None, TypeError, "x must be a module or function, got None"),
    "initializer": (checks.initializer, "x", TypeError, "x must be an initializer .*, got 'x'"),
    "dtype": (checks.float_dtype, "abc", TypeError, "x must be a floating-point dtype.*'abc'"),
    "integer": (checks.float_dtype, tf.int32, TypeError, "x must be a floating-point dtype"),
}


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_bad_arguments(name):
    check, value, error, message = BAD_ARGUMENTS[name]
    with pytest.raises(error, match=message):
        check("x", value)


def test_numbers():
    for value in (2, np.float16(2), np.array(2), tf.constant(2), tf.constant(2, tf.bfloat16)):
        assert checks.number("x", value) == 2.0
        assert checks.positive("x", value) is value
    assert checks.number("x", tf.Variable(-1.0)) is None
    assert checks.float_dtype("x", "float16") == tf.float16
    assert checks.initializer("x", None) is None
    assert checks.function("x", len) is len


def test_images():
    assert checks.images("Torso", np.zeros([2, 4, 4, 3])).shape == [2, 4, 4, 3]
    for shape in ([2, 4], [4, 4, 3], [3, 2, 4, 4, 3]):
        with pytest.raises(ValueError, match="Torso needs a batch of images"):
            checks.images("Torso", np.zeros(shape))


def test_features():
    assert checks.features("Head", np.zeros([2, 4], np.float32)).dtype == tf.float32
    with pytest.raises(ValueError, match="Head needs a batch of vectors"):
        checks.features("Head", tf.zeros([4]))
    with pytest.raises(TypeError, match="Head needs floating-point inputs, got int32"):
        checks.features("Head", tf.zeros([2, 4], tf.int32))
    with pytest.raises(TypeError, match="Head needs a tensor, got a dict"):
        checks.features("Head", {"a": tf.zeros([2, 4])})
