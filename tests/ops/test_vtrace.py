"""V-trace against the numbers of RLlib and rlax, in eager mode, graphs and XLA."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tests import golden_cases
from tests.ops import modes
from tfagents_x.ops import vtrace

tfd = tfp.distributions

RATIO_ARGS = ("log_rhos", "discounts", "rewards", "values", "bootstrap_value")
TD_ARGS = ("v_tm1", "v_t", "r_t", "discount_t", "rho_tm1")


def cases(function):
    found = golden_cases.load("ops_vtrace", f"{function}__")
    return pytest.mark.parametrize("case", found, ids=golden_cases.ids)


def assert_values(actual, expected):
    golden_cases.assert_close(actual, expected, rtol=1e-5, atol=1e-5, scaled=True)


def assert_gradients(actual, expected):
    actual = np.zeros_like(expected) if actual is None else actual
    golden_cases.assert_close(actual, expected, rtol=1e-4, atol=1e-4, scaled=True)


def clipped(fn):
    """`fn` where a threshold that is not given means none, as in the golden files."""

    def wrapped(*args, clip_rho_threshold=None, clip_pg_rho_threshold=None, **inputs):
        return fn(
            *args,
            **inputs,
            clip_rho_threshold=clip_rho_threshold,
            clip_pg_rho_threshold=clip_pg_rho_threshold,
        )

    return wrapped


# ---- Golden values ----

from_ratios = clipped(vtrace.from_importance_weights)


@modes.all_modes
@cases("from_importance_weights")
def test_from_importance_weights(case, mode):
    result = modes.run(mode, from_ratios, case.under("in"))
    assert_values(result.vs, case["out.vs"])
    assert_values(result.pg_advantages, case["out.pg_advantages"])


@modes.with_gradients(
    grad=["vs", "pg_advantages", "log_rhos", "target_action_log_probs"], grad_pg_loss=["pg_loss"]
)
def single_head(**inputs):
    result = clipped(vtrace.from_logits)(**inputs)
    return {**result._asdict(), "pg_loss": -result.target_action_log_probs * result.pg_advantages}


@modes.all_modes
@cases("from_logits")
def test_from_logits(case, mode):
    outputs, gradients = modes.run(mode, single_head, case.under("in"))
    for field in vtrace.VTraceFromLogitsReturns._fields:
        assert_values(outputs[field], case[f"out.{field}"])
    for name, found in gradients.items():
        expected = case[f"out.{name}.target_policy_logits"]
        assert_gradients(found["target_policy_logits"], expected)


LOGIT_LISTS = ("behaviour_policy_logits", "target_policy_logits", "actions")


@modes.with_gradients(
    grad=["vs", "pg_advantages", "log_rhos", "all_log_probs"], grad_pg_loss=["pg_loss"]
)
def several_heads(**inputs):
    lists = {name: [] for name in (*LOGIT_LISTS, "behaviour_action_log_probs")}
    for key in sorted(key for key in inputs if "." in key):
        lists[key.partition(".")[0]].append(inputs.pop(key))
    lists["behaviour_action_log_probs"] = lists["behaviour_action_log_probs"] or None
    result = clipped(vtrace.multi_from_logits)(**lists, **inputs)
    outputs = {name: getattr(result, name) for name in ("vs", "pg_advantages", "log_rhos")}
    for i, log_prob in enumerate(result.target_action_log_probs):
        outputs[f"target_action_log_probs.{i}"] = log_prob
        outputs[f"behaviour_action_log_probs.{i}"] = result.behaviour_action_log_probs[i]
    outputs["all_log_probs"] = tf.add_n(result.target_action_log_probs)
    outputs["pg_loss"] = -outputs["all_log_probs"] * result.pg_advantages
    return outputs


@modes.all_modes
@cases("multi_from_logits")
def test_multi_from_logits(case, mode):
    outputs, gradients = modes.run(mode, several_heads, case.under("in"))
    expected = case.under("out")
    assert len(expected) == 3 + 4 * len(case.leaves("in.actions"))
    for key, value in expected.items():
        section, _, argument = key.partition(".")
        if section.startswith("grad"):
            assert_gradients(gradients[section][argument], value)
        else:
            assert_values(outputs[key], value)


def td_outputs(stop_target_gradients):
    @modes.with_gradients(
        grad=["errors", "pg_advantage", "q_estimate"],
        grad_errors=["errors"],
        grad_pg_advantage=["pg_advantage"],
    )
    def fn(**inputs):
        result = vtrace.td_error_and_advantage(
            **inputs, stop_target_gradients=stop_target_gradients
        )
        return result._asdict()

    return fn


TD_OUTPUTS = {stop: td_outputs(stop) for stop in (True, False)}


@modes.all_modes
@cases("td_error_and_advantage")
def test_td_error_and_advantage(case, mode):
    inputs = case.under("in")
    fn = TD_OUTPUTS[bool(inputs.pop("stop_target_gradients"))]
    outputs, gradients = modes.run(mode, fn, inputs)
    for field in vtrace.VTraceOutput._fields:
        assert_values(outputs[field], case[f"out.{field}"])
    assert len(case.under("out.grad")) == len(TD_ARGS)
    for name, found in gradients.items():
        for argument, expected in case.under(f"out.{name}").items():
            assert_gradients(found[argument], expected)


# ---- Further properties ----


def ratios(num_steps=5, batch=2, **changes):
    """Arguments of `from_importance_weights`, numpy."""
    rng = np.random.default_rng(0)
    found = {
        name: rng.uniform(0.1, 0.9, (num_steps, batch)).astype(np.float32)
        for name in RATIO_ARGS[:-1]
    }
    return {**found, "bootstrap_value": np.ones(batch, np.float32), **changes}


def logits_arguments(**changes):
    """Arguments of `multi_from_logits` with one head of 3 actions."""
    rng = np.random.default_rng(0)
    found = ratios()
    del found["log_rhos"]
    return {
        "behaviour_policy_logits": [rng.normal(size=(5, 2, 3)).astype(np.float32)],
        "target_policy_logits": [rng.normal(size=(5, 2, 3)).astype(np.float32)],
        "actions": [np.ones((5, 2), np.int32)],
        **found,
        **changes,
    }


def test_no_gradient_leaves():
    inputs = {name: tf.constant(value) for name, value in ratios().items()}
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(inputs)
        result = vtrace.from_importance_weights(**inputs)
        totals = [tf.reduce_sum(x) for x in result]
    for total in totals:
        assert set(tape.gradient(total, inputs).values()) == {None}


def test_on_policy_targets_are_n_step_returns():
    """Espeholt et al., remark 1: with pi = mu and full discounts, vs is the return."""
    arguments = ratios(log_rhos=np.zeros((5, 2), np.float32))
    expected, total = [], arguments["bootstrap_value"]
    for reward, discount in zip(arguments["rewards"][::-1], arguments["discounts"][::-1]):
        total = reward + discount * total
        expected.insert(0, total)
    np.testing.assert_allclose(vtrace.from_importance_weights(**arguments).vs, expected, rtol=1e-5)


def test_time_is_the_only_axis_needed():
    arguments = ratios(batch=1)
    column = {name: value[..., 0] for name, value in arguments.items()}
    batched = vtrace.from_importance_weights(**arguments)
    single = vtrace.from_importance_weights(**column)
    np.testing.assert_allclose(single.pg_advantages, batched.pg_advantages[:, 0], rtol=1e-6)


def test_unknown_shapes():
    rows, free = tf.TensorSpec([None, None], tf.float32), tf.TensorSpec(None, tf.float32)
    for spec, bootstrap in ((rows, tf.TensorSpec([None], tf.float32)), (free, free)):
        fn = tf.function(vtrace.from_importance_weights, input_signature=[spec] * 4 + [bootstrap])
        for num_steps in (1, 5, 17):
            arguments = ratios(num_steps)
            expected = vtrace.from_importance_weights(**arguments)
            for actual, wanted in zip(fn(*arguments.values()), expected):
                np.testing.assert_allclose(actual, wanted, rtol=1e-5)


def test_arrays_of_double_precision_become_float32():
    arguments = {name: value.astype(np.float64) for name, value in ratios().items()}
    assert vtrace.from_importance_weights(**arguments).vs.dtype == tf.float32


def test_tensors_keep_double_precision():
    arguments = {name: tf.constant(value, tf.float64) for name, value in ratios().items()}
    arguments["rewards"] = arguments["rewards"].numpy()
    assert vtrace.from_importance_weights(**arguments).vs.dtype == tf.float64


def test_arrays_follow_logits_of_double_precision():
    arguments = logits_arguments()
    for name in LOGIT_LISTS[:2]:
        arguments[name] = [tf.constant(x, tf.float64) for x in arguments[name]]
    assert vtrace.multi_from_logits(**arguments).vs.dtype == tf.float64


def test_thresholds_may_be_tensors():
    limit = tf.function(
        lambda limit: vtrace.from_importance_weights(**ratios(), clip_rho_threshold=limit).vs
    )
    expected = vtrace.from_importance_weights(**ratios(), clip_rho_threshold=0.5).vs
    np.testing.assert_allclose(limit(tf.constant(0.5)), expected, rtol=1e-6)


def test_positional_order_of_the_original():
    """`dist_class` and `model` come after the bootstrap value, then the thresholds."""
    multi = logits_arguments()
    single = [multi[name][0] for name in LOGIT_LISTS] + [multi[name] for name in RATIO_ARGS[1:]]
    result = vtrace.from_logits(*single, tfd.Categorical, object(), 0.5, 0.7)
    recorded = multi["rewards"]
    given = vtrace.multi_from_logits(*multi.values(), tfd.Categorical, None, recorded, 0.5, 0.7)
    again = vtrace.from_importance_weights(
        result.log_rhos, *single[3:], clip_rho_threshold=0.5, clip_pg_rho_threshold=0.7
    )
    np.testing.assert_allclose(result.vs, again.vs, rtol=1e-6)
    np.testing.assert_array_equal(given.behaviour_action_log_probs[0], recorded)


def test_recorded_log_probs_may_be_a_list():
    recorded = np.full((5, 2), -0.5, np.float32)
    plain = vtrace.multi_from_logits(**logits_arguments(behaviour_action_log_probs=recorded))
    listed = vtrace.multi_from_logits(**logits_arguments(behaviour_action_log_probs=[recorded]))
    np.testing.assert_array_equal(plain.vs, listed.vs)
    np.testing.assert_array_equal(listed.behaviour_action_log_probs[0], recorded)


def diagonal_normal(parameters):
    mean, log_scale = tf.split(parameters, 2, axis=-1)
    return tfd.MultivariateNormalDiag(mean, tf.exp(log_scale))


def test_continuous_actions():
    actions = np.random.default_rng(1).normal(size=(5, 2, 2)).astype(np.float32)
    behaviour, target = np.zeros((2, 5, 2, 4), np.float32)
    target[..., :2] = 0.5
    arguments = logits_arguments(
        behaviour_policy_logits=[behaviour], target_policy_logits=[target], actions=[actions]
    )
    result = vtrace.multi_from_logits(**arguments, dist_class=diagonal_normal)
    expected = np.sum(0.5 * actions**2 - 0.5 * (actions - 0.5) ** 2, axis=-1)
    np.testing.assert_allclose(result.log_rhos, expected, rtol=1e-5, atol=1e-6)


def test_extra_axis_in_logits():
    arguments = logits_arguments()
    wide = {
        name: [np.stack([x, x], axis=2) for x in value]
        if isinstance(value, list)
        else np.stack([value, value], axis=-1)
        for name, value in arguments.items()
    }
    narrow, result = vtrace.multi_from_logits(**arguments), vtrace.multi_from_logits(**wide)
    for column in (0, 1):
        np.testing.assert_allclose(result.vs[..., column], narrow.vs, rtol=1e-6)


def test_none_switches_clipping_off_in_td_error():
    rng = np.random.default_rng(0)
    arguments = {name: rng.uniform(0.5, 3, (4, 2)).astype(np.float32) for name in TD_ARGS}
    none = vtrace.td_error_and_advantage(
        **arguments, clip_rho_threshold=None, clip_pg_rho_threshold=None
    )
    high = vtrace.td_error_and_advantage(
        **arguments, clip_rho_threshold=100.0, clip_pg_rho_threshold=100.0
    )
    low = vtrace.td_error_and_advantage(**arguments)
    for a, b, c in zip(none, high, low):
        np.testing.assert_allclose(a, b, rtol=1e-6)
        assert not np.allclose(a, c)


# ---- Errors ----

F32 = np.float32
BAD_RATIOS = {
    "rank": ({"rewards": np.ones((5, 2, 1), F32)}, ValueError, r"rewards has shape \(5, 2, 1\)"),
    "batch": ({"values": np.ones((5, 3), F32)}, ValueError, r"values has shape \(5, 3\)"),
    "time": ({"discounts": np.ones((4, 2), F32)}, ValueError, r"discounts has shape \(4, 2\)"),
    "column": ({"rewards": np.ones((5, 1), F32)}, ValueError, r"rewards has shape \(5, 1\)"),
    "bootstrap": ({"bootstrap_value": np.ones((5, 2), F32)}, ValueError, "must have \\(2,\\)"),
    "integer": ({"rewards": np.ones((5, 2), np.int32)}, TypeError, "rewards is int32"),
    "dtypes": (
        {"log_rhos": tf.ones((5, 2)), "values": tf.ones((5, 2), tf.float64)},
        TypeError,
        "values is float64, but log_rhos is float32",
    ),
    "none": ({"bootstrap_value": None}, TypeError, "bootstrap_value is a NoneType"),
    "negative": ({"clip_rho_threshold": -1.0}, ValueError, "clip_rho_threshold is -1"),
    "nan": ({"clip_pg_rho_threshold": np.nan}, ValueError, "clip_pg_rho_threshold is nan"),
    "vector": ({"clip_rho_threshold": [1.0, 2.0]}, ValueError, "clip_rho_threshold has shape"),
}


@pytest.mark.parametrize("name", BAD_RATIOS)
@pytest.mark.parametrize("wrap", [lambda fn: fn, tf.function], ids=["eager", "graph"])
def test_bad_ratios(name, wrap):
    changes, error, message = BAD_RATIOS[name]
    with pytest.raises(error, match=message):
        wrap(lambda: vtrace.from_importance_weights(**ratios(**changes)))()


def test_no_time_step():
    with pytest.raises(ValueError, match="at least one step"):
        vtrace.from_importance_weights(**ratios(num_steps=0))


def test_no_time_axis():
    scalars = dict.fromkeys(RATIO_ARGS, 0.5)
    with pytest.raises(ValueError, match="need a time axis"):
        vtrace.from_importance_weights(**scalars)


LOGITS = np.ones((5, 2, 3), F32)
BAD_LOGITS = {
    "no list": ({"actions": np.ones((5, 2), np.int32)}, TypeError, "actions is a ndarray"),
    "lengths": ({"target_policy_logits": [LOGITS, LOGITS]}, ValueError, "lengths are"),
    "no head": ({key: [] for key in LOGIT_LISTS}, ValueError, "lengths are"),
    "integer": ({"target_policy_logits": [LOGITS.astype(int)]}, TypeError, "is int64"),
    "actions": ({"actions": [np.ones((5, 2, 1), np.int32)]}, ValueError, r"shape \(5, 2, 1\)"),
    "behaviour": (
        {"behaviour_policy_logits": [LOGITS[:4]]},
        ValueError,
        r"\(4, 2, 3\), but must have",
    ),
    "both": (
        {
            "behaviour_policy_logits": [LOGITS[:, :1]],
            "target_policy_logits": [LOGITS[:, :1]],
            "actions": [np.ones((5, 1), np.int32)],
        },
        ValueError,
        "for head 0 of pi has shape",
    ),
    "dtypes": (
        {"behaviour_policy_logits": [tf.ones((5, 2, 3), tf.float64)]},
        TypeError,
        "head 0 of mu is float64, but .* head 0 of pi is float32",
    ),
    "rewards": ({"rewards": None}, TypeError, "rewards is a NoneType"),
    "no distribution": ({"dist_class": lambda logits: logits}, TypeError, "tfp distribution"),
    "event": (
        {"dist_class": lambda x: tfd.Normal(x, 1.0), "actions": [LOGITS]},
        ValueError,
        "tfp.distributions.Independent",
    ),
    "recorded": ({"behaviour_action_log_probs": LOGITS}, ValueError, "behaviour_action_log_probs"),
    "two recorded": (
        {"behaviour_action_log_probs": [LOGITS[..., 0], LOGITS[..., 0]]},
        ValueError,
        "has 2 entries",
    ),
    "threshold": ({"clip_rho_threshold": -0.5}, ValueError, "at least 0"),
}


@pytest.mark.parametrize("name", BAD_LOGITS)
def test_bad_logits(name):
    changes, error, message = BAD_LOGITS[name]
    with pytest.raises(error, match=message):
        vtrace.multi_from_logits(**logits_arguments(**changes))


BAD_TD = {
    "shape": ({"v_t": np.ones((5, 2), F32)}, ValueError, r"v_t has shape \(5, 2\)"),
    "integer": ({"r_t": np.ones((4, 2), int)}, TypeError, "r_t is int64"),
    "lambda": ({"lambda_": 1.5}, ValueError, "lambda_ is 1.5, but must be from 0 to 1"),
    "vector": ({"lambda_": [0.5, 0.5]}, ValueError, "lambda_ has shape"),
    "threshold": ({"clip_pg_rho_threshold": -1}, ValueError, "clip_pg_rho_threshold is -1"),
}


@pytest.mark.parametrize("name", BAD_TD)
def test_bad_td_arguments(name):
    changes, error, message = BAD_TD[name]
    arguments = {**{k: np.ones((4, 2), F32) for k in TD_ARGS}, **changes}
    with pytest.raises(error, match=message):
        vtrace.td_error_and_advantage(**arguments)


def test_logits_of_different_sizes_are_refused():
    zeros, mu, pi = np.zeros([5, 2], np.float32), np.zeros([5, 2, 3]), np.zeros([5, 2, 4])
    arguments = (mu, pi, zeros.astype(np.int32), zeros, zeros, zeros, zeros[0])
    with pytest.raises(ValueError, match="behaviour_policy_logits.*as target_policy_logits"):
        vtrace.from_logits(*arguments)


def test_float_actions_are_refused():
    zeros, logits = np.zeros([5, 2], np.float32), np.zeros([5, 2, 3], np.float32)
    with pytest.raises(TypeError, match="float32.*indices of actions"):
        vtrace.from_logits(logits, logits, zeros, zeros, zeros, zeros, zeros[0])
