"""DreamerV3Learner against two updates of RLlib's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from tests import golden_cases, strategies
from tests.learners import golden_dreamer, modes
from tfagents_x import specs
from tfagents_x.learners import base, dreamer_batch, dreamer_behaviour
from tfagents_x.learners.dreamer_v3 import DreamerV3Learner
from tfagents_x.networks import dreamer
from tfagents_x.utils import distribute, loggers

NAMES = ("discrete", "box", "box_noise")
STATES = {"rtol": 1e-4, "atol": 1e-5}
GRADIENTS = {"rtol": 1e-3, "atol": 3e-6}


@pytest.fixture
def eagerly():
    """For tests of which tracing would take most of the time."""
    with modes.running("eager"):
        yield


def make(case, strategy=None, batches=None, num_curiosity_nets=0, **kwargs):
    """The case's networks, and the learner on them."""
    with distribute.scope(strategy):
        model = golden_dreamer.make_model(case, num_curiosity_nets=num_curiosity_nets)
    data = itertools.repeat(golden_dreamer.batch(case)) if batches is None else batches
    settings = {**golden_dreamer.arguments(case), "logger": loggers.NoOpLogger(), **kwargs}
    return DreamerV3Learner(model, data, accelerator_strategy=strategy, **settings), model


def check_update(case, model, metrics, step):
    """Compares an update's metrics and all weights after it."""
    expected = case.under(f"out.step{step}.metrics")
    assert set(metrics) == set(expected)
    for name, value in expected.items():
        golden_cases.assert_close(metrics[name], value, rtol=1e-4, atol=1e-5)
    rates = golden_dreamer.config(case)["lr"]
    weights = case.under(f"out.step{step}.weights")
    found = golden_dreamer.variables(model)
    assert set(found) == set(weights)
    for name, value in weights.items():
        atol = max(1e-6, 0.01 * rates[name.split("/")[0].replace("_ema", "")])
        np.testing.assert_allclose(found[name], value, rtol=0, atol=atol, err_msg=name)


# XLA takes half a minute to compile an update.
MODES = ["eager", "graph", pytest.param("xla", marks=pytest.mark.slow)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "name", ["discrete", "box", pytest.param("box_noise", marks=pytest.mark.slow)]
)
def test_golden_updates(name, mode):
    case = golden_dreamer.load(name)
    learner, model = make(case, jit_compile=mode == "xla")
    with modes.running(mode):
        for step in (1, 2):
            check_update(case, model, learner.step(), step)


@pytest.mark.parametrize("name", NAMES)
def test_golden_gradients(name):
    case = golden_dreamer.load(name)
    learner, model = make(case)
    data, _ = learner._feed.next()
    gradients, _ = learner._gradients(data)
    found = golden_dreamer.variables(model)
    names = {id(variable): key for key, variable in found.items()}
    expected = case.under("out.step1.grads")
    for part, trained in learner._trained.items():
        for variable, gradient in zip(trained.variables, gradients[part]):
            want = expected.pop(names[id(variable)])
            np.testing.assert_allclose(gradient, want, **GRADIENTS, err_msg=names[id(variable)])
    assert not expected


@pytest.mark.parametrize("name", ["discrete", "box"])
def test_golden_dream(name):
    case = golden_dreamer.load(name)
    learner, _ = make(case, report_dream_data=True)
    data, _ = learner._feed.next()
    batch = dreamer_batch.check(data, learner._model)
    seed, sampler = tf.constant([1, 2]), golden_dreamer.sampler(case)
    forward = learner._model.world_model.forward(*batch[:2], batch.is_first, sampler, seed)
    settings = learner._settings
    got = dreamer_behaviour.learn(
        *(learner._model, forward.states, tf.reshape(batch.is_terminated, [-1]), settings),
        *(learner._normalize, sampler, seed),
    )
    expected = case.under("out.step1.dream")
    assert set(expected) == set(got.dream)
    for key, value in expected.items():
        golden_cases.assert_close(got.dream[key], value, **STATES)


DISCRETE, BOX = golden_dreamer.load("discrete"), golden_dreamer.load("box")
REPLICAS = (tf.distribute.MirroredStrategy, snt.distribute.Replicator)


@pytest.mark.slow
@pytest.mark.parametrize("case", [DISCRETE, BOX], ids=golden_cases.ids)
@pytest.mark.parametrize("kind", REPLICAS, ids=lambda kind: kind.__name__)
def test_two_replicas_equal_one(kind, case):
    strategy = strategies.mirrored(kind)
    learner, model = make(case, strategy)
    for step in (1, 2):
        check_update(case, model, learner.step(), step)
    for variable in model.trainable_variables:
        first, second = strategy.experimental_local_results(variable)
        np.testing.assert_array_equal(first, second)


def test_reports_of_items_dreams_and_images(eagerly):
    case = DISCRETE
    reports = ("individual_batch_item_stats", "dream_data", "images_and_videos")
    learner, _ = make(case, **{f"report_{name}": True for name in reports})
    got = learner.step()
    metrics = case.under("out.step1.metrics")
    for name, value in got.items():
        for suffix in ("_B_T", "_H_BxT"):
            if name.endswith(suffix) and name[: -len(suffix)] in metrics:
                assert value.shape == ((2, 5) if suffix == "_B_T" else (3, 10))
                mean = metrics[name[: -len(suffix)]]
                golden_cases.assert_close(np.mean(value), mean, **STATES)
    assert {"WORLD_MODEL_L_total_B_T", "ACTOR_L_total_H_BxT", "CRITIC_L_total_H_BxT"} <= set(got)
    assert {"VALUE_TARGETS_symlog_H_BxT", "ACTOR_logp_actions_dreamed_H_BxT"} <= set(got)
    dreamed = case.under("out.step1.dream")
    for name, value in got["dream_data"].items():
        golden_cases.assert_close(value, dreamed[name[:-1] + "T"][:, ::5], **STATES)
    assert {"h_states_t0_to_H_Bx1", "rewards_dreamed_t0_to_H_Bx1"} <= set(got["dream_data"])
    means = case["out.step1.fwd.obs_distribution_means_BxT"][:5]
    name = "WORLD_MODEL_fwd_out_obs_distribution_means_b0xT"
    golden_cases.assert_close(got[name], means, **STATES)


def test_chance_is_seeded_and_saved(eagerly):
    def run(steps, state=None, **kwargs):
        learner, _ = make(DISCRETE, sampler=None, **kwargs)
        if state is not None:
            learner.restore(state)
        return [float(learner.step()["ACTOR_L_total"]) for _ in range(steps)], learner.save()

    whole, _ = run(3, seed=7)
    assert whole == run(3, seed=7)[0]
    assert whole[0] != run(1, seed=8)[0][0]
    begun, state = run(2, seed=7)
    rest, _ = run(1, state, seed=99)
    assert begun + rest == whole


def test_checkpoint(tmp_path, eagerly):
    def fresh():
        return make(BOX, checkpoint=True, directory=tmp_path)[0]

    first = fresh()
    first.step()
    again = fresh()
    assert again.num_updates == 1
    saved, found = first.save(), again.save()
    tf.nest.map_structure(np.testing.assert_array_equal, found, saved)
    assert np.isfinite(found["counters"]["value_target_percentiles"]).all()


def test_untrained_parts_stay(eagerly):
    learner, model = make(DISCRETE, train_actor=False, train_critic=False)
    before = [v.numpy() for v in (*model.actor.variables, *model.critic.variables)]
    metrics = learner.step()
    for value, variable in zip(before, (*model.actor.variables, *model.critic.variables)):
        np.testing.assert_array_equal(value, variable)
    assert not [name for name in metrics if name.startswith("ACTOR_")]
    assert "CRITIC_L_total" in metrics and "CRITIC_gradients_global_norm" not in metrics
    want = sum(metrics[f"{name}_L_total"] for name in ("WORLD_MODEL", "CRITIC"))
    golden_cases.assert_close(metrics["total_loss"], want, **STATES)


@pytest.mark.parametrize("case", [DISCRETE, BOX], ids=golden_cases.ids)
def test_curiosity(case, eagerly):
    tf.random.set_seed(0)  # Of the networks that the case doesn't know.
    curious = {"use_curiosity": True, "intrinsic_rewards_scale": 10.0}
    learner, model = make(case, num_curiosity_nets=3, world_model_lr=1e-2, **curious)
    metrics = [learner.step() for _ in range(15)]
    # The gradients of the others are what they were, but for the rewards.
    name = "WORLD_MODEL_L_total"
    golden_cases.assert_close(metrics[0][name], case[f"out.step1.metrics.{name}"], **STATES)
    assert metrics[0]["DISAGREEMENT_intrinsic_rewards"] > 0
    targets = case["out.step1.metrics.VALUE_TARGETS_H_BxT"]
    assert metrics[0]["VALUE_TARGETS_H_BxT"] > targets + 0.1
    assert metrics[-1]["DISAGREEMENT_L_total"] < 0.9 * metrics[0]["DISAGREEMENT_L_total"]
    assert len(learner.get_variables(["disagreement"])[0]) == len(model.disagreement.variables)


def test_no_limit_of_gradients(eagerly):
    learner, _ = make(BOX, actor_grad_clip_by_global_norm=None)
    norm = learner.step()["ACTOR_gradients_global_norm"]
    expected = BOX["out.step1.metrics.ACTOR_gradients_global_norm"]
    golden_cases.assert_close(norm, expected, **STATES)


@pytest.mark.filterwarnings("ignore:Even though")
@pytest.mark.parametrize("kind", ["dictionary", "batch"])
def test_tf_data(kind, eagerly):
    batch = golden_dreamer.batch(DISCRETE)
    batch["actions"] = batch["actions"].argmax(-1)  # Numbers of actions do as well.
    data = batch if kind == "dictionary" else dreamer_batch.Batch(**batch)
    dataset = tf.data.Dataset.from_tensors(data).repeat()
    metrics = make(DISCRETE, batches=dataset)[0].step()
    expected = DISCRETE["out.step1.metrics.total_loss"]
    golden_cases.assert_close(metrics["total_loss"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_minibatches():
    batch = {k: np.repeat(v, 2, 0) for k, v in golden_dreamer.batch(DISCRETE).items()}
    order = [0, 2, 1, 3]  # Both minibatches are the case's batch.
    data = {k: v[order] for k, v in batch.items()}
    learner, model = make(DISCRETE, batches=iter([data]), num_sgd_steps_per_step=2)
    learner.step()
    expected = DISCRETE.under("out.step2.weights")
    for name, variable in golden_dreamer.variables(model).items():
        np.testing.assert_allclose(variable, expected[name], atol=1e-6)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_mixed_precision(dtype, eagerly):
    model = golden_dreamer.make_model(BOX, dtype=dtype)
    data = itertools.repeat(golden_dreamer.batch(BOX))
    settings = {**golden_dreamer.arguments(BOX), "logger": loggers.NoOpLogger()}
    metrics = DreamerV3Learner(model, data, **settings).step()
    expected = BOX.under("out.step1.metrics")
    for name in ("WORLD_MODEL_L_total", "CRITIC_L_total", "WORLD_MODEL_gradients_global_norm"):
        np.testing.assert_allclose(metrics[name], expected[name], rtol=0.05)


def test_images(eagerly):
    size = dreamer.ModelSize(6, 5, 3, 4, 1, 2)
    spec = specs.Array((32, 16, 1), np.uint8)
    model = dreamer.DreamerModel(spec, specs.DiscreteArray(2), size)
    obs = np.random.default_rng(0).integers(256, size=(2, 5, 32, 16, 1)).astype(np.uint8)
    batch = {**golden_dreamer.batch(DISCRETE), "obs": obs}
    learner = DreamerV3Learner(
        *(model, itertools.repeat(batch)), world_model_lr=1e-2, logger=loggers.NoOpLogger()
    )
    losses = [float(learner.step()["WORLD_MODEL_L_decoder"]) for _ in range(10)]
    assert losses[-1] < 0.9 * losses[0]


def num_nodes(case, length, horizon):
    learner, _ = make(case, horizon_H=horizon)
    repeat = lambda x: tf.constant(np.repeat(x[:, :1], length, 1))
    data = tf.nest.map_structure(repeat, dreamer_batch.Batch(**golden_dreamer.batch(case)))
    definition = learner._update.get_concrete_function(data).graph.as_graph_def()
    return len(definition.node) + sum(len(f.node_def) for f in definition.library.function)


@pytest.mark.slow
@pytest.mark.parametrize("case", [DISCRETE, BOX], ids=golden_cases.ids)
def test_graph_does_not_grow_with_time(case):
    # Long ones, since TensorFlow writes zeros of up to 1,000 numbers as constants.
    count = num_nodes(case, 80, 20)
    assert num_nodes(case, 160, 20) == num_nodes(case, 80, 40) == count
    assert count < 7500


def test_loss_that_is_not_finite_is_refused(eagerly):
    batch = golden_dreamer.batch(DISCRETE)
    batch["rewards"] = np.full_like(batch["rewards"], np.nan)
    with pytest.raises(base.NonFiniteError, match=r"WORLD_MODEL_L_total = nan"):
        make(DISCRETE, batches=iter([batch]))[0].step()


BATCH = golden_dreamer.batch(DISCRETE)
BAD_BATCHES = {
    "missing": ({k: v for k, v in BATCH.items() if k != "rewards"}, r"lacks \['rewards'\]"),
    "unknown": ({**BATCH, "discount": BATCH["rewards"]}, r"has \['discount'\] besides"),
    "list": ([BATCH["obs"]], "a dictionary, or a .*Batch"),
    "observations": ({**BATCH, "obs": BATCH["obs"][..., :2]}, r"obs has shape \(2, 5, 2\)"),
    "length": ({**BATCH, "is_first": BATCH["is_first"][:, :3]}, r"is_first has shape \(2, 3\)"),
    "flags": ({**BATCH, "is_first": BATCH["rewards"]}, "is_first has dtype float32"),
    "actions": ({**BATCH, "actions": BATCH["obs"]}, r"actions has shape .*wanted \(2, 5, 2\)"),
    "one_axis": ({**BATCH, "rewards": BATCH["rewards"][0]}, r"rewards must be \[B, T\]"),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_bad_batches_are_explained(name):
    batch, message = BAD_BATCHES[name]
    learner, _ = make(DISCRETE, batches=iter([batch]))
    with pytest.raises((ValueError, TypeError), match=message):
        learner.step()


BAD_ARGUMENTS = {
    "gamma": ({"gamma": 1.1}, "gamma must be between"),
    "no_gamma": ({"gamma": 0.0}, "gamma must be more than 0"),
    "horizon": ({"horizon_H": 0}, "horizon_H must be at least 1"),
    "rate": ({"actor_lr": "fast"}, "actor_lr must be a number"),
    "clip": ({"critic_grad_clip_by_global_norm": 0.0}, "critic_grad_clip_by_global_norm must be"),
    "curiosity": ({"use_curiosity": True}, "num_curiosity_nets=8"),
    "alone": ({"num_curiosity_nets": 1}, "2 and more, to disagree"),
    "dataset": ({"batches": 3}, "dataset must be"),
}


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_bad_arguments_are_explained(name):
    arguments, message = BAD_ARGUMENTS[name]
    with pytest.raises((ValueError, TypeError), match=message):
        make(DISCRETE, **arguments)


def test_other_model_is_explained():
    with pytest.raises(TypeError, match="must be a DreamerModel, got Linear"):
        DreamerV3Learner(snt.Linear(1), iter([]))


def test_xla_on_several_replicas_is_refused():
    strategy = strategies.mirrored()
    with pytest.raises(ValueError, match="Leave out jit_compile"):
        make(DISCRETE, strategy, jit_compile=True)
