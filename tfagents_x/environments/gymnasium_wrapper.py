"""A gymnasium environment as a dm_env environment."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import dm_env
import numpy as np

from tfagents_x import specs, types
from tfagents_x.environments import spaces


class GymnasiumWrapper(dm_env.Environment):
    """Makes `env` follow the dm_env interface.

    What ends an episode is told apart: `terminated` gives a last timestep with discount 0
    (there is no future), `truncated` alone one with discount 1 (there is, but it was cut
    off), so that a time limit does not look like a failure.

    Specs and values are those of `tfagents_x.environments.spaces`. Rewards and discounts are
    float32 scalars.
    """

    def __init__(self, env: Any):
        """Wraps `env`, a `gymnasium.Env`.

        Raises:
          TypeError: `env` is not a single gymnasium environment, or a space has no spec.
          ImportError: gymnasium is not installed.
        """
        _require_gymnasium_env(env)
        self._env = env
        self._observation_spec = spaces.observation_space_to_spec(env.observation_space)
        self._action_spec = spaces.action_space_to_spec(env.action_space)
        self._to_observation = spaces.observation_converter(env.observation_space)
        self._to_env_action = spaces.action_converter(env.action_space)
        self._next_seed: int | None = None
        self._needs_reset = True
        self._info: Mapping[str, Any] = {}

    @property
    def environment(self) -> Any:
        """The wrapped gymnasium environment."""
        return self._env

    def get_info(self) -> Mapping[str, Any]:
        """Returns the `info` of the latest reset or step."""
        return self._info

    def seed_episode(self, seed: int) -> None:
        """Makes the next `reset()` start from `seed`; later ones go on from there."""
        self._next_seed = int(seed)

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode.

        Raises:
          ValueError: the environment follows the older gym interface.
        """
        seed, self._next_seed = self._next_seed, None
        observation, self._info = _unpack(self._env.reset(seed=seed), 2, "reset()")
        self._needs_reset = False
        return dm_env.restart(self._to_observation(observation))

    def step(self, action: types.NestedArray) -> dm_env.TimeStep:
        """Takes one step; after a last timestep, starts a new episode and ignores `action`.

        Raises:
          ValueError: `action` does not fit the action spec (see `spaces.action_converter`), or
            the environment follows the older gym interface.
        """
        if self._needs_reset:
            return self.reset()
        result = self._env.step(self._to_env_action(action))
        observation, reward, terminated, truncated, self._info = _unpack(result, 5, "step()")
        observation, reward = self._to_observation(observation), _to_reward(reward)
        self._needs_reset = bool(terminated or truncated)
        discount = np.float32(0.0 if terminated else 1.0)
        step_type = dm_env.StepType.LAST if self._needs_reset else dm_env.StepType.MID
        return dm_env.TimeStep(step_type, reward, discount, observation)

    def observation_spec(self) -> types.NestedSpec:
        """Returns the nest of observation specs."""
        return self._observation_spec

    def action_spec(self) -> types.NestedSpec:
        """Returns the nest of action specs."""
        return self._action_spec

    def reward_spec(self) -> specs.Array:
        """Returns the spec of a float32 scalar."""
        return specs.Array((), np.float32, "reward")

    def discount_spec(self) -> specs.BoundedArray:
        """Returns the spec of a float32 scalar in [0, 1]."""
        return specs.BoundedArray((), np.float32, 0.0, 1.0, "discount")

    def close(self) -> None:
        """Closes the wrapped environment."""
        self._env.close()


def make_gymnasium(env_id: str, **options: Any) -> GymnasiumWrapper:
    """Makes the registered gymnasium environment `env_id`, wrapped.

    Args:
      env_id: like `CartPole-v1`, or `module:Id-v0` to import `module` first.
      **options: passed on to `gymnasium.make`. gymnasium's own passive checker is off unless
        asked for (`disable_env_checker=False`): this package does those checks.

    Raises:
      ValueError: no such id; the message names the nearest ones.
      ImportError: gymnasium, or a package that this environment needs, is not installed.
    """
    gymnasium = spaces.import_gymnasium()
    options = {"disable_env_checker": True, **options}
    try:
        return GymnasiumWrapper(gymnasium.make(env_id, **options))
    except gymnasium.error.DependencyNotInstalled as error:
        raise ImportError(
            f"The environment {env_id!r} needs a package that is not installed: {error}"
        ) from error
    except gymnasium.error.Error as error:
        raise ValueError(_unknown_id(env_id, list(gymnasium.registry), error)) from error


def _unknown_id(env_id: str, known: Sequence[str], error: Exception) -> str:
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(env_id.lower(), list(by_lower), n=3, cutoff=0.5)
    names = ", ".join(by_lower[name] for name in near)
    hint = f"Nearest registered ids: {names}." if near else "No registered id is near it."
    return f"gymnasium can't make the environment {env_id!r}. {hint} (gymnasium: {error})"


def _require_gymnasium_env(env: Any) -> None:
    wanted = ("observation_space", "action_space", "reset", "step")
    missing = [name for name in wanted if not hasattr(env, name)]
    if missing:
        raise TypeError(
            f"GymnasiumWrapper wants a gymnasium.Env, got {type(env).__name__} without "
            f"{', '.join(missing)}. To make one by name, use make_environment('CartPole-v1')."
        )
    if hasattr(env, "num_envs"):
        raise TypeError(
            f"GymnasiumWrapper wants a single environment, got the vector environment "
            f"{type(env).__name__}. Wrap each of its environments instead."
        )


def _unpack(result: Any, length: int, call: str) -> tuple:
    if isinstance(result, tuple) and len(result) == length:
        return result
    got = f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__
    raise ValueError(
        f"The environment's {call} must return a tuple of {length} values as in gymnasium, got "
        f"{got}. Environments for the older gym interface need a compatibility wrapper (shimmy)."
    )


def _to_reward(reward: Any) -> Any:
    # Some environments give an array of one element. Anything else that is no number passes
    # through, for `check_finite` to name with its step.
    array = np.asarray(reward)
    if array.size == 1 and array.dtype.kind in "fiub":
        return np.float32(array.reshape(()))
    return reward
