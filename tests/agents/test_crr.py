"""The CRR agent and offline training: what is learned, shown, saved, and gone on with."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import tensorflow as tf
import tree

from tests.agents import crr_parts, svg0_parts
from tfagents_x import datasets, specs, types
from tfagents_x.agents import training
from tfagents_x.agents.crr import CRRBuilder, CRRConfig, make_networks


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return crr_parts.record(tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def _every_update_is_logged(monkeypatch):
    monkeypatch.setattr(training.loggers, "TimeFilter", lambda to, seconds: to)


class Recorder(training.Observer):
    def __init__(self, stop_at=None, grace=60.0):
        self.losses, self.returns, self.messages = [], [], []
        self._stop_at, self._grace = stop_at, grace

    def on_start(self, training):
        self._training = training

    def on_step(self, steps):
        if steps == self._stop_at:
            self._training.request_stop(self._grace)

    def on_update(self, updates, metrics):
        self.losses.append(float(metrics["critic_loss"]))

    def on_episode(self, result):
        self.returns.append((result["learner_steps"], result["episode_return"]))

    def on_message(self, message):
        self.messages.append(message)


def run(path, rows, updates=11, observer=None, **kwargs):
    observer = observer or Recorder()
    train = crr_parts.make_training(path, rows, observer=observer, **kwargs)
    summary = train.run(updates)
    train.close()
    return observer, summary, train.learner.save()


def table(path):
    with open(path) as file:
        return list(csv.DictReader(file))


def test_leaves_what_it_promises(tmp_path, rows):
    observer, summary, _ = run(tmp_path / "run", rows)
    assert (summary.steps, summary.updates, summary.unit) == (11, 11, "update")
    # Evaluated every 4 updates and at the end, twice each.
    assert [step for step, _ in observer.returns] == [4, 4, 8, 8, 11, 11]
    assert summary.episodes == 6 and summary.window == 2
    assert summary.mean_return == pytest.approx(np.mean([r for _, r in observer.returns[-2:]]))
    learner = table(tmp_path / "run/metrics/learner.csv")
    assert [int(row["learner_steps"]) for row in learner] == list(range(1, 12))
    assert {"critic_loss", "policy_loss", "policy_loss_coef"} <= set(learner[0])
    episodes = table(tmp_path / "run/metrics/episodes.csv")
    assert [int(row["learner_steps"]) for row in episodes] == [4, 4, 8, 8, 11, 11]
    assert [int(row["actor_episodes"]) for row in episodes] == list(range(1, 7))
    loaded = tf.saved_model.load(str(tmp_path / "run/policy"))
    observation = {"place": tf.zeros([3]), "velocity": tf.zeros([3, 2])}
    result = loaded.act(observation, loaded.initial_state(3), tf.constant([0, 0]))
    assert result["action"].shape == (3, 2)
    assert tree.flatten(result["state"])[0].shape == (3, 4)


@pytest.mark.parametrize("stop_at", [3, 4, 6])
def test_stopped_and_resumed_equals_uninterrupted(tmp_path, rows, stop_at):
    whole, summary, state = run(tmp_path / "whole", rows, seed=1)
    first, stopped, _ = run(tmp_path / "parts", rows, observer=Recorder(stop_at), seed=1)
    assert stopped.steps == stop_at
    second, resumed, end = run(tmp_path / "parts", rows, resume=True, seed=1)
    assert f"{stop_at} updates" in second.messages[0]
    assert first.losses + second.losses == whole.losses
    assert first.returns + second.returns == whole.returns
    assert resumed.mean_return == summary.mean_return and resumed.episodes == summary.episodes
    tree.map_structure(np.testing.assert_array_equal, end, state)
    for name in ("episodes", "learner"):
        column = "episode_return" if name == "episodes" else "policy_loss"
        found, wanted = (
            [row[column] for row in table(tmp_path / part / f"metrics/{name}.csv")]
            for part in ("parts", "whole")
        )
        assert found == wanted


class StopsInside(svg0_parts.Sled):
    """Asks the training to stop in its third step, without grace."""

    training = None

    def step(self, action):
        if len(self.actions) == 2 and self.training is not None:
            self.training.request_stop(-1.0)
        return super().step(action)


def test_an_evaluation_that_is_broken_off_is_done_again(tmp_path, rows):
    whole, _, _ = run(tmp_path / "whole", rows)
    environment, first = StopsInside(), Recorder()
    train = crr_parts.make_training(
        tmp_path / "parts", rows, environment=environment, observer=first
    )
    environment.training = train
    summary = train.run(11)
    train.close()
    assert summary.steps == 4 and first.returns == [] and summary.episodes == 0
    assert any("Broke off an evaluation" in m for m in first.messages)
    second, _, _ = run(tmp_path / "parts", rows, resume=True)
    assert second.returns == whole.returns


def test_without_an_environment(tmp_path, rows):
    observer, summary, _ = run(tmp_path / "run", rows, environment=None)
    assert len(observer.losses) == 11 and observer.returns == []
    assert np.isnan(summary.mean_return)


def test_seeds(tmp_path, rows):
    first, same, other = (
        run(tmp_path / name, rows, updates=4, seed=seed)[0]
        for name, seed in (("a", 3), ("b", 3), ("c", 4))
    )
    assert first.losses == same.losses and first.returns == same.returns
    assert first.losses != other.losses and first.returns != other.returns


def test_another_dataset_is_refused(tmp_path, rows):
    run(tmp_path / "run", rows, updates=2)
    with pytest.raises(ValueError, match="dataset has changed"):
        crr_parts.make_training(tmp_path / "run", rows, fingerprint="b", resume=True)


def test_a_loss_that_is_not_finite(tmp_path, rows):
    wrong = rows._replace(action=np.full_like(rows.action, np.nan))
    train = crr_parts.make_training(tmp_path / "run", wrong)
    with pytest.raises(training.TrainingError, match=r"Stopped after \d+ updates; .*step-0"):
        train.run(20)
    train.close()


# The builder.


def test_the_support_covers_the_returns(rows):
    config = CRRBuilder.fit(CRRConfig(discount=0.5), rows)
    returns = []
    for first in np.flatnonzero(rows.start_of_episode):
        value = 0.0
        for t in reversed(range(first, first + 10)):
            value = rows.reward[t] + 0.5 * value
            returns.append(value)
    low, high = min(0.0, *returns), max(0.0, *returns)
    assert config.value_min == pytest.approx(low - 0.1 * (high - low), rel=1e-5)
    assert config.value_max == pytest.approx(high + 0.1 * (high - low), rel=1e-5)
    fixed = CRRBuilder.fit(CRRConfig(value_min=-3.0, value_max=2.0), rows)
    assert (fixed.value_min, fixed.value_max) == (-3.0, 2.0)


def test_rewards_of_zero_still_make_a_support(rows):
    config = CRRBuilder.fit(CRRConfig(), rows._replace(reward=0 * rows.reward))
    assert config.value_min < 0 < config.value_max


def test_targets_begin_like_the_online_networks(rows):
    networks = crr_parts.make_builder(rows).make_networks()
    assert set(networks) == {"policy", "critic", "target_policy", "target_critic"}
    for name in ("policy", "critic"):
        for a, b in zip(networks[name].variables, networks[f"target_{name}"].variables):
            np.testing.assert_array_equal(a, b)


def act(builder, networks, name, seed, steps=3, **kwargs):
    policy = builder.make_policy(networks, name=name, **kwargs)
    actor = builder.make_actor(policy, seed=seed)
    sled = svg0_parts.Sled()
    sled.seed_episode(0)
    timestep = sled.reset()
    actor.observe_first(timestep)
    return np.stack([actor.select_action(timestep.observation) for _ in range(steps)])


@pytest.mark.parametrize("name", ["policy", "cwp"])
def test_both_policies_act_from_their_seed(rows, name):
    builder = crr_parts.make_builder(rows)
    networks = builder.make_networks()
    first, same, other = (act(builder, networks, name, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)
    assert np.all(first >= -1) and np.all(first <= 3) and first.dtype == np.float32
    assert set(builder.make_policy(networks, name=name).networks) == (
        {"policy"} if name == "policy" else {"policy", "critic"}
    )


def test_the_mean_acts_in_an_evaluation(rows):
    builder = crr_parts.make_builder(rows)
    networks = builder.make_networks()
    first, other = (act(builder, networks, "policy", seed, evaluation=True) for seed in (1, 2))
    np.testing.assert_array_equal(first, other)


def test_the_critic_chooses(rows):
    """Its sharp choice of 64 actions is worth more than the policy's own."""
    builder = crr_parts.make_builder(rows, cwp_beta=1e-4, cwp_num_action_samples=64)
    networks = builder.make_networks()
    sled = svg0_parts.Sled()
    sled.seed_episode(0)
    observation = tree.map_structure(lambda x: x[np.newaxis], sled.reset().observation)

    def value(name, seed):
        actions = act(builder, networks, name, seed, steps=1)
        critic = networks["critic"]
        return float(critic(observation, actions, critic.initial_state(1))[0].mean()[0])

    policy = [value("policy", seed) for seed in range(8)]
    chosen = [value("cwp", seed) for seed in range(8)]
    assert np.min(chosen) > np.median(policy)


def test_an_unknown_policy(rows):
    with pytest.raises(ValueError, match="no policy 'best'; it has: policy, cwp"):
        crr_parts.make_builder(rows).check_policy("best")


def test_too_few_rows(rows):
    short = tree.map_structure(lambda x: x[:3], rows)
    with pytest.raises(ValueError, match="There are no 4 rows"):
        crr_parts.make_builder(rows).make_batches(short, 0)


def test_sequences_are_those_of_the_config(rows):
    batches = crr_parts.make_builder(rows).make_batches(rows, 0)
    assert isinstance(batches, datasets.Sequences) and isinstance(next(batches), types.Step)
    assert next(batches).reward.shape == (4, 4) and batches.size == 18


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(batch_size=0), "batch_size must be at least 1"),
        (dict(sequence_length=1), "sequence_length must be at least 2"),
        (dict(discount=1.1), r"discount must be in \[0, 1\]"),
        (dict(beta=0.0), "beta must be positive"),
        (dict(min_scale=-1.0), "min_scale must be at least 0"),
        (dict(policy_layer_sizes=()), "policy_layer_sizes must be one or more"),
        (dict(value_min=float("nan")), "value_min must be finite"),
        (dict(value_min=1.0, value_max=1.0), "value_min must be less than value_max"),
    ],
)
def test_bad_settings(changes, message):
    with pytest.raises(ValueError, match=message):
        CRRConfig(**changes)


def test_discrete_actions():
    spec = specs.make_environment_spec(svg0_parts.Sled())
    config = CRRConfig(value_min=0.0, value_max=1.0)
    with pytest.raises(ValueError, match="CRR needs continuous actions"):
        make_networks(spec._replace(actions=specs.DiscreteArray(2)), config)
    with pytest.raises(ValueError, match="value_min and value_max must be set"):
        make_networks(spec, CRRConfig())
