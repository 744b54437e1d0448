"""R2D2Learner against three updates of each of Acme's two learners, its options and its errors."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tree

from tests import golden_cases, strategies
from tests.learners import golden_q, modes
from tfagents_x import networks, replay, specs, types, utils
from tfagents_x.learners import base, priorities
from tfagents_x.learners.r2d2 import R2D2Learner
from tfagents_x.ops import nonlinear_bellman
from tfagents_x.utils import counting, distribute, loggers

CASES = golden_cases.load("learner_r2d2")
TX_PAIRS = {
    "identity": nonlinear_bellman.IDENTITY_PAIR,
    "signed_hyperbolic": nonlinear_bellman.SIGNED_HYPERBOLIC_PAIR,
}
# The notes' bounds: (rtol, atol) with the signed hyperbolic pair, and without.
TOLERANCES = {
    "loss": ((1e-4, 1e-5), (1e-5, 0.0)),
    "priorities": ((2e-4, 1e-5), (1e-5, 0.0)),
    "weights": ((1e-4, 1e-4), (1e-4, 1e-5)),
    "gradients": ((1e-3, 2e-4), (1e-4, 1e-5)),
}


def case_named(name):
    return next(case for case in CASES if case.name == name)


class Client:
    """Takes priorities as `reverb.Client` does."""

    def __init__(self):
        self.calls = []

    def mutate_priorities(self, table, updates):
        self.calls.append((table, dict(updates)))


def make(case, dataset, strategy=None, **kwargs):
    """The case's networks, and the learner that a user of its source would construct."""
    config = golden_q.config(case)
    adam = config["adam"]
    with distribute.scope(strategy):
        nets = {n: golden_q.GoldenNetwork(case.under(f"weights.{n}")) for n in ("online", "target")}
        optimizer = snt.optimizers.Adam(adam["learning_rate"], adam["b1"], adam["b2"], adam["eps"])
    arguments = dict(
        sequence_length=config["sizes"]["T"],
        reverb_client=None,
        logger=loggers.NoOpLogger(),
        discount=config["discount"],
        target_update_period=config["target_update_period"],
        importance_sampling_exponent=config["importance_sampling_exponent"],
        learning_rate=adam["learning_rate"],
        store_lstm_state=config["use_core_state"],
        max_priority_weight=config["max_priority_weight"],
        n_step=config["bootstrap_n"],
        accelerator_strategy=strategy,
    )
    if case.name.startswith("acme_tf."):
        arguments["compatibility"] = "acme_tf"
        arguments["clip_grad_norm"] = config["clip_grad_norm"]
        arguments["max_replay_size"] = config["max_replay_size"]
        # What that learner calls so.
        arguments["sequence_length"] -= config["burn_in_length"]
    else:
        arguments["optimizer"] = optimizer
        arguments["tx_pair"] = TX_PAIRS[config["tx_pair"]]
        arguments["clip_rewards"] = config["clip_rewards"]
        arguments["max_abs_reward"] = config["max_abs_reward"]
    arguments = {"burn_in_length": config["burn_in_length"], **arguments, **kwargs}
    spec = golden_q.environment_spec()
    pair = nets["online"].module, nets["target"].module
    return R2D2Learner(spec, *pair, dataset=dataset, **arguments), nets


def assert_close(case, what, actual, expected):
    is_identity = golden_q.config(case).get("tx_pair") == "identity"
    rtol, atol = TOLERANCES[what][is_identity]
    golden_cases.assert_close(actual, expected, rtol, atol)


def check_updates(case, learner, nets, client):
    """Runs the case's updates and compares losses, weights of both networks, and priorities."""
    for k in range(1, 4):
        metrics = learner.step()
        assert set(metrics) == {"loss"}
        assert_close(case, "loss", metrics["loss"], case[f"out.step{k}.metrics.loss"])
        for name, net in nets.items():
            expected = case.under(f"out.step{k}.{name}")
            assert set(expected) == set(net.variables)
            for weight, value in expected.items():
                assert_close(case, "weights", net.variables[weight], value)
    assert learner.flush_priorities(10.0) and learner.num_failed_priority_updates == 0
    assert [table for table, _ in client.calls] == ["priority_table"] * 3
    for k, (_, updates) in enumerate(client.calls):
        assert list(updates) == [int(key) for key in case["in.info.key"][k]]
        expected = case[f"out.step{k + 1}.priorities"]
        assert_close(case, "priorities", list(updates.values()), expected)


@modes.all_modes
@pytest.mark.parametrize("case", CASES, ids=golden_cases.ids)
def test_golden_updates(case, mode):
    client = Client()
    data = iter(golden_q.batches(case))
    learner, nets = make(case, data, reverb_client=client, jit_compile=mode == "xla")
    with modes.running(mode):
        check_updates(case, learner, nets, client)


def gradients_of(learner, sample):
    """Gradients of one batch, by the path of an update."""
    device, _ = learner._split(sample)
    device = tree.map_structure(utils.nest.narrow, device)
    gradients, result = learner._gradients(learner._exchange(device))
    return gradients["network"], result


@pytest.mark.parametrize("case", CASES, ids=golden_cases.ids)
def test_golden_gradients(case):
    learner, nets = make(case, iter([]))
    gradients, _ = gradients_of(learner, golden_q.batches(case)[0])
    (trained,) = learner._trained.values()
    if trained.max_gradient_norm is not None:
        gradients, _ = tf.clip_by_global_norm(gradients, trained.max_gradient_norm)
    expected = case.under("out.step1.grads")
    for variable, gradient in zip(trained.variables, gradients):
        assert_close(case, "gradients", gradient, expected.pop(nets["online"].name_of(variable)))
    assert not expected


BASE, BURN_IN = case_named("base"), case_named("burn_in")
SAMPLE = golden_q.batches(BASE)[0]
STATE = SAMPLE.data.extras["core_state"][0]
REPLICAS = (tf.distribute.MirroredStrategy, snt.distribute.Replicator)


@pytest.mark.parametrize("jit", [False, True], ids=["graph", "xla"])
@pytest.mark.parametrize("kind", REPLICAS, ids=lambda kind: kind.__name__)
def test_two_replicas_equal_one(kind, jit):
    """Importance weights too, whose maximum is in one of the halves, and the order of keys."""
    strategy, client = strategies.mirrored(kind), Client()
    case = case_named("rare_items")
    data = golden_q.batches(case)
    assert any(np.argmin(s.info.probability) < 2 for s in data)
    assert any(np.argmin(s.info.probability) >= 2 for s in data)
    learner, nets = make(case, iter(data), strategy, reverb_client=client, jit_compile=jit)
    check_updates(case, learner, nets, client)


def as_dataset(samples):
    signature = tree.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), samples[0])
    return tf.data.Dataset.from_generator(lambda: iter(samples), output_signature=signature)


@pytest.mark.parametrize("replicas", [1, 2])
def test_datasets_give_the_golden_numbers(replicas):
    strategy, client = strategies.mirrored() if replicas == 2 else None, Client()
    dataset = as_dataset(golden_q.batches(BURN_IN))
    learner, nets = make(BURN_IN, dataset, strategy, reverb_client=client)
    check_updates(BURN_IN, learner, nets, client)


def test_distributed_datasets_are_taken_as_they_are():
    strategy, client = strategies.mirrored(), Client()
    narrow = lambda s: s._replace(info=s.info._replace(probability=np.float32(s.info.probability)))
    dataset = as_dataset([narrow(s) for s in golden_q.batches(BURN_IN)])
    dataset = strategy.experimental_distribute_dataset(dataset)
    learner, nets = make(BURN_IN, dataset, strategy, reverb_client=client)
    check_updates(BURN_IN, learner, nets, client)


@pytest.mark.parametrize("replicas", [1, 2])
def test_minibatches_keep_the_order_of_keys(replicas):
    """Two SGD steps on halves are two updates; every priority goes to its own key."""
    halves = golden_q.batches(BASE)[:2]
    expected = Client()
    one_by_one, _ = make(BASE, iter(halves), reverb_client=expected)
    for _ in halves:
        one_by_one.step()
    whole = tree.map_structure(lambda *x: np.concatenate(x), *halves)
    if replicas == 2:
        # A replica cuts its own share: its rows are the halves' first or second two.
        order = np.array([0, 1, 4, 5, 2, 3, 6, 7])
        whole = tree.map_structure(lambda x: x[order], whole)
    client, strategy = Client(), strategies.mirrored() if replicas == 2 else None
    learner, _ = make(BASE, iter([whole]), strategy, reverb_client=client, num_sgd_steps_per_step=2)
    learner.step()
    assert learner.flush_priorities(10.0) and one_by_one.flush_priorities(10.0)
    ((_, updates),) = client.calls
    assert list(updates) == [int(key) for key in whole.info.key]
    wanted = {key: value for _, part in expected.calls for key, value in part.items()}
    assert len(wanted) == 8
    for key, value in wanted.items():
        np.testing.assert_allclose(updates[key], value, rtol=1e-4)
    for a, b in zip(tree.flatten(learner.save()), tree.flatten(one_by_one.save())):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", [BURN_IN, case_named("acme_tf.burn_in")], ids=golden_cases.ids)
def test_graph_does_not_grow_with_time(case):
    """Nor does the number of its nodes, so neither does the time of tracing it."""
    step = SAMPLE.data._replace(start_of_episode=(), extras=SAMPLE.data.extras["core_state"])

    def num_nodes(num_steps):
        learner, _ = make(case, iter([]), sequence_length=num_steps)
        longer = tree.map_structure(lambda x: np.repeat(x[:, :1], num_steps, axis=1), step)
        data = (longer, np.float32(SAMPLE.info.probability))
        data = tree.map_structure(tf.convert_to_tensor, data)
        definition = learner._update.get_concrete_function(data).graph.as_graph_def()
        return len(definition.node) + sum(len(f.node_def) for f in definition.library.function)

    short, usual, long, longer = (num_nodes(t) for t in (10, 80, 300, 600))
    assert long == longer
    # TensorFlow writes zeros of up to 1,000 numbers as one constant, larger ones as an
    # operation with inputs.
    assert abs(long - short) < 10 and abs(usual - short) < 10


def test_batch_size_may_be_unknown():
    samples = golden_q.batches(BURN_IN)
    signature = tree.map_structure(lambda x: tf.TensorSpec([None, *x.shape[1:]], x.dtype), SAMPLE)
    for strategy in (None, strategies.mirrored()):
        dataset = tf.data.Dataset.from_generator(lambda: iter(samples), output_signature=signature)
        client = Client()
        learner, nets = make(BURN_IN, dataset, strategy, reverb_client=client)
        data = tree.map_structure(
            lambda x: tf.TensorSpec([None, *x.shape[1:]], x.dtype),
            (learner._split(SAMPLE)[0][0], np.float32(SAMPLE.info.probability)),
        )
        if strategy is None:  # One trace, for all sizes.
            learner._update.get_concrete_function(data)
        check_updates(BURN_IN, learner, nets, client)


@pytest.mark.parametrize(
    "state",
    [(STATE[:, 0],), STATE, STATE[:, 0], [STATE], {"h": STATE[:, :1]}],
    ids=["no_time", "bare", "bare_no_time", "list", "dict_of_first"],
)
def test_states_may_come_with_time_or_without_in_any_container(state):
    client, samples = Client(), golden_q.batches(BASE)
    samples[0] = samples[0]._replace(data=samples[0].data._replace(extras={"core_state": state}))
    learner, _ = make(BASE, iter(samples), reverb_client=client)
    assert_close(BASE, "loss", learner.step()["loss"], BASE["out.step1.metrics.loss"])


def test_nobody_wants_priorities():
    """No client, no keys needed, no thread."""
    bare = types.SampleInfo(key=(), probability=SAMPLE.info.probability, table_size=1, priority=1)
    learner, _ = make(BASE, iter([SAMPLE._replace(info=bare)]))
    assert_close(BASE, "loss", learner.step()["loss"], BASE["out.step1.metrics.loss"])
    assert learner.flush_priorities() and learner.num_failed_priority_updates == 0


def test_probabilities_are_the_only_numbers_of_replay_on_the_device():
    client = Client()
    learner, _ = make(BASE, iter([SAMPLE]), reverb_client=client)
    device, host = learner._feed.next()
    assert host.dtype == np.uint64 and int(host[0]) > 2**32
    dtypes = {leaf.dtype for leaf in tree.flatten(device)}
    assert dtypes == {tf.float32, tf.int32}


class BrokenClient:
    def mutate_priorities(self, table, updates):
        raise RuntimeError("Socket closed")


def test_training_survives_a_server_that_is_gone(caplog):
    learner, nets = make(BASE, iter(golden_q.batches(BASE)), reverb_client=BrokenClient())
    with caplog.at_level(logging.WARNING):
        learner.run(3)
        assert learner.flush_priorities(10.0)
    assert learner.num_failed_priority_updates == 3
    assert [r.getMessage() for r in caplog.records if "Socket closed" in r.getMessage()][1:] == []
    assert "Socket closed" in caplog.text
    for name, value in BASE.under("out.step3.online").items():
        assert_close(BASE, "weights", nets["online"].variables[name], value)


def test_targets_that_are_not_finite_stop_the_default_learner():
    case = case_named("acme_tf.nonfinite")
    learner, _ = make(case, iter(golden_q.batches(case)), compatibility="acme_jax")
    with pytest.raises(base.NonFiniteError, match="Update 1 gave loss = nan"):
        learner.step()


def test_adam_is_that_of_acme():
    learner, _ = make(case_named("acme_tf.base"), iter([]), learning_rate=0.25)
    optimizer = learner._trained["network"].optimizer
    numbers = (optimizer.learning_rate, optimizer.beta1, optimizer.beta2, optimizer.epsilon)
    np.testing.assert_allclose([float(x) for x in numbers], [0.25, 0.9, 0.999, 1e-3])


@pytest.mark.parametrize(
    ("case", "walltime"), [(BASE, "time_elapsed"), (case_named("acme_tf.base"), "walltime")]
)
def test_what_is_logged(case, walltime):
    logger, counter = loggers.InMemoryLogger(), counting.Counter(prefix="learner")
    learner, _ = make(case, iter(golden_q.batches(case)), logger=logger, counter=counter)
    learner.run(2)
    assert set(logger.data[-1]) == {"loss", "learner_steps", f"learner_{walltime}"}


@pytest.mark.parametrize("how", ["save", "checkpoint"])
def test_going_on_gives_what_would_have_come(how, tmp_path):
    samples = golden_q.batches(BURN_IN)
    whole, _ = make(BURN_IN, iter(samples))
    losses = [float(whole.step()["loss"]) for _ in samples]
    first, _ = make(BURN_IN, iter(samples[:2]))
    first.run(2)
    second, _ = make(BURN_IN, iter(samples[2:]))
    if how == "save":
        second.restore(first.save())
    else:
        path = first.checkpointable.write(str(tmp_path / "state"))
        second.checkpointable.read(path).assert_consumed()
    np.testing.assert_allclose(second.step()["loss"], losses[2], rtol=1e-6)
    for a, b in zip(tree.flatten(second.save()), tree.flatten(whole.save())):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


def recurrent(num_actions=4, hidden=5):
    return snt.DeepRNN([snt.LSTM(hidden), snt.Linear(num_actions)])


def lstm_sample(network, dtype=np.float32):
    state = tree.map_structure(
        lambda x: np.zeros([4, 8, x.shape[-1]], np.float32), network.initial_state(1)
    )
    return SAMPLE._replace(data=SAMPLE.data._replace(extras={"core_state": state}))


def test_networks_without_variables_get_them_and_the_target_is_a_copy(tmp_path):
    """With a directory: checkpoint and snapshot are written, and taken up again."""
    made = lambda: (golden_q.environment_spec(), recurrent(), recurrent(), 2, 8)
    arguments = dict(logger=loggers.NoOpLogger(), checkpoint=True, directory=str(tmp_path))
    given = made()
    sample = lstm_sample(given[1])
    learner = R2D2Learner(*given, iter([sample] * 2), **arguments)
    online, target = learner.get_variables(["network", "target_network"])
    assert len(online) == 5
    for a, b in zip(online, target):
        np.testing.assert_array_equal(a, b)
    learner.step()
    again = R2D2Learner(*made(), iter([sample]), **arguments)
    assert again.num_updates == 1 and again.counter.get_counts()["steps"] == 1
    assert float(again.step()["loss"]) == pytest.approx(float(learner.step()["loss"]), rel=1e-6)
    network = tf.saved_model.load(str(tmp_path / "snapshots" / "network"))
    values, _ = network(tf.zeros([5, 3]), network.initial_state(5))
    assert values.shape == (5, 4)


def test_variables_are_made_on_all_replicas():
    strategy = strategies.mirrored()
    pair = recurrent(), recurrent()
    learner = R2D2Learner(
        *(golden_q.environment_spec(), *pair, 2, 8, iter([lstm_sample(pair[0])])),
        accelerator_strategy=strategy,
        logger=loggers.NoOpLogger(),
    )
    for source, copy in zip(pair[0].variables, pair[1].variables):
        values = [strategy.experimental_local_results(v) for v in (source, copy)]
        for value in tree.flatten(values):
            np.testing.assert_array_equal(value, values[0][0])
    assert np.isfinite(learner.step()["loss"])


def test_atari_network():
    """Observations with last action and reward, uint8 frames, duelling head."""
    frames = np.random.default_rng(0).integers(0, 255, [2, 5, 84, 84, 4]).astype(np.uint8)
    oar = types.OAR(frames, np.zeros([2, 5], np.int32), np.zeros([2, 5], np.float32))
    network, target = networks.R2D2AtariNetwork(4), networks.R2D2AtariNetwork(4)
    observations = types.OAR(
        specs.Array((84, 84, 4), np.uint8), specs.DiscreteArray(4), specs.Array((), np.float32)
    )
    state = tree.map_structure(
        lambda x: np.zeros([2, 5, *x.shape[1:]], np.float32), network.initial_state(1)
    )
    cut = lambda x: x[:2, :5]
    data = types.Step(
        observation=oar,
        action=cut(SAMPLE.data.action),
        reward=cut(SAMPLE.data.reward),
        discount=cut(SAMPLE.data.discount),
        start_of_episode=cut(SAMPLE.data.start_of_episode),
        extras={"core_state": state},
    )
    sample = SAMPLE._replace(info=tree.map_structure(lambda x: x[:2], SAMPLE.info), data=data)
    spec = golden_q.environment_spec()._replace(observations=observations)
    client = Client()
    learner = R2D2Learner(
        spec, network, target, 2, 5, iter([sample]), client, logger=loggers.NoOpLogger()
    )
    before = learner.get_variables(["network"])[0]
    assert np.isfinite(learner.step()["loss"])
    assert all(np.any(a != b) for a, b in zip(before, learner.get_variables(["network"])[0]))
    assert learner.flush_priorities(10.0) and len(client.calls[0][1]) == 2


class HalfPrecision(snt.RNNCore):
    """A core in float32 with a head in bfloat16."""

    def __init__(self):
        super().__init__()
        self.core, self.head = snt.VanillaRNN(5), snt.Linear(4)

    def __call__(self, inputs, state):
        outputs, state = self.core(inputs, state)
        return tf.cast(self.head(outputs), tf.bfloat16), state

    def initial_state(self, batch_size):
        return self.core.initial_state(batch_size)


def test_half_precision_values_and_cores_that_are_stepped():
    client = Client()
    learner = R2D2Learner(
        golden_q.environment_spec(),
        *(HalfPrecision(), HalfPrecision(), 2, 8, iter([SAMPLE]), client),
        logger=loggers.NoOpLogger(),
    )
    loss = learner.step()["loss"]
    assert loss.dtype == tf.float32 and np.isfinite(loss)


def with_data(**changes):
    return SAMPLE._replace(data=SAMPLE.data._replace(**changes))


def with_info(**changes):
    return SAMPLE._replace(info=SAMPLE.info._replace(**changes))


def with_state(state):
    return with_data(extras={"core_state": state})


D = SAMPLE.data
BAD_BATCHES = {
    "no_extras": (with_data(extras=()), r"\['core_state'\].*got tuple.*store_lstm_state=False"),
    "other_extras": (with_data(extras={"logits": D.reward}), r"\['core_state'\].*\['logits'\]"),
    "narrow_state": (with_state((STATE[..., 1:],)), r"core_state/0 has shape \(4, 8, 4\)"),
    "narrow_state_without_time": (with_state((STATE[:, 0, 1:],)), r"core_state/0.*\(4, 4\)"),
    "no_state": (with_state(()), "core_state'. has 0 tensors.*Record"),
    "lstm_state": (with_state((STATE, STATE)), "core_state'. has 2 tensors"),
    "flat_state": (with_state((STATE[:, 0, 0],)), r"core_state/0 has shape \(4,\)"),
    "few_states": (with_state((STATE[:2],)), r"core_state/0 has shape \(2, 8, 5\)"),
    "integer_state": (with_state((STATE.astype(np.int32),)), "core_state/0 has dtype int32"),
    "short_reward": (with_data(reward=D.reward[:, :-1]), r"reward.*\(4, 7\), wanted \(4, 8\)"),
    "integer_reward": (with_data(reward=D.action), "reward.*int32.*float32"),
    "few_discounts": (with_data(discount=D.discount[:2]), r"discount.*\(2, 8\)"),
    "continuous_action": (with_data(action=D.reward), "integer actions.*float32.*SVG0"),
    "action_with_axis": (with_data(action=D.action[..., None]), r"\[B, T\].*\(4, 8, 1\)"),
    "nested_action": (with_data(action={"a": D.action}), "integer actions.*dict"),
    "short_observation": (with_data(observation=D.observation[:, 1:]), r"observation.*\[4, 8\]"),
    "few_features": (
        with_data(observation=D.observation[..., 1:]),
        r"observation has shape \(4, 8, .*wanted",
    ),
    "nested_observation": (
        with_data(observation={"a": D.observation}),
        "observation has another structure than its spec",
    ),
    "no_reward": (with_data(reward=None), "reward of the batch: .* NoneType"),
    "no_key": (with_info(key=None), "info.key is None"),
    "no_probability": (with_info(probability=None), "info.probability is None"),
    "transition": (
        SAMPLE._replace(
            data=types.Transition(D.observation, D.action[:, 0], 0.0, 1.0, 0, D.extras)
        ),
        r"\[B, T\].*\(4,\)",
    ),
    "a_dict": (SAMPLE._replace(data=D._asdict()), "must be types.Step.*got a dict"),
    "no_info": (SAMPLE._replace(info=()), r"SampleInfo.*got \(\)"),
    "step": (D, r"SampleInfo.*got \(\)"),
    "info_with_time": (
        with_info(probability=np.ones([4, 8])),
        r"info.probability has shape \(4, 8\), wanted \(4,\)",
    ),
    "one_key": (with_info(key=SAMPLE.info.key[:1]), "1 keys, but 4 priorities"),
    "other_length": (
        tree.map_structure(lambda x: x[:, :7] if x.ndim > 1 else x, SAMPLE),
        "sequence_length = 8, but the data has sequences of 7 steps",
    ),
    "action_7": (with_data(action=np.full_like(D.action, 7)), "actions outside the action space"),
    "nan_reward": (with_data(reward=D.reward * np.nan), "Update 1 gave loss = nan"),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_bad_batches_are_explained(name):
    sample, message = BAD_BATCHES[name]
    learner, _ = make(BASE, iter([sample]), reverb_client=Client())
    with pytest.raises((ValueError, TypeError), match=message):
        learner.step()


@pytest.mark.parametrize("jit", [False, True], ids=["graph", "xla"])
def test_actions_outside_the_action_space_stop_the_learner(jit):
    learner, _ = make(BASE, iter([with_data(action=D.action + 1000)]), jit_compile=jit)
    # Without XLA it is TensorFlow that looks.
    error, message = (base.NonFiniteError, "loss = nan") if jit else (ValueError, "action space")
    with pytest.raises(error, match=message):
        learner.step()


def test_burn_in_that_leaves_one_step_is_explained():
    learner, _ = make(BASE, iter([SAMPLE]), burn_in_length=7)
    with pytest.raises(ValueError, match="at least 2 steps after the burn-in.*8.*= 7"):
        learner.step()


@pytest.mark.parametrize("replicas", [1, 2])
def test_batches_that_cannot_be_cut_are_explained(replicas):
    strategy = strategies.mirrored() if replicas == 2 else None
    learner, _ = make(BASE, iter([SAMPLE]), strategy, num_sgd_steps_per_step=3)
    with pytest.raises(ValueError, match=f"batch of {4 // replicas}.*num_sgd_steps_per_step = 3"):
        learner.step()


class TwoOutputs(snt.Module):
    def __call__(self, x):
        return x, x


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (snt.Linear(6), "values for 6 actions, the environment 4"),
        (TwoOutputs(), r"must return action values \[B, A\], got \("),
        (lambda x: x[:, 0], r"action values \[B, A\].*\(8, 4\)"),
    ],
)
def test_networks_that_do_not_fit(head, message):
    pair = [snt.DeepRNN([snt.VanillaRNN(5), head]) for _ in range(2)]
    if isinstance(head, snt.Linear):
        pair[1] = snt.DeepRNN([snt.VanillaRNN(5), snt.Linear(6)])
    learner = R2D2Learner(golden_q.environment_spec(), *pair, 0, 8, iter([SAMPLE]))
    with pytest.raises((ValueError, TypeError), match=message):
        learner.step()


CONTINUOUS = golden_q.environment_spec()._replace(
    actions=specs.BoundedArray((2,), np.float32, -1.0, 1.0)
)
BAD_ARGUMENTS = {
    "continuous": ({"environment_spec": CONTINUOUS}, "R2D2 needs one discrete action.*Discretise"),
    "no_spec": ({"environment_spec": None}, "environment_spec must be a specs.EnvironmentSpec"),
    "burn_in": ({"burn_in_length": 8}, "burn_in_length = 8 leaves nothing.*sequence_length = 8"),
    "negative_burn_in": ({"burn_in_length": -1}, "burn_in_length must be at least 0"),
    "fractional_burn_in": ({"burn_in_length": 0.5}, "burn_in_length must be an int"),
    "short": ({"sequence_length": 1}, "sequence_length must be at least 2"),
    "n_step": ({"n_step": 0}, "n_step must be at least 1, got 0"),
    "period": ({"target_update_period": 0}, "target_update_period must be at least 1"),
    "replay_size": ({"max_replay_size": 0}, "max_replay_size must be at least 1"),
    "discount": ({"discount": 1.5}, "discount must be between"),
    "exponent": ({"importance_sampling_exponent": -0.1}, "importance_sampling_exponent"),
    "weight": ({"max_priority_weight": 1.1}, "max_priority_weight must be between"),
    "rate": ({"learning_rate": None}, "learning_rate must be a number"),
    "norm": ({"clip_grad_norm": 0.0}, "clip_grad_norm must be between"),
    "max_reward": ({"max_abs_reward": -1.0}, "max_abs_reward must be between"),
    "two_names": (
        {"store_lstm_state": True, "use_core_state": False},
        "two names for one thing, got True and False",
    ),
    "state": ({"use_core_state": 1}, "use_core_state must be a bool"),
    "compatibility": ({"compatibility": "acme"}, "compatibility must be one of 'acme_jax'"),
    "tx_pair": (
        {"compatibility": "acme_tf", "tx_pair": nonlinear_bellman.IDENTITY_PAIR},
        "'acme_tf' knows no tx_pair",
    ),
    "client": ({"reverb_client": "localhost:8000"}, "reverb_client must be.*'localhost:8000'"),
    "feed_forward": ({"network": snt.Linear(4)}, r"network must be.*snt.DeepRNN\(\[network\]\)"),
    "no_target": ({"target_network": None}, "target_network must be a recurrent core"),
    "other_target": ({"target_network": recurrent(hidden=3)}, "must have the same variables"),
    "optimizer": ({"optimizer": "adam"}, "optimizer must be"),
    "optimizer_class": ({"optimizer": snt.optimizers.Adam}, "got the class Adam: make one"),
    "clip_rewards": ({"clip_rewards": "no"}, "clip_rewards must be True or False"),
    "mask": ({"mask_episode_ends": 1}, "mask_episode_ends must be True or False"),
    "infinite_rate": ({"learning_rate": float("inf")}, "learning_rate must be between"),
    "minibatches": ({"num_sgd_steps_per_step": 0}, "num_sgd_steps_per_step must be at least 1"),
}


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_bad_arguments_are_explained(name):
    changes, message = BAD_ARGUMENTS[name]
    arguments = dict(
        environment_spec=golden_q.environment_spec(),
        network=recurrent(),
        target_network=recurrent(),
        burn_in_length=2,
        sequence_length=8,
        dataset=iter([]),
    )
    with pytest.raises((ValueError, TypeError), match=message):
        R2D2Learner(**{**arguments, **changes})


def test_one_network_twice_is_refused():
    network = recurrent()
    with pytest.raises(ValueError, match="must be a network of its own"):
        R2D2Learner(golden_q.environment_spec(), network, network, 2, 8, iter([]))


@pytest.mark.parametrize("name", ["store_lstm_state", "use_core_state"])
def test_either_name_of_the_state(name):
    case = case_named("no_core")
    given = {"store_lstm_state": None, name: False}
    samples = [s._replace(data=s.data._replace(extras=())) for s in golden_q.batches(case)]
    learner, _ = make(case, iter(samples), **given)
    assert_close(case, "loss", learner.step()["loss"], case["out.step1.metrics.loss"])


def test_table_is_that_of_the_adders():
    assert priorities.TABLE == replay.DEFAULT_TABLE


BACKENDS = ["in_process"] + (["reverb"] if replay.reverb_available() else [])


@pytest.mark.parametrize("source", ["iterator", "dataset"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_stores_get_the_priorities_of_what_they_gave(backend, source):
    """Items are drawn, learned from, and have the priorities that the learner reports."""
    table = replay.prioritized()
    spec = golden_q.environment_spec()
    signature = replay.sequence_signature(
        spec, {"core_state": (specs.Array((5,), np.float32),)}, sequence_length=8
    )
    with replay.make_replay([table], signature, backend) as store:
        writer = store.writer(8)
        for sequence in range(4):
            for t in range(8):
                writer.append(tree.map_structure(lambda x, i=sequence, t=t: x[i, t], SAMPLE.data))
            writer.create_item(table.name, 8, 1.0)
        writer.flush()
        batches = getattr(store, source)(table.name, 4)
        learner, _ = make(BASE, batches, reverb_client=store, target_update_period=1000)
        sent = {}
        update = store.update_priorities

        def spy(name, keys, values):
            sent.update(zip(keys.tolist(), values.tolist()))
            update(name, keys, values)

        store.update_priorities = spy
        learner.run(3)
        assert learner.flush_priorities(10.0) and learner.num_failed_priority_updates == 0
        info = store.sample(table.name, 100, timeout=10.0).info
        found = dict(zip(info.key.tolist(), info.priority.tolist()))
        assert len(found) == 4 and sent
        assert found == {**dict.fromkeys(found, 1.0), **sent}
        assert all(value > 0 and value != 1.0 for value in sent.values())
