"""A tiny R2D2 agent on CartPole without its velocities, and on a screen of pixels."""

from __future__ import annotations

import dm_env
import numpy as np

from tfagents_x import environments, specs
from tfagents_x.agents import online_training, run_directory
from tfagents_x.agents.r2d2 import R2D2Builder, R2D2Config

TINY = dict(
    batch_size=2,
    burn_in_length=2,
    trace_length=4,
    sequence_period=3,
    min_replay_size=4,
    target_update_period=5,
    epsilon=0.3,
    hidden_sizes=(8,),
    lstm_size=4,
    head_sizes=(8,),
)
ENVIRONMENT = "only:0,2:CartPole-v1"


class Pixels(dm_env.Environment):
    """Random images [36, 36, 4] of uint8, three actions; 8 steps an episode, then a time limit."""

    def seed_episode(self, seed):
        self._rng = np.random.default_rng(seed)

    def reset(self):
        self._steps = 0
        return dm_env.restart(self._image())

    def step(self, action):
        self._steps += 1
        end = dm_env.truncation if self._steps == 8 else dm_env.transition
        return end(np.float32(action), self._image(), np.float32(1.0))

    def _image(self):
        return self._rng.integers(0, 256, (36, 36, 4)).astype(np.uint8)

    def observation_spec(self):
        return specs.BoundedArray((36, 36, 4), np.uint8, 0, 255)

    def action_spec(self):
        return specs.DiscreteArray(3)

    def reward_spec(self):
        return specs.Array((), np.float32)


def oar(environment):
    return environments.ObservationActionRewardWrapper(environment)


def make_environment():
    return environments.make_environment(ENVIRONMENT)


def make_builder(environment=None, **changes):
    config = R2D2Config(**{**TINY, **changes})
    return R2D2Builder(config, specs.make_environment_spec(environment or make_environment()))


def make_training(path, environment=None, resume=False, seed=0, replay="in_process", **changes):
    environment = environment or make_environment()
    path.mkdir(exist_ok=True)
    return online_training.OnlineTraining(
        make_builder(environment, **changes),
        environment,
        run_directory.RunDirectory(path),
        seed=seed,
        replay=replay,
        resume=resume,
    )
