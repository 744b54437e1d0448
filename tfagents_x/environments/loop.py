"""The loop in which an actor lives in an environment."""

from __future__ import annotations

import abc
import time
from collections.abc import Sequence
from typing import Any, Callable

import dm_env
import numpy as np

from tfagents_x import core, types
from tfagents_x.environments import checks, seeding
from tfagents_x.utils import counting, loggers

StepHook = Callable[[dm_env.TimeStep], None]


class EnvironmentObserver(abc.ABC):
    """Sees every step and adds metrics to the episode's result (Acme's `EnvLoopObserver`)."""

    @abc.abstractmethod
    def observe_first(self, env: dm_env.Environment, timestep: dm_env.TimeStep) -> None:
        """Sees the first timestep of an episode."""

    @abc.abstractmethod
    def observe(
        self, env: dm_env.Environment, timestep: dm_env.TimeStep, action: types.NestedArray
    ) -> None:
        """Sees `action` and the timestep that followed it."""

    @abc.abstractmethod
    def get_metrics(self) -> dict[str, Any]:
        """Returns the metrics of the episode that has just ended."""


class EnvironmentLoop:
    """Runs episodes of `actor` in `environment` (Acme's `EnvironmentLoop`).

    The first observation of each episode is checked against the environment's spec, and every
    reward, discount and observation for NaN and infinity.

    With `episode_seed`, each episode starts from a seed that depends only on `episode_seed` and
    the episode's index in the counter; so does the actor's own randomness, if the actor has a
    method `seed_episode(seed)`. A run that goes on from a saved counter then meets the episodes
    that an uninterrupted run would have met. Steps and episodes are counted when an episode
    ends, so one that was broken off is run again from its start.
    """

    def __init__(
        self,
        environment: dm_env.Environment,
        actor: core.Actor,
        counter: counting.Counter | None = None,
        logger: loggers.Logger | None = None,
        should_update: bool = True,
        label: str = "environment_loop",
        observers: Sequence[EnvironmentObserver] = (),
        *,
        episode_seed: int | None = None,
        on_step: StepHook | None = None,
    ):
        """Makes the loop; nothing runs yet.

        Args:
          environment: any dm_env environment.
          actor: chooses the actions and records what follows.
          counter: counts `steps` and `episodes`; a new one if None.
          logger: gets the result of each episode in `run`; the default logger if None.
          should_update: whether to call `actor.update()` after each step.
          label: name of the default logger.
          observers: see `EnvironmentObserver`.
          episode_seed: base of the episodes' seeds, an int >= 0.
          on_step: called with each new timestep, after the actor has recorded it. A trainer
            does its learning here.

        Raises:
          ValueError: `episode_seed` is given and is no int >= 0, or the environment can't be
            seeded.
        """
        if episode_seed is not None:
            seeding.derive_episode_seed(episode_seed, 0)
            seeding.require_seedable(environment)
        self._environment = environment
        self._actor = actor
        self._counter = counting.Counter() if counter is None else counter
        self._logger = self._default_logger(label) if logger is None else logger
        self._should_update = should_update
        self._observers = tuple(observers)
        self._episode_seed = episode_seed
        self._on_step = on_step
        self._observation_spec = environment.observation_spec()

    def run_episode(self) -> dict[str, Any]:
        """Runs one episode.

        Returns:
          `episode_length` (int), `episode_return` (float), `steps_per_second`, the mean seconds
          `select_action_duration_sec` and `env_step_duration_sec`, `env_reset_duration_sec`,
          the metrics of the observers, and the counts of the counter.

        Raises:
          ValueError: the environment gave something that is not finite or not in its spec.
        """
        start = time.perf_counter()
        timestep, episode = self._begin_episode()
        reset_seconds = time.perf_counter() - start
        length, episode_return, acting, stepping = 0, 0.0, 0.0, 0.0
        while not timestep.last():
            length += 1
            timestep, action_seconds, step_seconds = self._step(timestep, episode, length)
            episode_return += float(timestep.reward)
            acting, stepping = acting + action_seconds, stepping + step_seconds
        counts = self._counter.increment(episodes=1, steps=length)
        result = {
            "episode_length": length,
            "episode_return": episode_return,
            "steps_per_second": length / max(time.perf_counter() - start, 1e-9),
            "env_reset_duration_sec": reset_seconds,
            "select_action_duration_sec": acting / max(length, 1),
            "env_step_duration_sec": stepping / max(length, 1),
            **counts,
        }
        for observer in self._observers:
            result.update(observer.get_metrics())
        return result

    def run(self, num_episodes: int | None = None, num_steps: int | None = None) -> int:
        """Runs whole episodes and logs each, until one of the limits is reached.

        Args:
          num_episodes: number of episodes to run in this call.
          num_steps: number of steps after which no further episode starts.
            With neither, runs for ever.

        Returns:
          The number of steps taken.

        Raises:
          ValueError: both limits are given, or one is negative; and see `run_episode`.
        """
        _check_limits(num_episodes, num_steps)
        episodes, steps = 0, 0
        while _below(episodes, num_episodes) and _below(steps, num_steps):
            start = time.perf_counter()
            result = self.run_episode()
            result["episode_duration"] = time.perf_counter() - start
            episodes, steps = episodes + 1, steps + result["episode_length"]
            self._logger.write(result)
        return steps

    def _begin_episode(self) -> tuple[dm_env.TimeStep, int]:
        # The counter may have been restored since it last asked its parent.
        episode = int(self._counter.sync().get(self._counter.get_key("episodes"), 0))
        self._seed(episode)
        timestep = self._environment.reset()
        checks.check_observation(timestep.observation, self._observation_spec, episode)
        checks.check_finite(timestep, episode, 0)
        self._actor.observe_first(timestep)
        for observer in self._observers:
            observer.observe_first(self._environment, timestep)
        return timestep, episode

    def _seed(self, episode: int) -> None:
        if self._episode_seed is None:
            return
        seed = seeding.derive_episode_seed(self._episode_seed, episode)
        seeding.seed_next_episode(self._environment, seed)
        if seeding.is_seedable(self._actor):
            stream = seeding.ACTOR_STREAM
            seed = seeding.derive_episode_seed(self._episode_seed, episode, stream)
            seeding.seed_next_episode(self._actor, seed)

    def _step(
        self, timestep: dm_env.TimeStep, episode: int, step: int
    ) -> tuple[dm_env.TimeStep, float, float]:
        start = time.perf_counter()
        action = self._actor.select_action(timestep.observation)
        acted = time.perf_counter()
        timestep = self._environment.step(action)
        stepped = time.perf_counter()
        checks.check_finite(timestep, episode, step)
        self._actor.observe(action, timestep)
        for observer in self._observers:
            observer.observe(self._environment, timestep, action)
        if self._should_update:
            self._actor.update()
        if self._on_step is not None:
            self._on_step(timestep)
        return timestep, acted - start, stepped - acted

    def _default_logger(self, label: str) -> loggers.Logger:
        return loggers.make_default_logger(label, steps_key=self._counter.get_steps_key())


def _check_limits(num_episodes: int | None, num_steps: int | None) -> None:
    if num_episodes is not None and num_steps is not None:
        raise ValueError(
            f"Give num_episodes or num_steps, not both (got {num_episodes} and {num_steps})."
        )
    for name, limit in (("num_episodes", num_episodes), ("num_steps", num_steps)):
        if limit is not None and (not isinstance(limit, (int, np.integer)) or limit < 0):
            raise ValueError(f"{name} must be None or an int of 0 or more, got {limit!r}.")


def _below(count: int, limit: int | None) -> bool:
    return limit is None or count < limit
