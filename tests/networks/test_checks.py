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
