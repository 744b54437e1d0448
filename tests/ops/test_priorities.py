"""Priorities of sequences against Acme's numbers."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests import golden_cases
from tests.ops import modes
from tfagents_x.ops import priorities

CASES = golden_cases.load("ops_tensor_utils", "compute_priority__")


@modes.all_modes
@pytest.mark.parametrize("case", CASES, ids=golden_cases.ids)
def test_golden(case, mode):
    actual = modes.run(mode, priorities.compute_priority, case.under("in"))
    golden_cases.assert_close(actual, case["out.priorities"], rtol=1e-5, atol=1e-6)


def test_more_axes_and_a_plain_number():
    errors = np.float32([[[1, -2]], [[-3, 0]]])
    np.testing.assert_allclose(priorities.compute_priority(errors, 0.5), [[2.5, 1.5]])


@pytest.mark.parametrize("dtype", [tf.float64, tf.bfloat16])
def test_dtype_is_kept(dtype):
    result = priorities.compute_priority(tf.ones([2, 3], dtype), 0.9)
    assert result.dtype == dtype
    np.testing.assert_allclose(tf.cast(result, tf.float32), np.ones(3), rtol=1e-2)


def test_unknown_batch():
    fn = tf.function(lambda errors: priorities.compute_priority(errors, 0.9))
    spec = tf.TensorSpec([4, None], tf.float32)
    assert fn.get_concrete_function(spec).output_shapes.as_list() == [None]


def test_nan_shows_in_its_own_sequence_only():
    result = priorities.compute_priority(np.float32([[np.nan, 1], [1, 1]]), 0.9).numpy()
    assert np.isnan(result[0]) and result[1] == 1


BAD = {
    "no step": (np.zeros([0, 2], np.float32), 0.9, ValueError, "at least one step"),
    "scalar": (np.float32(1), 0.9, ValueError, "need a time axis"),
    "integer": (tf.constant([[1]]), 0.9, TypeError, "errors is int32"),
    "alpha": (np.ones([2, 2], np.float32), 1.1, ValueError, "alpha is 1.1.*from 0 to 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments(name):
    errors, alpha, error, message = BAD[name]
    with pytest.raises(error, match=message):
        priorities.compute_priority(errors, alpha)


def test_half_precision_does_not_overflow():
    errors = tf.fill([300, 1], tf.constant(300.0, tf.float16))
    result = priorities.compute_priority(errors, 0.9)
    assert result.dtype == tf.float16
    np.testing.assert_allclose(result, [300.0], rtol=1e-3)
