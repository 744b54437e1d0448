"""Trains one agent in one process: the loop, its files, its checkpoints.

The actor takes a step; whenever the replay can serve a batch, the learner makes an
update. Everything happens in one thread and in one order, every episode starts from
a seed of its own, and checkpoints are taken between episodes: so a run that goes on
from a checkpoint makes the numbers that an uninterrupted one would have made.
"""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import time
from collections.abc import Mapping
from typing import Any, Callable, Optional

import dm_env
import numpy as np
import tensorflow as tf

from tfagents_x.agents import builder as builder_lib
from tfagents_x.agents import policies, run_directory
from tfagents_x.environments import loop
from tfagents_x.learners import base as learner_base
from tfagents_x.replay import errors, factory, tables
from tfagents_x.utils import counting, loggers, savers

# How many batches' worth of steps may pass without an update before we call it starving.
_PATIENCE = 20

# Checkpoints wait for an episode to end, but not for ever: they are taken inside it after this
# many times the usual interval, and not more often than every so many seconds.
_LONG_EPISODE = 2.0
_LONG_EPISODE_SECONDS = 10.0


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
      mean_return: over the last `window` training episodes; NaN if there was none.
      window: number of episodes in that mean, at most 20.
      seconds: spent training, in this process.
    """

    steps: int
    episodes: int
    updates: int
    mean_return: float
    window: int
    seconds: float


class _AtStep(loggers.Logger):
    """Writes the steps done so far into each row: the counter only moves between episodes."""

    def __init__(self, to: loggers.Logger, steps: Callable[[], int]):
        self._to = to
        self._steps = steps

    def write(self, data: loggers.LoggingData) -> None:
        self._to.write({**data, "actor_steps": self._steps()})

    def close(self) -> None:
        self._to.close()


class Training:
    """One run of one agent."""

    WINDOW = 20

    def __init__(
        self,
        builder: builder_lib.Builder,
        environment: dm_env.Environment,
        directory: run_directory.RunDirectory,
        *,
        seed: int = 0,
        replay: str = "auto",
        checkpoint_seconds: float = 30.0,
        max_to_keep: int = 3,
        observer: Optional[Observer] = None,
        resume: bool = False,
    ):
        """Makes all parts, and restores them from the last good checkpoint if `resume`.

        Args:
          builder: of the agent.
          environment: must have `seed_episode`, as the wrappers of this package do.
          directory: where the files go; must exist.
          seed: of networks, episodes and actions.
          replay: `'auto'`, `'reverb'` or `'in_process'`.
          checkpoint_seconds: time between checkpoints, which wait for an episode to end (but see
            `run`).
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
        self._limit = 0
        self._deadline: Optional[float] = None
        self._returns: collections.deque = collections.deque(maxlen=self.WINDOW)
        self._steps = self._updates = self._steps_at_update = 0
        checkpoint = self._find_checkpoint() if resume else None
        self._make_parts(environment, seed, replay, checkpoint)
        if checkpoint is not None:
            self._restore(checkpoint)
        elif resume:
            self._observer.on_message("There is no checkpoint yet; starting from the beginning.")
            self._forget_logs()

    def _make_parts(
        self,
        environment: dm_env.Environment,
        seed: int,
        replay: str,
        checkpoint: Optional[pathlib.Path],
    ) -> None:
        builder = self._builder
        tables.check_feasible(builder.table, builder.batch_size)
        self._networks = builder.make_networks()
        self._replay = factory.make_replay(
            builder.make_tables(),
            builder.signature(self._networks),
            backend=replay,
            seed=seed,
            restore_from=None if checkpoint is None else str(checkpoint / "replay"),
        )
        self._adder = builder.make_adder(self._replay)
        self._adder_state = self._adder.state()
        self._counter = counting.Counter(time_delta=0.0)
        self._actor_counter = counting.Counter(self._counter, prefix="actor", time_delta=0.0)
        self._learner_logger = self._make_logger("learner", self._directory.learner, 1.0)
        self._episode_logger = self._make_logger("episodes", self._directory.episodes, 0.0)
        self.learner = builder.make_learner(
            self._networks,
            self._replay.iterator(builder.table.name, builder.batch_size, timeout=0),
            replay=self._replay,
            counter=counting.Counter(self._counter, prefix="learner", time_delta=0.0),
            logger=_AtStep(self._learner_logger, lambda: self._steps),
            seed=seed,
        )
        actor = builder.make_actor(builder.make_policy(self._networks), self._adder, seed)
        self._loop = loop.EnvironmentLoop(
            environment,
            actor,
            counter=self._actor_counter,
            logger=loggers.NoOpLogger(),
            episode_seed=seed,
            on_step=self._on_step,
        )

    def _make_logger(self, label: str, path: pathlib.Path, time_delta: float) -> loggers.Logger:
        sinks = [
            loggers.CSVLogger(path),
            loggers.TensorBoardLogger(
                self._directory.tensorboard / label, label, steps_key="actor_steps"
            ),
        ]
        return loggers.TimeFilter(loggers.Dispatcher(sinks), time_delta)

    @property
    def steps(self) -> int:
        """Environment steps done in all."""
        return self._steps

    @property
    def mean_return(self) -> float:
        """Mean return of the last 20 episodes; NaN before the first has ended."""
        return float(np.mean(self._returns)) if self._returns else float("nan")

    def request_stop(self, grace_seconds: float = 2.0) -> None:
        """Ends `run` after this episode, or breaks it off when the grace is over.

        May be called from a signal handler or another thread.
        """
        self._deadline = time.monotonic() + grace_seconds

    def run(self, num_steps: int) -> Summary:
        """Trains until `num_steps` environment steps are done in all, and exports the policy.

        The episode that reaches the number is finished, unless it goes on for a tenth of the
        number (at least 1,000 steps) beyond. Checkpoints are written on the way, in an episode
        that lasts long also inside it, and at the end, also after `request_stop`. From one that
        was taken inside an episode, or after breaking it off, a run goes on with that episode
        from its start: steps and updates continue, but not as if nothing had happened.

        Raises:
          TrainingError: a loss is not finite, or the replay can never serve a batch; the
            message names the last good checkpoint.
          ValueError: the environment gave something that isn't finite or not in its spec.
        """
        start = self._last_save = time.monotonic()
        self._limit = num_steps + max(1_000, num_steps // 10)
        self._observer.on_start(self)
        if self._last_checkpoint is None:
            self._save()
        while self._steps < num_steps and self._deadline is None:
            try:
                self._run_episode()
            except Interrupted:
                self._break_off()
                break
            except (learner_base.NonFiniteError, errors.ReplayStarved) as error:
                raise TrainingError(
                    f"{error} Stopped after {self._steps} steps; the last good checkpoint is "
                    f"{self._last_checkpoint}."
                ) from error
            if time.monotonic() - self._last_save >= self._checkpoint_seconds:
                self._save()
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
        )

    def export(self) -> None:
        """Writes the evaluation policy as a SavedModel into the run directory."""
        policy = self._builder.make_policy(self._networks, evaluation=True)
        exported = policies.ExportedPolicy(policy, self._builder.spec.observations)
        exported.export(self._directory.policy)

    def close(self) -> None:
        """Closes replay and loggers."""
        self._replay.close()
        self._learner_logger.close()
        self._episode_logger.close()

    def _run_episode(self) -> None:
        result = self._loop.run_episode()
        self._adder_state = self._adder.state()
        self._returns.append(result["episode_return"])
        self._episode_logger.write(result)
        self._observer.on_episode(result)

    def _on_step(self, timestep: dm_env.TimeStep) -> None:
        del timestep
        self._steps += 1
        self._observer.on_step(self._steps)
        while self._replay.can_sample(self._builder.table.name, self._builder.batch_size):
            metrics = self.learner.step()
            self._updates += 1
            self._steps_at_update = self._steps
            self._observer.on_update(self._updates, metrics)
        self._check_starving()
        now = time.monotonic()
        if self._steps >= self._limit or (self._deadline is not None and now > self._deadline):
            raise Interrupted
        pause = max(_LONG_EPISODE * self._checkpoint_seconds, _LONG_EPISODE_SECONDS)
        if now - self._last_save >= pause:
            self._save()

    def _check_starving(self) -> None:
        builder, waited = self._builder, self._steps - self._steps_at_update
        table, size = builder.table, builder.batch_size
        if waited > _PATIENCE * builder.steps_per_batch + builder.steps_to_first_batch:
            raise errors.ReplayStarved(
                f"No batch after {waited} steps: table {table.name!r} holds "
                f"{self._replay.size(table.name)} items, a batch takes {size}, and nothing that "
                "the actor does adds more. Episodes may be too short for the sequences, or the "
                "table's limits too tight."
            )

    def _break_off(self) -> None:
        """Drops the episode: its steps count, its return doesn't, it will be run again."""
        self._adder.load_state(self._adder_state)
        self._actor_counter.increment(steps=self._uncounted_steps())
        self._observer.on_message(f"Broke off an episode after {self._steps} steps in all.")

    def _uncounted_steps(self) -> int:
        """Steps of the episode that is running; the loop counts them when it ends."""
        return self._steps - int(self._counter.get_counts().get("actor_steps", 0))

    # Checkpoints.

    def _save(self) -> None:
        path = self._folder.save(self._steps, self._write)
        self._last_checkpoint = path
        self._last_save = time.monotonic()
        self._observer.on_checkpoint(path)

    def _write(self, folder: pathlib.Path) -> None:
        self.learner.checkpointable.write(str(folder / "learner"))
        savers.write_nest(folder / "training.npz", self._progress())
        self._replay.save(str(folder / "replay"))

    def _progress(self) -> dict[str, Any]:
        return {
            "counter": dict(self._counter.save()),
            "uncounted_steps": self._uncounted_steps(),
            "updates": self._updates,
            "steps_at_update": self._steps_at_update,
            "returns": [float(x) for x in self._returns],
            "adder": self._adder.state(),
        }

    def _restore(self, path: pathlib.Path) -> None:
        self.learner.checkpointable.read(str(path / "learner")).assert_consumed()
        progress = savers.read_nest(path / "training.npz")
        self._counter.restore(progress["counter"])
        self._actor_counter.increment(steps=progress["uncounted_steps"])
        self._steps = int(self._counter.get_counts().get("actor_steps", 0))
        self._updates = progress["updates"]
        self._steps_at_update = progress["steps_at_update"]
        self._returns.extend(progress["returns"])
        self._adder.load_state(progress["adder"])
        self._adder_state = self._adder.state()
        self._forget_logs()
        self._folder.drop_after(path)
        self._last_checkpoint = path
        self._observer.on_message(f"Resumed from {path}: {self._steps} steps.")

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
            logger.truncate_after("actor_steps", self._steps)
