"""Training of an agent that learns from recorded episodes.

Every so many updates the agent plays a few episodes, to show how well it does; it learns
nothing from them. The seeds of an evaluation depend on the number of updates alone.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any, Optional

import dm_env

from tfagents_x import types
from tfagents_x.agents import builder as builder_lib
from tfagents_x.agents import run_directory
from tfagents_x.agents import training as training_lib
from tfagents_x.environments import loop, seeding
from tfagents_x.utils import loggers

# Episodes of their own: not those of training online, nor those of `evaluation`.
_STREAM = 3


class OfflineTraining(training_lib.Training[builder_lib.OfflineBuilder]):
    """A run whose steps are updates."""

    unit, steps_key = "update", "learner_steps"

    def __init__(
        self,
        builder: builder_lib.OfflineBuilder,
        rows: types.Step,
        directory: run_directory.RunDirectory,
        *,
        environment: Optional[dm_env.Environment] = None,
        fingerprint: str = "",
        seed: int = 0,
        **options: Any,
    ):
        """Makes all parts, and restores them if it is to go on.

        Args:
          builder: of the agent.
          rows: what was recorded, arrays [R, ...], as `datasets.load` gives them.
          directory: where the files go; must exist.
          environment: to play in, with `seed_episode`; None to learn without evaluation.
          fingerprint: of the dataset; a run does not go on with another one.
          seed: of networks, batches, losses and evaluations.
          **options: further ones of `training.Training`.

        Raises:
          ValueError: see there; or the run learned from another dataset so far.
        """
        self._rows = rows
        self._environment = environment
        self._fingerprint = fingerprint
        self._seed = seed
        self._evaluated_at = -1
        self.window = builder.evaluation_episodes
        super().__init__(builder, directory, seed=seed, **options)

    def _make_parts(self, seed: int, checkpoint: Optional[pathlib.Path]) -> None:
        builder = self._builder
        self._batches = builder.make_batches(self._rows, seed)
        self._networks = builder.make_networks()
        self.learner = builder.make_learner(
            self._networks,
            self._batches,
            counter=self._child_counter("learner"),
            logger=self._learner_logger,
            seed=seed,
        )
        self._actor = builder.make_actor(builder.make_policy(self._networks, evaluation=True))

    def _work(self, num_steps: int) -> None:
        try:
            while not self._stopping:
                if self._evaluation_due(num_steps):
                    self._evaluate()
                if self._steps >= num_steps:
                    break
                self._save_if_due(self._checkpoint_seconds)
                self._update()
                self._steps += 1
                self._observer.on_step(self._steps)
        except training_lib.Interrupted:
            self._observer.on_message("Broke off an evaluation; it will be done again.")

    def _evaluation_due(self, num_steps: int) -> bool:
        regular = self._steps > 0 and self._steps % self._builder.evaluation_period == 0
        return (regular or self._steps >= num_steps) and self._evaluated_at != self._steps

    def _evaluate(self) -> None:
        """Plays; what came out counts when all episodes have ended."""
        if self._environment is None:
            return
        episode_seed = seeding.derive_episode_seed(self._seed, self._steps, _STREAM)
        evaluation = loop.EnvironmentLoop(
            self._environment,
            self._actor,
            logger=loggers.NoOpLogger(),
            should_update=False,
            episode_seed=episode_seed,
            on_step=self._on_step,
        )
        results = [evaluation.run_episode() for _ in range(self._builder.evaluation_episodes)]
        self._evaluated_at = self._steps
        for result in results:
            counts = self._actor_counter.increment(episodes=1, steps=result["episode_length"])
            self._note_episode({**result, **counts, self.steps_key: self._steps})

    def _on_step(self, timestep: dm_env.TimeStep) -> None:
        del timestep
        if self._out_of_grace():
            raise training_lib.Interrupted

    def _progress(self) -> dict[str, Any]:
        return {
            "evaluated_at": self._evaluated_at,
            "batches": self._batches.state(),
            "fingerprint": self._fingerprint,
        }

    def _load_progress(self, progress: Mapping[str, Any]) -> None:
        if progress["fingerprint"] != self._fingerprint:
            raise ValueError(
                "The dataset has changed since this run began: it holds other episodes now. Give "
                "back the one that it began with, or start a new run."
            )
        self._steps = self._updates
        self._evaluated_at = progress["evaluated_at"]
        self._batches.load_state(progress["batches"])
