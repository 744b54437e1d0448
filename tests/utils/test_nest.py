"""Rearranging nests, and creating variables from specs."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from tfagents_x import specs
from tfagents_x.utils import nest


def test_batch_to_sequence():
    data = {"a": np.arange(24).reshape(2, 3, 4), "b": (np.zeros([2, 3], bool),)}
    out = nest.batch_to_sequence(data)
    np.testing.assert_array_equal(out["a"], data["a"].swapaxes(0, 1))
    assert out["b"][0].shape == (3, 2) and out["b"][0].dtype == tf.bool
    with pytest.raises(ValueError, match=r"b/0 has shape \(2,\)"):
        nest.batch_to_sequence({"b": (np.zeros([2]),)})


def test_specs_to_arrays_and_tensors():
    spec = {"x": specs.Array((2,), np.float32), "y": specs.DiscreteArray(3)}
    zeros = nest.zeros_like_spec(spec, [4])
    assert zeros["x"].shape == (4, 2) and zeros["y"].dtype == np.int32
    tensors = nest.tensor_specs(spec, [None])
    assert tensors["x"] == tf.TensorSpec([None, 2], tf.float32, "x")
    assert nest.tensor_specs(specs.Array((), bool)).name == "input"


def test_create_variables():
    core = snt.DeepRNN([snt.Linear(3), snt.LSTM(2)])
    assert nest.variables_of(core) == ()
    nest.create_variables(core, [specs.Array((4,), np.float32)])
    assert len(nest.variables_of(core)) == 5
    linear = snt.Linear(1)
    nest.create_variables(linear, [specs.Array((4,), np.float32)])
    assert linear.w.shape == (4, 1)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (np.float64, tf.float32),
        (np.int64, tf.int32),
        (np.uint64, tf.uint32),
        (np.uint8, tf.uint8),
        (np.float16, tf.float16),
        (bool, tf.bool),
    ],
)
def test_narrow(given, wanted):
    assert nest.narrow(np.zeros([2], given)).dtype == wanted


def test_add_batch_dim_and_to_numpy():
    out = nest.add_batch_dim({"a": np.zeros([2]), "b": 1.0})
    assert out["a"].shape == (1, 2) and out["b"].shape == (1,)
    assert isinstance(nest.to_numpy(out)["a"], np.ndarray)
