"""SVG0 from the command line; what it promises of Pendulum-v1 is a slow test."""

from __future__ import annotations

import contextlib
import json
import re

import pytest
import tensorflow as tf

from tfagents_x.agents.svg0 import SVG0Builder
from tfagents_x.cli import session

TRAIN = ("train", "--agent", "svg0", "--env", "Pendulum-v1", "--replay", "in_process")
TINY = {
    "batch_size": 2,
    "min_replay_size": 10,
    "updates_per_step": 0.1,
    "policy_layer_sizes": 8,
    "critic_layer_sizes": 8,
}
SETTINGS = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}")]


def test_train_resume_and_eval(command, tmp_path):
    outcome = command(*TRAIN, "--run", "run", "--steps", 30, *SETTINGS)
    assert outcome.code == 0
    assert "Done: mean return" in outcome.out and "after 200 steps (" in outcome.out
    run = tmp_path / "run"
    assert json.loads((run / "config.json").read_text())["agent"] == "svg0"
    assert (run / "learning_curve.png").exists()
    policy = tf.saved_model.load(str(run / "policy"))
    out = policy.act(tf.ones([3, 3]), policy.initial_state(3), tf.constant([1, 2]))
    assert out["action"].shape == [3, 1]
    outcome = command("train", "--resume", "--run", "run", "--steps", 300)
    assert outcome.code == 0
    assert "Resumed from run/checkpoints/step-200: 200 steps." in outcome.out
    outcome = command("eval", "run", "--episodes", 2)
    assert outcome.code == 0
    assert "2 episodes with best actions, from run/checkpoints/step-400" in outcome.out


def test_the_agent_has_its_own_number_of_steps(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = session.TrainOptions(agent="svg0", env="Pendulum-v1", run="run")
    with contextlib.ExitStack() as held:
        plan = session._new_plan(options, held)
    assert plan.steps == SVG0Builder.default_steps < 150_000
    assert json.loads((tmp_path / "run/config.json").read_text())["steps"] == plan.steps


def test_discrete_actions_are_refused(command):
    outcome = command("train", "--agent", "svg0", "--env", "CartPole-v1", "--run", "run")
    assert outcome.code == 2
    assert outcome.err.startswith("Error: SVG0 needs continuous actions")
    assert outcome.err.count("\n") == 1


@pytest.mark.slow
def test_learns_pendulum_with_default_settings(command):
    outcome = command(*TRAIN, "--run", "run")
    assert outcome.code == 0
    (mean,) = re.findall(r"Done: mean return (-[\d,.]+) over the last 20", outcome.out)
    assert float(mean.replace(",", "")) >= -250
