"""The losses of DreamerV3 against RLlib's: values, and gradients for every input."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest
import tensorflow as tf

from tests import golden_cases
from tests.ops import modes
from tfagents_x.learners import dreamer_losses
from tfagents_x.networks.dreamer import latents
from tfagents_x.ops import clipping, returns, symlog

VALUES = {"rtol": 1e-5, "atol": 1e-5}
GRADIENTS = {"rtol": 1e-4, "atol": 1e-6}


def load(name):
    """The case, and its settings."""
    (case,) = [c for c in golden_cases.load("learner_dreamerv3", name) if c.name == name]
    return case, json.loads(str(case["config"]))


def check(mode, fn, inputs, outputs, gradients, **kwargs):
    """Compares outputs by name, and gradients given as {loss: {input: array}}."""
    got, got_gradients = modes.run(mode, fn, inputs)
    for name, value in outputs.items():
        golden_cases.assert_close(got[name], value, **{**VALUES, **kwargs})
    for loss, expected in gradients.items():
        assert expected
        for name, value in expected.items():
            actual = got_gradients[loss][name]
            actual = np.zeros_like(value) if actual is None else actual
            golden_cases.assert_close(actual, value, **GRADIENTS)


def test_transforms():
    case, _ = load("transforms")
    x = tf.constant(case["in.symlog_values"])
    golden_cases.assert_close(symlog.symlog(x), case["out.symlog"], **VALUES)
    got = symlog.two_hot(tf.constant(case["in.two_hot_values"]))
    golden_cases.assert_close(got, case["out.two_hot"], **VALUES)


def test_cross_entropy_is_that_of_two_hot_targets():
    """Also on bucket borders, at the bounds and beyond, and its gradient."""
    case, _ = load("transforms")
    targets = tf.constant(case["in.two_hot_values"])
    logits = tf.random.stateless_normal([len(targets), 255], [1, 2], stddev=3.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(logits)
        got = dreamer_losses.two_hot_cross_entropy(logits, targets)
        want = -tf.reduce_sum(tf.nn.log_softmax(logits) * case["out.two_hot"], -1)
    golden_cases.assert_close(got, want, rtol=1e-5, atol=1e-5)
    gradients = tape.gradient(got, logits), tape.gradient(want, logits)
    golden_cases.assert_close(*gradients, rtol=1e-4, atol=1e-5)
    assert np.isnan(dreamer_losses.two_hot_cross_entropy(logits[:1], tf.constant([np.nan]))[0])


@functools.cache
def bucket_head():
    @modes.with_gradients(value=["product"])
    def fn(logits, cotangent):
        expected = dreamer_losses.expected_bucket(logits)
        value = symlog.symexp(expected)
        return {"expected_symlog": expected, "value": value, "product": value * cotangent}

    return fn


@functools.cache
def unimix_z():
    @modes.with_gradients(z=["z_product"], probs=["probs_product"])
    def fn(logits, cotangent_z, cotangent_probs):
        logits = tf.reshape(logits, tf.shape(cotangent_z))
        probs = latents.unimix(logits)
        flat = tf.reshape(logits, [-1, logits.shape[-1]])
        one_hot = tf.reshape(latents.ModeSampler().categorical(flat), tf.shape(probs))
        z = latents.straight_through(one_hot, probs)
        products = {"z_product": z * cotangent_z, "probs_product": probs * cotangent_probs}
        return {"probs": probs, "z": z, **products}

    return fn


@functools.cache
def actor_head(discrete):
    @modes.with_gradients(action=["a"], params=["p"], entropy=["entropy"])
    def fn(cotangent_action, cotangent_params, raw=None, raw_mean=None, raw_std=None):
        if discrete:
            probs = latents.unimix(raw)
            params = tf.math.log(probs)
            action = latents.straight_through(latents.ModeSampler().categorical(raw), probs)
            entropy = latents.categorical_entropy(params)
        else:
            params = latents.gaussian_params(raw_mean, raw_std)
            action = latents.ModeSampler(0.5).gaussian(*tf.split(params, 2, -1))
            entropy = latents.gaussian_entropy(params)
        outputs = {"action": action, "dist_params": params, "entropy": entropy}
        return {**outputs, "a": action * cotangent_action, "p": params * cotangent_params}

    return fn


HEADS = {
    "bucket_head": (bucket_head, ["value"]),
    "unimix_z": (unimix_z, ["z", "probs"]),
    "actor_head_discrete": (lambda: actor_head(True), ["action", "params", "entropy"]),
    "actor_head_box": (lambda: actor_head(False), ["action", "params", "entropy"]),
}


@modes.all_modes
@pytest.mark.parametrize("name", HEADS)
def test_heads(name, mode):
    case, _ = load(name)
    make, losses = HEADS[name]
    outputs = {k: v for k, v in case.under("out").items() if not k.startswith("grad.")}
    gradients = {loss: case.under(f"out.grad.{loss}") for loss in losses}
    check(mode, make(), case.under("in"), outputs, gradients)


def test_unimix_vjp():
    logits, cotangent = (tf.random.stateless_normal([5, 7], [i, 0]) for i in (1, 2))
    with tf.GradientTape() as tape:
        tape.watch(logits)
        probs = latents.unimix(logits)
    want = tape.gradient(probs, logits, cotangent)
    got = latents.unimix_vjp(latents.varying_share(logits), cotangent)
    golden_cases.assert_close(got, want, rtol=1e-5, atol=1e-7)


@functools.cache
def prediction():
    @modes.with_gradients(L_prediction=["L_prediction"])
    def fn(rewards_B_T, continues_B_T, **inputs):  # noqa: N803
        terms = dreamer_losses.prediction_losses(
            rewards=rewards_B_T, continues=continues_B_T, **inputs
        )
        return {**terms, **dreamer_losses.means(terms, suffix="_B_T")}

    return fn


@modes.all_modes
@pytest.mark.parametrize("name", ["prediction_vector", "prediction_image"])
def test_prediction(name, mode):
    case, _ = load(name)
    outputs = {k: v for k, v in case.under("out").items() if not k.startswith("grad.")}
    gradients = {"L_prediction": case.under("out.grad.L_prediction")}
    check(mode, prediction(), case.under("in"), outputs, gradients)


@functools.cache
def divergence():
    @modes.with_gradients(L_dyn=["L_dyn"], L_rep=["L_rep"])
    def fn(posterior_logits, prior_logits):
        losses = dreamer_losses.dynamics_and_representation_losses(
            latents.unimix(posterior_logits), latents.unimix(prior_logits)
        )
        dynamics, representation = (tf.reshape(x, [3, 4]) for x in losses)
        terms = {"L_dyn_B_T": dynamics, "L_rep_B_T": representation}
        return {**terms, **dreamer_losses.means(terms, suffix="_B_T")}

    return fn


@modes.all_modes
@pytest.mark.parametrize("name", ["kl_free_bits_on", "kl_free_bits_off", "kl_mixed"])
def test_dynamics_and_representation(name, mode):
    case, _ = load(name)
    inputs = {k: case[f"in.{k}"] for k in ("posterior_logits", "prior_logits")}
    outputs = {k: v for k, v in case.under("out").items() if not k.startswith("grad.")}
    at_logits = lambda loss: {
        k: v for k, v in case.under(f"out.grad.{loss}").items() if k.endswith("logits")
    }
    check(mode, divergence(), inputs, outputs, {k: at_logits(k) for k in ("L_dyn", "L_rep")})


def test_nan_divergence_shows():
    nan = tf.fill([1, 2, 3], np.nan)
    for loss in dreamer_losses.dynamics_and_representation_losses(nan, nan):
        assert np.isnan(loss[0])


def test_world_model_total():
    terms = {"L_prediction_B_T": tf.constant([[1.0]])}
    total = dreamer_losses.world_model_losses(terms, tf.constant([[2.0]]), tf.constant([[3.0]]))
    np.testing.assert_allclose(total["L_total_B_T"], [[2.3]], rtol=1e-6)


@modes.all_modes
def test_dream_heads(mode):
    case, config = load("dream_heads")
    fn = functools.partial(dreamer_losses.dream_heads, gamma=config["gamma"])
    got = modes.run(mode, fn, case.under("in"))._asdict()
    for name, value in case.under("out").items():
        golden_cases.assert_close(got[name], value, **VALUES)


def scaled(state, targets, values):
    batch = dreamer_losses.return_percentiles(targets)
    state = dreamer_losses.update_percentiles(state, batch, 0.99)
    return batch, state, dreamer_losses.scaled_value_targets(targets, values, state)


@functools.cache
def scaling():
    @modes.with_gradients(scaled=["product"])
    def fn(state, value_targets, values, cotangent):
        batch, state, result = scaled(state, value_targets, values)
        outputs = {"batch_pct5": batch[0], "batch_pct95": batch[1]}
        outputs.update(pct5=state[0], pct95=state[1], scaled=result)
        return {**outputs, "product": result * cotangent}

    return fn


@modes.all_modes
@pytest.mark.parametrize("name", ["scaled_targets", "scaled_targets_degenerate"])
def test_scaled_value_targets(name, mode):
    case, _ = load(name)
    state = np.full(2, np.nan, np.float32)
    for call in ("call1", "call2"):
        outputs = case.under(f"out.{call}")
        gradients = {"scaled": case.under(f"out.{call}.grad.scaled")}
        outputs = {k: v for k, v in outputs.items() if not k.startswith("grad.")}
        check(mode, scaling(), {"state": state, **case.under(f"in.{call}")}, outputs, gradients)
        state = np.stack([outputs["pct5"], outputs["pct95"]])


def test_nan_target_makes_percentiles_nan():
    targets = tf.constant([[1.0, np.nan], [2.0, 3.0]])
    assert np.isnan(dreamer_losses.return_percentiles(targets)).all()


@functools.cache
def actor(discrete, entropy_scale):
    @modes.with_gradients(L_actor=["ACTOR_L_total"])
    def fn(state, dist_params, actions, values, loss_weights, value_targets):
        _, state, advantages = scaled(state, value_targets, values[:-1])
        terms = dreamer_losses.actor_losses(
            dist_params[:-1], actions[:-1], advantages, loss_weights[:-1], entropy_scale, discrete
        )
        outputs = {**terms, **dreamer_losses.means(terms)}
        outputs["ACTOR_value_targets_pct5_ema"] = state[0]
        return {**outputs, "ACTOR_value_targets_pct95_ema": state[1]}

    return fn


@modes.all_modes
@pytest.mark.parametrize("kind", ["discrete", "box"])
def test_actor(kind, mode):
    case, config = load(f"actor_{kind}")
    fn = actor(kind == "discrete", config["entropy_scale"])
    state = np.full(2, np.nan, np.float32)
    for call in ("call1", "call2"):
        outputs = case.under(f"out.{call}")
        outputs = {k: v for k, v in outputs.items() if not k.startswith("grad.")}
        gradients = {"L_actor": case.under(f"out.{call}.grad.L_actor")}
        check(mode, fn, {"state": state, **case.under(f"in.{call}")}, outputs, gradients)
        state = np.stack([outputs[f"ACTOR_value_targets_pct{q}_ema"] for q in (5, 95)])


@functools.cache
def critic():
    @modes.with_gradients(L_critic=["CRITIC_L_total"])
    def fn(value_logits, ema_values_symlog, loss_weights, value_targets):
        logits = tf.reshape(value_logits, [*ema_values_symlog.shape, 255])[:-1]
        terms = dreamer_losses.critic_losses(
            logits, value_targets, ema_values_symlog[:-1], loss_weights[:-1]
        )
        return {**terms, **dreamer_losses.means(terms)}

    return fn


@modes.all_modes
def test_critic(mode):
    case, _ = load("critic")
    outputs = {k: v for k, v in case.under("out").items() if not k.startswith("grad.")}
    gradients = {"L_critic": case.under("out.grad.L_critic")}
    check(mode, critic(), case.under("in"), outputs, gradients)


@functools.cache
def chain(kind):
    _, config = load(f"chain_{kind}")

    @modes.with_gradients(L_actor=["ACTOR_L_total"], L_critic=["CRITIC_L_total"])
    def fn(rewards, continues, value_logits, dist_params, actions, ema_values_symlog, loss_weights):
        values = symlog.symexp(dreamer_losses.expected_bucket(value_logits))
        values = tf.reshape(values, tf.shape(rewards))
        targets = returns.dreamer_lambda_returns(
            rewards, continues, values, config["gamma"], config["gae_lambda"]
        )
        logits = tf.reshape(value_logits, [*rewards.shape, 255])[:-1]
        weights = loss_weights[:-1]
        critic = dreamer_losses.critic_losses(logits, targets, ema_values_symlog[:-1], weights)
        state = tf.constant([config["pct5_init"], config["pct95_init"]])
        _, state, advantages = scaled(state, targets, values[:-1])
        scale = config["entropy_scale"]
        actor = dreamer_losses.actor_losses(
            dist_params[:-1], actions[:-1], advantages, weights, scale, kind == "discrete"
        )
        terms = {**critic, **actor}
        outputs = {"values": values, "value_targets": targets, **terms}
        outputs["ACTOR_value_targets_pct5_ema"] = state[0]
        outputs["ACTOR_value_targets_pct95_ema"] = state[1]
        return {**outputs, **dreamer_losses.means(terms)}

    return fn


@modes.all_modes
@pytest.mark.parametrize("kind", ["discrete", "box"])
def test_chain(kind, mode):
    case, _ = load(f"chain_{kind}")
    outputs = {k: v for k, v in case.under("out").items() if not k.startswith("grad.")}
    gradients = {loss: case.under(f"out.grad.{loss}") for loss in ("L_actor", "L_critic")}
    check(mode, chain(kind), case.under("in"), outputs, gradients)


def test_clipping():
    case, config = load("clip")
    for name, threshold in config["thresholds"].items():
        clipped = clipping.clip_gradients(
            case.leaves(f"in.{name}"), grad_clip=threshold, grad_clip_by="global_norm"
        )
        for got, want in zip(clipped.gradients, case.leaves(f"out.{name}")):
            golden_cases.assert_close(got, want, **VALUES)
        norm = case[f"out.{name.upper()}_gradients_global_norm"]
        golden_cases.assert_close(clipped.global_norm, norm, **VALUES)
