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


@pytest.mark.parametrize(
    ("how_many", "text"), [(0, "0 episodes"), (1, "1 episode"), (2000, "2,000 episodes")]
)
def test_count(how_many, text):
    assert texts.count(how_many, "episode") == text


def test_one_is_singular_in_the_last_line_too():
    line = texts.done(_summary(steps=1, updates=1, window=1), pathlib.Path("x"))
    assert "after 1 step (1 update, " in line


def test_no_update_says_how_many_steps_the_first_takes():
    line = texts.no_update(_summary(steps=15, updates=0), 4, 96)
    assert line.startswith("Warning: the learner made no update: 15 steps make no batch of 4.")
    assert "about 96 steps" in line
    assert "--steps" in line


def test_nothing_left_gives_the_command_that_goes_on():
    line = texts.nothing_left(1005, 1000, pathlib.Path("runs/my run"))
    assert line.startswith("Nothing is left to do: runs/my run has done 1,005 steps, 1,000 are ")
    assert line.endswith("tfagents-x train --resume --run 'runs/my run' --steps 2010")


def test_interrupted_gives_the_command_that_goes_on():
    line = texts.interrupted(_summary(), pathlib.Path("runs/my run"))
    assert line.startswith("Interrupted: mean return 487.3")
    assert line.endswith("go on with: tfagents-x train --resume --run 'runs/my run'")
