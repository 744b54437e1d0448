"""Environments by name."""

from __future__ import annotations

import difflib
from typing import Any, Callable

import dm_env

from tfagents_x.environments import wrappers
from tfagents_x.environments.atari import make_atari
from tfagents_x.environments.dm_control_suite import make_dm_control
from tfagents_x.environments.gymnasium_wrapper import make_gymnasium
from tfagents_x.environments.seeding import seed_next_episode

EnvironmentFactory = Callable[..., dm_env.Environment]

DEFAULT_SCHEME = "gymnasium"


def make_environment(name: str, seed: int | None = None, **options: Any) -> dm_env.Environment:
    """Makes the environment called `name`.

    Args:
      name: `scheme:rest`, where the scheme says who makes `rest`; a name without a scheme is
        gymnasium's, so `CartPole-v1` and `gymnasium:CartPole-v1` are the same. Two schemes
        change another environment, and the rest is its name: `only:0,2:CartPole-v1` shows
        only these entries of the observation, `oar:CartPole-v1` also the last action and
        reward.
      seed: seeds the first episode, if given.
      **options: passed on to the scheme's factory.

    Raises:
      ValueError: unknown scheme or environment; the message names the nearest ones.
      ImportError: a package that the environment needs is not installed.
    """
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"An environment's name is a text like 'CartPole-v1', got {name!r}.")
    scheme, separator, rest = name.partition(":")
    if not separator:
        scheme, rest = DEFAULT_SCHEME, name
    environment = _factory(scheme, name)(rest, **options)
    if seed is not None:
        seed_next_episode(environment, seed)
    return environment


def register_scheme(scheme: str, factory: EnvironmentFactory) -> None:
    """Makes `make_environment('scheme:rest', **options)` call `factory('rest', **options)`.

    Raises:
      ValueError: the scheme is empty, contains a colon, or is taken by another factory.
    """
    if not scheme or ":" in scheme:
        raise ValueError(f"A scheme is a non-empty text without a colon, got {scheme!r}.")
    if _SCHEMES.setdefault(scheme, factory) is not factory:
        raise ValueError(f"The scheme {scheme!r} is taken. Known schemes: {_known()}.")


def make_with_entries(name: str, **options: Any) -> wrappers.ObservationEntriesWrapper:
    """Makes `ENTRIES:NAME`: the environment NAME, of whose observations only ENTRIES are shown.

    Args:
      name: like `0,2:CartPole-v1`, or `position:dm_control:cartpole-swingup`.
      **options: passed on to NAME's factory.

    Raises:
      ValueError: there is no such entry or environment, or one of the two is missing.
    """
    entries, _, inner = name.partition(":")
    if not entries or not inner:
        raise ValueError(
            f"The scheme 'only:' wants entries of the observation and the name of an environment, "
            f"as in 'only:0,2:CartPole-v1', got 'only:{name}'."
        )
    environment = make_environment(inner, **options)
    try:
        return wrappers.ObservationEntriesWrapper(environment, entries.split(","))
    except ValueError as error:
        environment.close()
        raise ValueError(f"only:{name}: {error}") from error


def make_with_action_and_reward(
    name: str, **options: Any
) -> wrappers.ObservationActionRewardWrapper:
    """Makes the environment `name`, which then also shows the last action and reward."""
    return wrappers.ObservationActionRewardWrapper(make_environment(name, **options))


_SCHEMES: dict[str, EnvironmentFactory] = {
    DEFAULT_SCHEME: make_gymnasium,
    "atari": make_atari,
    "dm_control": make_dm_control,
    "oar": make_with_action_and_reward,
    "only": make_with_entries,
}


def _factory(scheme: str, name: str) -> EnvironmentFactory:
    if scheme in _SCHEMES:
        return _SCHEMES[scheme]
    near = difflib.get_close_matches(scheme, _SCHEMES, n=1)
    hint = f" Did you mean {near[0] + ':'!r}?" if near else ""
    raise ValueError(
        f"Unknown scheme {scheme + ':'!r} in the environment name {name!r}.{hint} Known schemes: "
        f"{_known()}. A gymnasium id that imports a module is written 'gymnasium:{name}'."
    )


def _known() -> str:
    return ", ".join(sorted(f"{scheme}:" for scheme in _SCHEMES))
