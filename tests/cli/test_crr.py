"""From a run to a dataset to an offline agent, on the command line."""

from __future__ import annotations

import json
import signal

import pytest

from tests.cli import faulty
from tests.cli.test_svg0 import SETTINGS as SVG0_SETTINGS
from tests.cli.test_svg0 import TRAIN
from tfagents_x.agents import offline_training

TINY = {
    "batch_size": 2,
    "sequence_length": 3,
    "policy_layer_sizes": 8,
    "critic_layer_sizes": 8,
    "lstm_size": 4,
    "evaluation_period": 3,
    "evaluation_episodes": 1,
}
SETTINGS = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}")]
CRR = ("train", "--agent", "crr", "--dataset", "data", "--run", "crr", *SETTINGS)


@pytest.fixture
def recorded(command):
    assert command(*TRAIN, "--run", "svg0", "--steps", 30, *SVG0_SETTINGS).code == 0
    outcome = command("collect", "--run", "svg0", "--steps", 300, "--out", "data")
    assert outcome.code == 0
    assert "Recorded 2 episodes, 400 steps, mean return -" in outcome.out
    assert "data holds 2 episodes, 400 steps." in outcome.out


def test_record_train_resume_eval(command, tmp_path, recorded):
    outcome = command(*CRR, "--steps", 4)
    assert outcome.code == 0, outcome.err
    assert "over the last episode after 4 updates (" in outcome.out
    assert "0/4 updates" in outcome.out or "4/4 updates" in outcome.out
    config = json.loads((tmp_path / "crr/config.json").read_text())
    assert config["dataset"] == str(tmp_path / "data") and config["environment"] == "Pendulum-v1"
    assert config["replay"] == "none" and config["steps"] == 4
    assert config["config"]["value_min"] < config["config"]["value_max"]
    assert (tmp_path / "crr/learning_curve.png").stat().st_size > 10_000
    outcome = command("train", "--resume", "--run", "crr", "--steps", 6)
    assert outcome.code == 0
    assert "Resumed from crr/checkpoints/step-4: 4 updates." in outcome.out
    outcome = command("train", "--resume", "--run", "crr")
    assert outcome.code == 0 and "has done 6 updates, 6 are wanted" in outcome.out
    for policy, said in (("policy", "best actions"), ("cwp", "policy cwp")):
        outcome = command("eval", "crr", "--episodes", 1, "--policy", policy)
        assert outcome.code == 0
        assert f"1 episode with {said}, from crr/checkpoints/step-6" in outcome.out
    outcome = command("collect", "--run", "crr", "--policy", "cwp", "--steps", 1, "--out", "more")
    assert outcome.code == 0 and "more holds 1 episode, 200 steps." in outcome.out


def test_a_dataset_that_was_moved_or_changed(command, tmp_path, recorded):
    assert command(*CRR, "--steps", 2).code == 0
    (tmp_path / "data").rename(tmp_path / "moved")
    resume = ("train", "--resume", "--run", "crr", "--steps", 3)
    outcome = command(*resume)
    assert outcome.code == 2 and "There is no dataset in" in outcome.err
    assert command(*resume, "--dataset", "moved").code == 0
    collect = ("collect", "--run", "svg0", "--steps", 1, "--out", "moved")
    assert command(*collect).code == 2
    assert command(*collect, "--append").code == 0
    outcome = command(*resume[:-1], 4, "--dataset", "moved")
    assert outcome.code == 2 and "The dataset has changed" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--agent", "crr", "--env", "Pendulum-v1"), "crr learns from recorded episodes: give"),
        (("--agent", "crr", "--dataset", "nothing"), "There is no dataset in nothing"),
        (("--agent", "svg0", "--env", "Pendulum-v1", "--dataset", "x"), "--dataset is for agents"),
        (("--agent", "svg0"), "A new run needs --agent and --env"),
        (("--env", "Pendulum-v1"), "A new run needs --agent"),
        (
            ("--agent", "crr", "--dataset", "x", "--replay", "in_process"),
            "crr learns from recorded episodes and has no replay",
        ),
    ],
)
def test_what_does_not_go_together(command, tmp_path, arguments, message):
    outcome = command("train", *arguments)
    assert outcome.code == 2
    (line,) = outcome.err.splitlines()
    assert line.startswith(f"Error: {message}")
    assert list(tmp_path.iterdir()) == []


def test_another_environment_than_the_recorded_one(command, tmp_path, recorded):
    outcome = command(*CRR, "--env", "faulty:continuous")
    assert outcome.code == 2
    assert "The observations of the dataset" in outcome.err and "Pendulum-v1." in outcome.err
    assert not (tmp_path / "crr").exists()


def test_a_signal_saves_and_stops(command, tmp_path, recorded, monkeypatch):
    update = offline_training.OfflineTraining._update

    def interrupted(self):
        update(self)
        if self.steps == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(offline_training.OfflineTraining, "_update", interrupted)
    outcome = command(*CRR, "--steps", 100)
    assert outcome.code == 130
    assert "Interrupted: mean return" in outcome.out.splitlines()[-1]
    assert "after 4 updates (" in outcome.out.splitlines()[-1]


def test_a_signal_keeps_the_episodes_that_have_ended(command, tmp_path, monkeypatch):
    assert faulty  # Registers the environment.
    train = ("train", "--agent", "impala", "--env", "faulty:", "--replay", "in_process")
    assert command(*train, *faulty.SETTINGS, "--run", "run", "--steps", 20).code == 0
    step, seen = faulty.FaultyEnvironment.step, []

    def interrupted(self, action):
        seen.append(action)
        if len(seen) == 50:
            signal.raise_signal(signal.SIGTERM)
        return step(self, action)

    monkeypatch.setattr(faulty.FaultyEnvironment, "step", interrupted)
    outcome = command("collect", "--run", "run", "--steps", 10_000, "--out", "data")
    assert outcome.code == 143
    assert outcome.out.splitlines()[-1].startswith("Interrupted; recorded ")
    content = json.loads((tmp_path / "data/dataset.json").read_text())
    assert 40 < content["steps"] <= 50
