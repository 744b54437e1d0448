"""Numbers, times and the closing lines of a command, as a person reads them."""

from __future__ import annotations

import math
import os
import shlex
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from tfagents_x.agents import training


def duration(seconds: float) -> str:
    """Seconds as `31 s`, `2 min 31 s` or `3 h 05 min`."""
    total = round(max(seconds, 0.0))
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60:02d} s"
    return f"{total // 3600} h {total % 3600 // 60:02d} min"


def number(value: Optional[float], digits: int = 1) -> str:
    """A number with thousands separators; a dash for None and NaN."""
    if value is None or math.isnan(value):
        return "-"
    return f"{value:,.{digits}f}"


def count(how_many: int, noun: str) -> str:
    """A number and its noun, as in `1 episode` or `2,000 episodes`."""
    return f"{how_many:,} {noun}" if how_many == 1 else f"{how_many:,} {noun}s"


def metric(value: float) -> str:
    """A metric to four digits."""
    return f"{value:.4g}"


def done(summary: training.Summary, directory: os.PathLike) -> str:
    """The last line of a training that has come to its end."""
    return f"Done: {_result(summary)}. Files: {os.fspath(directory)}"


def interrupted(summary: training.Summary, directory: os.PathLike) -> str:
    """The last line of a training that was stopped, with the command that goes on."""
    resume = f"tfagents-x train --resume --run {shlex.quote(os.fspath(directory))}"
    return f"Interrupted: {_result(summary)}. Saved in {os.fspath(directory)}; go on with: {resume}"


def no_update(summary: training.Summary, batch_size: int, steps_per_batch: int) -> str:
    """A warning that nothing was learned."""
    return (
        f"Warning: the learner made no update: {count(summary.steps, 'step')} make no batch of "
        f"{batch_size}. The first takes about {count(steps_per_batch, 'step')}: give more --steps, "
        "or smaller batches."
    )


def nothing_left(steps: int, goal: int, directory: os.PathLike, unit: str = "step") -> str:
    """The only line of a resumed training that is at its end already."""
    resume = f"tfagents-x train --resume --run {shlex.quote(os.fspath(directory))}"
    return (
        f"Nothing is left to do: {os.fspath(directory)} has done {count(steps, unit)}, "
        f"{goal:,} are wanted. To go on, give more: {resume} --steps {2 * steps}"
    )


def _result(summary: training.Summary) -> str:
    spent = duration(summary.seconds)
    if summary.unit != "update":
        spent = f"{count(summary.updates, 'update')}, {spent}"
    after = f"after {count(summary.steps, summary.unit)} ({spent})"
    if not summary.window:
        return f"no episode has ended {after}"
    episodes = "episode" if summary.window == 1 else f"{summary.window} episodes"
    return f"mean return {number(summary.mean_return)} over the last {episodes} {after}"
