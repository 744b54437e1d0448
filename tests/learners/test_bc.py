"""BCLearner against three steps of Acme's, on one device and two, and its options."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from tests import golden_cases, strategies
from tests.learners import modes
from tests.learners.golden_bc import (
    BY_NAME,
    CASES,
    CONTINUOUS,
    DISCRETE,
    STEPS,
    GoldenNetwork,
    batches,
    check_updates,
    config,
    make,
    tensors,
)
from tfagents_x import networks, specs, types, utils
from tfagents_x.learners import base, bc_losses
from tfagents_x.learners.bc import BCLearner
from tfagents_x.utils import counting, distribute, loggers

tfd = tfp.distributions


@pytest.fixture
def stored_permutations(monkeypatch):
    """Puts the file's permuted actions in the place of drawn ones."""

    def use(case):
        if "in.permuted_action" not in case:
            return
        actions, permuted = case["in.action"], case["in.permuted_action"]
        flat = lambda x: x.reshape([-1, x.shape[-1]])

        def lookup(given, seed):
            del seed
            same = tf.reduce_all(tf.equal(given[:, None], flat(actions)), axis=-1)  # [B, rows]
            return tf.gather(flat(permuted), tf.argmax(tf.cast(same, tf.int32), axis=-1))

        monkeypatch.setattr(bc_losses, "permute_within_rows", lookup)

    return use


@modes.all_modes
@pytest.mark.parametrize("case", CASES, ids=golden_cases.ids)
def test_golden_updates(case, mode, stored_permutations):
    stored_permutations(case)
    learner, network = make(case, iter(batches(case)), jit_compile=mode == "xla")
    with modes.running(mode):
        check_updates(case, learner, network)
    assert learner.num_updates == config(case).get("steps_after", STEPS)


@pytest.mark.parametrize("case", CASES, ids=golden_cases.ids)
def test_golden_gradients(case, stored_permutations):
    stored_permutations(case)
    # The last update of the first step comes after those on all rows but the last ones.
    several = config(case).get("num_sgd_steps_per_step", 1)
    share = 8 // several
    before = [tree.map_structure(lambda x: x[:-share], batches(case)[0])]
    learner, network = make(case, iter(before), num_sgd_steps_per_step=max(1, several - 1))
    if several > 1:
        learner.step()
    gradients, result = learner._gradients(tensors(case, slice(-share, None)))
    norm = learner._apply(gradients, result)["gradient_norm"]
    names = {id(v): name for name, v in network.named.items()}
    wanted = case.under("out.step1.grads")
    for variable, gradient in zip(network.trainable_variables, gradients["policy"]):
        golden_cases.assert_close(gradient, wanted[names[id(variable)]], rtol=1e-4, atol=2e-6)
    if several == 1:
        golden_cases.assert_close(norm, case["out.step1.metrics.gradient_norm"], 1e-4, 2e-6)


TWO = ("logp_categorical", "logp_gaussian_scale", "mse", "aux", "rcal_bins", "peerbc_invariant")
KINDS = (tf.distribute.MirroredStrategy, snt.distribute.Replicator)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", TWO)
def test_two_replicas_equal_one(name, kind):
    strategy = strategies.mirrored(kind)
    case = BY_NAME[name]
    learner, network = make(case, iter(batches(case)), strategy)
    # The mean of a metric that is no mean (the largest logit) is another one.
    check_updates(case, learner, network, only=("loss", "gradient_norm"))
    for variable in network.trainable_variables:
        first, second = strategy.experimental_local_results(variable)
        np.testing.assert_array_equal(first, second)


def test_several_updates_on_two_replicas():
    """Each replica cuts its own share; rows in the order that makes the same minibatches."""
    case = BY_NAME["aux_several"]
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    data = [tree.map_structure(lambda x: x[order], batch) for batch in batches(case)]
    learner, network = make(case, iter(data), strategies.mirrored())
    check_updates(case, learner, network, only=("loss", "gradient_norm", "accuracy", "log_prob"))


def test_auxiliary_metrics_of_two_replicas_are_means():
    case = BY_NAME["aux"]
    learner, _ = make(case, iter(batches(case)), strategies.mirrored())
    result = learner.step()
    log_prob = case["out.step1.metrics.log_prob"]
    np.testing.assert_allclose(result["log_prob"], log_prob.mean(), rtol=1e-5)
    np.testing.assert_allclose(result["accuracy"], case["out.step1.metrics.accuracy"])


def test_default_loss_fits_the_action_space():
    for case in (DISCRETE, CONTINUOUS):
        learner, network = make(case, iter(batches(case)), loss_fn=None)
        check_updates(case, learner, network)


def test_default_loss_takes_discrete_distributions():
    learner, network = make(DISCRETE, iter(batches(DISCRETE)), loss_fn=None)
    learner._network = lambda x: tfd.Categorical(logits=network(x))
    check_updates(DISCRETE, learner, network)


def test_only_observation_and_action_are_needed():
    for empty in ((), None):
        data = [
            x._replace(reward=empty, discount=empty, next_observation=empty)
            for x in batches(DISCRETE)
        ]
        for loss_fn in (None, bc_losses.logp()):
            learner, network = make(DISCRETE, iter(data), loss_fn=loss_fn)
            check_updates(DISCRETE, learner, network)


def test_samples_steps_and_datasets():
    data = batches(DISCRETE)
    step = lambda x: types.Step(x.observation, x.action, x.reward, x.discount, x.reward > 0)
    stacked = tree.map_structure(lambda *x: np.stack(x), *data)
    sources = (
        [types.ReplaySample((), x) for x in data],
        [step(x) for x in data],
        tf.data.Dataset.from_tensor_slices(stacked),
        tf.data.Dataset.from_tensor_slices(types.ReplaySample((), stacked)),
        # Batches whose size is not known when the dataset is made.
        tf.data.Dataset.from_tensor_slices(stacked).unbatch().batch(8),
    )
    for source in sources:
        learner, network = make(
            DISCRETE, source if isinstance(source, tf.data.Dataset) else iter(source)
        )
        check_updates(DISCRETE, learner, network)
        with pytest.raises(StopIteration):
            learner.step()


def test_custom_loss_reads_any_field_and_may_draw():
    def loss_fn(network, transitions, seed):
        noise = tf.random.stateless_normal([], seed)
        weights = transitions.reward + noise
        log_probs = bc_losses.log_prob(network(transitions.observation), transitions.action)
        return -tf.reduce_mean(weights * log_probs), {"noise": noise, "rows": tf.size(weights)}

    run = lambda seed: [
        float(
            make(DISCRETE, iter(batches(DISCRETE)), loss_fn=loss_fn, loss_has_aux=True, seed=seed)[
                0
            ].step()["noise"]
        )
    ]
    assert run(3) == run(3) != run(4)
    learner, _ = make(DISCRETE, iter(batches(DISCRETE)), loss_fn=loss_fn, loss_has_aux=True, seed=3)
    rows = [learner.step() for _ in range(STEPS)]
    assert len({float(row["noise"]) for row in rows}) == STEPS
    assert rows[0]["rows"] == 8.0 and rows[0]["rows"].dtype == tf.float32


@pytest.mark.parametrize("several", [1, 4])
def test_going_on_draws_what_would_have_been_drawn(several):
    case = BY_NAME["peerbc_permuted"]
    new = lambda skip, **k: make(
        case, iter(batches(case)[skip:]), num_sgd_steps_per_step=several, **k
    )[0]
    whole, first, second = new(0, seed=5), new(0, seed=5), new(1, seed=6)
    first.step()
    second.restore(first.save())
    whole.step(), whole.step(), second.step()
    for a, b in zip(tree.flatten(whole.save()), tree.flatten(second.save())):
        np.testing.assert_array_equal(a, b)
    other = new(0, seed=6)
    other.step()
    assert np.any(other.save()["networks"]["policy"][0] != first.save()["networks"]["policy"][0])


def test_counts_and_names_are_those_of_the_sources():
    rows = loggers.InMemoryLogger()
    learner, network = make(DISCRETE, iter(batches(DISCRETE)), logger=rows)
    learner.step()
    assert set(rows.data[0]) == set(config(DISCRETE)["logged"])
    (variables,) = learner.get_variables(["policy"])
    assert len(variables) == 4
    np.testing.assert_array_equal(variables[0], network.variables[0])
    plain, _ = make(DISCRETE, iter(batches(DISCRETE)), counter=counting.Counter())
    plain.step()
    assert plain.counter.get_counts()["steps"] == 1


def test_positional_arguments_are_those_of_acme_tf():
    counter, rows = counting.Counter(), loggers.InMemoryLogger()
    case = BY_NAME["acme_tf.categorical"]
    network = GoldenNetwork(case)
    learner = BCLearner(network, 1e-2, iter(batches(case)), counter, rows, False)
    check_updates(case, learner, network)
    assert set(config(case)["logged"]) <= set(rows.data[-1]) and rows.data[-1]["steps"] == STEPS


def test_optimizer_gets_the_parameters():
    class Decay:
        def apply(self, updates, parameters):
            for variable in parameters:
                distribute.local(variable).assign(0.5 * variable)

    learner, network = make(DISCRETE, iter(batches(DISCRETE)), optimizer=Decay())
    learner.step()
    np.testing.assert_allclose(network.named["W1"], 0.5 * DISCRETE["weights.online.W1"], rtol=1e-6)


@pytest.mark.parametrize("name", ["logp_categorical", "logp_gaussian_scale"])
def test_checkpoint_and_snapshot(name, tmp_path):
    case = BY_NAME[name]
    data = batches(case)
    first, network = make(case, iter(data), checkpoint=True, directory=tmp_path)
    first.step()
    again, restored = make(case, iter(data[1:]), checkpoint=True, directory=tmp_path, seed=1)
    assert again.num_updates == 1 and again.counter.get_counts()["learner_steps"] == 1
    np.testing.assert_array_equal(restored.named["W1"], network.named["W1"])
    first.step(), again.step()
    for a, b in zip(tree.flatten(first.save()), tree.flatten(again.save())):
        np.testing.assert_array_equal(a, b)
    snapshot = tf.saved_model.load(str(tmp_path / "snapshots" / "network"))
    assert [tuple(v.shape) for v in snapshot.variables] == [
        tuple(v.shape) for v in network.variables
    ]
    output = snapshot(tf.zeros([5, 3]))
    assert (output.shape if tf.is_tensor(output) else output.batch_shape)[0] == 5


def test_auxiliary_metrics_that_are_not_finite_are_only_reported():
    loss_fn = lambda network, x: (bc_losses.logp()(network, x), {"rare": tf.constant(np.nan)})
    learner, network = make(DISCRETE, iter(batches(DISCRETE)), loss_fn=loss_fn, loss_has_aux=True)
    assert np.isnan(learner.step()["rare"])
    golden_cases.assert_close(network.named["W1"], DISCRETE["out.step1.online.W1"], 1e-4, 2e-6)


def test_losses_that_are_not_finite_stop():
    data = batches(CONTINUOUS)[0]
    learner, _ = make(CONTINUOUS, iter([data._replace(action=np.inf * data.action)]))
    with pytest.raises(base.NonFiniteError, match="Update 1 gave loss = "):
        learner.step()


def test_networks_with_dropout_through_partial_application():
    network = snt.nets.MLP([16, 4], dropout_rate=0.5)
    network(tf.zeros([1, 3]), is_training=False)

    def loss_fn(network, transitions):
        return bc_losses.logp()(lambda x: network(x, is_training=True), transitions)

    learner = BCLearner(
        network, 1e-2, iter(batches(DISCRETE)), None, loggers.NoOpLogger(), False, loss_fn=loss_fn
    )
    assert np.isfinite(learner.step()["loss"])


def test_heads_of_the_library():
    head = snt.Sequential([snt.Linear(8), networks.MultivariateNormalDiagHead(3)])
    utils.create_variables(head, [specs.Array((3,), np.float32)])
    learner = BCLearner(head, 1e-2, iter(batches(CONTINUOUS)), None, loggers.NoOpLogger(), False)
    assert np.isfinite(learner.step()["loss"])


def test_losses_in_half_precision():
    half = lambda network, x: bc_losses.logp()(lambda o: tf.cast(network(o), tf.bfloat16), x)
    learner, _ = make(DISCRETE, iter(batches(DISCRETE)), loss_fn=half)
    result = learner.step()
    assert result["loss"].dtype == tf.float32
    for name, value in DISCRETE.under("out.step1.metrics").items():
        np.testing.assert_allclose(result[name], value, rtol=0.02)
