"""ConcatObservation: order, dtypes, shapes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfagents_x.networks.observations import ConcatObservation


def test_leaves_in_the_order_of_the_nest():
    observation = {
        "b": np.full([2, 2, 2], 3, np.uint8),
        "a": (np.array([1.0, 2.0], np.float32), np.array([[True], [False]])),
    }
    out = ConcatObservation()(observation)
    assert out.dtype == tf.float32
    np.testing.assert_array_equal(out, [[1, 1, 3, 3, 3, 3], [2, 0, 3, 3, 3, 3]])


def test_a_vector_stays_as_it_is():
    vector = np.ones([3, 4], np.float32)
    np.testing.assert_array_equal(ConcatObservation()(vector), vector)


ONES = np.ones([2, 3], np.float32)
BAD = {
    "text": ({"a": ONES, "b": np.array(["x", "y"])}, TypeError, "b is string, but must hold num"),
    "none": ({"a": None}, TypeError, "a is a NoneType, but must be a tensor"),
    "scalar": ({"a": ONES, "b": 1.0}, ValueError, r"b has shape \(\)"),
    "sizes": ((ONES, ONES[:1]), ValueError, "the same batch size"),
    "empty": ({}, ValueError, "at least one tensor"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_observations(name):
    observation, error, message = BAD[name]
    with pytest.raises(error, match=message):
        ConcatObservation()(observation)
