"""Small minari datasets, written by minari itself."""

from __future__ import annotations

import gymnasium
import minari
import numpy as np
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage

OBSERVATION = spaces.Dict(
    {
        "place": spaces.Box(-1e6, 1e6, (2,), np.float64),
        "kind": spaces.Discrete(5, start=-2),
    }
)
ACTION = spaces.Discrete(3, start=1)


def episode(number, length, terminated=False):
    """An episode of `length` steps in which every leaf tells its number and the step."""
    value = 100.0 * number + np.arange(length + 1)
    at_end = np.arange(length) == length - 1
    return EpisodeBuffer(
        observations={
            "place": np.stack([value, -value], 1),
            "kind": np.arange(length + 1) % 5 - 2,
        },
        actions=np.arange(length) % 3 + 1,
        rewards=value[:length],
        terminations=at_end & terminated,
        truncations=at_end & (not terminated),
    )


def write(folder, episodes, observation=OBSERVATION, action=ACTION, environment=None, version=None):
    """Writes episodes; returns the dataset's folder.

    Args:
      folder: to be made.
      episodes: `EpisodeBuffer`s.
      observation: space.
      action: space.
      environment: name of a registered environment, to be noted, or its spec.
      version: of minari, to be noted; by default its own.
    """
    folder.mkdir(parents=True)
    named = isinstance(environment, str)
    spec = gymnasium.make(environment).spec if named else environment
    storage = MinariStorage.new(folder / "data", observation, action, spec)
    storage.update_episodes(episodes)
    version = version or minari.__version__
    storage.update_metadata({"dataset_id": "recording/points-v0", "minari_version": version})
    return folder
