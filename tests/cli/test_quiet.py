"""What is kept off the screen while TensorFlow is imported."""

from __future__ import annotations

import os

import pytest

from tfagents_x.cli import quiet

_NOISE = (
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "I0000 00:00:1.2    12 port.cc:153] oneDNN custom operations are on. You may see slightly",
    "I0000 00:00:1.2    12 cudart_stub.cc:31] Could not find cuda drivers on your machine.",
    "2026-01-01 00:00:00.0: E external/local_xla/xla/cuda_dnn.cc:9261] Unable to register cuDNN "
    "factory: Attempting to register factory for plugin cuDNN when one has already been registered",
)
_NEWS = "E0000 00:00:1.2    12 loader.cc:3] libsomething.so is broken"


@pytest.mark.parametrize("line", _NOISE)
def test_known_noise(line):
    assert quiet.is_noise(line)


def test_anything_else_is_no_noise():
    assert not quiet.is_noise(_NEWS)


def test_noise_is_dropped_and_the_rest_passed_on(capfd):
    with quiet.noise_dropped():
        os.write(2, "\n".join([_NOISE[0], _NEWS, _NOISE[1]]).encode())
        assert capfd.readouterr().err == ""
    assert capfd.readouterr().err == f"{_NEWS}\n"


def test_what_was_said_before_an_error_is_passed_on(capfd):
    with pytest.raises(ImportError), quiet.noise_dropped():
        os.write(2, _NEWS.encode())
        raise ImportError
    os.write(2, b"after\n")
    assert capfd.readouterr().err == f"{_NEWS}\nafter\n"


def test_importing_says_so_on_a_line_where_there_is_no_terminal(capfd, monkeypatch):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    with quiet.importing():
        assert capfd.readouterr().out == "importing TensorFlow ...\n"
        assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "3"
        os.write(2, _NOISE[0].encode())
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("debug", [True, False])
def test_a_log_level_of_the_users_own_or_debug_lets_everything_through(capfd, monkeypatch, debug):
    if debug:
        monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    else:
        monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    with quiet.importing(debug):
        os.write(2, _NOISE[0].encode())
    assert _NOISE[0] in capfd.readouterr().err
    assert os.environ.get("TF_CPP_MIN_LOG_LEVEL") == (None if debug else "0")
