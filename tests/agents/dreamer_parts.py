"""A tiny DreamerV3 agent, for discrete and for continuous actions."""

from __future__ import annotations

import dm_env
import numpy as np

from tests.agents import bc_parts
from tfagents_x import specs
from tfagents_x.agents import online_training, run_directory
from tfagents_x.agents.dreamer_v3 import DreamerV3Builder, DreamerV3Config

TINY = dict(
    model_size="nano",
    batch_size=2,
    batch_length=5,
    horizon=3,
    training_ratio=2.0,
    min_replay_size=4,
    sequence_period=2,
)


class Cart(dm_env.Environment):
    """A place that one action in [-1, 3] moves; 7 steps an episode."""

    def seed_episode(self, seed):
        self._rng = np.random.default_rng(seed)

    def reset(self):
        self._steps, self._place = 0, self._rng.normal(size=2).astype(np.float32)
        return dm_env.restart(self._place)

    def step(self, action):
        self._steps += 1
        self._place = self._place + np.float32(0.1) * action
        end = dm_env.termination if self._steps == 7 else dm_env.transition
        return end(-np.float32(np.abs(self._place[0])), self._place)

    def observation_spec(self):
        return specs.Array((2,), np.float32)

    def action_spec(self):
        return specs.BoundedArray((1,), np.float32, -1.0, 3.0)


ENVIRONMENTS = {"discrete": bc_parts.Signs, "continuous": Cart}


def make_builder(kind="discrete", **changes):
    config = DreamerV3Config(**{**TINY, **changes})
    return DreamerV3Builder(config, specs.make_environment_spec(ENVIRONMENTS[kind]()))


def make_training(path, kind="discrete", **options):
    path.mkdir(exist_ok=True)
    return online_training.OnlineTraining(
        make_builder(kind),
        ENVIRONMENTS[kind](),
        run_directory.RunDirectory(path),
        replay="in_process",
        **options,
    )
