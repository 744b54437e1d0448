"""From a run to a dataset to a cloned policy, on the command line."""

from __future__ import annotations

import json

import pytest

from tests.agents import crr_parts
from tests.cli import faulty

RUN = ("train", "--agent", "impala", "--env", "faulty:", "--run", "run", "--steps", 20)
BC = ("train", "--agent", "bc", "--run", "bc", "--set", "batch_size=4", "--set", "hidden_sizes=4")
FEW = ("--set", "evaluation_period=3", "--set", "evaluation_episodes=1")


@pytest.fixture
def data(tmp_path):
    crr_parts.record(tmp_path / "data", 5, faulty.FaultyEnvironment(), "faulty:")


def test_record_train_resume_eval(command, tmp_path):
    assert command(*RUN, "--replay", "in_process", *faulty.SETTINGS).code == 0
    outcome = command("collect", "--run", "run", "--steps", 50, "--out", "data")
    assert outcome.code == 0, outcome.err
    outcome = command(*BC, *FEW, "--dataset", "data", "--steps", 4)
    assert outcome.code == 0, outcome.err
    assert "over the last episode after 4 updates (" in outcome.out
    config = json.loads((tmp_path / "bc/config.json").read_text())
    assert config["environment"] == "faulty:" and config["replay"] == "none"
    outcome = command("train", "--resume", "--run", "bc", "--steps", 6)
    assert outcome.code == 0 and "Resumed from bc/checkpoints/step-4: 4 updates." in outcome.out
    outcome = command("eval", "bc", "--episodes", 1)
    assert outcome.code == 0
    assert "1 episode with best actions, from bc/checkpoints/step-6" in outcome.out
    outcome = command("collect", "--run", "bc", "--steps", 1, "--out", "more")
    assert outcome.code == 0, outcome.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--dataset", "data", "--set", "loss=mse"), "The loss mse is not for discrete actions"),
        (("--dataset", "data", "--set", "loss=l2"), "loss"),
        (("--dataset", "data", "--env", "faulty:continuous"), "The actions of the dataset"),
        (("--dataset", "data", "--replay", "in_process"), "bc learns from recorded episodes and"),
        (("--dataset", "nothing"), "There is no dataset in nothing"),
        (("--env", "faulty:"), "bc learns from recorded episodes: give"),
    ],
)
def test_what_does_not_go_together(command, tmp_path, data, arguments, message):
    outcome = command(*BC, *arguments)
    assert outcome.code == 2
    (line,) = outcome.err.splitlines()
    assert line.startswith("Error: ") and message in line
    assert not (tmp_path / "bc").exists()


def test_crr_needs_continuous_actions(command, data):
    outcome = command("train", "--agent", "crr", "--dataset", "data", "--run", "crr")
    assert outcome.code == 2 and "CRR needs continuous actions" in outcome.err
