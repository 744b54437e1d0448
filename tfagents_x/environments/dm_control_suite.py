"""Tasks of the dm_control suite (Tassa et al., 2018, arXiv:1801.00690), in float32.

dm_control itself is imported on first use, and nothing of it that draws.
"""

from __future__ import annotations

import difflib
import importlib
import warnings
from types import ModuleType
from typing import Any

import dm_env
import numpy as np
import tree

from tfagents_x import specs, types
from tfagents_x.environments import checks, spaces


class DMControlWrapper(dm_env.Environment):
    """Gives a task of the suite 32-bit numbers, plain dictionaries, and seeded episodes.

    The suite speaks dm_env already: its time limits end an episode with discount 1. What it
    gives as float64 becomes float32 here, bounds of actions rounded inward.
    """

    def __init__(self, env: Any):
        """Wraps `env`, a `dm_control.rl.control.Environment`.

        Raises:
          TypeError: `env` is something else.
        """
        random = getattr(getattr(env, "task", None), "random", None)
        if not isinstance(random, np.random.RandomState):
            raise TypeError(
                "DMControlWrapper wants an environment of dm_control.suite, whose task.random is a "
                f"RandomState, got {type(env).__name__}. To make one by name, use "
                "make_environment('dm_control:cartpole-swingup')."
            )
        self._env = env
        self._random = random
        self._observation_spec = _plain(tree.map_structure(_narrow_spec, env.observation_spec()))
        self._action_spec = _narrow_spec(env.action_spec())
        self._env_dtype = env.action_spec().dtype

    @property
    def environment(self) -> Any:
        """The wrapped environment."""
        return self._env

    def seed_episode(self, seed: int) -> None:
        """Makes the next `reset()` start from `seed`; later ones go on from there."""
        self._random.seed(int(seed))

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode."""
        return self._narrow(self._env.reset())

    def step(self, action: types.NestedArray) -> dm_env.TimeStep:
        """Takes one step; after a last timestep, starts a new episode and ignores `action`.

        Raises:
          ValueError: `action` has another shape or kind of dtype than the spec, or isn't finite.
        """
        action = np.asarray(action)
        checks.check_action(action, self._action_spec, bounded=False)
        return self._narrow(self._env.step(action.astype(self._env_dtype)))

    def observation_spec(self) -> types.NestedSpec:
        """Returns the dictionary of observation specs."""
        return self._observation_spec

    def action_spec(self) -> specs.BoundedArray:
        """Returns the action spec."""
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

    def _narrow(self, timestep: dm_env.TimeStep) -> dm_env.TimeStep:
        number = lambda x: None if x is None else np.float32(x)
        return timestep._replace(
            reward=number(timestep.reward),
            discount=number(timestep.discount),
            observation=_plain(tree.map_structure(_narrow, timestep.observation)),
        )


def make_dm_control(name: str, **options: Any) -> DMControlWrapper:
    """Makes the task `DOMAIN-TASK` of the suite, wrapped.

    Args:
      name: like `cartpole-swingup`.
      **options: passed on to `dm_control.suite.load`, such as `task_kwargs`. What a task draws
        when it is made is always the same unless `task_kwargs` has another `random`.

    Raises:
      ValueError: no such task; the message names the nearest ones.
      ImportError: dm_control is not installed.
    """
    suite = import_suite()
    domain, _, task = name.partition("-")
    if (domain, task) not in suite.ALL_TASKS:
        raise ValueError(_unknown_task(name, [f"{d}-{t}" for d, t in suite.ALL_TASKS]))
    options["task_kwargs"] = {"random": 0, **(options.get("task_kwargs") or {})}
    return DMControlWrapper(suite.load(domain, task, **options))


def import_suite() -> ModuleType:
    """Returns the module `dm_control.suite`.

    Raises:
      ImportError: it is not installed; the message says how to install it.
    """
    try:
        with warnings.catch_warnings():
            # Of a display that is missing: nothing is drawn here.
            warnings.simplefilter("ignore")
            return importlib.import_module("dm_control.suite")
    except ImportError as error:
        raise ImportError(
            f"dm_control is needed for this environment but can't be imported ({error}). Install "
            "it with: pip install 'tfagents_x[dm_control]' (Python 3.11 or 3.12)"
        ) from error


def _unknown_task(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.4)
    hint = f"Nearest: {', '.join(near)}." if near else "No task is near it."
    return (
        f"dm_control's suite has no task {name!r}. A name is DOMAIN-TASK, as in "
        f"'dm_control:cartpole-swingup'. {hint}"
    )


def _plain(nest: Any) -> Any:
    """Ordered dictionaries as plain ones, as wrappers of this package give them."""
    return {key: _plain(value) for key, value in nest.items()} if isinstance(nest, dict) else nest


def _narrow(value: Any) -> np.ndarray:
    # A copy: the physics overwrites what it hands out.
    array = np.array(value)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _narrow_spec(spec: Any) -> specs.Array:
    if spec.dtype != np.float64:
        return spec
    if not isinstance(spec, specs.BoundedArray):
        return specs.Array(spec.shape, np.float32, spec.name)
    low, high = spaces.float32_bounds(spec.minimum, spec.maximum, inward=True)
    return specs.BoundedArray(spec.shape, np.float32, low, high, spec.name)
