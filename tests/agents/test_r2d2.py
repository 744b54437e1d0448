"""The R2D2 agent's policy and replay, and how all of it trains together."""

from __future__ import annotations

import csv
import dataclasses
import importlib.util
import threading

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tree

from tests.agents import r2d2_parts
from tfagents_x import environments, replay
from tfagents_x.agents import evaluation, playing, policies, run_directory
from tfagents_x.agents.r2d2 import R2D2Builder, R2D2Config
from tfagents_x.environments import loop
from tfagents_x.learners.r2d2 import R2D2Learner
from tfagents_x.replay import factory
from tfagents_x.utils import loggers

OBSERVATIONS = np.random.default_rng(0).normal(size=[400, 2]).astype(np.float32)


@pytest.fixture(scope="module")
def parts():
    builder = r2d2_parts.make_builder(epsilon=0.4, evaluation_epsilon=0.1)
    return builder, builder.make_networks()


def act(policy, seed=(0, 0), observations=OBSERVATIONS):
    return policy(observations, policy.initial_state(len(observations)), tf.constant(seed))


def decided(network):
    """Observations with one best action, and which that is: units of a tiny head may all be 0."""
    values, _ = network(OBSERVATIONS, network.initial_state(400))
    chosen = np.ptp(values, axis=-1) > 0
    assert np.sum(chosen) > 200
    return OBSERVATIONS[chosen], np.argmax(values, -1)[chosen]


def test_random_actions_are_as_frequent_as_told(parts):
    builder, made = parts
    network = made["network"]
    observations, best = decided(network)
    for evaluated, epsilon in ((False, 0.4), (True, 0.1)):
        policy = builder.make_policy(made, evaluation=evaluated)
        actions = [act(policy, (0, i), observations).action.numpy() for i in range(20)]
        # Half of the random actions are the best one.
        assert abs(np.mean(actions != best) - epsilon / 2) < 0.03
    greedy = policies.RecurrentEpsilonGreedyPolicy(network)
    np.testing.assert_array_equal(act(greedy, observations=observations).action, best)


def test_actions_of_equal_value_have_equal_chances():
    policy = policies.RecurrentEpsilonGreedyPolicy(snt.DeepRNN([lambda x: tf.zeros([400, 2])]))
    actions = act(policy).action
    assert 0.35 < np.mean(actions) < 0.65


def test_actions_depend_on_the_seed_only(parts):
    builder, made = parts
    policy = builder.make_policy(made)
    first, again, other = (act(policy, s).action.numpy() for s in ((1, 2), (1, 2), (1, 3)))
    np.testing.assert_array_equal(first, again)
    assert first.dtype == np.int32 and np.any(first != other)


def test_the_state_before_the_step_is_recorded(parts):
    builder, made = parts
    policy = builder.make_policy(made)
    first = act(policy)
    second = policy(OBSERVATIONS, first.state, tf.constant([0, 1]))
    tree.map_structure(np.testing.assert_array_equal, second.extras["core_state"], first.state)
    assert set(second.extras) == {"core_state"}


def collect(builder, environment, episodes):
    """All that a prioritised replay got of some episodes: info and data of one batch each."""
    made = builder.make_networks()
    store = factory.make_replay(
        builder.make_tables(), builder.signature(made), backend="in_process"
    )
    sampled = []
    batches = store.iterator(builder.table.name, builder.batch_size, timeout=0)

    def on_step(timestep):
        while store.can_sample(builder.table.name, builder.batch_size):
            sampled.append(next(batches))

    actor = builder.make_actor(builder.make_policy(made), builder.make_adder(store))
    loop.EnvironmentLoop(
        environment, actor, logger=loggers.NoOpLogger(), episode_seed=0, on_step=on_step
    ).run(num_episodes=episodes)
    store.close()
    return tree.map_structure(lambda *x: np.concatenate(x), *sampled)


def hold_what_was_played(data):
    """The state that is recorded is the one before the step; reward 1 follows every action."""
    hidden = data.extras["core_state"][0].hidden
    assert not hidden[data.start_of_episode].any()
    acted = data.reward == 1
    # All units of a tiny network may be 0, but not always.
    assert np.mean(hidden[acted & ~data.start_of_episode].any(-1)) > 0.5
    assert acted[data.start_of_episode].all()


def test_sequences_go_on_in_the_next_episode():
    builder = r2d2_parts.make_builder(updates_per_step=4.0)
    sample = collect(builder, r2d2_parts.make_environment(), episodes=10)
    data = sample.data
    assert data.observation.shape[1:] == (7, 2) and np.all(sample.info.priority == 1.0)
    hold_what_was_played(data)
    assert data.observation.any(-1).all()  # No padding.
    item, start = np.nonzero(data.start_of_episode[:, 2:])
    assert len(item) > 5
    # Before it is the last observation, whose outcome is zeros, and before that CartPole fell.
    for leaf in (data.reward, data.discount, data.action):
        assert not leaf[item, start + 1].any()
    assert data.reward[item, start].all() and not data.discount[item, start].any()
    # They overlap: three of seven rows are new.
    rows = {tuple(x) for x in data.observation[:, 3:].reshape(len(data.reward), -1)}
    assert rows & {tuple(x) for x in data.observation[:, :4].reshape(len(data.reward), -1)}


def test_zeros_after_an_episode():
    builder = r2d2_parts.make_builder(updates_per_step=4.0, end_of_episode="zero_pad")
    data = collect(builder, r2d2_parts.make_environment(), episodes=10).data
    hold_what_was_played(data)
    # A sequence is of one episode; after its end there are zeros, of discount 0.
    assert not data.start_of_episode[:, 1:].any() and data.start_of_episode[:, 0].any()
    padding = ~data.observation.any(-1)
    assert padding.any() and not padding.all(1).any()
    for leaf in (data.reward, data.discount, data.action):
        assert not leaf[padding].any()
    # Zeros come last, and the row before them is the last observation, whose outcome is zeros.
    assert np.all(np.diff(padding.astype(int), axis=1) >= 0)
    last = np.argmax(padding, axis=1)[padding.any(1)] - 1
    assert not data.discount[padding.any(1), last].any()
    ends = last - 1
    assert not data.discount[padding.any(1), ends][ends >= 0].any()  # CartPole fell.


def test_images_stay_bytes_in_replay():
    builder = r2d2_parts.make_builder(r2d2_parts.oar(r2d2_parts.Pixels()))
    data = collect(builder, r2d2_parts.oar(r2d2_parts.Pixels()), episodes=6).data
    assert data.observation.observation.dtype == np.uint8
    assert data.observation.observation.shape[1:] == (7, 36, 36, 4)
    np.testing.assert_array_equal(data.observation.action[:, 1:7], data.action[:, :6])


@pytest.mark.parametrize(
    ("updates_per_step", "period", "end"), [(1.0, 1, "continue"), (0.25, 3, "zero_pad")]
)
def test_updates_keep_to_their_rate(tmp_path, updates_per_step, period, end):
    changes = dict(updates_per_step=updates_per_step, sequence_period=period, end_of_episode=end)
    run = r2d2_parts.make_training(tmp_path / "run", lstm_size=0, **changes)
    assert run.learner._mask_episode_ends == (end == "continue")
    summary = run.run(90)
    table = run._builder.table
    inserts, samples = run._replay._counts(table)[1:]
    run.close()
    assert samples == summary.updates * 2
    assert summary.updates > 10
    # What the limiter keeps to: each sequence stands for `period` steps.
    wanted = updates_per_step * period * (inserts - table.min_size)
    burst = updates_per_step * period + 1
    assert abs(summary.updates - wanted) <= 2 * burst + 1


class Slow:
    """A replay whose priorities arrive late."""

    def __init__(self, store, gate):
        self._store, self._gate = store, gate

    def __getattr__(self, name):
        return getattr(self._store, name)

    def update_priorities(self, *args):
        self._gate.wait(0.02)
        self._store.update_priorities(*args)


def run(path, seed=3, steps=100, resume=False):
    training = r2d2_parts.make_training(path, seed=seed, resume=resume)
    training.run(steps)
    priorities = training._replay._items[replay.DEFAULT_TABLE].state().priorities
    training.close()
    return list(training._returns), training.learner.save(), priorities


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run(tmp_path_factory.mktemp("whole"))


def test_the_seed_decides_also_after_resuming(tmp_path, whole):
    other = run(tmp_path / "other", seed=4, steps=50)
    run(tmp_path / "parts", steps=40)
    resumed = run(tmp_path / "parts", resume=True)
    assert whole[0] == resumed[0] and whole[0][:3] != other[0][:3]
    tree.map_structure(np.testing.assert_array_equal, whole[1:], resumed[1:])
    assert len(set(whole[2])) > 10  # Priorities came back.


def test_late_priorities_change_nothing(tmp_path, monkeypatch, whole):
    make = R2D2Builder.make_learner
    gate = threading.Event()

    def make_learner(self, made, dataset, replay=None, **options):
        return make(self, made, dataset, replay=Slow(replay, gate), **options)

    monkeypatch.setattr(R2D2Builder, "make_learner", make_learner)
    late = run(tmp_path / "late")
    tree.map_structure(np.testing.assert_array_equal, whole, late)


def _row(path):
    with open(path) as file:
        return list(csv.DictReader(file))[-1]


def test_a_run_evaluated_and_exported(tmp_path):
    directory = run_directory.RunDirectory(tmp_path / "run")
    config = dataclasses.asdict(R2D2Config(**r2d2_parts.TINY))
    spec = run_directory.RunSpec("r2d2", r2d2_parts.ENVIRONMENT, 0, "in_process", config)
    directory.create(spec)
    training = r2d2_parts.make_training(directory.path)
    training.run(100)
    training.close()
    assert np.isfinite(float(_row(directory.learner)["loss"]))
    with playing.opened(directory.path) as player:
        assert player.environment_spec.observations.shape == (2,)
    result = evaluation.evaluate(directory.path, 2)
    assert evaluation.evaluate(directory.path, 2).returns == result.returns
    loaded = tf.saved_model.load(str(directory.policy))
    observations, best = decided(training._networks["network"])
    state = loaded.initial_state(len(best))
    result = loaded.act(observations, state, tf.constant([0, 0]))
    np.testing.assert_array_equal(result["action"], best)


def test_trains_on_images(tmp_path):
    run = r2d2_parts.make_training(
        tmp_path / "run",
        r2d2_parts.oar(r2d2_parts.Pixels()),
        updates_per_step=0.1,
        max_abs_reward=1.0,
    )
    before = run.learner.get_variables(["network"])[0]
    summary = run.run(60)
    run.close()
    assert summary.updates > 2
    for old, new in zip(before, run.learner.get_variables(["network"])[0]):
        assert not np.array_equal(old, new) and np.isfinite(new).all()


@pytest.fixture
def batches(monkeypatch):
    """All samples that learners get."""
    seen = []
    split = R2D2Learner._split
    monkeypatch.setattr(
        R2D2Learner, "_split", lambda self, sample: (seen.append(sample), split(self, sample))[1]
    )
    return seen


@pytest.mark.skipif(not replay.reverb_available(), reason="Reverb is not installed")
def test_trains_with_reverb(tmp_path, batches):
    training = r2d2_parts.make_training(tmp_path / "run", replay="reverb")
    summary = training.run(200)
    training.close()
    assert summary.updates > 5 and training.learner.num_failed_priority_updates == 0
    priorities = np.concatenate([sample.info.priority for sample in batches])
    assert np.any(priorities == 1) and len(set(priorities)) > 3
    resumed = r2d2_parts.make_training(tmp_path / "run", replay="reverb", resume=True)
    assert resumed.run(300).updates > summary.updates
    resumed.close()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ale_py") is None, reason="ale_py is not installed")
def test_two_thousand_steps_of_pong(tmp_path, batches):
    environment = environments.make_environment("oar:atari:Pong")
    training = r2d2_parts.make_training(
        tmp_path / "run",
        environment,
        burn_in_length=4,
        trace_length=10,
        sequence_period=10,
        lstm_size=64,
        min_replay_size=20,
        max_replay_size=100,
        updates_per_step=0.02,
        max_abs_reward=1.0,
    )
    before = training.learner.get_variables(["network"])[0]
    summary = training.run(2000)
    training.close()
    assert summary.steps >= 2000 and summary.updates > 30 and summary.episodes >= 1
    images = batches[-1].data.observation.observation
    assert images.dtype == np.uint8 and images.shape == (2, 15, 84, 84, 4)
    assert len(np.unique(images)) > 3
    for old, new in zip(before, training.learner.get_variables(["network"])[0]):
        assert not np.array_equal(old, new) and np.isfinite(new).all()
