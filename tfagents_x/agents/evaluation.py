"""Plays episodes with what a run has learned."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import Any, Callable

import numpy as np

from tfagents_x import environments
from tfagents_x.agents import playing

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
    policy: str = "policy",
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
      policy: one of the agent's; see `Builder.policy_names`.
      greedy: take the best action; else act as in training.
      report: told about checkpoints that are damaged and passed over.
      on_episode: gets the result of each episode, see `EnvironmentLoop.run_episode`.

    Raises:
      ValueError: there is no such run or no intact checkpoint in it, or no such policy; the
        environment can't be made, or gives numbers that aren't finite; or `num_episodes` is
        less than 1.
    """
    if num_episodes < 1:
        raise ValueError(f"num_episodes must be at least 1, got {num_episodes}.")
    with playing.opened(run, policy=policy, greedy=greedy, report=report) as player:
        loop = player.loop(seed, _STREAM)
        results = [_play(loop, on_episode) for _ in range(num_episodes)]
    returns = tuple(float(r["episode_return"]) for r in results)
    return Evaluation(player.checkpoint, returns, tuple(int(r["episode_length"]) for r in results))


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
