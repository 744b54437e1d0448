"""Policy losses against the numbers of rlax and TRFL, in eager mode, graphs and XLA."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tests import golden_cases
from tests.ops import modes
from tfagents_x.ops import policy_gradient as pg
from tfagents_x.ops import vtrace

tfd = tfp.distributions


def cases(function):
    found = golden_cases.load("ops_policy_gradient", f"{function}__")
    return pytest.mark.parametrize("case", found, ids=golden_cases.ids)


def check(case, mode, fn, total="loss", atol=1e-5, scaled=False, skip=()):
    """Compares all outputs of `fn`, and the gradients of the sum of output `total`."""
    inputs = {k: v for k, v in case.under("in").items() if k not in skip}
    outputs, gradients = modes.run(mode, fn, inputs)
    compared = set()
    for key, expected in case.under("out").items():
        section, _, argument = key.partition(".")
        if section == "grad":
            actual = gradients["grad"][argument]
            actual = np.zeros_like(expected) if actual is None else actual
            golden_cases.assert_close(actual, expected, 1e-5, atol, scaled)
        else:
            golden_cases.assert_close(outputs[key], expected, 1e-5, atol, scaled)
        compared.add(section)
    assert {total, "grad"} <= compared


# ---- From logits (rlax) ----

of_loss = modes.with_gradients(grad=["loss"])


@of_loss
def policy_gradient_loss(**inputs):
    loss = pg.policy_gradient_loss(**inputs)
    return {"loss": loss, "mean_loss": tf.reduce_mean(loss)}


@of_loss
def policy_gradient_loss_through_advantages(**inputs):
    loss = pg.policy_gradient_loss(**inputs, use_stop_gradient=False)
    return {"loss": loss, "mean_loss": tf.reduce_mean(loss)}


@modes.all_modes
@cases("policy_gradient_loss")
def test_policy_gradient_loss(case, mode):
    stop = case["in.use_stop_gradient"]
    fn = policy_gradient_loss if stop else policy_gradient_loss_through_advantages
    check(case, mode, fn, skip=["use_stop_gradient"])


@of_loss
def entropy_loss(**inputs):
    loss = pg.entropy_loss(**inputs)
    return {"loss": loss, "mean_loss": tf.reduce_mean(loss)}


@modes.all_modes
@cases("entropy_loss")
def test_entropy_loss(case, mode):
    check(case, mode, entropy_loss)


@modes.with_gradients(grad=["ratios"])
def ratios(**inputs):
    return {"ratios": pg.categorical_importance_sampling_ratios(**inputs)}


@modes.all_modes
@cases("categorical_importance_sampling_ratios")
def test_importance_sampling_ratios(case, mode):
    check(case, mode, ratios, total="ratios", scaled=True)


# ---- From distributions (TRFL) ----


def heads_of(inputs, name):
    return [inputs[k] for k in sorted(inputs) if k.startswith(f"{name}.")]


@of_loss
def policy_gradient(logits, actions, action_values):
    return {"loss": pg.policy_gradient(tfd.Categorical(logits), actions, action_values)}


@modes.all_modes
@cases("policy_gradient")
def test_policy_gradient(case, mode):
    check(case, mode, policy_gradient)


@of_loss
def sequence_policy_gradient_loss(action_values, **inputs):
    policies = [tfd.Categorical(logits) for logits in heads_of(inputs, "logits")]
    actions = heads_of(inputs, "actions")
    return {"loss": pg.sequence_policy_gradient_loss(policies, actions, action_values)}


@modes.all_modes
@cases("sequence_policy_gradient_loss")
def test_sequence_policy_gradient_loss(case, mode):
    check(case, mode, sequence_policy_gradient_loss, atol=2e-5)


@of_loss
def policy_entropy_loss(scale=None, **inputs):
    policies = [tfd.Categorical(logits) for logits in heads_of(inputs, "logits")]
    scale_op = None if scale is None else lambda _: scale
    return pg.policy_entropy_loss(policies, scale_op)._asdict()


@modes.all_modes
@cases("policy_entropy_loss")
def test_policy_entropy_loss(case, mode):
    check(case, mode, policy_entropy_loss)


# ---- Everything together ----


@of_loss
def impala_loss(
    logits,
    values,
    behaviour_logits,
    actions,
    rewards,
    discounts,
    discount,
    baseline_cost,
    entropy_cost,
    max_abs_reward=None,
):
    if max_abs_reward is not None:
        rewards = tf.clip_by_value(rewards, -max_abs_reward, max_abs_reward)
    policy, behaviour, a_t = logits[:, :-1], behaviour_logits[:, :-1], actions[:, :-1]
    rhos = pg.categorical_importance_sampling_ratios(policy, behaviour, a_t)
    targets = vtrace.from_importance_weights(
        tf.transpose(tf.math.log(rhos)),
        discounts=tf.transpose(discounts * discount)[:-1],
        rewards=tf.transpose(rewards)[:-1],
        values=tf.transpose(values)[:-1],
        bootstrap_value=values[:, -1],
    )
    vs, advantages = (tf.transpose(x) for x in targets)
    ones = tf.ones_like(advantages)
    losses = {
        "policy_loss": tf.reduce_mean(pg.policy_gradient_loss(policy, a_t, advantages, ones)),
        "critic_loss": baseline_cost * tf.reduce_mean((vs - values[:, :-1]) ** 2),
        "entropy": tf.reduce_mean(pg.entropy_loss(policy, ones)),
    }
    losses["entropy_loss"] = entropy_cost * losses["entropy"]
    total = losses["policy_loss"] + losses["critic_loss"] + losses["entropy_loss"]
    return {"loss": total, **losses}


@modes.all_modes
@cases("impala_loss")
def test_impala_loss_put_together(case, mode):
    """The ops, composed as IMPALA's loss composes them, give the loss of Acme."""
    check(case, mode, impala_loss)


# ---- Further properties ----


def sequence(**changes):
    rng = np.random.default_rng(0)
    found = {
        "logits_t": rng.normal(size=(6, 4)).astype(np.float32),
        "a_t": rng.integers(0, 4, 6).astype(np.int32),
        "adv_t": rng.normal(size=6).astype(np.float32),
        "w_t": np.ones(6, np.float32),
    }
    return {**found, **changes}


def test_sequence_without_batch():
    """As in rlax: [T, A] in, one number out; leading axes are batch axes."""
    single = sequence()
    nested = {name: np.broadcast_to(x, (2, 3, *x.shape)) for name, x in single.items()}
    loss = pg.policy_gradient_loss(**single)
    assert loss.shape == []
    np.testing.assert_allclose(pg.policy_gradient_loss(**nested), np.full((2, 3), loss), rtol=1e-6)


@modes.all_modes
def test_weight_zero_hides_a_ruled_out_action(mode):
    """Padding may hold an action that the logits of the padded step rule out."""
    inputs = sequence()
    inputs["logits_t"][2, inputs["a_t"][2]] = -np.inf
    inputs["w_t"][2] = 0.0
    outputs, gradients = modes.run(mode, policy_gradient_loss, inputs)
    assert np.isfinite(outputs["loss"])
    assert np.isfinite(gradients["grad"]["logits_t"]).all()


def test_ruled_out_action_is_infinitely_bad():
    inputs = sequence(adv_t=np.ones(6, np.float32))
    inputs["logits_t"][2, inputs["a_t"][2]] = -np.inf
    assert pg.policy_gradient_loss(**inputs) == np.inf


def test_unknown_shapes():
    inputs = sequence()
    free = [tf.TensorSpec(None, tf.as_dtype(x.dtype)) for x in inputs.values()]
    partial = [tf.TensorSpec([None] * x.ndim, tf.as_dtype(x.dtype)) for x in inputs.values()]
    for signature in (free, partial):
        fn = tf.function(pg.policy_gradient_loss, input_signature=signature)
        np.testing.assert_allclose(
            fn(*inputs.values()), pg.policy_gradient_loss(**inputs), rtol=1e-6
        )


def test_continuous_policies():
    policy = tfd.MultivariateNormalDiag(tf.zeros([3, 2, 5]), tf.ones([3, 2, 5]))
    actions = np.ones((3, 2, 5), np.float32)
    loss = pg.policy_gradient(policy, actions, 2.0 * np.ones((3, 2), np.float32))
    np.testing.assert_allclose(loss, np.full((3, 2), 5 * (1 + np.log(2 * np.pi))), rtol=1e-6)


def test_policies_may_be_a_nest():
    logits = np.random.default_rng(0).normal(size=(3, 2, 4)).astype(np.float32)
    policies = {"arm": tfd.Categorical(logits), "leg": tfd.Categorical(2 * logits)}
    actions = {"arm": np.zeros((3, 2), np.int32), "leg": np.ones((3, 2), np.int32)}
    values = np.ones((3, 2), np.float32)
    loss = pg.sequence_policy_gradient_loss(policies, actions, values)
    parts = [pg.policy_gradient(policies[k], actions[k], values) for k in policies]
    np.testing.assert_allclose(loss, tf.reduce_sum(tf.add_n(parts), axis=0), rtol=1e-6)
    result = pg.policy_entropy_loss(policies, lambda given: 1.0 / len(given))
    np.testing.assert_allclose(result.loss, -0.5 * result.entropy, rtol=1e-6)


# ---- Errors ----

F32 = np.float32
ONES = np.ones((6, 1), F32)
BAD_SEQUENCES = {
    "rank": ({"logits_t": np.ones(4, F32)}, ValueError, r"logits_t has shape \(4,\)"),
    "advantages": ({"adv_t": ONES}, ValueError, r"adv_t has shape \(6, 1\)"),
    "weights": ({"w_t": ONES}, ValueError, r"w_t has shape \(6, 1\)"),
    "actions": ({"a_t": np.zeros((6, 1), int)}, ValueError, r"a_t has shape \(6, 1\)"),
    "no actions": ({"a_t": None}, TypeError, "a_t is a NoneType that is no tensor"),
    "float actions": ({"a_t": np.zeros(6, F32)}, TypeError, "a_t is float32"),
    "integer": ({"adv_t": np.zeros(6, int)}, TypeError, "adv_t is int64"),
    "dtypes": (
        {"logits_t": tf.ones((6, 4)), "w_t": tf.ones(6, tf.float64)},
        TypeError,
        "w_t is float64, but logits_t is float32",
    ),
}


@pytest.mark.parametrize("name", BAD_SEQUENCES)
def test_bad_policy_gradient_loss(name):
    changes, error, message = BAD_SEQUENCES[name]
    with pytest.raises(error, match=message):
        pg.policy_gradient_loss(**sequence(**changes))


@pytest.mark.parametrize("name", ["rank", "weights", "dtypes"])
def test_bad_entropy_loss(name):
    changes, error, message = BAD_SEQUENCES[name]
    arguments = sequence(**changes)
    with pytest.raises(error, match=message):
        pg.entropy_loss(arguments["logits_t"], arguments["w_t"])


def test_bad_ratios():
    logits, actions = np.ones((6, 4), F32), np.zeros(6, np.int32)
    with pytest.raises(ValueError, match=r"mu_logits_t has shape \(6, 3\)"):
        pg.categorical_importance_sampling_ratios(logits, logits[:, :3], actions)
    with pytest.raises(ValueError, match=r"a_t has shape \(5,\)"):
        pg.categorical_importance_sampling_ratios(logits, logits, actions[:5])
    with pytest.raises(TypeError, match="a_t is float32"):
        pg.categorical_importance_sampling_ratios(logits, logits, actions.astype(F32))


POLICY = tfd.Categorical(np.zeros((3, 2, 4), F32))
ACTIONS, VALUES = np.zeros((3, 2), np.int32), np.ones((3, 2), F32)
BAD_POLICIES = {
    "no distribution": ((ONES, ACTIONS, VALUES), TypeError, "must .* tfp distribution"),
    "actions": ((POLICY, ACTIONS[:, :1], VALUES), ValueError, r"shape \(3, 1\)"),
    "no actions": ((POLICY, None, VALUES), TypeError, "actions is a NoneType that is no tensor"),
    "object": ((POLICY, object(), VALUES), TypeError, "actions is a object that is no tensor"),
    "values": ((POLICY, ACTIONS, VALUES[:, :1]), ValueError, "action_values has shape"),
    "integer": ((POLICY, ACTIONS, ACTIONS), TypeError, "action_values is int32"),
}


@pytest.mark.parametrize("fn", [pg.policy_gradient, pg.sequence_policy_gradient_loss])
@pytest.mark.parametrize("name", BAD_POLICIES)
def test_bad_policies(name, fn):
    arguments, error, message = BAD_POLICIES[name]
    with pytest.raises(error, match=message):
        fn(*arguments)


def test_bad_nests_of_policies():
    with pytest.raises(ValueError, match="2 policies and 1 actions"):
        pg.sequence_policy_gradient_loss([POLICY, POLICY], [ACTIONS], VALUES)
    with pytest.raises(ValueError, match="policies is empty"):
        pg.sequence_policy_gradient_loss([], [], VALUES)


def test_bad_policy_entropy_loss():
    with pytest.raises(TypeError, match="policies holds a"):
        pg.policy_entropy_loss([VALUES])
    with pytest.raises(TypeError, match="scale_op is a float"):
        pg.policy_entropy_loss(POLICY, 0.5)
    with pytest.raises(ValueError, match="the entropy of policy 1 has shape"):
        pg.policy_entropy_loss([POLICY, tfd.Categorical(np.zeros((3, 1, 4), F32))])
