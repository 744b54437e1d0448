"""Numbers and closing lines."""

from __future__ import annotations

import math
import pathlib

import pytest

from tfagents_x.agents import training
from tfagents_x.cli import texts


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"),
        (31.4, "31 s"),
        (59.7, "1 min 00 s"),
        (151, "2 min 31 s"),
        (3600, "1 h 00 min"),
        (11100, "3 h 05 min"),
    ],
)
def test_duration(seconds, text):
    assert texts.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (math.nan, "-"), (1234.56, "1,234.6"), (-3.0, "-3.0")]
)
def test_number(value, text):
    assert texts.number(value) == text


def _summary(**changes):
    fields = {
        "steps": 120_034,
        "episodes": 800,
        "updates": 3012,
        "mean_return": 487.31,
        "window": 20,
        "seconds": 151.2,
    }
    return training.Summary(**{**fields, **changes})


def test_done():
    assert texts.done(_summary(), pathlib.Path("runs/x")) == (
        "Done: mean return 487.3 over the last 20 episodes after 120,034 steps "
        "(3,012 updates, 2 min 31 s). Files: runs/x"
    )


def test_done_after_one_episode_and_after_none():
    one = texts.done(_summary(window=1), pathlib.Path("x"))
    assert "over the last episode after" in one
    none = texts.done(_summary(window=0, mean_return=math.nan), pathlib.Path("x"))
    assert none.startswith("Done: no episode has ended after 120,034 steps")


def test_interrupted_gives_the_command_that_goes_on():
    line = texts.interrupted(_summary(), pathlib.Path("runs/my run"))
    assert line.startswith("Interrupted: mean return 487.3")
    assert line.endswith("go on with: tfagents-x train --resume --run 'runs/my run'")
