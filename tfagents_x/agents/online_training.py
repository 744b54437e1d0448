"""Training of an agent that collects its own data.

The actor takes a step; whenever the replay can serve a batch, the learner makes an update.
Every episode starts from a seed of its own, and checkpoints are taken between episodes.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any, Callable, Optional

import dm_env

from tfagents_x.agents import builder as builder_lib
from tfagents_x.agents import run_directory
from tfagents_x.agents import training as training_lib
from tfagents_x.environments import loop
from tfagents_x.replay import errors, factory, tables
from tfagents_x.utils import loggers

# How many batches' worth of steps may pass without an update before we call it starving.
_PATIENCE = 20

# Checkpoints wait for an episode to end, but not for ever: they are taken inside it after this
# many times the usual interval, and not more often than every so many seconds.
_LONG_EPISODE = 2.0
_LONG_EPISODE_SECONDS = 10.0


class _AtStep(loggers.Logger):
    """Writes the steps done so far into each row: the counter only moves between episodes."""

    def __init__(self, to: loggers.Logger, steps: Callable[[], int]):
        self._to = to
        self._steps = steps

    def write(self, data: loggers.LoggingData) -> None:
        self._to.write({**data, "actor_steps": self._steps()})

    def close(self) -> None:
        self._to.close()


class OnlineTraining(training_lib.Training[builder_lib.OnlineBuilder]):
    """A run whose steps are those of the environment."""

    def __init__(
        self,
        builder: builder_lib.OnlineBuilder,
        environment: dm_env.Environment,
        directory: run_directory.RunDirectory,
        *,
        replay: str = "auto",
        **options: Any,
    ):
        """Makes all parts, and restores them if it is to go on.

        Args:
          builder: of the agent.
          environment: must have `seed_episode`, as the wrappers of this package do.
          directory: where the files go; must exist.
          replay: `'auto'`, `'reverb'` or `'in_process'`.
          **options: further ones of `training.Training`.

        Raises:
          ValueError: see there.
        """
        self._environment = environment
        self._backend = replay
        self._limit = self._steps_at_update = 0
        super().__init__(builder, directory, **options)

    def run(self, num_steps: int) -> training_lib.Summary:
        """Trains until `num_steps` environment steps are done in all, and exports the policy.

        The episode that reaches the number is finished, unless it goes on for a tenth of the
        number (at least 1,000 steps) beyond. Checkpoints are written on the way, in an episode
        that lasts long also inside it, and at the end, also after `request_stop`. From one that
        was taken inside an episode, or after breaking it off, a run goes on with that episode
        from its start: steps and updates continue, but not as if nothing had happened.

        Raises:
          TrainingError, ValueError: see base class.
        """
        self._limit = num_steps + max(1_000, num_steps // 10)
        return super().run(num_steps)

    def close(self) -> None:
        """Closes replay and loggers."""
        self._replay.close()
        super().close()

    def _make_parts(self, seed: int, checkpoint: Optional[pathlib.Path]) -> None:
        builder = self._builder
        tables.check_feasible(builder.table, builder.batch_size)
        self._networks = builder.make_networks()
        self._replay = factory.make_replay(
            builder.make_tables(),
            builder.signature(self._networks),
            backend=self._backend,
            seed=seed,
            restore_from=None if checkpoint is None else str(checkpoint / "replay"),
        )
        self._adder = builder.make_adder(self._replay)
        self._adder_state = self._adder.state()
        self.learner = builder.make_learner(
            self._networks,
            self._replay.iterator(builder.table.name, builder.batch_size, timeout=0),
            replay=self._replay,
            counter=self._child_counter("learner"),
            logger=_AtStep(self._learner_logger, lambda: self._steps),
            seed=seed,
        )
        actor = builder.make_actor(builder.make_policy(self._networks), self._adder, seed)
        self._loop = loop.EnvironmentLoop(
            self._environment,
            actor,
            counter=self._actor_counter,
            logger=loggers.NoOpLogger(),
            episode_seed=seed,
            on_step=self._on_step,
        )

    def _work(self, num_steps: int) -> None:
        while self._steps < num_steps and not self._stopping:
            try:
                self._run_episode()
            except training_lib.Interrupted:
                self._break_off()
                break
            self._save_if_due(self._checkpoint_seconds)

    def _run_episode(self) -> None:
        result = self._loop.run_episode()
        self._adder_state = self._adder.state()
        self._note_episode(result)

    def _on_step(self, timestep: dm_env.TimeStep) -> None:
        del timestep
        self._steps += 1
        self._observer.on_step(self._steps)
        while self._replay.can_sample(self._builder.table.name, self._builder.batch_size):
            self._builder.settle(self.learner)
            self._update()
            self._steps_at_update = self._steps
        self._check_starving()
        if self._steps >= self._limit or self._out_of_grace():
            raise training_lib.Interrupted
        self._save_if_due(max(_LONG_EPISODE * self._checkpoint_seconds, _LONG_EPISODE_SECONDS))

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

    def _write_more(self, folder: pathlib.Path) -> None:
        self._builder.settle(self.learner)
        self._replay.save(str(folder / "replay"))

    def _progress(self) -> dict[str, Any]:
        return {
            "uncounted_steps": self._uncounted_steps(),
            "steps_at_update": self._steps_at_update,
            "adder": self._adder.state(),
        }

    def _load_progress(self, progress: Mapping[str, Any]) -> None:
        self._actor_counter.increment(steps=progress["uncounted_steps"])
        self._steps = int(self._counter.get_counts().get("actor_steps", 0))
        self._steps_at_update = progress["steps_at_update"]
        self._adder.load_state(progress["adder"])
        self._adder_state = self._adder.state()
