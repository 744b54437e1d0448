"""The commands, from their arguments to exit code, output and files."""

from __future__ import annotations

import datetime
import json
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf
from rich import console

import tfagents_x
from tests.cli.faulty import SETTINGS
from tfagents_x.agents import run_directory, training
from tfagents_x.agents.impala import IMPALAConfig
from tfagents_x.cli import app, display, plots, session
from tfagents_x.replay import factory

TRAIN = ("train", "--agent", "impala", "--replay", "in_process")


def _train(command, env="faulty:", *more, run="run", steps=60):
    return command(*TRAIN, "--env", env, "--run", run, "--steps", steps, *SETTINGS, *more)


def _assert_refused(outcome, *parts):
    """One line, code 2, and nothing of a traceback."""
    assert outcome.code == 2
    assert outcome.err.startswith("Error: ")
    assert outcome.err.count("\n") == 1
    assert "Traceback" not in outcome.err + outcome.out
    for part in parts:
        assert part in outcome.err


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A finished run, made once."""
    run = tmp_path_factory.mktemp("original") / "run"
    with pytest.raises(SystemExit) as exit_:
        app.main([*TRAIN, "--env", "faulty:", "--run", str(run), "--steps", "60", *SETTINGS])
    assert exit_.value.code == 0
    return run


@pytest.fixture
def run(original, tmp_path):
    """A copy of a finished run, in the directory where commands run."""
    return shutil.copytree(original, tmp_path / "run")


# What is there without TensorFlow.


@pytest.mark.parametrize("arguments", [[], ["train"], ["eval"], ["config"]])
def test_help(command, arguments):
    outcome = command(*arguments, "--help")
    assert outcome.code == 0
    assert "Usage: tfagents-x" in outcome.out


def test_train_help_tells_where_the_settings_are(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert "tfagents-x config AGENT" in command("train", "--help").out


def test_version(command):
    assert command("--version")[:2] == (0, f"tfagents-x {tfagents_x.__version__}\n")


@pytest.mark.parametrize(
    "arguments",
    [["trian"], ["train", "--stepz", "3"], ["train", "--steps", "0"], ["train", "--replay", "x"]],
)
def test_usage_errors(command, arguments):
    outcome = command(*arguments)
    assert outcome.code == 2
    assert "Traceback" not in outcome.err


# train.


def test_train_leaves_the_files_of_a_run_and_says_how_it_went(command, tmp_path):
    outcome = _train(command, "faulty:", "--seed", "3")
    assert outcome.code == 0
    run = tmp_path / "run"
    lines = outcome.out.splitlines()
    assert lines[0] == "importing TensorFlow ..."
    assert lines[-1].startswith("Done: mean return ")
    assert lines[-1].endswith("Files: run")
    config = json.loads((run / "config.json").read_text())
    assert (config["environment"], config["seed"], config["steps"]) == ("faulty:", 3, 60)
    assert config["config"]["hidden_sizes"] == [4]
    episodes = plots.read_episodes(run / "metrics" / "episodes.csv")
    assert 60 <= episodes.steps[-1] < 70
    mean = np.mean(episodes.returns[-20:])
    assert f"mean return {mean:.1f} over the last {min(20, len(episodes.returns))}" in lines[-1]
    assert (run / "metrics" / "learner.csv").read_text().startswith("loss,")
    assert list((run / "tensorboard").rglob("events.out.tfevents.*"))
    assert (run / "learning_curve.png").read_bytes()[:4] == b"\x89PNG"


def test_the_exported_policy_acts_with_plain_tensorflow(run):
    policy = tf.saved_model.load(str(run / "policy"))
    out = policy.act(tf.zeros([3, 2]), policy.initial_state(3), tf.constant([1, 2]))
    assert out["action"].shape == [3]


def test_the_default_run_directory(command, tmp_path):
    assert command(*TRAIN, "--env", "faulty:", "--steps", "5", *SETTINGS).code == 0
    (path,) = (tmp_path / "runs").iterdir()
    assert path.name.startswith("impala-faulty-20")
    assert (path / "config.json").exists()


def test_default_run_directories_of_the_same_second_differ(tmp_path, monkeypatch):
    class Clock(datetime.datetime):
        @classmethod
        def now(cls):
            return cls(2030, 1, 2, 3, 4, 5)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session.datetime, "datetime", Clock)
    spec = run_directory.RunSpec("impala", "ALE/Pong-v5", 0, "in_process", {})
    names = [session._new_directory(spec).path.name for _ in range(2)]
    assert names == [
        "impala-ALE-Pong-v5-20300102-030405",
        "impala-ALE-Pong-v5-20300102-030405-2",
    ]


def test_no_matplotlib_no_picture_but_a_run(command, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    outcome = _train(command)
    assert outcome.code == 0
    assert "No learning curve drawn: matplotlib is needed" in outcome.err
    assert "'tfagents_x[plots]'" in outcome.err
    assert not (tmp_path / "run" / "learning_curve.png").exists()


# What a person must put right.


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--agent", "impla", "--env", "faulty:"], ["Unknown agent 'impla'", "'impala'"]),
        (["--agent", "impala", "--env", "CartPol-v1"], ["CartPol-v1", "CartPole-v1"]),
        (["--agent", "impala", "--env", "fauty:x"], ["Unknown scheme 'fauty:'", "'faulty:'"]),
        (
            ["--agent", "impala", "--env", "faulty:", "--set", "batchsize=3"],
            ["Unknown setting 'batchsize'", "batch_size"],
        ),
        (
            ["--agent", "impala", "--env", "faulty:", "--set", "batch_size=x"],
            ["batch_size wants whole number, got 'x'"],
        ),
        (["--agent", "impala", "--env", "faulty:", "--set", "batch_size=0"], ["at least 1"]),
        (
            ["--agent", "impala", "--env", "faulty:continuous"],
            ["IMPALA needs one discrete action", "Discrete action space"],
        ),
        (["--agent", "impala"], ["needs --agent and --env"]),
        (["--env", "faulty:"], ["needs --agent and --env"]),
        (["--resume"], ["--resume needs --run DIR"]),
        (["--resume", "--run", "nothing"], ["There is no run in nothing"]),
    ],
)
def test_refused_before_anything_begins(command, tmp_path, arguments, parts):
    outcome = command("train", "--run", "run", *arguments)
    if arguments == ["--resume"]:
        outcome = command("train", "--resume")
    _assert_refused(outcome, *parts)
    assert list(tmp_path.iterdir()) == []


def test_a_run_directory_that_cannot_be_written(command, tmp_path):
    (tmp_path / "file").write_text("")
    outcome = _train(command, run="file/run")
    _assert_refused(outcome, "Can't write to the run directory file/run", "writable --run")


def test_a_refused_environment_leaves_no_runs_folder_but_keeps_one_that_was_there(
    command, tmp_path
):
    arguments = [*TRAIN, "--env", "faulty:continuous"]
    _assert_refused(command(*arguments), "IMPALA needs one discrete action")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "runs").mkdir()
    _assert_refused(command(*arguments), "IMPALA needs one discrete action")
    assert [p.name for p in tmp_path.rglob("*")] == ["runs"]


def test_without_reverb_the_option_that_does_without_is_named(command, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "reverb", None)
    factory._reverb_problem.cache_clear()
    try:
        arguments = ("train", "--agent", "impala", "--env", "faulty:", *SETTINGS)
        outcome = command(*arguments, "--replay", "reverb")
    finally:
        factory._reverb_problem.cache_clear()
    _assert_refused(outcome, "pip install 'tfagents_x[reverb]'", "--replay in_process")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("live", [False, True])
def test_a_run_without_an_update_says_so(command, monkeypatch, live):
    if live:
        terminal = console.Console(force_terminal=True, _environ={})
        monkeypatch.setattr(
            display, "make_display", lambda *a: display.LiveDisplay(*a[:2], terminal, a[2])
        )
    outcome = _train(command, "faulty:", "--set", "batch_size=50", steps=3)
    assert outcome.code == 0
    warning, done = outcome.out.splitlines()[-2:]
    # The panel has just shown the cursor again.
    assert warning.replace("\x1b[?25h", "").startswith("Warning: the learner made no update: ")
    assert " steps make no batch of 50." in warning
    assert done.startswith("Done: ")
    assert "made no update" not in _train(command, run="longer").out


def test_a_run_directory_that_is_taken(command, run):
    _assert_refused(_train(command), "run holds a run already", "--resume")


def test_a_missing_extra_is_named(command, monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    _assert_refused(_train(command, "CartPole-v1"), "pip install 'tfagents_x[gym]'")


@pytest.mark.parametrize(
    ("env", "parts"),
    [
        ("faulty:nan_reward", ["gave a reward that is not finite", "episode 4"]),
        ("faulty:nan_observation", ["gave an observation that is not finite", "episode 4"]),
        ("faulty:huge_reward", ["Update ", "loss = ", "last good checkpoint is run/checkpoints/"]),
    ],
)
def test_numbers_that_are_not_finite_stop_the_training(command, tmp_path, env, parts):
    outcome = _train(command, env, steps=500)
    _assert_refused(outcome, *parts)
    # What came before is in good order.
    run = tmp_path / "run"
    assert len(plots.read_episodes(run / "metrics" / "episodes.csv").returns) >= 4
    assert (run / "learning_curve.png").exists()
    assert command("eval", "run", "--episodes", "1").code == 0


def test_resuming_with_another_config(command, run):
    resume = ("train", "--resume", "--run", "run")
    for arguments, difference in [
        (["--set", "batch_size=3"], "batch_size: 2 there, 3 now"),
        (["--seed", "4"], "seed: 0 there, 4 now"),
        (["--env", "faulty:long"], "environment: 'faulty:' there, 'faulty:long' now"),
        (["--agent", "other"], "agent: 'impala' there, 'other' now"),
        (["--replay", "reverb"], "replay: 'in_process' there, 'reverb' now"),
    ]:
        _assert_refused(command(*resume, *arguments), "has another config", difference)
    same = ("--agent", "impala", "--env", "faulty:", "--seed", "0", *SETTINGS)
    assert command(*resume, *same).code == 0


@pytest.mark.parametrize("debug", [False, True])
def test_a_bug_is_one_line_and_with_debug_a_traceback(command, capfd, debug):
    arguments = [*TRAIN, "--env", "faulty:bug"]
    if debug:
        with pytest.raises(RuntimeError, match="Nobody expected this"):
            app.main([*arguments, "--debug"])
        return
    outcome = command(*arguments)
    assert outcome.code == 1
    assert outcome.err.splitlines() == [
        "Error: RuntimeError: Nobody expected this.",
        "This is unexpected; run with --debug for the traceback.",
    ]


def test_with_debug_an_error_of_the_user_has_its_traceback(command):
    with pytest.raises(ValueError, match="Unknown agent"):
        app.main(["train", "--agent", "impla", "--env", "faulty:", "--debug"])


def test_a_diverged_training_is_an_error_of_the_user():
    assert issubclass(training.TrainingError, ValueError)


# eval and config.


def _statistics(outcome):
    rows = [line.replace("│", " ").split() for line in outcome.out.splitlines()]
    return {
        row[0]: [float(x) for x in row[1:]] for row in rows if row[:1] in (["return"], ["length"])
    }


def test_eval_prints_statistics_that_depend_on_the_seed_alone(command, run):
    first, again, other = (command("eval", "run", "--seed", s) for s in (0, 0, 1))
    assert first.code == 0
    assert "20 episodes with best actions, from run/checkpoints/step-" in first.out
    assert _statistics(first) == _statistics(again) != _statistics(other)
    mean, std, low, high = _statistics(first)["length"]
    assert (low, high) == (5.0, 9.0)
    assert low < mean < high
    assert 0 < std < 2


def test_eval_samples_if_asked(command, run):
    greedy, sampled = (command("eval", "run", flag) for flag in ("--greedy", "--sample"))
    assert "sampled actions" in sampled.out
    assert _statistics(greedy)["return"] != _statistics(sampled)["return"]
    assert _statistics(greedy)["length"] == _statistics(sampled)["length"]


def test_eval_of_one_episode(command, run):
    outcome = command("eval", "run", "--episodes", 1)
    assert "1 episode with best actions" in outcome.out


def test_eval_of_nothing(command, tmp_path):
    _assert_refused(command("eval", "nothing"), "There is no run in nothing")
    assert list(tmp_path.iterdir()) == []


def test_config_lists_the_settings(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    outcome = command("config", "impala")
    assert outcome.code == 0
    default = f"{IMPALAConfig().entropy_cost:g}"
    for part in ("entropy_cost", default, "weight of the negative entropy.", "--set KEY=VALUE"):
        assert part in outcome.out
    _assert_refused(command("config", "impla"), "Unknown agent")
