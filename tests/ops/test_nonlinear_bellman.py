"""Transformed n-step Q-learning against rlax, and the loss of R2D2 against Acme."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests import golden_cases
from tests.ops import modes
from tfagents_x.ops import nonlinear_bellman as nb
from tfagents_x.ops import returns, transforms


def cases(function):
    found = golden_cases.load("ops_nonlinear_bellman", f"{function}__")
    return pytest.mark.parametrize("case", found, ids=golden_cases.ids)


def check_gradients(case, gradients):
    expected = case.under("out.grad")
    for name, value in expected.items():
        golden_cases.assert_close(gradients[name], value, rtol=1e-3, atol=1e-3)
    connected = {name for name, gradient in gradients.items() if gradient is not None}
    assert connected == set(expected)


# ---- Golden values ----


@functools.cache
def q_learning(n, pair, stop):
    @modes.with_gradients(grad=["td_error"])
    def fn(**inputs):
        error = nb.transformed_n_step_q_learning(
            **inputs, n=n, tx_pair=getattr(nb, pair), stop_target_gradients=stop
        )
        return {"td_error": error}

    return fn


@modes.all_modes
@cases("transformed_n_step_q_learning")
def test_transformed_n_step_q_learning(case, mode):
    inputs = case.under("in")
    fn = q_learning(
        int(inputs.pop("n")),
        str(inputs.pop("tx_pair")),
        bool(inputs.pop("stop_target_gradients")),
    )
    outputs, gradients = modes.run(mode, fn, inputs)
    golden_cases.assert_close(outputs["td_error"], case["out.td_error"], rtol=1e-4, atol=2e-4)
    check_gradients(case, gradients["grad"])


@functools.cache
def r2d2_loss(n, stop):
    @modes.with_gradients(grad=["loss"])
    def fn(**inputs):
        result = nb.transformed_n_step_loss(**inputs, bootstrap_n=n, stop_targnet_gradients=stop)
        return {"loss": result.loss, **result.extra._asdict()}

    return fn


@modes.all_modes
@cases("transformed_n_step_loss")
def test_transformed_n_step_loss(case, mode):
    """All variants, `quirk_` ones included: a drop-in user keeps the masks of the original."""
    inputs = case.under("in")
    fn = r2d2_loss(int(inputs.pop("bootstrap_n")), bool(inputs.pop("stop_targnet_gradients")))
    outputs, gradients = modes.run(mode, fn, inputs)
    golden_cases.assert_close(outputs["loss"], case["out.loss"], rtol=1e-4, atol=1e-3)
    golden_cases.assert_close(outputs["errors"], case["out.errors"], rtol=1e-4, atol=2e-4)
    golden_cases.assert_close(
        outputs["targets"], case["out.targets"], rtol=1e-4, atol=2e-4, scaled=True
    )
    check_gradients(case, gradients["grad"])


# ---- Further properties ----


def learning(num_steps=5, **changes):
    """Arguments of `transformed_n_step_q_learning`, numpy."""
    rng = np.random.default_rng(num_steps)
    found = {
        "q_tm1": rng.normal(size=(num_steps, 2, 4)),
        "a_tm1": rng.integers(0, 4, (num_steps, 2)),
        "target_q_t": rng.normal(size=(num_steps, 2, 4)),
        "a_t": rng.integers(0, 4, (num_steps, 2)),
        "r_t": rng.normal(size=(num_steps, 2)),
        "discount_t": rng.uniform(0.5, 1, (num_steps, 2)),
    }
    return {**found, "n": 3, **changes}


def sequences(num_steps=5, **changes):
    """Arguments of `transformed_n_step_loss`, numpy."""
    rng = np.random.default_rng(num_steps)
    probs = rng.uniform(0.1, 1, (num_steps + 1, 2, 4))
    found = {
        "qs": rng.normal(size=probs.shape).astype(np.float32),
        "targnet_qs": rng.normal(size=probs.shape).astype(np.float32),
        "actions": rng.integers(0, 4, (num_steps + 1, 2)),
        "rewards": rng.normal(size=(num_steps, 2)).astype(np.float32),
        "pcontinues": rng.uniform(0.5, 1, (num_steps, 2)).astype(np.float32),
        "target_policy_probs": (probs / probs.sum(-1, keepdims=True)).astype(np.float32),
    }
    return {**found, "bootstrap_n": 3, **changes}


def test_pairs():
    pair = nb.TxPair(apply=tf.sin, apply_inv=tf.cos)
    assert pair == (tf.sin, tf.cos)
    assert nb.SIGNED_HYPERBOLIC_PAIR.apply is transforms.signed_hyperbolic
    assert nb.SIGNED_HYPERBOLIC_PAIR.apply_inv is transforms.signed_parabolic
    assert nb.DISCOUNT_TRANSFORM_PAIR.apply is transforms.discount_to_horizon
    assert nb.DISCOUNT_TRANSFORM_PAIR.apply_inv is transforms.horizon_to_discount


def test_transformed_returns_are_transformed_returns():
    arguments = learning()
    r_t, discount_t, v_t = (arguments[k].astype(np.float32) for k in ("r_t", "discount_t", "r_t"))
    pair = nb.SIGNED_LOGP1_PAIR
    actual = nb.transformed_n_step_returns(pair, r_t, discount_t, v_t, 3, 0.7)
    inner = returns.n_step_bootstrapped_returns(r_t, discount_t, pair.apply_inv(v_t), 3, 0.7)
    np.testing.assert_allclose(actual, pair.apply(inner), rtol=1e-6)


def test_own_pairs():
    """Any two functions will do, and named tuples of other libraries."""
    doubled = nb.TxPair(lambda x: 2.0 * x, lambda x: 0.5 * x)
    actual = nb.transformed_n_step_q_learning(**learning(), tx_pair=doubled)
    plain = learning()
    plain["target_q_t"] = plain["target_q_t"] / 2
    plain["q_tm1"] = plain["q_tm1"] / 2
    expected = 2 * nb.transformed_n_step_q_learning(**plain)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_errors_are_the_negative_of_q_learning():
    """For one-hot policies; the two originals differ in nothing else."""
    arguments = sequences()
    greedy = arguments["targnet_qs"].argmax(-1)
    arguments["target_policy_probs"] = np.eye(4, dtype=np.float32)[greedy]
    errors = nb.transformed_n_step_loss(**arguments).extra.errors
    td_error = nb.transformed_n_step_q_learning(
        arguments["qs"][:-1],
        arguments["actions"][:-1],
        arguments["targnet_qs"][1:],
        greedy[1:],
        arguments["rewards"],
        arguments["pcontinues"],
        3,
        tx_pair=nb.SIGNED_HYPERBOLIC_PAIR,
    )
    np.testing.assert_allclose(errors, -td_error, rtol=1e-5, atol=1e-6)


def test_other_values_do_not_matter_in_q_learning():
    """Only the values of the chosen actions enter; rlax multiplies the others by 0."""
    arguments = learning()
    expected = nb.transformed_n_step_q_learning(**arguments)
    for values, actions in (("q_tm1", "a_tm1"), ("target_q_t", "a_t")):
        others = np.arange(4) != arguments[actions][..., np.newaxis]
        arguments[values] = np.where(others, np.inf, arguments[values])
    np.testing.assert_array_equal(nb.transformed_n_step_q_learning(**arguments), expected)


@modes.all_modes
@pytest.mark.parametrize("stop", [True, False])
def test_masked_steps_pass_no_gradient(stop, mode):
    """Infinite and NaN entries leave every gradient finite, also through the targets."""
    inputs = sequences(num_steps=7)
    del inputs["bootstrap_n"]
    inputs["targnet_qs"][3, 0, 1] = np.inf
    inputs["targnet_qs"][5, 1, 2] = 1e37  # overflows in the inverse transformation
    inputs["rewards"][0, 1] = np.nan
    inputs["actions"] = inputs["actions"].astype(np.int32)
    outputs, gradients = modes.run(mode, r2d2_loss(2, stop), inputs)
    masked = np.zeros((7, 2), bool)
    masked[1, 0] = masked[3, 1] = masked[0, 1] = True
    np.testing.assert_array_equal(outputs["targets"] == 0, masked)
    np.testing.assert_array_equal(outputs["errors"] == 0, masked)
    for name, gradient in gradients["grad"].items():
        assert (gradient is None) == (stop and name != "qs"), name
        assert gradient is None or np.isfinite(gradient).all(), name
    taken = np.take_along_axis(
        gradients["grad"]["qs"].numpy()[:-1], inputs["actions"][:-1, :, np.newaxis], axis=2
    )
    np.testing.assert_array_equal(taken[..., 0], outputs["errors"])


def test_infinite_values_that_no_return_reaches():
    """With n = 2 the first state's value after one step is bootstrapped from by no return."""
    arguments = sequences(bootstrap_n=2)
    arguments["targnet_qs"][1] = np.inf
    assert (nb.transformed_n_step_loss(**arguments).extra.targets.numpy() != 0).all()


def test_unused_rows():
    arguments = sequences()
    expected = nb.transformed_n_step_loss(**arguments)
    arguments["qs"][-1] = arguments["targnet_qs"][0] = np.nan
    arguments["target_policy_probs"][0] = np.nan
    actual = nb.transformed_n_step_loss(**arguments)
    np.testing.assert_array_equal(actual.loss, expected.loss)


def test_non_finite_predictions_show():
    arguments = sequences()
    arguments["qs"][:, 0] = np.nan
    loss = nb.transformed_n_step_loss(**arguments).loss
    np.testing.assert_array_equal(np.isnan(loss), [True, False])


def test_unknown_sizes():
    """The original needs T and B when a graph is traced."""
    names = [name for name in sequences() if name != "bootstrap_n"]
    dtypes = [tf.int32 if name == "actions" else tf.float32 for name in names]
    ranks = [np.ndim(sequences()[name]) for name in names]
    fn = tf.function(
        lambda *args: nb.transformed_n_step_loss(**dict(zip(names, args)), bootstrap_n=3).loss,
        input_signature=[tf.TensorSpec([None] * r, d) for r, d in zip(ranks, dtypes)],
    )
    for num_steps in (1, 2, 5):
        arguments = sequences(num_steps)
        tensors = [tf.cast(arguments[name], dtype) for name, dtype in zip(names, dtypes)]
        expected = nb.transformed_n_step_loss(**arguments).loss
        np.testing.assert_allclose(fn(*tensors), expected, rtol=1e-5)


def test_time_is_the_only_axis_needed():
    arguments = learning()
    column = {k: v if k == "n" else v[:, 1] for k, v in arguments.items()}
    whole = nb.transformed_n_step_q_learning(**arguments)
    np.testing.assert_allclose(nb.transformed_n_step_q_learning(**column), whole[:, 1], rtol=1e-5)


def test_bfloat16():
    wide = {
        k: tf.cast(v, tf.bfloat16) if v.dtype == np.float32 else v
        for k, v in sequences().items()
        if k != "bootstrap_n"
    }
    result = nb.transformed_n_step_loss(**wide, bootstrap_n=3)
    assert result.loss.dtype == tf.bfloat16
    single = {k: tf.cast(v, tf.float32) if tf.is_tensor(v) else v for k, v in wide.items()}
    expected = nb.transformed_n_step_loss(**single, bootstrap_n=3)
    np.testing.assert_allclose(
        tf.cast(result.extra.errors, tf.float32), expected.extra.errors, rtol=0.1, atol=0.1
    )


def test_positional_order_of_the_originals():
    arguments = learning()
    by_position = nb.transformed_n_step_q_learning(
        *arguments.values(), True, nb.SIGNED_HYPERBOLIC_PAIR
    )
    by_name = nb.transformed_n_step_q_learning(**arguments, tx_pair=nb.SIGNED_HYPERBOLIC_PAIR)
    np.testing.assert_array_equal(by_position, by_name)
    loss, extra = nb.transformed_n_step_loss(*sequences().values(), True, "loss")
    assert loss.shape == [2] and extra._fields == ("targets", "errors")


# ---- Errors ----

F32 = np.float32
BAD_LEARNING = {
    "rank": ({"q_tm1": np.ones((5, 2), F32)}, ValueError, "target_q_t has shape"),
    "actions": ({"target_q_t": np.ones((5, 2, 3), F32)}, ValueError, "target_q_t has shape"),
    "rewards": ({"r_t": np.ones((5, 2, 1), F32)}, ValueError, r"r_t has shape \(5, 2, 1\)"),
    "time": ({"r_t": np.ones((6, 2), F32)}, ValueError, r"r_t has shape \(6, 2\)"),
    "batch": ({"discount_t": np.ones((5, 3), F32)}, ValueError, r"discount_t has shape \(5, 3\)"),
    "integer": ({"r_t": np.ones((5, 2), int)}, TypeError, "r_t is int64"),
    "float a_t": ({"a_t": np.ones((5, 2), F32)}, TypeError, "a_t is float32"),
    "float a_tm1": ({"a_tm1": np.ones((5, 2), F32)}, TypeError, "a_tm1 is float32"),
    "no a_t": ({"a_t": None}, TypeError, "a_t is a NoneType that is no tensor"),
    "object a_tm1": ({"a_tm1": object()}, TypeError, "a_tm1 is a object that is no tensor"),
    "a_t": ({"a_t": np.ones((5,), int)}, ValueError, r"a_t has shape \(5,\)"),
    "a_tm1": ({"a_tm1": np.ones((4, 2), int)}, ValueError, r"a_tm1 has shape \(4, 2\)"),
    "n": ({"n": 0}, ValueError, "n is 0, but must be at least 1"),
    "float n": ({"n": 3.0}, TypeError, "n is 3.0, but must be a Python int"),
    "name": (
        {"tx_pair": "SIGNED_HYPERBOLIC_PAIR"},
        TypeError,
        "tx_pair is 'SIGNED_HYPERBOLIC_PAIR', but must be a TxPair",
    ),
    "function": ({"tx_pair": tf.identity}, TypeError, "tx_pair is .*, but must be a TxPair"),
    "halves": ({"tx_pair": nb.TxPair(tf.exp, None)}, TypeError, "two functions"),
}


@pytest.mark.parametrize("name", BAD_LEARNING)
def test_bad_learning(name):
    changes, error, message = BAD_LEARNING[name]
    with pytest.raises(error, match=message):
        nb.transformed_n_step_q_learning(**learning(**changes))


BAD_SEQUENCES = {
    "rank": ({"qs": np.ones((6, 2), F32)}, ValueError, "targnet_qs has shape"),
    "probs": (
        {"target_policy_probs": np.ones((5, 2, 4), F32)},
        ValueError,
        r"target_policy_probs has shape \(5, 2, 4\)",
    ),
    "rewards": (
        {"rewards": np.ones((6, 2), F32)},
        ValueError,
        r"rewards has shape \(6, 2\), but must have \(5, 2\)",
    ),
    "batch": ({"pcontinues": np.ones((5, 3), F32)}, ValueError, "pcontinues has shape"),
    "actions": ({"actions": np.ones((5, 2), int)}, ValueError, r"actions has shape \(5, 2\)"),
    "dict": ({"actions": {"a": 1}}, TypeError, "actions is a dict that is no tensor"),
    "float actions": ({"actions": np.ones((6, 2), F32)}, TypeError, "actions is float32"),
    "integer": ({"rewards": np.ones((5, 2), int)}, TypeError, "rewards is int64"),
    "n": ({"bootstrap_n": 0}, ValueError, "bootstrap_n is 0, but must be at least 1"),
    "no n": ({"bootstrap_n": None}, TypeError, "bootstrap_n is None"),
}


@pytest.mark.parametrize("name", BAD_SEQUENCES)
def test_bad_sequences(name):
    changes, error, message = BAD_SEQUENCES[name]
    with pytest.raises(error, match=message):
        nb.transformed_n_step_loss(**sequences(**changes))


def test_one_row_is_too_few():
    with pytest.raises(ValueError, match="qs has one row, but needs at least 2"):
        nb.transformed_n_step_loss(**sequences(num_steps=0))
