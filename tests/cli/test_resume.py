"""Runs that go on: the numbers are those of a run that was never stopped."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal

import numpy as np
import pytest
import tensorflow as tf

from tests.cli.faulty import SETTINGS
from tfagents_x.agents import online_training, run_directory, training
from tfagents_x.cli import app
from tfagents_x.replay import factory


@pytest.fixture(autouse=True)
def _every_update_is_logged(monkeypatch):
    monkeypatch.setattr(training.loggers, "TimeFilter", lambda to, seconds: to)


def _train_arguments(run, steps, env="faulty:", seconds=1000):
    return [
        *("train", "--agent", "impala", "--env", env, "--replay", "in_process", *SETTINGS),
        *("--run", str(run), "--steps", str(steps), "--checkpoint-seconds", str(seconds)),
    ]


def _begin(command, *arguments):
    assert command(*_train_arguments(*arguments)).code == 0


def _resume(command, run, *arguments):
    return command("train", "--resume", "--run", run, *arguments)


def _column(path, name):
    with open(path) as file:
        return [row[name] for row in csv.DictReader(file)]


def _checkpoints(run):
    return sorted((run / "checkpoints").iterdir(), key=lambda p: int(p.name.partition("-")[2]))


def _variables(run):
    reader = tf.train.load_checkpoint(str(_checkpoints(run)[-1] / "learner"))
    shapes = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in shapes if name.endswith("VARIABLE_VALUE")}


def _assert_same_runs(run, other):
    names = ("episode_return", "episode_length", "actor_steps", "learner_steps")
    for file, columns in (
        ("episodes", names),
        ("learner", ("loss", "actor_steps", "learner_steps")),
    ):
        for name in columns:
            first, second = (_column(r / "metrics" / f"{file}.csv", name) for r in (run, other))
            assert first == second, (file, name)
    variables, others = _variables(run), _variables(other)
    assert len(variables) > 10  # Adam's slots are among them.
    assert variables.keys() == others.keys()
    for name in variables:
        np.testing.assert_array_equal(variables[name], others[name], err_msg=name)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A run of 400 steps that was never stopped; its checkpoints are of the start and the end."""
    run = tmp_path_factory.mktemp("original") / "whole"
    with pytest.MonkeyPatch.context() as patched, pytest.raises(SystemExit) as exit_:
        patched.setattr(training.loggers, "TimeFilter", lambda to, seconds: to)
        app.main([*_train_arguments(run, 400)])
    assert exit_.value.code == 0
    assert len(_column(run / "metrics" / "learner.csv", "loss")) > 40
    return run


@pytest.fixture
def run(original, tmp_path):
    """A copy of it."""
    return shutil.copytree(original, tmp_path / "run")


def test_a_resumed_run_makes_the_numbers_of_an_uninterrupted_one(command, tmp_path, original):
    _begin(command, "parts", 130)
    outcome = _resume(command, "parts", "--steps", 400)
    assert outcome.code == 0
    assert "Resumed from parts/checkpoints/step-13" in outcome.out
    _assert_same_runs(original, tmp_path / "parts")


def test_what_came_after_the_last_checkpoint_is_forgotten_and_done_again(command, tmp_path):
    # Episodes of 200 steps: the learner logs in the middle of them.
    _begin(command, "run", 900, "faulty:long", 0)
    run, whole = tmp_path / "run", shutil.copytree(tmp_path / "run", tmp_path / "whole")
    for path in _checkpoints(run)[-2:]:
        shutil.rmtree(path)
    assert _checkpoints(run)[-1].name == "step-600"
    outcome = _resume(command, "run")  # To the 900 steps that it was begun with.
    assert "Resumed from run/checkpoints/step-600: 600 steps." in outcome.out
    assert outcome.code == 0
    _assert_same_runs(whole, run)


def test_a_truncated_checkpoint_is_passed_over_and_named(command, run, original):
    newest, first = _checkpoints(run)[::-1]
    data = next(newest.glob("learner.data*"))
    data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])
    outcome = _resume(command, "run")
    assert outcome.code == 0
    assert f"Checkpoint run/checkpoints/{newest.name} is damaged (learner.data" in outcome.out
    assert f"Resumed from run/checkpoints/{first.name}:" in outcome.out
    _assert_same_runs(original, run)


def test_when_all_checkpoints_are_damaged_nothing_is_touched(command, run):
    for path in _checkpoints(run):
        (path / "manifest.json").write_text("{")
    before = {p: p.stat().st_mtime_ns for p in (run / "checkpoints").rglob("*")}
    outcome = _resume(command, "run")
    assert outcome.code == 2
    assert outcome.err.startswith("Error: All checkpoints in run/checkpoints are damaged")
    assert {p: p.stat().st_mtime_ns for p in (run / "checkpoints").rglob("*")} == before


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again(command, run, original):
    shutil.rmtree(run / "checkpoints")
    outcome = _resume(command, "run")
    assert outcome.code == 0
    assert "There is no checkpoint yet; starting from the beginning." in outcome.out
    _assert_same_runs(original, run)


def _state(run):
    files = [p for p in run.rglob("*") if p.is_file() and p.name != ".lock"]
    return {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in files}


@pytest.mark.parametrize("arguments", [(), ("--steps", 400), ("--steps", 7)])
def test_a_run_that_is_done_stays_as_it_is(command, run, arguments):
    before = _state(run)
    outcome = _resume(command, "run", *arguments)
    assert (outcome.code, outcome.err) == (0, "")
    importing, last = outcome.out.splitlines()
    assert importing == "importing TensorFlow ..."
    assert last.startswith("Nothing is left to do: run has done 40")
    assert f"{arguments[1] if arguments else 400} are wanted" in last
    assert "go on, give more: tfagents-x train --resume --run run --steps " in last
    assert _state(run) == before


def test_of_a_run_that_died_before_its_export_that_is_left_to_do(command, run, original):
    shutil.rmtree(run / "policy")
    outcome = _resume(command, "run")
    assert outcome.code == 0
    assert "Done: mean return" in outcome.out
    assert (run / "policy" / "saved_model.pb").exists()
    _assert_same_runs(original, run)


def test_a_run_whose_last_checkpoint_is_damaged_is_not_done(command, run, original):
    (_checkpoints(run)[-1] / "manifest.json").write_text("{}")
    outcome = _resume(command, "run", "--steps", 50)
    assert outcome.code == 0
    assert "Resumed from run/checkpoints/step-0: 0 steps." in outcome.out
    assert '"steps": 50' in (run / "config.json").read_text()


def test_a_run_that_another_process_is_training_is_refused(command, run):
    before = _state(run)
    with run_directory.RunDirectory(run).locked():
        for arguments in (
            ("train", "--resume", "--run", "run", "--steps", 1000),
            _train_arguments("run", 1000),
        ):
            outcome = command(*arguments)
            assert outcome.code == 2
            (line,) = outcome.err.splitlines()
            assert line.startswith(f"Error: run is in use by process {os.getpid()}: ")
    assert _state(run) == before
    assert _resume(command, "run").code == 0


def test_while_a_run_trains_its_directory_is_locked(command, tmp_path, monkeypatch):
    train, refused = online_training.OnlineTraining.run, []

    def run(self, num_steps):
        with (
            pytest.raises(ValueError, match="in use") as caught,
            run_directory.RunDirectory(tmp_path / "run").locked(),
        ):
            pass
        refused.append(caught.value)
        return train(self, num_steps)

    monkeypatch.setattr(online_training.OnlineTraining, "run", run)
    _begin(command, "run", 20)
    assert _resume(command, "run", "--steps", 60).code == 0
    assert len(refused) == 2


def test_a_run_with_reverb_where_there_is_none(command, run, monkeypatch):
    text = (run / "config.json").read_text()
    (run / "config.json").write_text(text.replace('"in_process"', '"reverb"'))
    monkeypatch.setattr(factory, "reverb_available", lambda: False)
    outcome = _resume(command, "run", "--steps", 1000)
    assert outcome.code == 2
    (line,) = outcome.err.splitlines()
    assert "The run in run has its experience in Reverb" in line
    assert "start a new run with --replay in_process" in line
    assert '"steps": 400' in (run / "config.json").read_text()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"steps": "abc"}, "steps must be a whole number, at least 1, or null, got 'abc'"),
        ({"seed": "x"}, "seed must be a whole number, at least 0, got 'x'"),
        ({"config": 3}, "config must be a mapping of settings, got 3"),
        ({"config": {"batch_size": "4"}}, "batch_size must be int, got '4'"),
        ({"config": {"batch_size": 0}}, "batch_size must be at least 1, got 0"),
        ({"replay": "foo"}, "replay must be 'in_process' or 'reverb', got 'foo'"),
        ({"agent": "impla"}, "Unknown agent 'impla'"),
    ],
)
@pytest.mark.parametrize(
    "arguments", [("train", "--resume", "--run", "run", "--steps", 1000), ("eval", "run")]
)
def test_a_config_that_somebody_changed(command, run, arguments, changes, problem):
    content = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**content, **changes}))
    before = _state(run)
    outcome = command(*arguments)
    assert outcome.code == 2
    (line,) = outcome.err.splitlines()
    assert line.startswith(f"Error: run/config.json: {problem}")
    assert _state(run) == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_stops(command, tmp_path, monkeypatch, original, number, code):
    run_episode = online_training.OnlineTraining._run_episode

    def interrupted(self):
        run_episode(self)
        if self.steps > 100:
            signal.raise_signal(number)

    with monkeypatch.context() as patched:
        patched.setattr(online_training.OnlineTraining, "_run_episode", interrupted)
        outcome = command(*_train_arguments("run", 400))
    assert outcome.code == code
    last = outcome.out.splitlines()[-1]
    assert last.startswith("Interrupted: mean return")
    assert last.endswith("go on with: tfagents-x train --resume --run run")
    assert 100 < int(_checkpoints(tmp_path / "run")[-1].name.partition("-")[2]) < 120
    assert (tmp_path / "run" / "learning_curve.png").exists()
    if number == signal.SIGINT:
        assert _resume(command, "run").code == 0
        _assert_same_runs(original, tmp_path / "run")
