"""R2D2 from the command line; what it promises of a task that needs memory is a slow test."""

from __future__ import annotations

import json
import re

import pytest
import tensorflow as tf

TRAIN = ("train", "--agent", "r2d2", "--env", "only:0,2:CartPole-v1", "--replay", "in_process")
TINY = {
    "batch_size": 2,
    "burn_in_length": 2,
    "trace_length": 4,
    "sequence_period": 5,
    "min_replay_size": 10,
    "updates_per_step": 0.1,
    "hidden_sizes": 8,
    "lstm_size": 4,
    "head_sizes": 8,
}
SETTINGS = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}")]


def test_train_resume_eval_and_collect(command, tmp_path):
    outcome = command(*TRAIN, "--run", "run", "--steps", 100, *SETTINGS)
    assert outcome.code == 0 and "Done: mean return" in outcome.out
    run = tmp_path / "run"
    recorded = json.loads((run / "config.json").read_text())
    assert recorded["environment"] == "only:0,2:CartPole-v1" and (run / "policy").is_dir()
    policy = tf.saved_model.load(str(run / "policy"))
    out = policy.act(tf.ones([3, 2]), policy.initial_state(3), tf.constant([1, 2]))
    assert out["action"].shape == [3]
    outcome = command("train", "--resume", "--run", "run", "--steps", 150)
    assert outcome.code == 0 and "Resumed from run/checkpoints/step-1" in outcome.out
    outcome = command("eval", "run", "--episodes", 2)
    assert outcome.code == 0 and "2 episodes with best actions" in outcome.out
    outcome = command("collect", "--run", "run", "--steps", 20, "--out", "data")
    assert outcome.code == 0


def test_the_name_of_the_run_says_what_is_shown(command, tmp_path):
    outcome = command(*TRAIN, "--steps", 1, *SETTINGS)
    assert outcome.code == 0
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name.startswith("r2d2-only-0-2-CartPole-v1-")


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("Pendulum-v1", "R2D2 needs one discrete action"),
        ("only:0,9:CartPole-v1", "only:0,9:CartPole-v1: The observation is a vector of 4"),
        ("only:CartPole-v1", "as in 'only:0,2:CartPole-v1'"),
    ],
)
def test_what_does_not_fit_is_refused(command, env, message):
    outcome = command("train", "--agent", "r2d2", "--env", env, "--run", "run")
    assert outcome.code == 2 and message in outcome.err and outcome.err.count("\n") == 1


def evaluated(command, *settings):
    """The mean return of 20 episodes with the best actions, after training."""
    assert command(*TRAIN, "--run", "run", *settings).code == 0
    outcome = command("eval", "run", "--episodes", 20)
    (mean,) = re.findall(r"return\W+([\d,.]+)", outcome.out)
    return float(mean.replace(",", ""))


@pytest.mark.slow
def test_learns_what_needs_memory_with_default_settings(command):
    assert evaluated(command) >= 300


@pytest.mark.slow
def test_a_network_without_memory_stays_below(command):
    assert evaluated(command, "--set", "lstm_size=0", "--steps", 20_000) < 100
