"""Laws that hold between the ops, whatever the numbers."""

from __future__ import annotations

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tfagents_x.ops import nonlinear_bellman as nb
from tfagents_x.ops import retrace, returns, vtrace

# The shape is always the same, so that TensorFlow compiles its kernels once.
T, B = 6, 2
quick = hypothesis.settings(max_examples=25, deadline=None, derandomize=True)


def floats(low, high, shape=(T, B)):
    return hnp.arrays(np.float32, shape, elements=st.floats(low, high, width=32))


def assert_close(actual, expected):
    """Returns of six rewards up to 10 and values up to 10: at most 70 in size."""
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-4)


sequences = st.fixed_dictionaries(
    {"r_t": floats(-10, 10), "discount_t": floats(0, 1), "v_t": floats(-10, 10)}
)


@quick
@hypothesis.given(arguments=sequences, n=st.integers(T, 3 * T))
def test_long_n_step_returns_are_lambda_returns(arguments, n):
    actual = returns.n_step_bootstrapped_returns(**arguments, n=n)
    assert_close(actual, returns.lambda_returns(**arguments, lambda_=1.0))


@quick
@hypothesis.given(arguments=sequences, n=st.integers(1, 2 * T))
def test_lambda_zero_is_one_step(arguments, n):
    expected = arguments["r_t"] + arguments["discount_t"] * arguments["v_t"]
    assert_close(returns.lambda_returns(**arguments, lambda_=0.0), expected)
    assert_close(returns.n_step_bootstrapped_returns(**arguments, n=n, lambda_t=0.0), expected)
    assert_close(returns.n_step_bootstrapped_returns(**arguments, n=1), expected)


@quick
@hypothesis.given(arguments=sequences, mixing=floats(0, 1), n=st.integers(2, 2 * T))
def test_n_step_returns_begin_with_one_step(arguments, mixing, n):
    """G(k, n) is one step of the recursion from G(k + 1, n - 1)."""
    longer = returns.n_step_bootstrapped_returns(**arguments, n=n, lambda_t=mixing)
    shorter = returns.n_step_bootstrapped_returns(**arguments, n=n - 1, lambda_t=mixing)
    following = np.concatenate([shorter[1:], arguments["v_t"][-1:]])
    mixed = (1 - mixing) * arguments["v_t"] + mixing * following
    assert_close(longer, arguments["r_t"] + arguments["discount_t"] * mixed)


@quick
@hypothesis.given(arguments=sequences, values=floats(-10, 10))
def test_vtrace_on_policy_is_the_n_step_return(arguments, values):
    """With pi = mu and lambda 1, nothing is clipped, and vs does not depend on the values."""
    values[1:] = arguments["v_t"][:-1]
    zeros = np.zeros((T, B), np.float32)
    bootstrap_value = arguments["v_t"][-1]
    result = vtrace.from_importance_weights(
        zeros, arguments["discount_t"], arguments["r_t"], values, bootstrap_value
    )
    expected = returns.n_step_bootstrapped_returns(**arguments, n=T)
    assert_close(result.vs, expected)
    errors = vtrace.td_error_and_advantage(
        values, arguments["v_t"], arguments["r_t"], arguments["discount_t"], np.exp(zeros)
    ).errors
    assert_close(errors, expected - values)


@quick
@hypothesis.given(
    arguments=sequences, log_rhos=floats(-5, 5), q_values=floats(-10, 10), values=floats(-10, 10)
)
def test_retrace_at_lambda_zero_is_one_step(arguments, log_rhos, q_values, values):
    r_t, discount_t, v_t = arguments.values()
    values[1:] = v_t[:-1]
    result = retrace.retrace_from_importance_weights(
        log_rhos, discount_t, r_t, q_values, values, v_t[-1], lambda_=0.0
    )
    assert_close(result.qs, r_t + discount_t * v_t)
    assert_close(result.qs, q_values + result.deltas)


@quick
@hypothesis.given(
    arguments=sequences,
    qs=floats(-10, 10, (T + 1, B, 3)),
    weights=floats(0.0625, 1, (T + 1, B, 3)),
    actions=hnp.arrays(np.int32, (T + 1, B), elements=st.integers(0, 2)),
)
def test_discrete_retrace_is_retrace_of_the_taken_actions(arguments, qs, weights, actions):
    probs = weights / weights.sum(-1, keepdims=True)
    taken_probs, q_values = (
        np.take_along_axis(x, actions[..., np.newaxis], axis=-1)[..., 0] for x in (probs, qs)
    )
    behaviour = np.full_like(q_values, 0.5)
    values = (probs * qs).sum(-1)
    rewards, pcontinues = (
        np.concatenate([arguments[k], np.full((1, B), np.nan, np.float32)])
        for k in ("r_t", "discount_t")
    )
    loss = retrace.retrace(0.9, qs, qs, actions, rewards, pcontinues, probs, behaviour).loss
    result = retrace.retrace_from_importance_weights(
        np.log(taken_probs / behaviour)[:-1],
        pcontinues[:-1],
        rewards[:-1],
        q_values[:-1],
        values[:-1],
        values[-1],
        lambda_=0.9,
    )
    errors = result.qs - q_values[:-1]
    np.testing.assert_allclose(loss, 0.5 * np.square(errors), rtol=1e-4, atol=1e-3)


# How far back and forth may lead, relative to the larger of 1 and the number: the inverse
# functions are steep far from 0, and make rounding errors larger by about that.
PAIRS = {
    "IDENTITY_PAIR": (1e4, 0.0),
    "SIGNED_LOGP1_PAIR": (1e4, 5e-6),
    "SIGNED_HYPERBOLIC_PAIR": (1e4, 1e-6),
    "HYPERBOLIC_SIN_PAIR": (1e4, 5e-6),
}


@pytest.mark.parametrize("name", PAIRS)
@quick
@hypothesis.given(data=st.data())
def test_pairs_invert(name, data):
    bound, tolerance = PAIRS[name]
    pair = getattr(nb, name)
    x = data.draw(floats(-bound, bound))
    np.testing.assert_allclose(pair.apply_inv(pair.apply(x)), x, rtol=tolerance, atol=1e-7)
    y = data.draw(floats(-9, 9))
    np.testing.assert_allclose(pair.apply(pair.apply_inv(y)), y, rtol=tolerance, atol=1e-7)


@quick
@hypothesis.given(discount=floats(0, 1 - 2.0**-10))
def test_discount_pair_inverts(discount):
    pair = nb.DISCOUNT_TRANSFORM_PAIR
    np.testing.assert_allclose(pair.apply_inv(pair.apply(discount)), discount, atol=2e-7)
    horizon = 6.9 * discount
    np.testing.assert_allclose(pair.apply(pair.apply_inv(horizon)), horizon, rtol=1e-4, atol=1e-7)


@quick
@hypothesis.given(arguments=sequences, n=st.integers(1, 2 * T))
def test_no_transformation_is_the_plain_return(arguments, n):
    actual = nb.transformed_n_step_returns(nb.IDENTITY_PAIR, **arguments, n=n)
    np.testing.assert_array_equal(actual, returns.n_step_bootstrapped_returns(**arguments, n=n))
