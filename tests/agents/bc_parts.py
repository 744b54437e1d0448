"""Tiny BC agents: one for signs, whose expert is a rule, and one for the sled."""

from __future__ import annotations

import dm_env
import numpy as np

from tests.agents import crr_parts, svg0_parts
from tfagents_x import datasets, specs, types
from tfagents_x.agents import offline_training, run_directory
from tfagents_x.agents.bc import BCBuilder, BCConfig

TINY = dict(batch_size=8, hidden_sizes=(8,), evaluation_period=4, evaluation_episodes=2)


class Signs(dm_env.Environment):
    """Reward 1 for action 1 where x > 0, action 0 where x < 0; 5 steps an episode."""

    def seed_episode(self, seed):
        self._rng = np.random.default_rng(seed)

    def reset(self):
        self._steps = 0
        return dm_env.restart(self._observe())

    def step(self, action):
        self._steps += 1
        reward = np.float32(int(action) == int(self._observation[0] > 0))
        end = dm_env.truncation if self._steps == 5 else dm_env.transition
        return end(reward, self._observe(), np.float32(1.0))

    def _observe(self):
        self._observation = self._rng.normal(size=2).astype(np.float32)
        return self._observation

    def observation_spec(self):
        return specs.Array((2,), np.float32)

    def action_spec(self):
        return specs.DiscreteArray(2)


def expert_rows(episodes=40, rewards=True):
    """Episodes of `Signs` by the rule, as a dataset that is loaded."""
    rng = np.random.default_rng(0)
    count = 6 * episodes  # The last observation has a row of its own.
    observation = rng.normal(size=[count, 2]).astype(np.float32)
    last = np.arange(count) % 6 == 5
    kept = np.where(last, 0, 1)
    return types.Step(
        observation=observation,
        action=((observation[:, 0] > 0) * kept).astype(np.int32),
        reward=kept.astype(np.float32) if rewards else (),
        discount=kept.astype(np.float32),
        start_of_episode=np.arange(count) % 6 == 0,
    )


def make_builder(environment=None, **changes):
    config = BCConfig(**{**TINY, **changes})
    return BCBuilder(config, specs.make_environment_spec(environment or Signs()))


def make_sled_builder(**changes):
    return make_builder(svg0_parts.Sled(), **changes)


sled_rows = crr_parts.record


def batches(builder, rows, seed=0):
    made = builder.make_batches(rows, seed)
    assert isinstance(made, datasets.Transitions)
    return made


def make_training(path, rows, seed=0, changes=(), **options):
    path.mkdir(exist_ok=True)
    return offline_training.OfflineTraining(
        make_builder(**dict(changes)),
        rows,
        run_directory.RunDirectory(path),
        environment=Signs(),
        fingerprint="a",
        seed=seed,
        **options,
    )
