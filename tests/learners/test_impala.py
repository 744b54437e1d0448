"""IMPALALearner against three updates of each of Acme's two learners, and its errors."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tree

from tests import golden_cases, strategies
from tests.learners import golden_rnn, modes
from tfagents_x import specs
from tfagents_x.learners.impala import IMPALALearner
from tfagents_x.utils import distribute, loggers

CASES = golden_cases.load("learner_impala")
TOLERANCE = {"rtol": 1e-4, "atol": 1e-6}


def make_learner(case, model, dataset, **kwargs):
    """The learner that a user of Acme TF (`acme_tf.*`) or of the seed would construct."""
    config = golden_rnn.config(case)
    adam = config["adam"]
    arguments = dict(
        discount=config["discount"],
        entropy_cost=config["entropy_cost"],
        baseline_cost=config["baseline_cost"],
        max_abs_reward=float(config["max_abs_reward"]),
        max_gradient_norm=config["max_gradient_norm"],
        logger=loggers.NoOpLogger(),
    )
    if case.name.startswith("acme_tf."):
        arguments["compatibility"] = "acme_tf"
    else:
        with distribute.scope(kwargs.get("accelerator_strategy")):
            arguments["optimizer"] = snt.optimizers.Adam(
                adam["learning_rate"], adam["b1"], adam["b2"], adam["eps"]
            )
    spec = golden_rnn.environment_spec(case)
    arguments.update(kwargs)
    return IMPALALearner(spec, model.network, dataset, adam["learning_rate"], **arguments)


def model_of(case):
    return golden_rnn.GoldenNetwork(case.under("weights.online"))


@modes.all_modes
@pytest.mark.parametrize("case", CASES, ids=golden_cases.ids)
def test_golden_updates(case, mode):
    model = model_of(case)
    data = golden_rnn.batches(case)
    learner = make_learner(case, model, iter(data), jit_compile=mode == "xla")
    with modes.running(mode):
        for k in range(1, len(data) + 1):
            metrics = learner.step()
            expected = case.under(f"out.step{k}.metrics")
            assert set(metrics) == set(expected)
            for name, value in expected.items():
                golden_cases.assert_close(metrics[name], value, **TOLERANCE)
            for name, value in case.under(f"out.step{k}.online").items():
                golden_cases.assert_close(model.variables[name], value, **TOLERANCE)


@pytest.mark.parametrize("case", CASES, ids=golden_cases.ids)
def test_golden_gradients(case):
    model = model_of(case)
    data = golden_rnn.batches(case)[0].data
    learner = make_learner(case, model, iter([]))
    gradients, _ = learner._gradients(tree.map_structure(tf.convert_to_tensor, data))
    (trained,) = learner._trained.values()
    updates = gradients["network"]
    if trained.max_gradient_norm is not None:
        updates, _ = tf.clip_by_global_norm(updates, trained.max_gradient_norm)
    expected = case.under("out.step1.grads")
    for variable, update in zip(trained.variables, updates):
        golden_cases.assert_close(update, expected.pop(model.name_of(variable)), **TOLERANCE)
    assert not expected


BASE = next(c for c in CASES if c.name == "all")


def with_data(**changes):
    sample = golden_rnn.batches(BASE)[0]
    return sample._replace(data=sample.data._replace(**changes))


DATA = golden_rnn.batches(BASE)[0].data
STATE = DATA.extras["core_state"][0]


def with_extras(**changes):
    return with_data(extras={**DATA.extras, **changes})


BAD_BATCHES = {
    "no_extras": (with_data(extras=()), r"\['core_state', 'logits'\].*record"),
    "no_logits": (
        with_data(extras={"core_state": DATA.extras["core_state"]}),
        r"needs \['logits'\].*got \['core_state'\]",
    ),
    "short_reward": (with_data(reward=DATA.reward[:, :-1]), r"reward.*\(4, 7\), wanted \(4, 8\)"),
    "reward_with_axis": (with_data(reward=DATA.reward[..., None]), r"reward.*\(4, 8, 1\)"),
    "integer_reward": (with_data(reward=DATA.action), "reward.*int32.*float32"),
    "no_reward": (with_data(reward=()), "batch has another structure"),
    "few_discounts": (with_data(discount=DATA.discount[:2]), r"discount.*\(2, 8\)"),
    "continuous_action": (with_data(action=DATA.reward), "integer actions"),
    "action_with_axis": (with_data(action=DATA.action[..., None]), r"action.*\(4, 8, 1\)"),
    "one_step": (
        with_data(**{k: getattr(DATA, k)[:, :1] for k in DATA._fields if k != "extras"}),
        r"at least 2 steps.*\[4, 1\]",
    ),
    "no_sequence": (
        with_data(**{k: getattr(DATA, k)[:0] for k in DATA._fields if k != "extras"}),
        r"at least one sequence.*\[0, 8\]",
    ),
    "logits_of_other_size": (
        with_extras(logits=DATA.extras["logits"][..., :-1]),
        r"logits.*\(4, 8, 3\), wanted \(4, 8, 4\)",
    ),
    "short_observation": (with_data(observation=DATA.observation[:, 1:]), r"observation.*4, 7, 3"),
    "narrow_observation": (with_data(observation=DATA.observation[..., 1:]), r"wanted \(4, 8, 3\)"),
    "nested_observation": (
        with_data(observation={"x": DATA.observation}),
        "observation has another structure",
    ),
    "integer_observation": (
        with_data(observation=DATA.observation.astype(np.int32)),
        "observation has dtype int32.*float32",
    ),
    "state_of_other_width": (with_extras(core_state=(STATE[..., 1:],)), r"core_state/0.*4, 8, 4"),
    "state_without_time": (with_extras(core_state=(STATE[:, 0],)), r"core_state/0.*\(4, 5\)"),
    "no_state": (with_extras(core_state=()), "core_state'. has 0 tensors"),
    "two_states": (with_extras(core_state=(STATE, STATE)), "core_state'. has 2 tensors"),
    "nan_reward": (with_data(reward=DATA.reward * np.nan), "Update 1 gave loss = nan"),
    "action_7": (
        with_data(action=np.full_like(DATA.action, 7)),
        "actions outside the action space",
    ),
    "a_dict": (DATA._asdict(), r"ReplaySample\(info, data\).*got a dict"),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_bad_batches_are_explained(name):
    sample, message = BAD_BATCHES[name]
    learner = make_learner(BASE, model_of(BASE), iter([sample]), max_abs_reward=None)
    with pytest.raises((ValueError, TypeError), match=message):
        learner.step()


def test_states_may_come_in_any_container():
    expected = make_learner(BASE, model_of(BASE), iter(golden_rnn.batches(BASE))).step()
    for state in (STATE, [STATE], {"h": STATE}):
        sample = golden_rnn.batches(BASE)[0]
        extras = {**sample.data.extras, "core_state": state}
        sample = sample._replace(data=sample.data._replace(extras=extras))
        metrics = make_learner(BASE, model_of(BASE), iter([sample])).step()
        np.testing.assert_allclose(metrics["loss"], expected["loss"], rtol=1e-6)


def test_episode_starts_are_checked_where_they_are_used():
    sample = with_data(start_of_episode=DATA.start_of_episode[:, 1:])
    learner = make_learner(BASE, model_of(BASE), iter([sample]), mask_episode_ends=True)
    with pytest.raises(ValueError, match=r"start_of_episode.*\(4, 7\)"):
        learner.step()


class OneHead(snt.Module):
    def __init__(self):
        super().__init__()
        self._linear = snt.Linear(4)

    def __call__(self, x):
        return self._linear(x)


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (OneHead(), r"must return \(logits \[B, A\], value \[B\]\)"),
        (golden_rnn.PolicyValue(6), "logits for 6 actions, the environment 4"),
    ],
)
def test_networks_that_do_not_fit(head, message):
    network = snt.DeepRNN([snt.VanillaRNN(5), head])
    spec = golden_rnn.environment_spec(BASE)
    learner = IMPALALearner(spec, network, iter(golden_rnn.batches(BASE)), 1e-3)
    with pytest.raises(ValueError, match=message):
        learner.step()


def test_continuous_action_space_is_refused():
    spec = golden_rnn.environment_spec(BASE)
    spec = spec._replace(actions=specs.BoundedArray((2,), np.float32, -1.0, 1.0))
    with pytest.raises(ValueError, match="discrete action.*Discretise"):
        IMPALALearner(spec, model_of(BASE).network, iter([]), 1e-3)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("discount", 1.5),
        ("max_abs_reward", 0.0),
        ("max_gradient_norm", -1.0),
        ("compatibility", "acme"),
        ("num_sgd_steps_per_step", 0),
        ("num_sgd_steps_per_step", 1.5),
        ("prefetch_size", -1),
        ("discount", "x"),
        ("entropy_cost", float("nan")),
        ("network", None),
        ("environment_spec", None),
        ("learning_rate", None),
        ("learning_rate", float("nan")),
        ("optimizer", "adam"),
        ("counter", "steps"),
        ("logger", "log"),
        ("accelerator_strategy", "gpu"),
    ],
)
def test_bad_arguments_are_explained(argument, value):
    spec = golden_rnn.environment_spec(BASE)
    arguments = {
        "environment_spec": spec,
        "network": model_of(BASE).network,
        "dataset": iter([]),
        "learning_rate": 1e-3,
    }
    with pytest.raises((ValueError, TypeError), match=argument):
        IMPALALearner(**{**arguments, argument: value})


def test_a_network_without_variables_gets_them():
    network = snt.DeepRNN([snt.VanillaRNN(5), golden_rnn.PolicyValue(4)])
    learner = IMPALALearner(
        golden_rnn.environment_spec(BASE), network, iter(golden_rnn.batches(BASE)), 1e-3
    )
    before = learner.get_variables(["network"])[0]
    learner.step()
    after = learner.get_variables(["network"])[0]
    assert len(before) == 7
    assert all(np.any(a != b) for a, b in zip(after, before))


def test_masked_episode_ends_equal_separate_episodes():
    """A sequence over an episode's end gives the sums of the two episodes' own sequences."""
    rows, cut = 8, 4  # Row 3 is the final observation; row 4 starts the next episode.
    sample = with_data(
        start_of_episode=np.arange(rows)[None].repeat(4, 0) == cut,
        discount=np.where(np.arange(rows) == cut - 1, 0.0, np.ones([4, rows])).astype(np.float32),
    )
    sample = sample._replace(data=tree.map_structure(lambda x: x[:1], sample.data))
    part = lambda a, b: tree.map_structure(lambda x: tf.constant(x[:, a:b]), sample.data)
    fresh = lambda data: data._replace(
        start_of_episode=tf.zeros_like(data.start_of_episode),
        extras={**data.extras, "core_state": (tf.zeros_like(data.extras["core_state"][0]),)},
    )

    def losses_and_gradients(data, mask):
        model = model_of(BASE)
        learner = make_learner(BASE, model, iter([]), mask_episode_ends=mask)
        gradients, result = learner._gradients(data)
        transitions = data.reward.shape[1] - 1
        scale = lambda x: np.asarray(x) * transitions
        return tree.map_structure(scale, (result.losses, gradients))

    joined = losses_and_gradients(part(0, rows), True)
    first = losses_and_gradients(part(0, cut), False)
    second = losses_and_gradients(fresh(part(cut, rows)), False)
    together = tree.map_structure(np.add, first, second)
    for a, b in zip(tree.flatten(joined), tree.flatten(together)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    plain = losses_and_gradients(part(0, rows), False)
    assert not np.allclose(plain[0]["network"], joined[0]["network"], rtol=1e-3)


@pytest.mark.parametrize("kind", [tf.distribute.MirroredStrategy, snt.distribute.Replicator])
def test_two_replicas_equal_one(kind):
    """Three updates; networks made in our scope, or by the learner."""
    strategy = strategies.mirrored(kind)
    with distribute.scope(strategy):
        model = model_of(BASE)
    learner = make_learner(
        BASE, model, iter(golden_rnn.batches(BASE)), accelerator_strategy=strategy
    )
    for k in range(1, 4):
        metrics = learner.step()
        for name, value in BASE.under(f"out.step{k}.metrics").items():
            golden_cases.assert_close(metrics[name], value, rtol=1e-4, atol=1e-5)
    for name, value in BASE.under("out.step3.online").items():
        golden_cases.assert_close(model.variables[name], value, rtol=1e-5, atol=1e-5)
