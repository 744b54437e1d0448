"""Retrace against the numbers of TRFL, in eager mode, graphs and XLA."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests import golden_cases
from tests.ops import modes
from tfagents_x.ops import retrace

RATIO_ARGS = ("log_rhos", "discounts", "rewards", "q_values", "values", "bootstrap_value")


def cases(function):
    found = golden_cases.load("ops_retrace", f"{function}__")
    return pytest.mark.parametrize("case", found, ids=golden_cases.ids)


# ---- Golden values ----


@modes.all_modes
@pytest.mark.parametrize(
    "function", ["retrace_from_importance_weights", "retrace_from_action_log_probs"]
)
def test_from_ratios(function, mode):
    for case in golden_cases.load("ops_retrace", f"{function}__"):
        result = modes.run(mode, getattr(retrace, function), case.under("in"))
        assert set(case.under("out")) == set(result._fields)
        for field, value in result._asdict().items():
            np.testing.assert_allclose(
                value, case[f"out.{field}"], rtol=1e-5, atol=1e-5, err_msg=f"{case.name} {field}"
            )


@modes.with_gradients(grad=["loss"])
def discrete(**inputs):
    return {"loss": retrace.retrace(**inputs).loss}


@functools.cache
def core(stop_targnet_gradients):
    @modes.with_gradients(grad=["loss"])
    def fn(**inputs):
        result = retrace.retrace_core(**inputs, stop_targnet_gradients=stop_targnet_gradients)
        return {"loss": result.loss, **result.extra._asdict()}

    return fn


def check(case, mode, fn, inputs):
    outputs, gradients = modes.run(mode, fn, inputs)
    for name, value in case.under("out").items():
        section, _, argument = name.partition(".")
        if section == "grad":
            golden_cases.assert_close(gradients["grad"][argument], value, rtol=1e-4, atol=1e-4)
        else:
            atol = 2e-5 if name == "loss" else 1e-5
            golden_cases.assert_close(outputs[name], value, rtol=1e-5, atol=atol)
    return gradients["grad"]


@modes.all_modes
@cases("retrace")
def test_retrace(case, mode):
    gradients = check(case, mode, discrete, case.under("in"))
    assert [name for name, gradient in gradients.items() if gradient is not None] == ["qs"]


@modes.all_modes
@cases("retrace_core")
def test_retrace_core(case, mode):
    inputs = case.under("in")
    stop = bool(inputs.pop("stop_targnet_gradients"))
    gradients = check(case, mode, core(stop), inputs)
    assert len(case.under("out.grad")) == (1 if stop else 4)
    if stop:
        assert [k for k, gradient in gradients.items() if gradient is not None] == ["q_tm1"]


# ---- Further properties ----


def ratios(num_steps=5, batch=2, **changes):
    """Arguments of `retrace_from_importance_weights`, numpy."""
    rng = np.random.default_rng(num_steps)
    found = {name: rng.normal(size=(num_steps, batch)) for name in RATIO_ARGS[:-1]}
    found["discounts"] = rng.uniform(0.5, 1, (num_steps, batch))
    found["bootstrap_value"] = rng.normal(size=batch)
    return {name: x.astype(np.float32) for name, x in found.items()} | changes


def discrete_arguments(num_rows=6, num_actions=4, **changes):
    """Arguments of `retrace`, numpy."""
    rng = np.random.default_rng(num_rows)
    probs = rng.uniform(0.1, 1, (num_rows, 2, num_actions))
    found = {
        "lambda_": 0.9,
        "qs": rng.normal(size=probs.shape),
        "targnet_qs": rng.normal(size=probs.shape),
        "actions": rng.integers(0, num_actions, (num_rows, 2)),
        "rewards": rng.normal(size=(num_rows, 2)),
        "pcontinues": rng.uniform(0.5, 1, (num_rows, 2)),
        "target_policy_probs": probs / probs.sum(-1, keepdims=True),
        "behaviour_policy_probs": rng.uniform(0.1, 1, (num_rows, 2)),
    }
    return found | changes


def test_no_gradient_leaves():
    inputs = {name: tf.constant(value) for name, value in ratios().items()}
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(inputs)
        result = retrace.retrace_from_importance_weights(**inputs)
        totals = [tf.reduce_sum(x) for x in result]
    for total in totals:
        assert set(tape.gradient(total, inputs).values()) == {None}


@modes.all_modes
def test_ratios_too_large_for_float32(mode):
    """exp(200) overflows; only the ratio itself may show it."""
    inputs = ratios()
    inputs["log_rhos"][2:4] = [[200.0, -200.0], [-np.inf, 200.0]]
    clipped = {**inputs, "log_rhos": np.minimum(inputs["log_rhos"], 0.0)}
    actual = modes.run(mode, retrace.retrace_from_importance_weights, inputs)
    expected = modes.run(mode, retrace.retrace_from_importance_weights, clipped)
    for field in ("qs", "truncated_importance_weights", "deltas", "vs_minus_q_xs"):
        assert np.isfinite(getattr(actual, field)).all()
        np.testing.assert_array_equal(getattr(actual, field), getattr(expected, field))
    assert actual.importance_weights[2, 0] == np.inf


def test_masked_ratio_cuts_the_trace():
    """log(0 + 1e-20), as learners write void steps: nothing behind such a step matters."""
    inputs = ratios()
    inputs["log_rhos"][3] = np.log(1e-20)
    changed = {**inputs, "rewards": inputs["rewards"].copy()}
    changed["rewards"][3:] += 5.0
    first, second = (retrace.retrace_from_importance_weights(**x).qs for x in (inputs, changed))
    np.testing.assert_array_equal(first[:3], second[:3])
    assert not np.allclose(first[3:], second[3:])


def test_log_ratio_is_target_minus_behaviour():
    inputs = ratios()
    behaviour = np.full_like(inputs["log_rhos"], -0.25)
    target = inputs.pop("log_rhos") - 0.25
    result = retrace.retrace_from_action_log_probs(behaviour, target, **inputs)
    np.testing.assert_allclose(result.log_importance_weights, target - behaviour, rtol=1e-6)


@modes.all_modes
def test_zero_over_zero_ends_the_trace(mode):
    """Both policies rule the action out: neither NaN nor a trace, and finite gradients."""
    probs = np.full((3, 1, 2), 0.5, np.float32)
    probs[1, 0] = [0.0, 1.0]
    inputs = {
        "q_tm1": np.ones((3, 1, 2), np.float32),
        "a_tm1": np.zeros((3, 1), np.int32),
        "r_t": np.arange(3, dtype=np.float32)[:, np.newaxis],
        "pcont_t": np.ones((3, 1), np.float32),
        "target_policy_t": probs,
        "behaviour_policy_t": np.array([[0.5], [0.0], [0.0]], np.float32),
        "targnet_q_t": np.arange(6, dtype=np.float32).reshape(3, 1, 2),
        "a_t": np.zeros((3, 1), np.int32),
        "lambda_": np.float32(1.0),
    }
    outputs, gradients = modes.run(mode, core(False), inputs)
    np.testing.assert_array_equal(outputs["retrace_weights"][:, 0], [1.0, 0.0, 1.0])
    assert np.isfinite(outputs["target"]).all()
    for gradient in gradients["grad"].values():
        assert gradient is None or np.isfinite(gradient).all()


def test_unused_rows():
    """NaN in what the docstring calls unused changes nothing."""
    arguments = discrete_arguments()
    expected = retrace.retrace(**arguments).loss
    for name, row in {
        "qs": -1,
        "targnet_qs": 0,
        "rewards": -1,
        "pcontinues": -1,
        "target_policy_probs": 0,
        "behaviour_policy_probs": 0,
    }.items():
        arguments[name][row] = np.nan
    np.testing.assert_array_equal(retrace.retrace(**arguments).loss, expected)


def test_retrace_has_no_extra_and_core_has():
    assert retrace.retrace(**discrete_arguments()).extra is None
    assert retrace.RetraceCoreExtra._fields == ("retrace_weights", "target")


def test_positional_order_of_the_original():
    arguments = ratios()
    result = retrace.retrace_from_importance_weights(*arguments.values(), 0.5)
    again = retrace.retrace_from_importance_weights(**arguments, lambda_=0.5)
    np.testing.assert_array_equal(result.qs, again.qs)
    arguments = discrete_arguments()
    np.testing.assert_array_equal(
        retrace.retrace(*arguments.values()).loss, retrace.retrace(**arguments).loss
    )


def test_time_is_the_only_axis_needed():
    arguments = ratios()
    column = {name: value[..., 1] for name, value in arguments.items()}
    single = retrace.retrace_from_importance_weights(**column)
    whole = retrace.retrace_from_importance_weights(**arguments)
    np.testing.assert_allclose(single.qs, whole.qs[:, 1], rtol=1e-6)
    arguments = discrete_arguments()
    column = {k: v if k == "lambda_" else v[:, 1] for k, v in arguments.items()}
    loss = retrace.retrace(**column).loss
    np.testing.assert_allclose(loss, retrace.retrace(**arguments).loss[:, 1], rtol=1e-5)


def test_unknown_shapes_of_ratios():
    rows, free = tf.TensorSpec([None, None], tf.float32), tf.TensorSpec(None, tf.float32)
    for spec, last in ((rows, tf.TensorSpec([None], tf.float32)), (free, free)):
        fn = tf.function(
            lambda *args: retrace.retrace_from_importance_weights(*args).qs,
            input_signature=[spec] * 5 + [last],
        )
        for num_steps in (1, 5, 17):
            arguments = ratios(num_steps)
            expected = retrace.retrace_from_importance_weights(**arguments).qs
            np.testing.assert_allclose(fn(*arguments.values()), expected, rtol=1e-5, atol=1e-6)


def test_unknown_sizes_of_discrete():
    names = [name for name in discrete_arguments() if name != "lambda_"]
    specs = {
        name: tf.TensorSpec(
            [None] * x.ndim, tf.int32 if name == "actions" else tf.float32, name=name
        )
        for name, x in discrete_arguments().items()
        if name != "lambda_"
    }
    fn = tf.function(lambda *args: retrace.retrace(0.9, **dict(zip(names, args))).loss)
    traced = fn.get_concrete_function(*specs.values())
    for num_rows in (2, 6):
        arguments = discrete_arguments(num_rows)
        tensors = [tf.cast(arguments[name], specs[name].dtype) for name in names]
        expected = retrace.retrace(**arguments).loss
        np.testing.assert_allclose(traced(*tensors), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_dtypes(dtype):
    wide = {k: tf.constant(v, tf.float64) for k, v in ratios().items()}
    result = retrace.retrace_from_importance_weights(
        **{k: tf.cast(v, dtype) for k, v in wide.items()}
    )
    expected = retrace.retrace_from_importance_weights(**wide)
    tolerance = {"float16": 2e-2, "bfloat16": 2e-1, "float64": 1e-12}[dtype]
    for field in ("qs", "truncated_importance_weights"):
        actual = getattr(result, field)
        assert actual.dtype == tf.as_dtype(dtype)
        np.testing.assert_allclose(
            tf.cast(actual, tf.float64), getattr(expected, field), rtol=tolerance, atol=tolerance
        )


# ---- Errors ----

F32 = np.float32
BAD_RATIOS = {
    "rank": ({"rewards": np.ones((5, 2, 1), F32)}, ValueError, r"rewards has shape \(5, 2, 1\)"),
    "batch": ({"values": np.ones((5, 3), F32)}, ValueError, r"values has shape \(5, 3\)"),
    "time": ({"q_values": np.ones((6, 2), F32)}, ValueError, r"q_values has shape \(6, 2\)"),
    "bootstrap": ({"bootstrap_value": np.ones((1, 2), F32)}, ValueError, r"must have \(2,\)"),
    "integer": ({"rewards": np.ones((5, 2), np.int32)}, TypeError, "rewards is int32"),
    "none": ({"values": None}, TypeError, "values is a NoneType"),
    "dtypes": (
        {"log_rhos": tf.ones((5, 2)), "values": tf.ones((5, 2), tf.float64)},
        TypeError,
        "values is float64, but log_rhos is float32",
    ),
    "low": ({"lambda_": -0.5}, ValueError, "lambda_ is -0.5, but must be from 0 to 1"),
    "high": ({"lambda_": 1.5}, ValueError, "lambda_ is 1.5, but must be from 0 to 1"),
    "vector": ({"lambda_": [0.5, 0.5]}, ValueError, "lambda_ has shape"),
    "text": ({"lambda_": "high"}, TypeError, "lambda_ is 'high', but must be a number"),
}


@pytest.mark.parametrize("name", BAD_RATIOS)
@pytest.mark.parametrize("wrap", [lambda fn: fn, tf.function], ids=["eager", "graph"])
def test_bad_ratios(name, wrap):
    if name == "text" and wrap is tf.function:
        return  # a graph takes texts for tensors
    changes, error, message = BAD_RATIOS[name]
    with pytest.raises(error, match=message):
        wrap(lambda: retrace.retrace_from_importance_weights(**ratios(**changes)))()


def test_bad_log_probs():
    arguments = ratios()
    log_rhos = arguments.pop("log_rhos")
    with pytest.raises(ValueError, match=r"target_action_log_probs has shape \(4, 2\)"):
        retrace.retrace_from_action_log_probs(log_rhos, log_rhos[1:], **arguments)
    with pytest.raises(TypeError, match="behaviour_action_log_probs is int64"):
        retrace.retrace_from_action_log_probs(log_rhos.astype(int), log_rhos, **arguments)


INDICES = np.zeros((6, 2), np.int32)
BAD_DISCRETE = {
    "no actions axis": ({"qs": np.ones((6, 2), F32)}, ValueError, r"targnet_qs has shape"),
    "targnet": ({"targnet_qs": np.ones((6, 2, 3), F32)}, ValueError, "targnet_qs has shape"),
    "rewards": ({"rewards": np.ones((5, 2), F32)}, ValueError, r"rewards has shape \(5, 2\)"),
    "batch": ({"pcontinues": np.ones((6, 3), F32)}, ValueError, r"pcontinues has shape \(6, 3\)"),
    "behaviour": (
        {"behaviour_policy_probs": np.ones((6, 2, 4), F32)},
        ValueError,
        r"behaviour_policy_probs has shape \(6, 2, 4\), but must have \(6, 2\)",
    ),
    "no actions": ({"actions": None}, TypeError, "actions is a NoneType that is no tensor"),
    "float actions": ({"actions": INDICES.astype(F32)}, TypeError, "actions is float32"),
    "actions": ({"actions": INDICES[1:]}, ValueError, r"actions has shape \(5, 2\)"),
    "integer": ({"rewards": INDICES}, TypeError, "rewards is int32"),
    "lambda": ({"lambda_": 2.0}, ValueError, "lambda_ is 2, but must be from 0 to 1"),
}


@pytest.mark.parametrize("name", BAD_DISCRETE)
def test_bad_discrete(name):
    changes, error, message = BAD_DISCRETE[name]
    with pytest.raises(error, match=message):
        retrace.retrace(**discrete_arguments(**changes))


def test_one_row_is_too_few():
    with pytest.raises(ValueError, match=r"qs has shape \(1, 2, 4\), but needs at least 2 rows"):
        retrace.retrace(**discrete_arguments(num_rows=1))


def test_bad_core():
    arguments = discrete_arguments()
    names = ("q_tm1", "targnet_q_t", "a_t", "r_t", "pcont_t", "target_policy_t")
    found = dict(zip(names, list(arguments.values())[1:]))
    found["behaviour_policy_t"] = arguments["behaviour_policy_probs"]
    with pytest.raises(TypeError, match="a_tm1 is float32, but must hold the indices"):
        retrace.retrace_core(1.0, a_tm1=INDICES.astype(F32), **found)
    with pytest.raises(TypeError, match="a_tm1 is a object that is no tensor"):
        retrace.retrace_core(1.0, a_tm1=object(), **found)
    with pytest.raises(ValueError, match=r"a_tm1 has shape \(6, 1\), but must have \(6, 2\)"):
        retrace.retrace_core(1.0, a_tm1=INDICES[:, :1], **found)
    flat = {**found, **{k: np.ones(6, F32) for k in ("q_tm1", "targnet_q_t", "target_policy_t")}}
    with pytest.raises(ValueError, match=r"q_tm1, .* have shape \(6,\), but must have \[T, B, A\]"):
        retrace.retrace_core(1.0, a_tm1=INDICES, **flat)


def test_unknown_number_of_axes():
    fn = tf.function(
        lambda qs: retrace.retrace(
            **discrete_arguments(qs=qs, targnet_qs=qs, target_policy_probs=qs)
        )
    )
    with pytest.raises(ValueError, match="only the sizes may be unknown"):
        fn.get_concrete_function(tf.TensorSpec(None, tf.float32))


def test_action_out_of_range():
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in \\[0, 4\\)"):
        retrace.retrace(**discrete_arguments(actions=INDICES + 4))


def test_action_that_neither_policy_takes_ends_the_trace():
    impossible = tf.constant([[0.0], [-np.inf], [0.0]])
    rest = [tf.ones([3, 1]) * x for x in (0.9, 1.0, 0.5, 0.25)]
    got = retrace.retrace_from_action_log_probs(impossible, impossible, *rest, tf.ones([1]))
    assert np.isfinite(got.qs).all()
    np.testing.assert_allclose(got.truncated_importance_weights[0], [0.0])
