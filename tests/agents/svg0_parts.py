"""A tiny SVG0 agent on an environment with dictionaries and continuous actions."""

from __future__ import annotations

import dm_env
import numpy as np

from tfagents_x import specs
from tfagents_x.agents import online_training, run_directory
from tfagents_x.agents.svg0 import SVG0Builder, SVG0Config

TINY = dict(
    batch_size=2,
    sequence_length=3,
    min_replay_size=4,
    num_action_samples=2,
    policy_layer_sizes=(8,),
    critic_layer_sizes=(8,),
    prior_layer_sizes=(8,),
)
WITH_PRIOR = dict(use_prior=True, prior_keys=("velocity",), critic_keys=("place", "velocity"))


class Sled(dm_env.Environment):
    """A place and a velocity in [-1, 1] that two actions in [-1, 3] push; 10 steps an episode.

    It keeps the actions that it gets.
    """

    def __init__(self):
        self.actions = []
        self._rng = np.random.default_rng(0)

    def seed_episode(self, seed):
        self._rng = np.random.default_rng(seed)

    def reset(self):
        self._steps = 0
        self._state = self._rng.uniform(-1, 1, [3]).astype(np.float32)
        return dm_env.restart(self._observation())

    def step(self, action):
        self.actions.append(np.array(action))
        self._steps += 1
        push = 0.1 * float(np.mean(action) - 1)
        self._state = np.clip(self._state + np.float32(push), -1, 1)
        reward = np.float32(-np.abs(self._state[0]))
        end = dm_env.truncation if self._steps == 10 else dm_env.transition
        return end(reward, self._observation(), np.float32(1.0))

    def _observation(self):
        return {"place": self._state[0], "velocity": self._state[1:]}

    def observation_spec(self):
        return {"place": specs.Array((), np.float32), "velocity": specs.Array((2,), np.float32)}

    def action_spec(self):
        return specs.BoundedArray((2,), np.float32, -1.0, 3.0, "push")


def make_builder(environment=None, **changes):
    config = SVG0Config(**{**TINY, **changes})
    return SVG0Builder(config, specs.make_environment_spec(environment or Sled()))


def make_training(path, environment=None, resume=False, seed=0, **changes):
    environment = environment or Sled()
    path.mkdir(exist_ok=True)
    return online_training.OnlineTraining(
        make_builder(environment, **changes),
        environment,
        run_directory.RunDirectory(path),
        seed=seed,
        replay="in_process",
        resume=resume,
    )
