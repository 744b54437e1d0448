"""Symlog and two-hot against RLlib's numbers, and where they are more precise than those."""

from __future__ import annotations

import functools

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests import golden_cases
from tests.ops import modes
from tfagents_x.ops import symlog as ops

F32 = np.float32
few_examples = hypothesis.settings(max_examples=50, deadline=None, derandomize=True)


def cases(function):
    found = golden_cases.load("ops_symlog_twohot", f"{function}__")
    return pytest.mark.parametrize("case", found, ids=golden_cases.ids)


# ---- symlog and symexp ----


@modes.with_gradients(grad=["y"])
def symlog(x):
    return {"y": ops.symlog(x)}


@modes.with_gradients(grad=["y"])
def symexp(x):
    return {"y": ops.symexp(x)}


def check(case, mode, fn):
    x = case["in.x"]
    outputs, gradients = modes.run(mode, fn, {"x": x})
    golden_cases.assert_close(outputs["y"], case["out.y"], rtol=1e-5, atol=2e-7)
    derivative = gradients["grad"]["x"].numpy()
    expected = np.where(x == 0, F32(1), case["out.grad.x"])  # the reference gives 0 there
    golden_cases.assert_close(derivative, expected, rtol=1e-5, atol=1e-6)


@modes.all_modes
@cases("symlog")
def test_symlog(case, mode):
    check(case, mode, symlog)


@modes.all_modes
@cases("inverse_symlog")
def test_symexp(case, mode):
    check(case, mode, symexp)


@modes.all_modes
@pytest.mark.parametrize("fn", [ops.symlog, ops.symexp])
def test_tiny_numbers_keep_their_digits(fn, mode):
    x = np.array([1e-7, -1e-7, 3e-12, -1e-20, 0.0], F32)
    np.testing.assert_allclose(modes.run(mode, fn, {"x": x}), x, rtol=1e-6, atol=0)


@modes.all_modes
def test_second_derivatives_are_finite_at_zero(mode):
    def curvature(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = ops.symlog(x)
            slope = inner.gradient(y, x)
        return outer.gradient(slope, x)

    x = np.array([-1.0, 0.0, 1.0], F32)
    curved = modes.run(mode, curvature, {"x": x}).numpy()
    np.testing.assert_allclose(curved[[0, 2]], [0.25, -0.25], rtol=1e-6)
    assert np.isfinite(curved[1])


@pytest.mark.parametrize("fn", [ops.symlog, ops.symexp])
def test_non_finite_numbers_stay(fn):
    out = fn(np.array([np.inf, -np.inf, np.nan], F32)).numpy()
    np.testing.assert_array_equal(out, [np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64])
def test_dtype_is_kept(dtype):
    x = tf.constant([-3.0, 0.5], dtype)
    back = ops.symexp(ops.symlog(x))
    assert back.dtype == dtype
    np.testing.assert_allclose(tf.cast(back, tf.float32), [-3.0, 0.5], rtol=0.05)


vectors = arrays.arrays(
    F32, (8,), elements=st.floats(-(2.0**60), 2.0**60, width=32, allow_subnormal=False)
)


@few_examples
@hypothesis.given(vectors)
def test_symexp_inverts_symlog(x):
    # exp turns an absolute error of its argument into a relative one.
    np.testing.assert_allclose(ops.symexp(ops.symlog(x)), x, rtol=2e-5)


@few_examples
@hypothesis.given(vectors)
def test_symlog_is_odd_and_flatter_than_the_identity(x):
    y = ops.symlog(x).numpy()
    np.testing.assert_array_equal(ops.symlog(-x), -y)
    assert (np.abs(y) <= np.abs(x)).all()


@pytest.mark.parametrize("fn", [ops.symlog, ops.symexp])
def test_integers_are_refused(fn):
    with pytest.raises(TypeError, match="x is int32, but must be floating-point"):
        fn(tf.constant([1, 2]))


# ---- two_hot ----


@functools.cache
def two_hot_with(num_buckets, lower_bound, upper_bound):
    return lambda value: ops.two_hot(value, num_buckets, lower_bound, upper_bound)


@modes.all_modes
@cases("two_hot")
def test_two_hot(case, mode):
    keys = ("num_buckets", "lower_bound", "upper_bound")
    num_buckets, low, high = (case[f"in.{key}"].item() for key in keys)
    value = case["in.value"]
    encoding = modes.run(mode, two_hot_with(num_buckets, low, high), {"value": value}).numpy()
    golden_cases.assert_close(encoding, case["out.encoding"], rtol=0, atol=1e-4)
    assert_two_hot(encoding, value, num_buckets, low, high)


def assert_two_hot(encoding, value, num_buckets, low, high):
    """At most two neighbours have weight, the sum is 1, the mean is the clipped value."""
    assert encoding.shape == (*value.shape, num_buckets)
    assert (encoding >= 0).all()
    for row in encoding.reshape(-1, num_buckets):
        (used,) = np.nonzero(row)
        assert len(used) in (1, 2) and used[-1] - used[0] == len(used) - 1
    np.testing.assert_allclose(encoding.sum(-1, dtype=np.float64), 1.0, rtol=0, atol=1e-6)
    mean = encoding.astype(np.float64) @ np.linspace(low, high, num_buckets)
    scale = max(1.0, abs(low), abs(high)) / 20
    clipped = np.clip(value, low, high)
    np.testing.assert_allclose(mean, clipped, rtol=0, atol=1e-5 * max(1.0, scale))


BUCKETS = [(255, -20.0, 20.0), (41, -300.0, 300.0), (8, 0.0, 1.0), (2, -3.0, 0.5)]


@pytest.mark.parametrize("buckets", BUCKETS, ids=str)
def test_two_hot_inverts(buckets):
    encode = tf.function(two_hot_with(*buckets), autograph=False)
    low, high = buckets[1:]
    fractions = st.floats(-1, 2, width=32, allow_subnormal=False)

    @few_examples
    @hypothesis.given(arrays.arrays(F32, (2, 3), elements=fractions))
    def inverts(fraction):
        value = F32(low + fraction * (high - low))
        assert_two_hot(encode(value).numpy(), value, *buckets)

    inverts()


@pytest.mark.parametrize("buckets", BUCKETS, ids=str)
def test_centres_are_nearly_one_hot(buckets):
    num_buckets, low, high = buckets
    centres = np.linspace(low, high, num_buckets, dtype=F32)
    encoding = ops.two_hot(centres, *buckets)
    np.testing.assert_allclose(encoding, np.eye(num_buckets), rtol=0, atol=2e-5)
    np.testing.assert_array_equal(encoding[0], np.eye(num_buckets)[0])
    np.testing.assert_array_equal(encoding[-1], np.eye(num_buckets)[-1])


@modes.all_modes
@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (2, 0)])
def test_any_leading_axes(shape, mode):
    value = np.full(shape, 0.25, F32)
    encoding = modes.run(mode, two_hot_with(3, -1.0, 1.0), {"value": value}).numpy()
    np.testing.assert_array_equal(encoding, np.broadcast_to(F32([0, 0.75, 0.25]), (*shape, 3)))


@modes.all_modes
def test_nan_gives_a_row_of_nan_and_leaves_the_others_alone(mode):
    value = np.array([np.nan, 1.0, np.inf, -np.inf], F32)
    encoding = modes.run(mode, two_hot_with(3, -1.0, 1.0), {"value": value}).numpy()
    assert np.isnan(encoding[0]).all()
    np.testing.assert_array_equal(encoding[1:], [[0, 0, 1], [0, 0, 1], [1, 0, 0]])


@modes.with_gradients(grad=["mean"])
def mean_of_two_hot(value):
    return {"mean": tf.linalg.matvec(ops.two_hot(value, 3, -1.0, 1.0), [-1.0, 0.0, 1.0])}


@modes.all_modes
def test_gradient_passes_inside_the_bounds_only(mode):
    value = np.array([-np.inf, -2.0, -0.3, 0.6, 7.0], F32)
    gradient = modes.run(mode, mean_of_two_hot, {"value": value})[1]["grad"]["value"]
    np.testing.assert_allclose(gradient, [0, 0, 1, 1, 0], atol=1e-6)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_half_precision_finds_the_right_bucket(dtype):
    # 254 buckets can't be counted in bfloat16, which has 8 digits.
    encoding = ops.two_hot(tf.constant([19.75], dtype))
    assert encoding.dtype == dtype
    exact = ops.two_hot(np.array([19.75], F32))
    np.testing.assert_allclose(tf.cast(encoding, tf.float32), exact, atol=4e-3)


def test_dtype_of_the_result():
    assert ops.two_hot(np.zeros(2, F32), dtype=tf.bfloat16).dtype == tf.bfloat16
    assert ops.two_hot(tf.zeros(2, tf.float64)).dtype == tf.float64


def test_unknown_shape():
    encode = tf.function(lambda value: ops.two_hot(value, 5))
    concrete = encode.get_concrete_function(tf.TensorSpec([None, 2], tf.float32))
    assert concrete.output_shapes.as_list() == [None, 2, 5]
    assert not any(
        x.dtype == tf.int64 for op in concrete.graph.get_operations() for x in op.outputs
    )


BAD_TWO_HOT = {
    "integer": ({"value": tf.constant([1])}, TypeError, "value is int32"),
    "one bucket": ({"num_buckets": 1}, ValueError, "num_buckets is 1, but must be at least 2"),
    "fraction": ({"num_buckets": 2.5}, TypeError, "num_buckets is 2.5, but must be an int"),
    "order": ({"lower_bound": 3.0, "upper_bound": 3.0}, ValueError, "must be less than upper"),
    "nan": ({"lower_bound": np.nan}, ValueError, "must be finite"),
    "no bound": ({"lower_bound": None}, TypeError, "lower_bound is None, but must be a number"),
    "text": ({"upper_bound": "1"}, TypeError, "upper_bound is '1', but must be a number"),
    "vector": ({"upper_bound": [1.0]}, TypeError, "upper_bound is .*, but must be a number"),
    "name": ({"dtype": "abc"}, TypeError, "dtype is 'abc', but must be a floating-point dtype"),
    "dtype": ({"dtype": tf.int32}, TypeError, "dtype is int32"),
}


@pytest.mark.parametrize("name", BAD_TWO_HOT)
def test_bad_two_hot(name):
    changes, error, message = BAD_TWO_HOT[name]
    with pytest.raises(error, match=message):
        ops.two_hot(**{"value": np.zeros(2, F32), **changes})


def test_bounds_of_another_dtype():
    value = tf.constant([-3.0, 0.25, 0.5])
    low, high = tf.constant(-1.0, tf.float64), np.float16(1)
    expected = ops.two_hot(value, 5, -1.0, 1.0)
    np.testing.assert_array_equal(ops.two_hot(value, 5, low, high), expected)
    with pytest.raises(TypeError, match="known when a function is traced"):
        tf.function(lambda low: ops.two_hot(value, 5, low, high))(low)
