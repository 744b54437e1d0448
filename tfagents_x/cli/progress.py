"""Gathers what a training tells its observer, at next to no cost until someone looks."""

from __future__ import annotations

import collections
import dataclasses
import math
import pathlib
import time
from collections.abc import Mapping
from typing import Any, Callable, Optional

import numpy as np

from tfagents_x.agents import training as training_lib

# Rates are means over this time: shorter ones flicker, longer ones lag.
_RATE_SECONDS = 10.0


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """How far a training has come.

    Attributes:
      phase: what goes on before the first update; None after it.
      elapsed: seconds since the display came up.
      steps, goal: done, and to be done, in all; see `unit`.
      updates, episodes: done in all.
      mean_return: of the last `window` episodes; NaN if there was none.
      best_return: of an episode in this process; NaN if there was none.
      metrics: latest scalar metrics of the learner.
      steps_per_second, updates_per_second: of late; None if not known yet.
      seconds_left: estimated; None if not known yet.
      checkpoint: name of the latest checkpoint, and its age in seconds; None if there is none.
      curve: mean return after each episode.
      unit: what `steps` are; "update" where the learner needs no environment.
      window: number of episodes in the mean return.
    """

    phase: Optional[str]
    elapsed: float
    steps: int
    goal: int
    updates: int
    episodes: int
    mean_return: float
    best_return: float
    metrics: Mapping[str, float]
    steps_per_second: Optional[float]
    updates_per_second: Optional[float]
    seconds_left: Optional[float]
    checkpoint: Optional[tuple[str, float]]
    curve: list[float]
    unit: str = "step"
    window: int = 20


class Progress(training_lib.Observer):
    """An observer that only takes notes; `snapshot` may be called from another thread."""

    def __init__(self, goal: int, clock: Callable[[], float] = time.monotonic, unit: str = "step"):
        """Starts the clock.

        Args:
          goal: steps to be done in all.
          clock: gives the time in seconds.
          unit: see `Snapshot`.
        """
        self._goal = goal
        self._unit = unit
        self._clock = clock
        self._start = clock()
        self._training: Optional[training_lib.Training] = None
        self._steps = self._updates = self._episodes = 0
        self._mean_return = self._best_return = math.nan
        self._metrics: Mapping[str, Any] = {}
        self._checkpoint: Optional[tuple[str, float]] = None
        self._curve: list[float] = []
        self._marks: collections.deque = collections.deque()

    def on_start(self, training: training_lib.Training) -> None:
        """See base class."""
        self._training = training
        self._steps = training.steps
        self._mean_return = training.mean_return
        # Rates count from here: what was restored took no time, and building made no steps.
        self._mark()

    def on_step(self, steps: int) -> None:
        """See base class."""
        self._steps = steps

    def on_update(self, updates: int, metrics: Mapping[str, Any]) -> None:
        """See base class."""
        self._updates = updates
        self._metrics = metrics

    def on_episode(self, result: Mapping[str, Any]) -> None:
        """See base class."""
        self._episodes = int(result.get("actor_episodes", self._episodes + 1))
        # Not `max`, which would keep the NaN it starts from.
        if not self._best_return >= result["episode_return"]:
            self._best_return = float(result["episode_return"])
        if self._training is not None:
            self._mean_return = self._training.mean_return
            self._curve.append(self._mean_return)

    def on_checkpoint(self, path: pathlib.Path) -> None:
        """See base class."""
        self._checkpoint = (path.name, self._clock())

    def snapshot(self) -> Snapshot:
        """The state now; this is where tensors become numbers."""
        steps_rate, updates_rate = self._rates()
        left = max(self._goal - self._steps, 0)
        now = self._clock()
        return Snapshot(
            phase=self._phase(),
            elapsed=now - self._start,
            steps=self._steps,
            goal=self._goal,
            updates=self._updates,
            episodes=self._episodes,
            mean_return=self._mean_return,
            best_return=self._best_return,
            metrics=_scalars(self._metrics),
            steps_per_second=steps_rate,
            updates_per_second=updates_rate,
            seconds_left=left / steps_rate if steps_rate else None,
            checkpoint=self._checkpoint and (self._checkpoint[0], now - self._checkpoint[1]),
            curve=self._curve,
            unit=self._unit,
            window=20 if self._training is None else self._training.window,
        )

    def _phase(self) -> Optional[str]:
        if self._updates:
            return None
        if self._training is None:
            return "building the networks ..."
        if self._unit == "update":
            return "tracing the first update ..."
        return "collecting the first batch, tracing the first update ..."

    def _mark(self) -> None:
        self._marks.append((self._clock(), self._steps, self._updates))

    def _rates(self) -> tuple[Optional[float], Optional[float]]:
        """Steps and updates per second since the oldest mark, of which it makes a new one."""
        if not self._marks:
            return None, None
        self._mark()
        while self._marks[-1][0] - self._marks[1][0] >= _RATE_SECONDS:
            self._marks.popleft()
        (then, steps, updates), (now, steps_now, updates_now) = self._marks[0], self._marks[-1]
        if now - then < 0.5:
            return None, None
        return (steps_now - steps) / (now - then), (updates_now - updates) / (now - then)


def _scalars(metrics: Mapping[str, Any]) -> dict[str, float]:
    arrays = {k: np.asarray(v) for k, v in metrics.items()}
    return {k: float(a) for k, a in arrays.items() if a.shape == () and a.dtype.kind in "fiub"}
