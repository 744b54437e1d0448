"""The files of a run: its lock, and a config that somebody changed."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import pytest

from tfagents_x.agents import run_directory

SPEC = run_directory.RunSpec("impala", "faulty:", 3, "in_process", {"batch_size": 2})


@pytest.fixture
def directory(tmp_path):
    """A run of 60 steps."""
    directory = run_directory.RunDirectory(tmp_path / "run")
    directory.create(SPEC, 60)
    return directory


def _change(directory, **changes):
    content = json.loads(directory.config.read_text())
    directory.config.write_text(json.dumps({**content, **changes}))


# The lock.


def test_a_second_owner_is_refused_and_told_who_the_first_is(directory):
    second = run_directory.RunDirectory(directory.path)
    with directory.locked():
        with (
            pytest.raises(ValueError, match=f"run is in use by process {os.getpid()}: "),
            second.locked(),
        ):
            pass
        # Having been refused, it has taken nothing away.
        assert directory.lock.read_text() == f"{os.getpid()}\n"
        with pytest.raises(ValueError, match="in use"), second.locked():
            pass
    with second.locked():
        pass
    assert directory.read() == SPEC


def test_a_lock_ends_when_its_process_is_killed(directory):
    code = (
        "import sys, time\n"
        "from tfagents_x.agents import run_directory\n"
        "with run_directory.RunDirectory(sys.argv[1]).locked():\n"
        "    print('locked', flush=True)\n"
        "    time.sleep(100)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(directory.path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "locked\n"
        with (
            pytest.raises(ValueError, match=f"in use by process {process.pid}:"),
            directory.locked(),
        ):
            pass
    finally:
        process.kill()
        process.communicate()
    with directory.locked():
        assert directory.lock.read_text() == f"{os.getpid()}\n"


def test_an_owner_who_has_not_said_who_it_is(directory):
    with directory.locked():
        directory.lock.write_text("")
        with (
            pytest.raises(ValueError, match="in use by another process"),
            run_directory.RunDirectory(directory.path).locked(),
        ):
            pass


def test_where_no_run_came_to_be_nothing_is_left(tmp_path):
    directory = run_directory.RunDirectory(tmp_path / "runs" / "a" / "b")
    with directory.locked():
        assert directory.lock.exists()
        (directory.path / "metrics").mkdir()
    assert list(tmp_path.iterdir()) == []


def test_what_others_made_stays(tmp_path):
    (tmp_path / "runs" / "a").mkdir(parents=True)
    with run_directory.RunDirectory(tmp_path / "runs" / "a").locked():
        pass
    assert list((tmp_path / "runs" / "a").iterdir()) == []
    with run_directory.RunDirectory(tmp_path / "runs" / "b").locked():
        (tmp_path / "runs" / "b" / "notes.txt").write_text("mine")
    assert [p.name for p in (tmp_path / "runs" / "b").iterdir()] == ["notes.txt"]


@pytest.mark.skipif(os.name == "nt", reason="Windows removes no open files")
def test_a_lock_file_that_was_removed_meanwhile_is_none(directory, monkeypatch):
    # The former owner removes the file between our opening and our locking it.
    lock, calls = run_directory._try_lock, []

    def late(descriptor):
        calls.append(descriptor)
        if len(calls) == 1:
            directory.lock.unlink()
        lock(descriptor)

    monkeypatch.setattr(run_directory, "_try_lock", late)
    with directory.locked():
        assert len(calls) == 2
        assert directory.lock.read_text() == f"{os.getpid()}\n"


def test_a_file_system_without_locks_is_told_and_used(directory, monkeypatch):
    def refuse(descriptor):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(run_directory, "_try_lock", refuse)
    messages = []
    with directory.locked(messages.append):
        pass
    (message,) = messages
    assert "run can't be locked (No locks available): make sure" in message


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    directory = run_directory.RunDirectory(tmp_path / "file" / "run")
    with (
        pytest.raises(ValueError, match="Can't write to the run directory .*writable --run"),
        directory.locked(),
    ):
        pass


def test_make_can_insist_on_a_new_folder(directory):
    directory.make()
    with pytest.raises(FileExistsError):
        directory.make(exist_ok=False)


# The config.


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("agent", 3, "text"),
        ("environment", None, "text"),
        ("seed", "x", "a whole number, at least 0"),
        ("seed", 1.5, "a whole number"),
        ("seed", True, "a whole number"),
        ("seed", -1, "a whole number"),
        ("replay", "foo", "'in_process' or 'reverb'"),
        ("replay", ["reverb"], "'in_process' or 'reverb'"),
        ("config", 3, "a mapping of settings"),
        ("config", [], "a mapping of settings"),
        ("steps", "abc", "a whole number, at least 1, or null"),
        ("steps", 0, "a whole number, at least 1, or null"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named_with_its_file(directory, name, value, wanted):
    _change(directory, **{name: value})
    for read in (directory.read, directory.open, directory.read_steps):
        with pytest.raises(ValueError) as caught:
            read()
        message = str(caught.value)
        assert message.startswith(f"{directory.config}: {name} must be {wanted}")
        assert f"got {value!r}. " in message


@pytest.mark.parametrize("text", ["[]", "3", "null", '"x"'])
def test_a_config_file_must_hold_a_mapping(directory, text):
    directory.config.write_text(text)
    with pytest.raises(ValueError, match=r"config\.json: must hold a mapping of settings, got "):
        directory.read()


def test_a_config_file_without_one_of_its_settings(directory):
    directory.config.write_text('{"agent": "impala", "environment": "faulty:"}')
    with pytest.raises(ValueError, match=r"config\.json: seed is missing"):
        directory.read()


@pytest.mark.parametrize("data", [b"{", b"\xff", b""])
def test_a_config_file_that_is_not_json(directory, data):
    directory.config.write_bytes(data)
    with pytest.raises(ValueError, match=r"config\.json can't be read"):
        directory.read()


@pytest.mark.parametrize("steps", [None, 1, 70])
def test_steps_come_back(directory, steps):
    directory.write_steps(steps)
    assert directory.read_steps() == steps
    assert directory.read() == SPEC
