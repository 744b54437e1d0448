"""DreamerV3's networks against RLlib: forward pass, acting, images; and what goes beyond it."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests import golden_cases
from tests.learners import golden_dreamer
from tfagents_x import specs
from tfagents_x.learners import dreamer_losses
from tfagents_x.networks import dreamer
from tfagents_x.networks.dreamer import images

STATES = {"rtol": 1e-4, "atol": 1e-5}
SEED = tf.constant([1, 2])
TINY = dreamer.ModelSize(6, 5, 3, 4, 1, 2)
VECTOR = specs.Array((3,), np.float32)
DISCRETE = specs.DiscreteArray(2)


def forward(model, case, is_first=None):
    first = case["in.is_first"] if is_first is None else is_first
    batch = [tf.constant(x) for x in (case["in.obs"], case["in.actions"], first)]
    return model.world_model.forward(*batch, golden_dreamer.sampler(case), SEED)


@pytest.mark.parametrize("name", ["discrete", "box", "box_noise"])
def test_forward(name):
    case = golden_dreamer.load(name)
    model = golden_dreamer.make_model(case)
    got = forward(model, case)
    expected = case.under("out.step1.fwd")
    width = model.size.gru_units
    z = tf.reshape(got.states[:, width:], expected["z_posterior_states_BxT"].shape)
    found = {
        "sampled_obs_symlog_BxT": got.obs,
        "obs_distribution_means_BxT": got.obs_means,
        "reward_logits_BxT": got.reward_logits,
        "rewards_BxT": dreamer_losses.expected_bucket(got.reward_logits),
        "continue_logits_BxT": got.continue_logits,
        "continues_BxT": tf.cast(got.continue_logits > 0, tf.float32),
        "h_states_BxT": got.states[:, :width],
        "z_posterior_states_BxT": z,
        "z_posterior_probs_BxT": got.posterior_probs,
        "z_prior_probs_BxT": got.prior_probs,
    }
    assert set(found) == set(expected)
    for key, value in expected.items():
        golden_cases.assert_close(found[key], value, **STATES)
    h, z = model.world_model.rssm.initial_state()
    golden_cases.assert_close(h, case["out.step1.initial_state.h"], **STATES)
    golden_cases.assert_close(z, case["out.step1.initial_state.z"].ravel(), **STATES)


def test_action_before_a_row_that_begins_in_an_episode():
    """It is the row's last one, as in the source; the state begins anew all the same."""
    case, wrap = golden_dreamer.load("discrete"), golden_dreamer.load("is_first_wrap")
    model = golden_dreamer.make_model(case)
    got = forward(model, case, wrap["in.is_first"])
    width = model.size.gru_units
    golden_cases.assert_close(got.states[:, :width], wrap["out.h_states_BxT"], **STATES)
    z = wrap["out.z_posterior_states_BxT"]
    golden_cases.assert_close(got.states[:, width:], z.reshape(len(z), -1), **STATES)
    golden_cases.assert_close(got.posterior_probs, wrap["out.z_posterior_probs_BxT"], **STATES)
    golden_cases.assert_close(got.prior_probs, wrap["out.z_prior_probs_BxT"], **STATES)


@pytest.mark.parametrize("name", ["discrete", "box"])
def test_acting(name):
    case = golden_dreamer.load(name)
    model = golden_dreamer.make_model(case)
    inputs = case.under("in.inference")
    z = inputs["z"].reshape(len(inputs["z"]), -1)
    state = dreamer.ActingState(*map(tf.constant, (inputs["h"], z, inputs["a"])))
    first = tf.constant(inputs["is_first"] > 0)
    sampler = golden_dreamer.sampler(case)
    action, state = model.act(tf.constant(inputs["obs"]), state, first, SEED, sampler=sampler)
    expected = case.under("out.inference")
    golden_cases.assert_close(action, expected["action"], **STATES)
    golden_cases.assert_close(state.h, expected["h"], **STATES)
    golden_cases.assert_close(state.z, expected["z"].reshape(z.shape), **STATES)
    golden_cases.assert_close(state.action, action, **STATES)


@pytest.mark.parametrize("discrete", [True, False])
def test_exploring_samples(discrete):
    actions = DISCRETE if discrete else specs.Array((2,), np.float32)
    model = dreamer.DreamerModel(VECTOR, actions, TINY)
    obs, first = tf.zeros([200, 3]), tf.ones([200], bool)
    act = lambda **kwargs: model.act(obs, model.initial_state(200), first, SEED, **kwargs)[0]
    explored = act(explore=True).numpy()
    np.testing.assert_array_equal(explored, act(explore=True))
    assert len(np.unique(explored, axis=0)) == (2 if discrete else 200)
    assert explored.shape == (200, 2)
    if discrete:
        np.testing.assert_array_equal(explored.sum(1), 1.0)


def test_images():
    case = golden_dreamer.load("image_nets")
    multiplier = golden_dreamer.config(case)["cnn_multiplier"]
    weights = case.under("weights")
    encoder = images.ImageEncoder((64, 64, 3), multiplier)
    h, z = case["in.h"], case["in.z"]
    states = np.concatenate([h, z.reshape(len(z), -1)], 1)
    decoder = images.ImageDecoder(states.shape[1], (64, 64, 3), multiplier)
    for i in range(4):
        encoder.kernels[i].assign(weights[f"encoder/conv_{i}/kernel"])
        last = "out" if i == 3 else f"deconv_{i}"
        decoder.kernels[i].assign(weights[f"decoder/{last}/kernel"])
    for name, module in {"encoder": encoder, "decoder": decoder}.items():
        for i, norm in enumerate(module.norms):
            norm.scale.assign(weights[f"{name}/norm_{i}/scale"])
            norm.offset.assign(weights[f"{name}/norm_{i}/offset"])
    decoder.dense.kernel.assign(weights["decoder/dense/kernel"])
    decoder.dense.bias.assign(weights["decoder/dense/bias"])
    decoder.bias.assign(weights["decoder/out/bias"])
    model = dreamer.DreamerModel(specs.Array((64, 64, 3), np.uint8), DISCRETE, TINY)
    scaled = model.world_model.preprocess(tf.constant(case["in.images"]))
    golden_cases.assert_close(encoder(scaled), case["out.features"], rtol=1e-4, atol=3e-5)
    golden_cases.assert_close(decoder(states), case["out.means"], rtol=1e-4, atol=3e-5)


@pytest.mark.parametrize("shape", [(32, 48, 1), (16, 16, 3)])
def test_other_images(shape):
    model = dreamer.DreamerModel(specs.Array(shape, np.uint8), DISCRETE, TINY)
    obs = tf.zeros([2, 3, *shape], tf.uint8)
    flags = tf.ones([2, 3], bool)
    got = model.world_model.forward(obs, tf.zeros([2, 3, 2]), flags, dreamer.Sampler(), SEED)
    assert got.obs_means.shape == (6, np.prod(shape))
    np.testing.assert_array_equal(got.obs, -np.ones([6, *shape]))


def test_time_is_no_part_of_the_gradient_before_a_reset():
    """What comes before a reset doesn't move what comes after it; what comes after it does."""
    case = golden_dreamer.load("discrete")
    model = golden_dreamer.make_model(case)
    encoded = tf.random.stateless_normal([5, 2, 11], SEED)
    first = tf.constant([[True], [False], [False], [True], [False]] * np.ones([1, 2], bool))
    with tf.GradientTape() as tape:
        tape.watch(encoded)
        states = model.world_model.rssm.observe(
            encoded, tf.zeros([5, 2, 2]), first, dreamer.ModeSampler(), SEED
        )
        total = tf.reduce_sum(states.h[4])
    gradient = np.abs(tape.gradient(total, encoded)).sum((1, 2))
    assert (gradient[:3] == 0).all() and gradient[3] > 0
    assert gradient[4] == 0  # h after a step comes before that step's observation.


def test_sizes_of_the_source():
    assert {k: v.gru_units for k, v in dreamer.MODEL_SIZES.items()} == {
        **{"nano": 16, "micro": 32, "mini": 64, "XXS": 128, "XS": 256},
        **{"S": 512, "M": 1024, "L": 2048, "XL": 4096},
    }


def test_fresh_networks():
    model = dreamer.DreamerModel(VECTOR, DISCRETE, "nano")
    for head in (model.world_model.reward, model.critic, model.critic_ema):
        assert not head.out.kernel.numpy().any()
    for fast, slow in zip(model.critic.variables, model.critic_ema.variables):
        np.testing.assert_array_equal(fast, slow)
    recurrent = model.world_model.rssm.gru_recurrent.numpy()
    np.testing.assert_allclose(recurrent @ recurrent.T, np.eye(16), atol=1e-5)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_mixed_precision(dtype):
    case = golden_dreamer.load("discrete")
    model = golden_dreamer.make_model(case, dtype=dtype)
    assert {v.dtype for v in model.variables} == {tf.float32}
    with tf.GradientTape() as tape:
        got = forward(model, case)
        loss = tf.reduce_sum(got.states) + tf.reduce_sum(got.prior_probs[..., 0])
    for gradient in tape.gradient(loss, [model.world_model.rssm.gru_kernel]):
        assert gradient.dtype == tf.float32 and np.isfinite(gradient).all()
    expected = case["out.step1.fwd.h_states_BxT"]
    width = model.size.gru_units
    got = got.states[:, :width]
    np.testing.assert_allclose(got, expected, atol=0.05)
    assert not np.allclose(got, expected, atol=1e-5)  # It was used.


BAD = {
    "observations": (
        {"observation_spec": specs.Array((3, 3), np.float32)},
        "vectors .D., or images",
    ),
    "small_image": ({"observation_spec": specs.Array((60, 64, 3), np.uint8)}, "multiples of 16"),
    "nest": ({"observation_spec": {"a": VECTOR}}, "one array"),
    "actions": ({"action_spec": specs.Array((2, 2), np.float32)}, "DiscreteArray action spec"),
    "size": ({"model_size": "XXL"}, "must be one of nano, .*XL, got 'XXL'"),
    "no_size": ({"model_size": 3}, "a name or a ModelSize"),
    "dtype": ({"dtype": tf.int32}, "floating-point dtype"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_explained(name):
    changes, message = BAD[name]
    arguments = {"observation_spec": VECTOR, "action_spec": DISCRETE, "model_size": TINY}
    with pytest.raises((ValueError, TypeError), match=message):
        dreamer.DreamerModel(**{**arguments, **changes})


def test_bad_size_is_explained():
    with pytest.raises(ValueError, match="classes must be at least 1, got 0"):
        dreamer.ModelSize(6, 5, 3, 0, 1, 2)
