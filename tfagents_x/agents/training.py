"""Trains one agent in one process: its files, its checkpoints, how it begins, stops, goes on.

What the training does in between is in `online_training.py` and `offline_training.py`. All of
it happens in one thread and in one order, so a run that goes on from a checkpoint makes the
numbers that an uninterrupted one would have made.
"""

from __future__ import annotations

import abc
import collections
import dataclasses
import pathlib
import time
from collections.abc import Mapping
from typing import Any, Generic, Optional, TypeVar

import numpy as np
import sonnet as snt
import tensorflow as tf

from tfagents_x.agents import builder as builder_lib
from tfagents_x.agents import policies, run_directory
from tfagents_x.learners import base as learner_base
from tfagents_x.replay import errors
from tfagents_x.utils import counting, loggers, savers

_Builder = TypeVar("_Builder", bound=builder_lib.Builder)


class TrainingError(RuntimeError, ValueError):
    """Training can't go on; the message says why and what is left."""


class Interrupted(Exception):
    """Raised inside an episode that is to be broken off."""


class Observer:
    """Is told what happens; all methods do nothing here, override what you need."""

    def on_start(self, training: Training) -> None:
        """Training is about to begin, or to go on."""

    def on_step(self, steps: int) -> None:
        """The actor has taken `steps` steps in all."""

    def on_update(self, updates: int, metrics: Mapping[str, tf.Tensor]) -> None:
        """The learner has made `updates` updates in all; metrics are still tensors."""

    def on_episode(self, result: Mapping[str, Any]) -> None:
        """An episode has ended; see `EnvironmentLoop.run_episode`."""

    def on_checkpoint(self, path: pathlib.Path) -> None:
        """A checkpoint has been written."""

    def on_message(self, message: str) -> None:
        """Something a person should know."""


@dataclasses.dataclass(frozen=True)
class Summary:
    """What came out of a run.

    Attributes:
      steps, episodes, updates: done in all.
      mean_return: over the last `window` episodes; NaN if there was none.
      window: number of episodes in that mean.
      seconds: spent training, in this process.
      unit: what `steps` are: steps of the environment, or updates.
    """

    steps: int
    episodes: int
    updates: int
    mean_return: float
    window: int
    seconds: float
    unit: str = "step"


class Training(abc.ABC, Generic[_Builder]):
    """One run of one agent. A subclass says what is done in a step, and with what.

    Attributes:
      learner: the agent's learner.
    """

    #: Number of episodes in the mean return.
    window = 20
    #: What `run` counts; and the column of the logs that says how many were done.
    unit, steps_key = "step", "actor_steps"

    learner: learner_base.Learner
    _networks: Mapping[str, snt.Module]

    def __init__(
        self,
        builder: _Builder,
        directory: run_directory.RunDirectory,
        *,
        seed: int = 0,
        checkpoint_seconds: float = 30.0,
        max_to_keep: int = 3,
        observer: Optional[Observer] = None,
        resume: bool = False,
    ):
        """Makes all parts, and restores them from the last good checkpoint if `resume`.

        Args:
          builder: of the agent.
          directory: where the files go; must exist.
          seed: of networks, episodes and actions.
          checkpoint_seconds: time between checkpoints.
          max_to_keep: number of checkpoints kept.
          observer: is told what happens.
          resume: go on from the last checkpoint.

        Raises:
          ValueError: the agent doesn't fit the environment or its own config, or all checkpoints
            to go on from are damaged.
        """
        tf.random.set_seed(seed)
        self._builder = builder
        self._directory = directory
        self._observer = observer or Observer()
        self._checkpoint_seconds = checkpoint_seconds
        self._folder = savers.CheckpointFolder(directory.checkpoints, max_to_keep)
        self._last_checkpoint: Optional[pathlib.Path] = None
        self._last_save = time.monotonic()
        self._deadline: Optional[float] = None
        self._returns: collections.deque = collections.deque(maxlen=self.window)
        self._steps = self._updates = 0
        self._counter = counting.Counter(time_delta=0.0)
        self._actor_counter = self._child_counter("actor")
        self._learner_logger = self._make_logger("learner", directory.learner, 1.0)
        self._episode_logger = self._make_logger("episodes", directory.episodes, 0.0)
        checkpoint = self._find_checkpoint() if resume else None
        self._make_parts(seed, checkpoint)
        if checkpoint is not None:
            self._restore(checkpoint)
        elif resume:
            self._observer.on_message("There is no checkpoint yet; starting from the beginning.")
            self._forget_logs()

    # What a kind of training does.

    @abc.abstractmethod
    def _make_parts(self, seed: int, checkpoint: Optional[pathlib.Path]) -> None:
        """Makes networks, learner and the rest; `checkpoint` is what will be restored."""

    @abc.abstractmethod
    def _work(self, num_steps: int) -> None:
        """Does steps until `num_steps` are done in all, or `_stopping`."""

    @abc.abstractmethod
    def _progress(self) -> dict[str, Any]:
        """State of its own for the checkpoint, a nest of numbers, texts and arrays."""

    @abc.abstractmethod
    def _load_progress(self, progress: Mapping[str, Any]) -> None:
        """Takes back what `_progress` gave; counters, returns and learner are restored."""

    def _write_more(self, folder: pathlib.Path) -> None:
        """Writes further files of the checkpoint."""

    # What a user calls.

    @property
    def steps(self) -> int:
        """What was done in all: environment steps, or updates; see `unit`."""
        return self._steps

    @property
    def mean_return(self) -> float:
        """Mean return of the last episodes; NaN before the first has ended."""
        return float(np.mean(self._returns)) if self._returns else float("nan")

    def request_stop(self, grace_seconds: float = 2.0) -> None:
        """Ends `run` at the next good moment, or breaks off when the grace is over.

        May be called from a signal handler or another thread.
        """
        self._deadline = time.monotonic() + grace_seconds

    def run(self, num_steps: int) -> Summary:
        """Trains until `num_steps` are done in all, and exports the policy.

        Checkpoints are written on the way and at the end, also after `request_stop`.

        Raises:
          TrainingError: a loss is not finite, or the replay can never serve a batch; the
            message names the last good checkpoint.
          ValueError: the environment gave something that isn't finite or not in its spec.
        """
        start = self._last_save = time.monotonic()
        self._observer.on_start(self)
        if self._last_checkpoint is None:
            self._save()
        try:
            self._work(num_steps)
        except (learner_base.NonFiniteError, errors.ReplayStarved) as error:
            raise TrainingError(
                f"{error} Stopped after {self._steps} {self.unit}s; the last good checkpoint is "
                f"{self._last_checkpoint}."
            ) from error
        self._save()
        self.export()
        counts = self._counter.get_counts()
        return Summary(
            steps=self._steps,
            episodes=int(counts.get("actor_episodes", 0)),
            updates=self._updates,
            mean_return=self.mean_return,
            window=len(self._returns),
            seconds=time.monotonic() - start,
            unit=self.unit,
        )

    def export(self) -> None:
        """Writes the evaluation policy as a SavedModel into the run directory."""
        policy = self._builder.make_policy(self._networks, evaluation=True)
        exported = policies.ExportedPolicy(policy, self._builder.spec.observations)
        exported.export(self._directory.policy)

    def close(self) -> None:
        """Closes the loggers."""
        self._learner_logger.close()
        self._episode_logger.close()

    # For subclasses.

    @property
    def _stopping(self) -> bool:
        return self._deadline is not None

    def _out_of_grace(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def _child_counter(self, prefix: str) -> counting.Counter:
        return counting.Counter(self._counter, prefix=prefix, time_delta=0.0)

    def _make_logger(self, label: str, path: pathlib.Path, time_delta: float) -> loggers.Logger:
        sinks = [
            loggers.CSVLogger(path),
            loggers.TensorBoardLogger(
                self._directory.tensorboard / label, label, steps_key=self.steps_key
            ),
        ]
        return loggers.TimeFilter(loggers.Dispatcher(sinks), time_delta)

    def _update(self) -> None:
        metrics = self.learner.step()
        self._updates += 1
        self._observer.on_update(self._updates, metrics)

    def _note_episode(self, result: Mapping[str, Any]) -> None:
        self._returns.append(result["episode_return"])
        self._episode_logger.write(result)
        self._observer.on_episode(result)

    # Checkpoints.

    def _save_if_due(self, seconds: float) -> None:
        if time.monotonic() - self._last_save >= seconds:
            self._save()

    def _save(self) -> None:
        path = self._folder.save(self._steps, self._write)
        self._last_checkpoint = path
        self._last_save = time.monotonic()
        self._observer.on_checkpoint(path)

    def _write(self, folder: pathlib.Path) -> None:
        self.learner.checkpointable.write(str(folder / "learner"))
        common = {
            "counter": dict(self._counter.save()),
            "updates": self._updates,
            "returns": [float(x) for x in self._returns],
        }
        savers.write_nest(folder / "training.npz", {**common, **self._progress()})
        self._write_more(folder)

    def _restore(self, path: pathlib.Path) -> None:
        progress = savers.read_nest(path / "training.npz")
        self.learner.checkpointable.read(str(path / "learner")).assert_consumed()
        self._counter.restore(progress["counter"])
        self._updates = progress["updates"]
        self._returns.extend(progress["returns"])
        self._load_progress(progress)
        self._forget_logs()
        self._folder.drop_after(path)
        self._last_checkpoint = path
        self._observer.on_message(f"Resumed from {path}: {self._steps} {self.unit}s.")

    def _find_checkpoint(self) -> Optional[pathlib.Path]:
        found = self._folder.latest(self._observer.on_message)
        if found is None and self._folder.all():
            raise ValueError(
                f"All checkpoints in {self._folder.root} are damaged, so there is nothing to go on "
                "from. Start a new run in another directory."
            )
        return found

    def _forget_logs(self) -> None:
        """Takes back what was logged after the step where this process begins."""
        for logger in (self._learner_logger, self._episode_logger):
            logger.truncate_after(self.steps_key, self._steps)
