"""What a run has learned, ready to act: for evaluations and recordings."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any, Callable, Optional

import dm_env
import tensorflow as tf

from tfagents_x import core, environments, specs
from tfagents_x.agents import builder as builder_lib
from tfagents_x.agents import configs, registry, run_directory
from tfagents_x.environments import seeding
from tfagents_x.utils import counting, loggers, savers


@dataclasses.dataclass(frozen=True)
class Player:
    """A policy of a run, and the environment that it was trained in.

    Attributes:
      spec: of the run.
      checkpoint: where the networks came from.
      environment: its environment.
      environment_spec: of that.
      actor: acts, and records nothing.
    """

    spec: run_directory.RunSpec
    checkpoint: pathlib.Path
    environment: dm_env.Environment
    environment_spec: specs.EnvironmentSpec
    actor: core.Actor

    def loop(
        self, seed: int, stream: int, episodes_before: int = 0, **options: Any
    ) -> environments.EnvironmentLoop:
        """A loop that plays, and updates nothing.

        Args:
          seed: of the episodes and of sampled actions.
          stream: number of a use; different uses of one seed meet different episodes. 0 and 1
            are those of training.
          episodes_before: where to begin in the row of the seed's episodes.
          **options: further ones of the loop.
        """
        counter = counting.Counter(time_delta=0.0)
        counter.increment(episodes=episodes_before)
        return environments.EnvironmentLoop(
            self.environment,
            self.actor,
            counter=counter,
            logger=loggers.NoOpLogger(),
            should_update=False,
            episode_seed=seeding.derive_episode_seed(seed, 0, stream),
            **options,
        )


@contextlib.contextmanager
def opened(
    run: str | os.PathLike,
    *,
    policy: str = "policy",
    greedy: bool = True,
    report: Callable[[str], None] = lambda message: None,
) -> Iterator[Player]:
    """Loads a policy from a run's newest intact checkpoint; the run is left as it is.

    Args:
      run: directory of the run.
      policy: one of `Builder.policy_names`.
      greedy: take the best action; else act as in training.
      report: told about checkpoints that are damaged and passed over.

    Raises:
      ValueError: there is no such run, no intact checkpoint in it, or no such policy, or the
        environment can't be made.
    """
    directory = run_directory.RunDirectory(pathlib.Path(run))
    spec = directory.read()
    checkpoint = _latest_checkpoint(directory, report)
    environment = environments.make_environment(spec.environment)
    try:
        environment_spec = specs.make_environment_spec(environment)
        builder = make_builder(spec, environment_spec, directory.config)
        builder.check_policy(policy)
        acting = builder.make_policy(builder.make_networks(), evaluation=greedy, name=policy)
        restore_networks(acting.networks, checkpoint)
        actor = builder.make_actor(acting)
        yield Player(spec, checkpoint, environment, environment_spec, actor)
    finally:
        environment.close()


def make_builder(
    spec: run_directory.RunSpec,
    environment_spec: specs.EnvironmentSpec,
    source: Optional[os.PathLike] = None,
) -> builder_lib.Builder:
    """The builder of a run's agent, with the run's config.

    Args:
      spec: of the run.
      environment_spec: of its environment.
      source: file that the spec was read from, to be named if it is wrong.

    Raises:
      ValueError: this version doesn't know the agent or one of its settings, or a value is wrong.
    """
    try:
        builder_class = registry.get_builder(spec.agent)
        config = configs.from_fields(builder_class.config_class, spec.config)
    except ValueError as error:
        raise ValueError(str(error) if source is None else f"{source}: {error}") from error
    return builder_class(config, environment_spec)


def restore_networks(networks: builder_lib.Networks, checkpoint: pathlib.Path) -> None:
    """Reads networks, and nothing else, from a checkpoint of the learner.

    Args:
      networks: of `Builder.make_networks`, all or some of them, with their variables.
      checkpoint: directory, as `Training` writes it.

    Raises:
      ValueError: the checkpoint holds other networks, or lacks one.
    """
    reader = tf.train.Checkpoint(**networks)
    try:
        status = reader.read(str(checkpoint / "learner"))
        status.assert_existing_objects_matched().expect_partial()
    except (AssertionError, ValueError, tf.errors.OpError) as error:
        raise ValueError(
            f"The {_listed(networks)} of this run can't be restored from {checkpoint}: "
            f"{_first_line(error)} "
            "Was the config or the environment changed since?"
        ) from error


def _latest_checkpoint(
    directory: run_directory.RunDirectory, report: Callable[[str], None]
) -> pathlib.Path:
    found: Optional[pathlib.Path] = None
    if directory.checkpoints.is_dir():
        found = savers.CheckpointFolder(directory.checkpoints).latest(report)
    if found is None:
        raise ValueError(f"There is no intact checkpoint in {directory.checkpoints}.")
    return found


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
