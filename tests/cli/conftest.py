"""Runs the command line inside this process."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tfagents_x.cli import app


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def command(capfd, tmp_path, monkeypatch):
    """Calls `tfagents-x` with arguments, in an empty directory."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit_:
            app.main([str(a) for a in arguments])
        return Outcome(exit_.value.code, *capfd.readouterr())

    return call
