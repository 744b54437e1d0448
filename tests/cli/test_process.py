"""Real processes: quick help, kill -9, Ctrl-C, and going on after them."""

from __future__ import annotations

import csv
import os
import random
import signal
import subprocess
import sys
import time

import pytest

CONFIG = (
    *("--set", "batch_size=2", "--set", "lstm_size=8", "--set", "hidden_sizes=8"),
    *("--set", "sequence_length=8", "--set", "sequence_period=7"),
)
TRAIN = ("train", "--agent", "impala", "--env", "CartPole-v1", "--replay", "in_process", *CONFIG)

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")


def _start(*arguments, cwd):
    # PYTHONPATH is of the repository, so that nothing need be installed.
    repository = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    environment.update(CUDA_VISIBLE_DEVICES="-1", PYTHONPATH=repository)
    return subprocess.Popen(
        [sys.executable, "-m", "tfagents_x", *map(str, arguments)],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _finish(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def _episodes(run):
    with open(run / "metrics" / "episodes.csv") as file:
        return list(csv.DictReader(file))


def _checkpoint_steps(run):
    names = [p.name for p in (run / "checkpoints").glob("step-*")]
    return sorted(int(name.partition("-")[2]) for name in names)


def _wait_for_checkpoint(process, run, steps):
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and process.poll() is None:
        if run.exists() and any(s >= steps for s in _checkpoint_steps(run)):
            return
        time.sleep(0.02)
    pytest.fail(f"No checkpoint of {steps} steps: {_finish(process)}")


def _assert_gapless(run):
    """Every episode is there once, and each began where the one before ended."""
    rows = _episodes(run)
    assert [int(r["actor_episodes"]) for r in rows] == list(range(1, len(rows) + 1))
    total = 0
    for row in rows:
        total += int(row["episode_length"])
        assert int(row["actor_steps"]) == total
    with open(run / "metrics" / "learner.csv") as file:
        updates = [int(r["learner_steps"]) for r in csv.DictReader(file)]
    assert updates == sorted(set(updates))


def test_help_does_not_import_tensorflow():
    code = (
        "import sys, tfagents_x.cli.app as app\n"
        "try: app.main(['train', '--help'])\n"
        "except SystemExit: pass\n"
        "bad = {'tensorflow', 'reverb', 'gymnasium', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'imported: {bad}' if bad else 0)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_kill_resume_interrupt_resume(tmp_path):
    run = tmp_path / "run"
    often = ("--checkpoint-seconds", 0.1)
    process = _start(*TRAIN, "--run", run, "--steps", 10**6, *often, cwd=tmp_path)
    _wait_for_checkpoint(process, run, 300)
    time.sleep(random.SystemRandom().uniform(0.0, 0.5))
    process.kill()
    assert _finish(process)[0] == -signal.SIGKILL
    before, newest = _episodes(run), _checkpoint_steps(run)[-1]

    # The number of steps is that of the run, so this one too would go on for hours.
    process = _start("train", "--resume", "--run", run, *often, cwd=tmp_path)
    _wait_for_checkpoint(process, run, newest + 200)
    process.send_signal(signal.SIGINT)
    code, out, err = _finish(process)
    assert (code, err) == (130, "")
    lines = out.splitlines()
    assert lines[0] == "importing TensorFlow ..."
    assert f"Resumed from {run}/checkpoints/step-{newest}: {newest} steps." in lines
    assert lines[-1].startswith("Interrupted: ")
    interrupted, saved = _episodes(run), _checkpoint_steps(run)[-1]
    assert saved == int(interrupted[-1]["actor_steps"])
    kept = [r for r in before if int(r["actor_steps"]) <= newest]
    assert interrupted[: len(kept)] == kept
    _assert_gapless(run)

    resume = ("train", "--resume", "--run", run, "--steps", saved + 100)
    code, out, err = _finish(_start(*resume, cwd=tmp_path))
    assert (code, err) == (0, "")
    assert f"Resumed from {run}/checkpoints/step-{saved}: {saved} steps." in out
    assert out.splitlines()[-1].startswith("Done: mean return")
    final = _episodes(run)
    assert final[: len(interrupted)] == interrupted
    assert saved + 100 <= int(final[-1]["actor_steps"]) < saved + 600
    _assert_gapless(run)


def test_ctrl_c_during_start_up_is_quiet(tmp_path):
    process = _start(*TRAIN, "--run", tmp_path / "run", cwd=tmp_path)
    assert process.stdout.readline() == "importing TensorFlow ...\n"
    process.send_signal(signal.SIGINT)
    code, _, err = _finish(process)
    assert (code, err) == (130, "")
    assert not (tmp_path / "run").exists()
