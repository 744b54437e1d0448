"""BCLearner against three steps of Acme's, its losses and options, and its errors."""

from __future__ import annotations

import json

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from tests import golden_cases, strategies
from tests.learners import modes
from tfagents_x import networks, specs, types, utils
from tfagents_x.learners import base, bc_losses
from tfagents_x.learners.bc import BCLearner
from tfagents_x.utils import counting, distribute, loggers

tfd = tfp.distributions
CASES = golden_cases.load("learner_bc")
BY_NAME = {case.name: case for case in CASES}
STEPS = 3


def config(case):
    return json.loads(str(case["config"]))


class GoldenNetwork(snt.Module):
    """The notes' network with the case's weights, ending in the policy of the case."""

    def __init__(self, case):
        super().__init__()
        settings, weights = config(case), case.under("weights.online")
        sizes = weights["W1"].shape[1], weights["W2"].shape[1]
        self.mlp = snt.nets.MLP(sizes, activation=tf.tanh)
        self.policy, self.stddev = settings["policy"], settings.get("stddev")
        utils.create_variables(self, [specs.Array((3,), np.float32)])
        first, second = self.mlp.submodules
        self.named = {"W1": first.w, "b1": first.b, "W2": second.w, "b2": second.b}
        for name, variable in self.named.items():
            variable.assign(weights[name])

    def __call__(self, observation):
        output = self.mlp(observation)
        if self.policy == "gaussian":
            return tfd.MultivariateNormalDiag(output, self.stddev * tf.ones_like(output))
        if self.policy == "gaussian_scale":
            mean, scale = tf.split(output, 2, axis=-1)
            return tfd.MultivariateNormalDiag(mean, tf.nn.softplus(scale) + 1e-3)
        return output


def with_aux(network, transitions):
    """The notes' auxiliary metrics."""
    logits = network(transitions.observation)
    right = tf.equal(tf.argmax(logits, -1, tf.int32), transitions.action)
    log_prob = bc_losses.log_prob(logits, transitions.action)
    return -tf.reduce_mean(log_prob), {
        "accuracy": tf.reduce_mean(tf.cast(right, tf.float32)),
        "max_logit": tf.reduce_max(logits),
        "log_prob": log_prob,
    }


def mode_of(output, seed):
    del seed
    return output.mode() if isinstance(output, tfd.Distribution) else output


def golden_loss(settings):
    """The case's loss function; None for Acme TF, whose is our default."""
    bins = settings.get("num_bins")
    kind = settings.get("loss")
    bases = {
        "logp": bc_losses.logp(num_bins=bins),
        "mse": bc_losses.mse(mode_of),
        "logp+aux": with_aux,
    }
    if kind in (None, *bases):
        return bases.get(kind)
    kind, inner = kind[:-1].split("(")
    if kind == "peerbc":
        return bc_losses.peerbc(bases[inner], settings["zeta"])
    return bc_losses.rcal(bases[inner], settings["discount"], settings["alpha"], bins)


def make(case, dataset, strategy=None, **kwargs):
    """The case's network, and the learner on it."""
    settings = config(case)
    adam = settings["adam"]
    with distribute.scope(strategy):
        network = GoldenNetwork(case)
        optimizer = snt.optimizers.Adam(adam["learning_rate"], adam["b1"], adam["b2"], adam["eps"])
    settings = {
        "loss_fn": golden_loss(settings),
        "loss_has_aux": settings.get("loss_has_aux", False),
        "num_sgd_steps_per_step": settings.get("num_sgd_steps_per_step", 1),
        "optimizer": optimizer,
        "checkpoint": False,
        "logger": loggers.NoOpLogger(),
        "accelerator_strategy": strategy,
        **kwargs,
    }
    return BCLearner(network, adam["learning_rate"], dataset, **settings), network


def batches(case):
    fields = types.Transition._fields[:5]
    return [
        types.Transition(**{name: case[f"in.{name}"][k] for name in fields}) for k in range(STEPS)
    ]


def tensors(case, rows=slice(None)):
    return tree.map_structure(lambda x: tf.convert_to_tensor(x[rows]), batches(case)[0])


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


def check_updates(case, learner, network, only=None):
    for k in range(1, STEPS + 1):
        result = learner.step()
        wanted = case.under(f"out.step{k}.metrics")
        assert set(result) == set(wanted)
        for name in only or wanted:
            golden_cases.assert_close(result[name], wanted[name], rtol=1e-4, atol=2e-6)
        for name, weights in case.under(f"out.step{k}.online").items():
            golden_cases.assert_close(network.named[name], weights, rtol=1e-4, atol=2e-6)


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
    gradients, _ = learner._gradients(tensors(case, slice(-share, None)))
    norm = learner._apply(gradients)["gradient_norm"]
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


CONTINUOUS, DISCRETE = BY_NAME["logp_gaussian_scale"], BY_NAME["logp_categorical"]


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


@pytest.mark.parametrize("jit", [False, True])
def test_permutations_are_uniform_and_each_row_has_its_own(jit):
    rows = tf.tile([[0, 1, 2]], [6000, 1])
    permute = tf.function(bc_losses.permute_within_rows, jit_compile=jit)
    permuted = permute(rows, tf.constant([1, 2])).numpy()
    assert np.array_equal(np.sort(permuted, 1), rows)
    _, counts = np.unique(permuted, axis=0, return_counts=True)
    assert len(counts) == 6 and np.sum((counts - 1000.0) ** 2 / 1000.0) < 20.5  # p = 0.001
    assert not np.array_equal(permuted, permute(rows, tf.constant([1, 3])))
    # Whole vectors change places along the first axis of an action.
    pairs = tf.reshape(tf.range(24), [2, 3, 4])
    assert np.array_equal(np.sort(permute(pairs, tf.constant([1, 2])), 1), pairs)


def test_losses_are_functions_of_network_and_numpy_transitions():
    for name in ("mse_gaussian_mode", "rcal_categorical", "rcal_bins", "peerbc_invariant"):
        case = BY_NAME[name]
        value = golden_loss(config(case))(GoldenNetwork(case), batches(case)[0])
        golden_cases.assert_close(value, case["out.step1.metrics.loss"], rtol=1e-4, atol=2e-6)


def test_mse_samples_a_distribution_with_the_seed():
    output = tfd.MultivariateNormalDiag(tf.zeros([8, 3]), tf.ones([8, 3]))
    data, seed = batches(CONTINUOUS)[0], tf.constant([4, 5])
    loss = lambda **seeds: float(bc_losses.mse()(lambda _: output, data, **seeds))
    want = np.mean((output.sample(seed=seed) - data.action) ** 2)
    np.testing.assert_allclose(loss(seed=seed), want, rtol=1e-5)
    assert loss() != loss()


def test_rcal_gives_one_of_equal_values_the_gradient():
    """Of a head that begins with zeros all values are equal; the source takes the first."""
    logits = tf.Variable(tf.zeros([1, 3]))
    transitions = types.Transition(tf.zeros([1, 1]), tf.constant([2]), 0.0, 0.0, tf.ones([1, 1]))
    network = lambda x: logits + x
    with tf.GradientTape() as tape:
        loss = bc_losses.rcal(lambda *_: tf.constant(0.0), 0.5, 1.0)(network, transitions)
    np.testing.assert_allclose(tape.gradient(loss, logits), [[0.5, 0.0, -1.0]])


def test_one_action_dimension_leaves_peerbc_a_multiple():
    network = lambda x: tfd.MultivariateNormalDiag(x[:, :1], tf.ones([8, 1]))
    data = tensors(CONTINUOUS)
    data = data._replace(action=data.action[:, :1])
    want = 0.7 * bc_losses.logp()(network, data)
    np.testing.assert_allclose(
        bc_losses.peerbc(bc_losses.logp(), 0.3)(network, data), want, rtol=1e-5
    )


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


BAD_RESULTS = {
    "pair": (lambda x: (x, {}), False, r"tuple of 2.*loss_has_aux=True"),
    "none": (lambda x: None, False, "float scalar, got None"),
    "number": (lambda x: 1.0, False, "float scalar, got 1.0"),
    "integer": (lambda x: tf.cast(x, tf.int32), False, "float scalar, got.*int32"),
    "vector": (lambda x: x * tf.ones([8]), False, r"scalar, got shape \(8,\).*reduce_mean"),
    "function": (lambda x: bc_losses.logp(), False, r"pass logp\(\), not logp"),
    "constant": (lambda x: tf.stop_gradient(x), False, "does not depend on the network's"),
    "bare": (lambda x: x, True, r"pair \(loss, metrics\)"),
    "triple": (lambda x: (x, {}, {}), True, r"pair \(loss, metrics\)"),
    "no_dict": (lambda x: (x, x), True, r"pair \(loss, metrics\), metrics a dictionary"),
    "aux_vector": (lambda x: (x * tf.ones([8]), {}), True, r"scalar, got shape \(8,\)"),
    "loss": (lambda x: (x, {"loss": x}), True, "under the name 'loss'.*the learner reports"),
    "norm": (lambda x: (x, {"gradient_norm": x}), True, "under the name 'gradient_norm'"),
    "key": (lambda x: (x, {1: x}), True, "under the name 1; it must be a text"),
    "nested": (lambda x: (x, {"a": {"b": x}}), True, "metric a must be one tensor of numbers"),
    "text": (lambda x: (x, {"a": "high"}), True, "metric a must be one tensor of numbers"),
    "empty": (lambda x: (x, {"a": None}), True, "metric a is a NoneType"),
}


@pytest.mark.parametrize("name", BAD_RESULTS)
def test_bad_results_of_loss_fn_are_explained(name):
    result, has_aux, message = BAD_RESULTS[name]
    loss_fn = lambda network, x: result(bc_losses.logp()(network, x))
    learner, _ = make(DISCRETE, iter(batches(DISCRETE)), loss_fn=loss_fn, loss_has_aux=has_aux)
    with pytest.raises((TypeError, ValueError), match=message):
        learner.step()


def acme_jax(apply_fn, params, key, transitions):
    """The signature of the source's losses."""


BAD_ARGUMENTS = {
    "loss_fn": ({"loss_fn": "mse"}, r"loss_fn must be a function of \(network, transitions\)"),
    "signature": ({"loss_fn": acme_jax}, r"\(network, transitions\), got one of \(apply_fn, par"),
    "optimizer": ({"optimizer": 1e-3}, "policy optimizer must be a Sonnet optimizer"),
    "several": ({"num_sgd_steps_per_step": 0}, "num_sgd_steps_per_step must be at least 1"),
    "rate": ({"optimizer": None, "learning_rate": -1.0}, "learning_rate must be between 0"),
    "seed": ({"seed": -1}, "seed must be at least 0"),
}


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_bad_arguments_are_explained(name):
    arguments, message = BAD_ARGUMENTS[name]
    arguments = {"checkpoint": False, "learning_rate": 1e-2, **arguments}
    with pytest.raises((ValueError, TypeError), match=message):
        BCLearner(GoldenNetwork(DISCRETE), dataset=iter([]), **arguments)


def test_networks_that_are_none_are_explained():
    with pytest.raises(TypeError, match="network must be a snt.Module"):
        BCLearner(lambda x: x, 1e-2, iter([]))
    with pytest.raises(ValueError, match="network has no variables yet.*create_variables"):
        BCLearner(snt.Linear(2), 1e-2, iter([]))


LOSSES = bc_losses
BAD_LOSSES = {
    "logp": (lambda: LOSSES.logp("x"), r"logp_fn must be a function of \(output, action\)"),
    "logp_bins": (lambda: LOSSES.logp(num_bins=0), "num_bins must be at least 1"),
    "mse": (lambda: LOSSES.mse(lambda x: x), r"sample_fn must be a function of \(output, seed\)"),
    "peerbc": (lambda: LOSSES.peerbc(0.1, 0.1), "base_loss_fn must be a function of"),
    "zeta": (lambda: LOSSES.peerbc(LOSSES.logp(), "x"), "zeta must be a number"),
    "discount": (lambda: LOSSES.rcal(LOSSES.logp(), 1.1, 0.1), "discount must be between"),
    "alpha": (lambda: LOSSES.rcal(LOSSES.logp(), 0.9, None), "alpha must be a number"),
    "rcal_bins": (lambda: LOSSES.rcal(LOSSES.logp(), 0.9, 0.1, 1.5), "num_bins must be an int"),
}


@pytest.mark.parametrize("name", BAD_LOSSES)
def test_bad_arguments_of_losses_are_explained(name):
    build, message = BAD_LOSSES[name]
    with pytest.raises((ValueError, TypeError), match=message):
        build()


ACTIONS = CONTINUOUS["in.action"][0]
normal = lambda x: tfd.MultivariateNormalDiag(x, tf.ones([8, 3]))
logits = lambda x: tf.zeros([8, 4]) + x[:, :1]
peerbc, rcal = bc_losses.peerbc, bc_losses.rcal
integers = np.zeros([8], np.int32)
MISMATCHES = {
    "logits": (bc_losses.logp(), logits, ACTIONS, "counts as logits.*float32.*mse"),
    "normal": (bc_losses.logp(), normal, integers, "distribution over float32.*actions are int32"),
    "categorical": (
        *(bc_losses.logp(), lambda x: tfd.Categorical(logits(x)), ACTIONS),
        "distribution over int32.*actions are float32",
    ),
    "shape": (bc_losses.logp(), normal, ACTIONS[:, :2], r"shape \(3,\), those of the data \(2,\)"),
    "collection": (
        *(bc_losses.logp(), lambda x: tfd.Normal(x, 1.0), ACTIONS),
        "collection of distributions of single numbers",
    ),
    "column": (bc_losses.logp(), logits, integers[:, None], r"\[B, A\] for actions \[B\]"),
    "vectors": (bc_losses.logp(), lambda x: x[:, 0], integers, r"\[B, A\] for actions \[B\]"),
    "output": (bc_losses.logp(), lambda x: (x, x), integers, "logits or a tfp distribution"),
    "bins": (bc_losses.logp(num_bins=3), logits, integers, r"num_bins = 3.*\[B, D \* 3\]"),
    "nested": (bc_losses.logp(), logits, {"a": integers}, "actions that are one tensor"),
    "mse": (bc_losses.mse(), lambda x: x, integers, "mse is for continuous actions.*int32"),
    "mse_shape": (bc_losses.mse(), lambda x: x[:, :1], ACTIONS, r"\(8, 1\), those of the data"),
    "mse_output": (bc_losses.mse(), lambda x: [x], ACTIONS, "actions or a tfp distribution"),
    "mse_sample": (
        *(bc_losses.mse(), lambda x: tfd.Independent(tfd.Poisson(x**2), 1), ACTIONS),
        "have no gradient",
    ),
    "peerbc": (peerbc(bc_losses.logp(), 0.1), logits, integers, r"dimensions of each action, \[B"),
    "peerbc_base": (
        *(peerbc(lambda *_: (tf.constant(0.0), {}), 0.1), normal, ACTIONS),
        r"base_loss_fn must return a float scalar, got \(",
    ),
    "rcal": (rcal(bc_losses.logp(), 0.9, 0.1), normal, ACTIONS, "rcal needs.*returns logits"),
    "rcal_base": (
        *(rcal(lambda n, x: n(x.observation), 0.9, 0.1), logits, integers),
        r"base_loss_fn must return a scalar, got shape \(8, 4\)",
    ),
    "core": (bc_losses.logp(), snt.LSTM(4), integers, "recurrent core.*policy_improvement_modes"),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_mismatches_are_explained(name):
    loss_fn, network, action, message = MISMATCHES[name]
    data = batches(CONTINUOUS)[0]._replace(action=action)
    learner, _ = make(DISCRETE, iter([data]), loss_fn=loss_fn)
    learner._network = network
    with pytest.raises((ValueError, TypeError), match=message):
        learner.step()


DATA = batches(DISCRETE)[0]
EMPTY = tree.map_structure(lambda x: x[:0], DATA)
SEQUENCES = types.Step(*[np.repeat(x[:, None], 2, 1) for x in DATA[:4]], DATA.reward > 0)
BAD_BATCHES = {
    "pair": (types.ReplaySample((), (DATA.observation, DATA.action)), "types.Transition.*tuple"),
    "short": (DATA._replace(action=DATA.action[:7]), r"observation has shape \(8, 3\).*\[7\]"),
    "scalar": (DATA._replace(action=np.int32(1)), r"an observation and an action, \[B"),
    "empty": (EMPTY, r"an observation and an action, \[B, ...\] with at least one row"),
    "missing": (DATA._replace(observation=None), r"an observation and an action, \[B"),
    "sequences": (SEQUENCES, r"\[B, T, ...\] = \(8, 2\)"),
    "outside": (DATA._replace(action=DATA.action + 4), "actions outside the action space"),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_bad_batches_are_explained(name):
    data, message = BAD_BATCHES[name]
    learner, _ = make(DISCRETE, iter([data]), loss_fn=None)
    with pytest.raises((ValueError, TypeError), match=message):
        learner.step()


def test_rcal_needs_the_next_observation():
    data = DATA._replace(next_observation=())
    learner, _ = make(BY_NAME["rcal_categorical"], iter([data]))
    with pytest.raises(ValueError, match="next_observation, which is empty"):
        learner.step()


def test_batches_that_cannot_be_cut_are_explained():
    learner, _ = make(DISCRETE, iter([DATA]), num_sgd_steps_per_step=3)
    with pytest.raises(ValueError, match="batch of 8 per replica.*num_sgd_steps_per_step = 3"):
        learner.step()
    signature = tree.map_structure(lambda x: tf.TensorSpec([None, *x.shape[1:]], x.dtype), DATA)
    with pytest.raises(ValueError, match="drop_remainder=True"):
        make(DISCRETE, iter([]), num_sgd_steps_per_step=2)[0]._update.get_concrete_function(
            signature
        )


def test_networks_with_dropout_through_partial_application():
    network = snt.nets.MLP([16, 4], dropout_rate=0.5)
    network(tf.zeros([1, 3]), is_training=False)

    def loss_fn(network, transitions):
        return bc_losses.logp()(lambda x: network(x, is_training=True), transitions)

    learner = BCLearner(
        network, 1e-2, iter([DATA]), None, loggers.NoOpLogger(), False, loss_fn=loss_fn
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
