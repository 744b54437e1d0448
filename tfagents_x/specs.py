"""Shapes, dtypes and bounds of what passes between environment and agent.

The array specs are `dm_env.specs` themselves, so specs of any dm_env
environment can be used as they are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import dm_env
from dm_env import specs

Array = specs.Array
BoundedArray = specs.BoundedArray
DiscreteArray = specs.DiscreteArray


class EnvironmentSpec(NamedTuple):
    """Full specification of an environment (names of Acme's `specs.EnvironmentSpec`).

    Attributes:
      observations: Nest of `Array`.
      actions: Nest of `BoundedArray` or `DiscreteArray`.
      rewards: `Array`.
      discounts: `BoundedArray` in [0, 1].
    """

    observations: Any
    actions: Any
    rewards: Any
    discounts: Any


def make_environment_spec(environment: dm_env.Environment) -> EnvironmentSpec:
    """Reads the four specs off `environment`."""
    return EnvironmentSpec(
        observations=environment.observation_spec(),
        actions=environment.action_spec(),
        rewards=environment.reward_spec(),
        discounts=environment.discount_spec(),
    )
