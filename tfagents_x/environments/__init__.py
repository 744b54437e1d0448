"""Environments: the loop that runs an actor in one, and what makes others speak dm_env.

Importing this package imports neither gymnasium nor dm_control nor ale_py.
"""

from tfagents_x.environments.atari import make_atari
from tfagents_x.environments.checks import check_finite, check_observation
from tfagents_x.environments.dm_control_suite import DMControlWrapper, make_dm_control
from tfagents_x.environments.gymnasium_wrapper import GymnasiumWrapper, make_gymnasium
from tfagents_x.environments.loop import EnvironmentLoop, EnvironmentObserver
from tfagents_x.environments.registry import make_environment, register_scheme
from tfagents_x.environments.seeding import derive_episode_seed, seed_next_episode
from tfagents_x.environments.spaces import action_space_to_spec, observation_space_to_spec
from tfagents_x.environments.wrappers import (
    EnvironmentWrapper,
    ObservationActionRewardWrapper,
    ObservationEntriesWrapper,
)

__all__ = [
    "DMControlWrapper",
    "EnvironmentLoop",
    "EnvironmentObserver",
    "EnvironmentWrapper",
    "GymnasiumWrapper",
    "ObservationActionRewardWrapper",
    "ObservationEntriesWrapper",
    "action_space_to_spec",
    "check_finite",
    "check_observation",
    "derive_episode_seed",
    "make_atari",
    "make_dm_control",
    "make_environment",
    "make_gymnasium",
    "observation_space_to_spec",
    "register_scheme",
    "seed_next_episode",
]
