"""minari datasets on disk: recorded episodes of gymnasium environments.

minari itself is imported on first use.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Optional

import numpy as np

from tfagents_x import specs, types
from tfagents_x.datasets import foreign
from tfagents_x.environments import spaces

#: What tells such a folder from others: one of these. The older versions had the second alone.
FILES = ("data/metadata.json", "data/main_data.hdf5")


def load(folder: str | os.PathLike) -> tuple[Optional[str], specs.EnvironmentSpec, types.Step]:
    """Reads a dataset into memory. Episodes without a single step are left out.

    Returns:
      The environment's name for `environments.make_environment`, None if the name alone doesn't
      say how it was made; its spec, as `environments.GymnasiumWrapper` has it; and rows as
      `episodes.load` gives them, with actions and observations as that spec says.

    Raises:
      ImportError: minari is not installed.
      ValueError: a damaged dataset, or one of another version of minari.
      TypeError: a space has no spec.
    """
    dataset = _open(folder)
    spec = specs.EnvironmentSpec(
        observations=spaces.observation_space_to_spec(dataset.observation_space),
        actions=spaces.action_space_to_spec(dataset.action_space),
        rewards=specs.Array((), np.float32, "reward"),
        discounts=specs.BoundedArray((), np.float32, 0.0, 1.0, "discount"),
    )
    try:
        rows = foreign.gather(spec, _episodes(dataset))
    except Exception as error:  # Of any type: the files are read now.
        raise foreign.unreadable(folder, error) from error
    return _environment_name(dataset.env_spec), spec, rows


def _import_minari() -> ModuleType:
    try:
        import h5py  # noqa: F401
        import minari
        import PIL.Image  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"minari is needed to read its datasets but can't be imported ({error}). Install it "
            "with: pip install 'tfagents_x[minari]'"
        ) from error
    return minari


def _open(folder: str | os.PathLike) -> Any:
    minari = _import_minari()
    try:
        return minari.MinariDataset(os.path.join(folder, "data"))
    except Exception as error:  # Of any type: it makes spaces of what the files say.
        raise ValueError(
            f"minari {minari.__version__} can't open {os.fspath(folder)}: "
            f"{type(error).__name__}: {error}"
        ) from error


def _environment_name(env_spec: Any) -> Optional[str]:
    if env_spec is None or env_spec.kwargs or env_spec.additional_wrappers:
        return None
    return str(env_spec.id)


def _episodes(dataset: Any) -> Iterator[types.Step]:
    # Actions are converted like observations: from the environment's values to ours.
    observations = spaces.observation_converter(dataset.observation_space)
    actions = spaces.observation_converter(dataset.action_space)
    for episode in dataset.iterate_episodes():
        if not len(episode.rewards):
            continue
        with np.errstate(over="ignore"):  # What is infinite then, `gather` names.
            observation, action = observations(episode.observations), actions(episode.actions)
        discount = 1.0 - np.asarray(episode.terminations, np.float32)
        yield foreign.make_episode(observation, action, episode.rewards, discount)
