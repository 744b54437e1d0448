"""Transformations of values against rlax, in single and in double precision."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests import golden_cases
from tests.ops import modes
from tfagents_x.ops import transforms

cases = pytest.mark.parametrize(
    "case", golden_cases.load("ops_nonlinear_bellman", "tx__"), ids=golden_cases.ids
)
ODD = ("signed_logp1", "signed_expm1", "signed_hyperbolic", "signed_parabolic")
ALL = (
    *("identity", *ODD, "hyperbolic_arcsin", "hyperbolic_sin"),
    *("discount_to_horizon", "horizon_to_discount"),
)


@functools.cache
def transform(name):
    @modes.with_gradients(grad=["y"])
    def fn(**inputs):
        return {"y": getattr(transforms, name)(**inputs)}

    return fn


def run(mode, case, dtype=np.float32):
    inputs = {
        name: np.asarray(value, dtype)
        for name, value in case.under("in").items()
        if name != "function"
    }
    outputs, gradients = modes.run(mode, transform(str(case["in.function"])), inputs)
    return outputs["y"], gradients["grad"]["x"]


@modes.all_modes
@cases
def test_golden_values(case, mode):
    y, gradient = run(mode, case)
    parabolic = case["in.function"] == "signed_parabolic"
    tolerance = {"rtol": 1e-4, "atol": 2e-4} if parabolic else {"rtol": 1e-5, "atol": 1e-6}
    golden_cases.assert_close(y, case["out.y"], **tolerance)
    # The derivatives of rlax are wrong at exactly 0: see `test_slope_at_zero`.
    elsewhere = case["in.x"] != 0
    golden_cases.assert_close(
        gradient[elsewhere], case["out.grad.x"][elsewhere], rtol=1e-4, atol=1e-5
    )


@modes.all_modes
@cases
def test_single_precision_is_exact_to_rounding(case, mode):
    """Against the reference in double precision, a hundred times closer than the reference."""
    y, _ = run(mode, case)
    with np.errstate(over="ignore"):
        expected = case["out.y_float64"].astype(np.float32)
    golden_cases.assert_close(y, expected, rtol=1e-6, atol=1e-12)


@cases
def test_double_precision(case):
    y, _ = run("eager", case, np.float64)
    assert y.dtype == tf.float64
    golden_cases.assert_close(y, case["out.y_float64"], rtol=1e-7, atol=1e-8)


SLOPES_AT_ZERO = {
    "identity": 1.0,
    "signed_logp1": 1.0,
    "signed_expm1": 1.0,
    "signed_hyperbolic": 0.501,
    "signed_parabolic": 2.0 / 1.002,
    "hyperbolic_arcsin": 1.0,
    "hyperbolic_sin": 1.0,
    "discount_to_horizon": 1.0,
    "horizon_to_discount": 1.0,
}


@modes.all_modes
@pytest.mark.parametrize("name", ALL)
def test_slope_at_zero(name, mode):
    _, gradients = modes.run(mode, transform(name), {"x": np.zeros(2, np.float32)})
    np.testing.assert_allclose(gradients["grad"]["x"], [SLOPES_AT_ZERO[name]] * 2, rtol=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_slopes_are_those_of_the_values(name):
    """Against differences in double precision; their own slopes, for second derivatives, too."""
    x = np.linspace(-0.9, 0.9, 8)

    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = getattr(transforms, name)(x)
        return tape.gradient(y, x)

    def curvature(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = slope(x)
        return tape.gradient(y, x, unconnected_gradients="zero")

    for fn, derivative in ((getattr(transforms, name), slope), (slope, curvature)):
        difference = (fn(tf.constant(x + 1e-6)) - fn(tf.constant(x - 1e-6))) / 2e-6
        np.testing.assert_allclose(derivative(tf.constant(x)), difference, rtol=1e-6, atol=1e-6)


@modes.all_modes
@pytest.mark.parametrize("name", ALL)
def test_masked_entries_have_no_gradient(name, mode):
    """What is thrown away by `tf.where` may be infinite or NaN; its gradient must be 0."""
    x = np.array([0.5, np.inf, -np.inf, np.nan, 1e38, -1e38, 1.0], np.float32)
    _, gradients = modes.run(mode, masked(name), {"x": x})
    gradient = gradients["grad"]["x"].numpy()
    assert np.isfinite(gradient[0]) and gradient[0] != 0
    np.testing.assert_array_equal(gradient[1:], 0)


@functools.cache
def masked(name):
    @modes.with_gradients(grad=["y"])
    def fn(x):
        y = getattr(transforms, name)(x)
        return {"y": tf.where(tf.range(7) == 0, y, 0.0)}

    return fn


@pytest.mark.parametrize("name", ODD)
def test_infinity_stays(name):
    y = getattr(transforms, name)(tf.constant([np.inf, -np.inf, np.nan]))
    np.testing.assert_array_equal(y, [np.inf, -np.inf, np.nan])


def test_hyperbolic_without_linear_part():
    """eps = 0 has the plain square as its inverse; the formula of rlax divides by it."""
    x = np.array([-9.0, 0.0, 3.0, 1e4], np.float32)
    y = transforms.signed_hyperbolic(x, 0.0)
    np.testing.assert_allclose(y, np.sign(x) * (np.sqrt(np.abs(x) + 1) - 1), rtol=1e-6)
    np.testing.assert_allclose(transforms.signed_parabolic(y, 0.0), x, rtol=1e-6)


@modes.all_modes
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ALL)
def test_half_precision(name, dtype, mode):
    x = tf.constant([-0.75, -0.01, 0.0, 0.5, 0.9])
    half = tf.cast(x, dtype)
    outputs, gradients = modes.run(mode, transform(name), {"x": half})
    expected, slopes = modes.run("eager", transform(name), {"x": tf.cast(half, tf.float32)})
    tolerance = 4e-3 if dtype == "float16" else 3e-2
    pairs = ((outputs["y"], expected["y"]), (gradients["grad"]["x"], slopes["grad"]["x"]))
    for actual, wanted in pairs:
        assert actual.dtype == tf.as_dtype(dtype)
        actual = tf.cast(actual, tf.float32)
        np.testing.assert_allclose(actual, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ALL)
def test_integers(name):
    with pytest.raises(TypeError, match="x is int32, but must be floating-point"):
        getattr(transforms, name)(tf.constant([1, 2]))


@pytest.mark.parametrize("name", ["signed_hyperbolic", "signed_parabolic"])
def test_bad_eps(name):
    x = np.ones(3, np.float32)
    for eps, error, message in (
        (-0.1, ValueError, "eps is -0.1, but must be at least 0"),
        (x, ValueError, "eps has shape"),
        (None, TypeError, "eps is None, but must be a number"),
    ):
        with pytest.raises(error, match=message):
            getattr(transforms, name)(x, eps)
