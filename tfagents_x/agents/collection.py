"""Records what a run's policy does, as a dataset for offline agents."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Callable

import dm_env
import numpy as np
import tree

from tfagents_x import datasets, environments, types
from tfagents_x.agents import playing
from tfagents_x.agents.training import Interrupted
from tfagents_x.datasets import manifest as manifest_lib

# Episodes of their own; see `Player.loop`.
_STREAM = 4


class Recorder(environments.EnvironmentObserver):
    """Writes every finished episode; one that is broken off is forgotten.

    Recorded are the actions that the environment got, and no extras: an offline agent has no use
    for the states and probabilities of another's networks.
    """

    def __init__(self, writer: datasets.EpisodeWriter):
        """Keeps the writer."""
        self._writer = writer
        self._observations: list = []
        self._outcomes: list = []

    def observe_first(self, env: dm_env.Environment, timestep: dm_env.TimeStep) -> None:
        """See base class."""
        self._observations, self._outcomes = [_copied(timestep.observation)], []

    def observe(
        self, env: dm_env.Environment, timestep: dm_env.TimeStep, action: types.NestedArray
    ) -> None:
        """See base class."""
        self._outcomes.append(_copied((action, timestep.reward, timestep.discount)))
        self._observations.append(_copied(timestep.observation))
        if timestep.last():
            self._writer.write(self._episode(env))

    def get_metrics(self) -> dict[str, Any]:
        """See base class; there are none."""
        return {}

    def _episode(self, env: dm_env.Environment) -> types.Step:
        zeros = tree.map_structure(np.zeros_like, self._outcomes[0])
        action, reward, discount = _stacked([*self._outcomes, zeros])
        as_float32 = lambda x: np.asarray(x, np.float32)
        actions = env.action_spec()
        return types.Step(
            observation=_typed(_stacked(self._observations), env.observation_spec()),
            action=_typed(action, actions),
            reward=tree.map_structure(as_float32, reward),
            discount=tree.map_structure(as_float32, discount),
            start_of_episode=np.arange(len(self._observations)) == 0,
        )


def collect(
    run: str | os.PathLike,
    num_steps: int,
    out: str | os.PathLike,
    *,
    policy: str = "policy",
    greedy: bool = False,
    seed: int = 0,
    append: bool = False,
    report: Callable[[str], None] = lambda message: None,
    on_episode: Callable[[Mapping[str, Any]], None] = lambda result: None,
    stopping: Callable[[], bool] = lambda: False,
) -> manifest_lib.Manifest:
    """Plays whole episodes until `num_steps` steps are recorded.

    Args:
      run: directory of a run; its newest intact checkpoint acts.
      num_steps: at least so many, at least 1; the last episode is finished.
      out: folder of the dataset, to be made, or to be continued with `append`.
      policy: one of the agent's; see `Builder.policy_names`.
      greedy: take the best action; else act as in training.
      seed: of the episodes and of sampled actions.
      append: add to the dataset that is there. Its episodes count in the row of the seed's, so
        the same seed does not record the same episodes again.
      report: told about checkpoints that are damaged and passed over.
      on_episode: gets the result of each episode, see `EnvironmentLoop.run_episode`.
      stopping: asked after each step; when true, the episode is dropped and the rest kept.

    Returns:
      The manifest of the whole dataset.

    Raises:
      ValueError: as `playing.opened`; `num_steps` is less than 1; or `out` holds a dataset, of
        another environment if `append`.
    """
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1, got {num_steps}.")
    # Before anything is loaded: this takes seconds.
    there = _check_out(out, append)

    def on_step(timestep: dm_env.TimeStep) -> None:
        if stopping():
            raise Interrupted

    with playing.opened(run, policy=policy, greedy=greedy, report=report) as player:
        manifest = _manifest(out, there, player)
        source = {
            "run": os.path.abspath(run),
            "agent": player.spec.agent,
            "checkpoint": player.checkpoint.name,
            "policy": policy,
            "actions": "best" if greedy else "sampled",
            "seed": seed,
        }
        writer = datasets.EpisodeWriter(out, manifest, source)
        loop = player.loop(
            seed, _STREAM, manifest.episodes, observers=[Recorder(writer)], on_step=on_step
        )
        try:
            steps = 0
            while steps < num_steps:
                result = loop.run_episode()
                steps += result["episode_length"]
                on_episode(result)
        except Interrupted:
            pass
        finally:
            writer.close()
    return writer.manifest


def _check_out(out: str | os.PathLike, append: bool) -> bool:
    there = os.path.exists(os.path.join(out, manifest_lib.FILE))
    if there and not append:
        raise ValueError(
            f"{os.fspath(out)} holds a dataset already. Add to it with --append, or give another "
            "--out folder."
        )
    return there


def _manifest(out: str | os.PathLike, there: bool, player: playing.Player) -> manifest_lib.Manifest:
    new = manifest_lib.Manifest(player.spec.environment, player.environment_spec)
    if not there:
        return new
    old = manifest_lib.read(out)
    if old.spec_json() != new.spec_json():
        raise ValueError(
            f"The dataset in {os.fspath(out)} is of {old.environment}, whose observations or "
            f"actions are not those of {new.environment}: record into another folder."
        )
    return old


def _copied(nested: types.NestedArray) -> types.NestedArray:
    # Environments may write into the arrays that they gave.
    return tree.map_structure(np.array, nested)


def _stacked(rows: list) -> Any:
    return tree.map_structure(lambda *x: np.stack(x), *rows)


def _typed(nested: types.NestedArray, spec: types.NestedSpec) -> types.NestedArray:
    return tree.map_structure(lambda s, x: np.asarray(x, s.dtype), spec, nested)
