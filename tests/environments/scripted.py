"""A scripted dm_env environment and an actor that remembers, for the tests of this folder."""

from __future__ import annotations

import dm_env
import numpy as np

from tfagents_x import core, specs


class ScriptedEnvironment(dm_env.Environment):
    """Plays `rewards` in each episode; observations are {"x": [2] float32, "n": int32}.

    The x of an episode come from a generator that `seed_episode` seeds. `edit(timestep)` may
    spoil a timestep before it goes out.
    """

    def __init__(self, rewards=(1.0, 2.0, 3.0), edit=lambda timestep: timestep):
        self._rewards = rewards
        self._edit = edit
        self._rng = np.random.default_rng(0)
        self._n = 0
        self.seeds = []

    def seed_episode(self, seed):
        self.seeds.append(seed)
        self._rng = np.random.default_rng(seed)

    def reset(self):
        self._n = 0
        return self._edit(dm_env.restart(self._observation()))

    def step(self, action):
        reward = self._rewards[self._n]
        self._n += 1
        if self._n == len(self._rewards):
            return self._edit(dm_env.termination(reward, self._observation()))
        return self._edit(dm_env.transition(reward, self._observation()))

    def _observation(self):
        return {"x": self._rng.random(2, np.float32), "n": np.int32(self._n)}

    def observation_spec(self):
        return {"x": specs.Array((2,), np.float32), "n": specs.Array((), np.int32)}

    def action_spec(self):
        return specs.DiscreteArray(2)


class RecordingActor(core.Actor):
    """Always acts 1 and keeps all calls."""

    def __init__(self):
        self.calls = []
        self.timesteps = []
        self.actions = []

    def select_action(self, observation):
        self.calls.append("select_action")
        return np.int32(1)

    def observe_first(self, timestep):
        self.calls.append("observe_first")
        self.timesteps.append(timestep)

    def observe(self, action, next_timestep):
        self.actions.append(action)
        self.calls.append("observe")
        self.timesteps.append(next_timestep)

    def update(self, wait=False):
        self.calls.append("update")
