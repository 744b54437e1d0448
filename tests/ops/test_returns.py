"""n-step and lambda returns against rlax, and against their recursions written out."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests import golden_cases
from tests.ops import modes
from tfagents_x.ops import returns

ARGS = ("r_t", "discount_t", "v_t")


def cases(function):
    found = golden_cases.load("ops_nonlinear_bellman", f"{function}__")
    return pytest.mark.parametrize("case", found, ids=golden_cases.ids)


def check_golden(case, mode, fn, inputs):
    outputs, gradients = modes.run(mode, fn, inputs)
    golden_cases.assert_close(outputs["returns"], case["out.returns"], rtol=1e-5, atol=1e-5)
    expected = case.under("out.grad")
    assert set(ARGS) <= set(expected)
    for name, value in expected.items():
        found = gradients["grad"][name]
        found = np.zeros_like(value) if found is None else found
        golden_cases.assert_close(found, value, rtol=1e-4, atol=1e-4)


@functools.cache
def n_step(n, stop):
    @modes.with_gradients(grad=["returns"])
    def fn(**inputs):
        return {
            "returns": returns.n_step_bootstrapped_returns(
                **inputs, n=n, stop_target_gradients=stop
            )
        }

    return fn


@modes.all_modes
@cases("n_step_bootstrapped_returns")
def test_n_step_bootstrapped_returns(case, mode):
    inputs = case.under("in")
    fn = n_step(int(inputs.pop("n")), bool(inputs.pop("stop_target_gradients")))
    check_golden(case, mode, fn, inputs)


@functools.cache
def lambda_returns(stop):
    @modes.with_gradients(grad=["returns"])
    def fn(**inputs):
        return {"returns": returns.lambda_returns(**inputs, stop_target_gradients=stop)}

    return fn


@modes.all_modes
@cases("lambda_returns")
def test_lambda_returns(case, mode):
    inputs = case.under("in")
    check_golden(case, mode, lambda_returns(bool(inputs.pop("stop_target_gradients"))), inputs)


# ---- Against the recursions written out ----


def data(num_steps=7, *trailing, dtype=np.float32):
    rng = np.random.default_rng(num_steps)
    shape = (num_steps, *(trailing or (3,)))
    found = {
        "r_t": rng.normal(size=shape),
        "discount_t": rng.uniform(0, 1, shape) * (rng.uniform(size=shape) > 0.2),
        "v_t": rng.normal(size=shape),
    }
    return {name: value.astype(dtype) for name, value in found.items()}


def n_step_written_out(r_t, discount_t, v_t, n, lambda_t=1.0):
    lambda_t = np.broadcast_to(lambda_t, r_t.shape)

    def value(k, left):
        if left == 0 or k == len(r_t):
            return v_t[k - 1]
        mixed = (1 - lambda_t[k]) * v_t[k] + lambda_t[k] * value(k + 1, left - 1)
        return r_t[k] + discount_t[k] * mixed

    return np.stack([value(k, n) for k in range(len(r_t))])


@pytest.mark.parametrize("num_steps", [1, 2, 5, 8])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 1000, 10**12])
def test_any_n(n, num_steps):
    inputs = data(num_steps)
    mixing = np.random.default_rng(0).uniform(0, 1, inputs["r_t"].shape).astype(np.float32)
    expected = n_step_written_out(**inputs, n=min(n, num_steps), lambda_t=mixing)
    actual = returns.n_step_bootstrapped_returns(**inputs, n=n, lambda_t=mixing)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@modes.all_modes
@pytest.mark.parametrize("n", [1, 5, 9])
def test_gradients_of_n_step_returns(n, mode):
    """Against a Python loop, in double precision, with every output weighing differently."""
    inputs = data(7, 2, dtype=np.float64)
    inputs["lambda_t"] = np.random.default_rng(0).uniform(0, 1, inputs["r_t"].shape)
    weights = np.random.default_rng(1).normal(size=inputs["r_t"].shape)

    def unrolled(r_t, discount_t, v_t, lambda_t):
        rows = []
        for k in range(7):
            last = min(k + n, 7) - 1
            acc = v_t[last]
            for i in range(last, k - 1, -1):
                mixed = (1 - lambda_t[i]) * v_t[i] + lambda_t[i] * acc
                acc = r_t[i] + discount_t[i] * mixed
            rows.append(acc)
        return {"sum": weights * tf.square(tf.stack(rows))}

    def ours(**inputs):
        return {"sum": weights * tf.square(returns.n_step_bootstrapped_returns(**inputs, n=n))}

    def gradients(mode, fn):
        return modes.run(mode, modes.with_gradients(grad=["sum"])(fn), inputs)[1]["grad"]

    actual, expected = gradients(mode, ours), gradients("eager", unrolled)
    for name in inputs:
        np.testing.assert_allclose(actual[name], expected[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("last", ["number", "row", "all rows"])
def test_discounted_returns(last):
    inputs = data()
    row = inputs["v_t"][-1]
    inputs["v_t"] = {"number": 0.5, "row": row, "all rows": inputs["v_t"]}[last]
    expected, total = [], 0.5 if last == "number" else row
    for reward, discount in zip(inputs["r_t"][::-1], inputs["discount_t"][::-1]):
        total = reward + discount * total
        expected.insert(0, total)
    actual = returns.discounted_returns(**inputs)
    np.testing.assert_allclose(actual, np.stack(expected), rtol=1e-5, atol=1e-5)


def test_gradients_can_be_stopped():
    inputs = {name: tf.constant(value) for name, value in data().items()}
    for fn in (returns.lambda_returns, returns.discounted_returns, n_step_of_three):
        for stop, none in ((True, True), (False, False)):
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                total = tf.reduce_sum(fn(**inputs, stop_target_gradients=stop))
            assert (tape.gradient(total, inputs["r_t"]) is None) == none


def n_step_of_three(r_t, discount_t, v_t, **options):
    return returns.n_step_bootstrapped_returns(r_t, discount_t, v_t, 3, **options)


# ---- Further properties ----

ALL = [n_step_of_three, returns.lambda_returns, returns.discounted_returns]


@pytest.mark.parametrize("fn", ALL)
def test_any_number_of_axes(fn):
    inputs = data(7, 2, 3)
    whole = fn(**inputs)
    column = fn(**{name: value[:, 1, 2] for name, value in inputs.items()})
    assert column.shape == [7]
    np.testing.assert_allclose(column, whole[:, 1, 2], rtol=1e-6)


@pytest.mark.parametrize("fn", ALL)
def test_unknown_shapes(fn):
    for spec in (tf.TensorSpec([None, None], tf.float32), tf.TensorSpec(None, tf.float32)):
        traced = tf.function(fn, input_signature=[spec] * 3)
        for num_steps in (1, 2, 17):
            inputs = data(num_steps)
            np.testing.assert_allclose(traced(*inputs.values()), fn(**inputs), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fn", ALL)
def test_static_shape_stays(fn):
    spec = tf.TensorSpec([5, None], tf.float32)
    assert tf.function(fn).get_concrete_function(*[spec] * 3).output_shapes.as_list() == [5, None]


def test_gradient_with_unknown_shapes():
    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32)] * 3)
    def gradients(*arguments):
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            total = tf.reduce_sum(tf.square(n_step_of_three(*arguments)))
        return tape.gradient(total, arguments)

    inputs = data()
    expected = gradients.python_function(*map(tf.constant, inputs.values()))
    for actual, wanted in zip(gradients(*inputs.values()), expected):
        np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-6)


@modes.all_modes
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("fn", ALL)
def test_half_precision(fn, dtype, mode):
    halves = {name: tf.cast(value, dtype) for name, value in data().items()}
    actual = modes.run(mode, fn, halves)
    assert actual.dtype == tf.as_dtype(dtype)
    expected = fn(**{name: tf.cast(value, tf.float32) for name, value in halves.items()})
    tolerance = 1e-2 if dtype == "float16" else 6e-2
    np.testing.assert_allclose(
        tf.cast(actual, tf.float32), expected, rtol=tolerance, atol=tolerance
    )


@modes.all_modes
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_values_that_do_not_enter_do_no_harm(bad, mode):
    """With lambda 1 only the values that are bootstrapped from count."""
    inputs = data()
    inputs["discount_t"] += 0.1
    inputs["v_t"][4] = bad
    actual = modes.run(mode, returns.lambda_returns, inputs)
    assert np.isfinite(actual).all()
    actual = modes.run(mode, n_step_of_three, inputs).numpy()
    finite = np.isfinite(actual).all(axis=1)
    np.testing.assert_array_equal(finite, [True, True, False, True, True, True, True])


def test_rewards_that_are_nan_spoil_only_their_returns():
    inputs = data()
    inputs["r_t"][4, 0] = np.nan
    actual = n_step_of_three(**inputs).numpy()
    np.testing.assert_array_equal(np.isnan(actual[:, 0]), np.isin(np.arange(7), [2, 3, 4]))
    assert np.isfinite(actual[:, 1:]).all()


def test_lambda_may_be_an_integer_or_larger_than_one_at_a_step():
    inputs = data()
    np.testing.assert_array_equal(
        returns.lambda_returns(**inputs, lambda_=1), returns.lambda_returns(**inputs)
    )
    ratios = np.full((7, 3), 1.5, np.float32)  # importance sampling for each decision
    expected = n_step_written_out(**inputs, n=7, lambda_t=1.5)
    actual = returns.lambda_returns(**inputs, lambda_=ratios)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


# ---- Errors ----

F32 = np.float32
BAD = {
    "rank": ({"v_t": np.ones((7, 3, 1), F32)}, ValueError, r"v_t has shape \(7, 3, 1\)"),
    "time": ({"discount_t": np.ones((6, 3), F32)}, ValueError, r"discount_t has shape \(6, 3\)"),
    "batch": ({"v_t": np.ones((7, 2), F32)}, ValueError, r"v_t has shape \(7, 2\)"),
    "integer": ({"r_t": np.ones((7, 3), int)}, TypeError, "r_t is int64, but must be floating"),
    "text": ({"v_t": "a"}, TypeError, "v_t is string"),
    "none": ({"discount_t": None}, TypeError, "discount_t is a NoneType"),
    "dtypes": (
        {"r_t": tf.ones((7, 3)), "v_t": tf.ones((7, 3), tf.float64)},
        TypeError,
        "v_t is float64, but r_t is float32",
    ),
    "empty": (
        dict.fromkeys(ARGS, np.ones((0, 3), F32)),
        ValueError,
        "need a time axis .axis 0. with at least one step",
    ),
}


@pytest.mark.parametrize("fn", ALL)
@pytest.mark.parametrize("name", BAD)
def test_bad_arguments(name, fn):
    changes, error, message = BAD[name]
    with pytest.raises(error, match=message):
        fn(**{**data(), **changes})


BAD_LAMBDAS = {
    "low": (-0.1, ValueError, "is -0.1, but must be from 0 to 1"),
    "high": (1.5, ValueError, "is 1.5, but must be from 0 to 1"),
    "nan": (np.nan, ValueError, "is nan"),
    "row": (np.ones(3, F32), ValueError, r"has shape \(3,\), but must have \(7, 3\)"),
    "none": (None, TypeError, "is a NoneType"),
    "text": ("1", TypeError, "is string, but must be floating-point"),
}


@pytest.mark.parametrize("name", BAD_LAMBDAS)
def test_bad_lambda(name):
    value, error, message = BAD_LAMBDAS[name]
    with pytest.raises(error, match=f"lambda_ {message}"):
        returns.lambda_returns(**data(), lambda_=value)
    with pytest.raises(error, match=f"lambda_t {message}"):
        n_step_of_three(**data(), lambda_t=value)


@pytest.mark.parametrize(
    ("n", "error", "message"),
    [
        (0, ValueError, "n is 0, but must be at least 1"),
        (-2, ValueError, "n is -2, but must be at least 1"),
        (2.0, TypeError, "n is 2.0, but must be a Python int"),
        (None, TypeError, "n is None, but must be a Python int"),
        (True, TypeError, "n is True, but must be a Python int"),
    ],
)
def test_bad_n(n, error, message):
    with pytest.raises(error, match=message):
        returns.n_step_bootstrapped_returns(**data(), n=n)


def test_n_must_be_known_when_traced():
    fn = tf.function(lambda n: returns.n_step_bootstrapped_returns(**data(), n=n))
    with pytest.raises(TypeError, match="n is .*, but must be a Python int, known when"):
        fn(tf.constant(3))


def test_bad_last_value():
    with pytest.raises(ValueError, match=r"v_t has shape \(2,\), but must have \(3,\), one step"):
        returns.discounted_returns(**data() | {"v_t": np.ones(2, F32)})
