"""Picking the values of actions, those that don't exist included."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfagents_x.ops import indexing

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_values_of_the_actions():
    np.testing.assert_array_equal(indexing.batched_index(VALUES, np.array([2, 0])), [2, 3])


@pytest.mark.parametrize("wrong", [-1, 3, 100])
def test_actions_that_do_not_exist(wrong):
    indices = tf.constant([wrong, 1])
    with pytest.raises(tf.errors.InvalidArgumentError):
        indexing.batched_index(VALUES, indices)
    compiled = tf.function(indexing.batched_index, jit_compile=True)
    np.testing.assert_array_equal(compiled(tf.constant(VALUES), indices), [np.nan, 4])
