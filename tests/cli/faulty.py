"""Tiny environments `faulty:NAME`, some of which go wrong, and settings that suit them."""

from __future__ import annotations

import dm_env
import numpy as np

from tfagents_x import environments, specs

TINY = {
    "batch_size": "2",
    "sequence_length": "4",
    "sequence_period": "3",
    "hidden_sizes": "4",
    "lstm_size": "4",
}
SETTINGS = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}")]


class FaultyEnvironment(dm_env.Environment):
    """Episodes of 5 to 9 steps; the reward is 1 when the action is the sign of the observation.

    `fault` happens in the fifth episode: 'nan_reward', 'nan_observation', or 'huge_reward', which
    is finite but makes the loss infinite. With 'continuous', actions are; with 'bug', making
    it raises what nobody expects; with 'long', episodes take 200 steps.
    """

    def __init__(self, fault=""):
        if fault == "bug":
            raise RuntimeError("Nobody expected this.")
        self._fault = fault
        self._rng = np.random.default_rng(0)
        self._episode = 0

    def seed_episode(self, seed):
        self._rng = np.random.default_rng(seed)

    def reset(self):
        self._episode += 1
        self._left = 200 if self._fault == "long" else int(self._rng.integers(5, 10))
        self._observation = self._rng.normal(size=2).astype(np.float32)
        return dm_env.restart(self._observation)

    def step(self, action):
        reward = float(int(action) == int(self._observation[0] > 0))
        self._observation = self._rng.normal(size=2).astype(np.float32)
        self._left -= 1
        if self._episode == 5:
            reward = {"nan_reward": np.nan, "huge_reward": 1e30}.get(self._fault, reward)
            if self._fault == "nan_observation":
                self._observation[1] = np.nan
        end = dm_env.termination if self._left == 0 else dm_env.transition
        return end(np.float32(reward), self._observation)

    def observation_spec(self):
        return specs.Array((2,), np.float32)

    def action_spec(self):
        if self._fault == "continuous":
            return specs.BoundedArray((1,), np.float32, -1.0, 1.0)
        return specs.DiscreteArray(2)


environments.register_scheme("faulty", FaultyEnvironment)
