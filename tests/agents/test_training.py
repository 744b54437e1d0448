"""The training loop: what it leaves, stopping and going on, starving, failing."""

from __future__ import annotations

import csv
import dataclasses

import dm_env
import numpy as np
import pytest
import tensorflow as tf
import tree

from tests.agents import impala_parts
from tfagents_x import specs
from tfagents_x.agents import online_training, training
from tfagents_x.environments import gymnasium_wrapper


def rows(path):
    with open(path) as file:
        return list(csv.DictReader(file))


class Recorder(training.Observer):
    """Keeps what it is told; may ask the run to stop after some steps."""

    def __init__(self, stop_at=None, grace=60.0):
        self.returns, self.losses, self.messages, self.checkpoints = [], [], [], []
        self._stop_at, self._grace, self._training = stop_at, grace, None

    def on_start(self, training):
        self._training = training

    def on_step(self, steps):
        if steps == self._stop_at:
            self._training.request_stop(self._grace)

    def on_update(self, updates, metrics):
        self.losses.append(float(metrics["loss"]))

    def on_episode(self, result):
        self.returns.append(result["episode_return"])

    def on_checkpoint(self, path):
        self.checkpoints.append(path)

    def on_message(self, message):
        self.messages.append(message)


def run(path, steps=400, **kwargs):
    observer = kwargs.pop("observer", None) or Recorder()
    train = impala_parts.make_training(path, observer=observer, **kwargs)
    summary = train.run(steps)
    train.close()
    return observer, summary, train.learner.save()


def test_leaves_what_it_promises(tmp_path):
    observer, summary, _ = run(tmp_path / "run")
    path = tmp_path / "run"
    assert summary.steps >= 400 and summary.updates == len(observer.losses) > 10
    assert summary.episodes == len(observer.returns) == len(rows(path / "metrics/episodes.csv"))
    assert summary.mean_return == pytest.approx(np.mean(observer.returns[-20:]))
    learner = rows(path / "metrics/learner.csv")[-1]
    assert {"loss", "entropy", "param_norm", "learner_steps", "actor_steps"} <= set(learner)
    assert list((path / "tensorboard").rglob("events*"))
    loaded = tf.saved_model.load(str(path / "policy"))
    result = loaded.act(tf.zeros([5, 4]), loaded.initial_state(5), tf.constant([0, 0]))
    assert result["action"].shape == (5,)


def test_equal_seeds_make_equal_runs(tmp_path):
    first, second, other = (run(tmp_path / n, seed=s) for n, s in (("a", 3), ("b", 3), ("c", 4)))
    assert first[0].losses == second[0].losses and first[0].returns == second[0].returns
    assert first[0].returns != other[0].returns


def test_stopped_and_resumed_equals_uninterrupted(tmp_path):
    whole, summary, state = run(tmp_path / "whole", steps=600)
    first, stopped, _ = run(tmp_path / "parts", steps=600, observer=Recorder(stop_at=250))
    assert stopped.steps < summary.steps
    second, resumed, end = run(tmp_path / "parts", steps=600, resume=True)
    assert "Resumed" in second.messages[0]
    assert first.returns + second.returns == whole.returns
    assert first.losses + second.losses == whole.losses
    tree.map_structure(np.testing.assert_array_equal, end, state)
    plain = lambda s: {k: v for k, v in dataclasses.asdict(s).items() if k != "seconds"}
    assert plain(resumed) == plain(summary)
    column = lambda name: [
        row["episode_return"] for row in rows(tmp_path / name / "metrics/episodes.csv")
    ]
    assert column("parts") == column("whole")


def test_a_broken_off_episode_is_run_again(tmp_path):
    observer = Recorder(stop_at=250, grace=0.0)
    first, stopped, _ = run(tmp_path / "run", steps=600, observer=observer)
    assert stopped.steps == 250 and stopped.episodes == len(first.returns)
    assert any("Broke off" in m for m in first.messages)
    second, resumed, _ = run(tmp_path / "run", steps=600, resume=True)
    assert resumed.episodes == len(first.returns) + len(second.returns)
    assert resumed.steps >= 600 and resumed.updates > stopped.updates
    # Nothing that was logged before is lost.
    steps = [int(row["actor_steps"]) for row in rows(tmp_path / "run/metrics/learner.csv")]
    assert steps == sorted(steps) and steps[0] < 250


def test_an_episode_that_never_ends(tmp_path, monkeypatch):
    """The run stops all the same, and its checkpoints don't wait."""
    monkeypatch.setattr(online_training, "_LONG_EPISODE_SECONDS", 0.0)
    observer, summary, _ = run(
        tmp_path / "run", steps=100, environment=Environment(10**9), checkpoint_seconds=0.1
    )
    assert summary.steps == 1100 and summary.episodes == 0 and np.isnan(summary.mean_return)
    inside = [p for p in observer.checkpoints if 0 < int(p.name[5:]) < 1100]
    assert inside
    second, resumed, _ = run(
        tmp_path / "run", steps=1200, environment=Environment(10**9), resume=True
    )
    assert "1100 steps" in second.messages[0]
    assert resumed.steps == 2200 and resumed.updates > summary.updates


def damage(checkpoint):
    file = checkpoint / "training.npz"
    file.write_bytes(file.read_bytes()[:-100])


def test_a_damaged_checkpoint_is_passed_over(tmp_path):
    _, stopped, _ = run(tmp_path / "run", steps=100)
    run(tmp_path / "run", steps=300, resume=True)
    damage(sorted((tmp_path / "run/checkpoints").glob("step-*"), key=lambda p: int(p.name[5:]))[-1])
    second, resumed, _ = run(tmp_path / "run", steps=300, resume=True)
    assert any("is damaged" in m for m in second.messages)
    assert any(f"{stopped.steps} steps" in m for m in second.messages)
    assert resumed.steps >= 300
    episodes = rows(tmp_path / "run/metrics/episodes.csv")
    assert len(episodes) == resumed.episodes


def test_resume_without_a_checkpoint_starts_anew(tmp_path):
    observer, summary, _ = run(tmp_path / "run", steps=50, resume=True)
    assert any("no checkpoint yet" in m for m in observer.messages)
    assert summary.steps >= 50


class Environment(dm_env.Environment):
    """Episodes of fixed length; a reward may be poisoned."""

    def __init__(self, length, bad_step=None, value=np.nan):
        self._length, self._bad, self._value = length, bad_step, value
        self._t = self._total = 0

    def seed_episode(self, seed):
        pass

    def _observation(self):
        return np.full([2], self._t, np.float32)

    def reset(self):
        self._t = 0
        return dm_env.restart(self._observation())

    def step(self, action):
        self._t, self._total = self._t + 1, self._total + 1
        reward = self._value if self._total == self._bad else 1.0
        if self._t == self._length:
            return dm_env.termination(reward, self._observation())
        return dm_env.transition(reward, self._observation())

    def observation_spec(self):
        return specs.Array((2,), np.float32)

    def action_spec(self):
        return specs.DiscreteArray(2)


def test_a_nan_reward_names_step_and_episode(tmp_path):
    with pytest.raises(ValueError, match="reward.*nan"):
        run(tmp_path / "run", environment=Environment(10, bad_step=25))


def test_a_loss_that_is_not_finite_names_step_metric_and_checkpoint(tmp_path):
    # Finite, but its square is not.
    with pytest.raises(training.TrainingError) as caught:
        run(tmp_path / "run", environment=Environment(10, bad_step=25, value=1e30))
    message = str(caught.value)
    assert "Update" in message and "loss = inf" in message and "step-0" in message
    assert (tmp_path / "run/checkpoints/step-0").is_dir()


def test_starving_is_reported_instead_of_waiting(tmp_path, monkeypatch):
    train = impala_parts.make_training(tmp_path / "run", environment=Environment(10))
    for method in ("add_first", "add"):
        monkeypatch.setattr(train._adder, method, lambda *args, **kwargs: None)
    with pytest.raises(training.TrainingError, match="No batch after .* holds 0 items"):
        train.run(100_000)
    train.close()


def test_gymnasium_truncation_reaches_the_learner_as_discount_one():
    """The environment's time limit must not look like a failure."""
    import gymnasium

    environment = gymnasium_wrapper.GymnasiumWrapper(
        gymnasium.make("CartPole-v1", max_episode_steps=3)
    )
    timestep = environment.reset()
    while not timestep.last():
        timestep = environment.step(np.int32(0))
    assert timestep.discount == 1.0
