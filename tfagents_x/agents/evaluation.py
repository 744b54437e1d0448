"""Plays episodes with what a run has learned."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, Callable, Optional

import numpy as np
import tensorflow as tf

from tfagents_x import environments, specs
from tfagents_x.agents import builder as builder_lib
from tfagents_x.agents import configs, registry, run_directory
from tfagents_x.environments import seeding
from tfagents_x.utils import loggers, savers

# Episodes of their own: with the streams of training, seed 0 would mean the episodes that a
# run of seed 0 was trained on.
_STREAM = 2


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Outcome of an evaluation.

    Attributes:
      checkpoint: where the networks came from.
      returns: of each episode.
      lengths: steps of each episode.
    """

    checkpoint: pathlib.Path
    returns: tuple[float, ...]
    lengths: tuple[int, ...]

    def statistics(self) -> dict[str, dict[str, float]]:
        """Mean, standard deviation (of the episodes, not of the mean), minimum and maximum."""
        return {"return": _statistics(self.returns), "length": _statistics(self.lengths)}


def evaluate(
    run: str | os.PathLike,
    num_episodes: int = 20,
    *,
    seed: int = 0,
    greedy: bool = True,
    report: Callable[[str], None] = lambda message: None,
    on_episode: Callable[[Mapping[str, Any]], None] = lambda result: None,
) -> Evaluation:
    """Plays episodes with the networks of a run's newest intact checkpoint.

    Nothing is recorded, and the run is left as it is.

    Args:
      run: directory of the run.
      num_episodes: at least 1.
      seed: of the episodes and of sampled actions; the same seed gives the same episodes.
      greedy: take the best action; else act as in training.
      report: told about checkpoints that are damaged and passed over.
      on_episode: gets the result of each episode, see `EnvironmentLoop.run_episode`.

    Raises:
      ValueError: there is no such run or no intact checkpoint in it, the environment can't be
        made or gives numbers that aren't finite, or `num_episodes` is less than 1.
    """
    if num_episodes < 1:
        raise ValueError(f"num_episodes must be at least 1, got {num_episodes}.")
    directory = run_directory.RunDirectory(pathlib.Path(run))
    spec = directory.read()
    checkpoint = _latest_checkpoint(directory, report)
    environment = environments.make_environment(spec.environment)
    try:
        builder = make_builder(spec, specs.make_environment_spec(environment), directory.config)
        policy = builder.make_policy(builder.make_networks(), evaluation=greedy)
        restore_networks(policy.networks, checkpoint)
        actor = builder.make_actor(policy)
        loop = environments.EnvironmentLoop(
            environment,
            actor,
            logger=loggers.NoOpLogger(),
            should_update=False,
            episode_seed=seeding.derive_episode_seed(seed, 0, _STREAM),
        )
        results = [_play(loop, on_episode) for _ in range(num_episodes)]
    finally:
        environment.close()
    returns = tuple(float(r["episode_return"]) for r in results)
    return Evaluation(checkpoint, returns, tuple(int(r["episode_length"]) for r in results))


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


def _play(
    loop: environments.EnvironmentLoop, on_episode: Callable[[Mapping[str, Any]], None]
) -> Mapping[str, Any]:
    result = loop.run_episode()
    on_episode(result)
    return result


def _statistics(values: tuple[float, ...]) -> dict[str, float]:
    array = np.asarray(values, np.float64)
    return {
        "mean": float(array.mean()),
        "std": float(array.std()),
        "min": float(array.min()),
        "max": float(array.max()),
    }


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
