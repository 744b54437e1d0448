"""Atari games of the Arcade Learning Environment (Bellemare et al., 2013, arXiv:1207.4708).

Preprocessed as in Acme. ale_py, gymnasium and Pillow are imported on first use.
"""

from __future__ import annotations

import difflib
import importlib
from types import ModuleType
from typing import Any

import dm_env
import numpy as np

from tfagents_x import types
from tfagents_x.environments import spaces
from tfagents_x.environments.gymnasium_wrapper import GymnasiumWrapper

_PREFIX, _SUFFIX = "ALE/", "-v5"


class LifeLossWrapper(GymnasiumWrapper):
    """A `GymnasiumWrapper` that gives discount 0, but goes on, where `info['life_lost']`."""

    def step(self, action: types.NestedArray) -> dm_env.TimeStep:
        """Takes one step; see base class."""
        timestep = super().step(action)
        if self.get_info().get("life_lost") and not timestep.first():
            return timestep._replace(discount=np.float32(0.0))
        return timestep


def make_atari(
    game: str,
    *,
    sticky_actions: bool = True,
    full_action_space: bool = False,
    zero_discount_on_life_loss: bool = False,
    **options: Any,
) -> GymnasiumWrapper:
    """Makes a game: uint8 observations of 84 x 84 grey pixels, four of them stacked.

    Args:
      game: like `Pong` or `SpaceInvaders`.
      sticky_actions: the last action is repeated, at each frame, with probability 0.25; without
        it, a game is the same whatever its seed (Machado et al., 2018, arXiv:1709.06009).
      full_action_space: all 18 actions, not just those that the game knows.
      zero_discount_on_life_loss: a lost life counts as the end, but the game goes on.
      **options: of `atari_preprocessing.preprocess`.

    Raises:
      ValueError: no such game; the message names the nearest ones.
      ImportError: ale_py, gymnasium or Pillow is not installed.
    """
    preprocessing = _import()
    gymnasium = spaces.import_gymnasium()
    games = [x[len(_PREFIX) : -len(_SUFFIX)] for x in gymnasium.registry if _is_game(x)]
    if game not in games:
        raise ValueError(_unknown_game(game, games))
    environment = gymnasium.make(
        f"{_PREFIX}{game}{_SUFFIX}",
        # Repeated below, so that the last two of four frames can be pooled.
        frameskip=1,
        repeat_action_probability=0.25 if sticky_actions else 0.0,
        full_action_space=full_action_space,
        disable_env_checker=True,
    )
    wrapper = LifeLossWrapper if zero_discount_on_life_loss else GymnasiumWrapper
    return wrapper(preprocessing.preprocess(environment, **options))


def _import() -> ModuleType:
    try:
        # Importing it registers the games.
        ale_py = importlib.import_module("ale_py")
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # No banner for every game.
        return importlib.import_module("tfagents_x.environments.atari_preprocessing")
    except ImportError as error:
        raise ImportError(
            f"Atari games need ale_py, gymnasium and Pillow, which can't be imported ({error}). "
            "Install them with: pip install 'tfagents_x[atari]'"
        ) from error


def _is_game(env_id: str) -> bool:
    return env_id.startswith(_PREFIX) and env_id.endswith(_SUFFIX)


def _unknown_game(game: str, known: list[str]) -> str:
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(game.lower(), list(by_lower), n=3, cutoff=0.4)
    names = ", ".join(by_lower[name] for name in near)
    hint = f"Nearest: {names}." if near else "No game is near it."
    return f"There is no Atari game {game!r}. A name is like 'atari:Pong'. {hint}"
