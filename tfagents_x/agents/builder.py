"""What an agent must be able to make, so that one training loop serves them all."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Any, Optional

import sonnet as snt

from tfagents_x import core, specs, types
from tfagents_x.agents import actors, policies
from tfagents_x.learners import base
from tfagents_x.replay import adders, rows, tables
from tfagents_x.replay import base as replay_base
from tfagents_x.utils import counting, loggers


class Builder(abc.ABC):
    """Makes the parts of one agent from its config and an environment's specs."""

    #: Class of the config; a frozen dataclass.
    config_class: type
    config: Any

    def __init__(self, config: Any, spec: specs.EnvironmentSpec):
        """Keeps both.

        Raises:
          TypeError: the config belongs to another agent.
        """
        if not isinstance(config, self.config_class):
            raise TypeError(
                f"{type(self).__name__} needs a {self.config_class.__name__}, got "
                f"{type(config).__name__}."
            )
        self.config = config
        self.spec = spec

    @property
    @abc.abstractmethod
    def table(self) -> tables.Table:
        """The replay table that the learner samples from."""

    @property
    def batch_size(self) -> int:
        """Items in one batch of the learner."""
        return self.config.batch_size

    @property
    @abc.abstractmethod
    def steps_per_batch(self) -> int:
        """Environment steps that make a batch's worth of items; to tell waiting from starving."""

    @abc.abstractmethod
    def make_network(self) -> snt.Module:
        """The network that the policy acts with, with its variables.

        Raises:
          ValueError: the agent can't act in this environment.
        """

    @abc.abstractmethod
    def make_policy(self, network: snt.Module, evaluation: bool = False) -> policies.Policy:
        """The policy that collects data, or the one to be evaluated."""

    @abc.abstractmethod
    def signature(self, network: snt.Module) -> rows.Signature:
        """Type of the replay's items, extras included."""

    @abc.abstractmethod
    def make_adder(self, replay: replay_base.Replay) -> adders.Adder:
        """Turns steps into replay items."""

    @abc.abstractmethod
    def make_learner(
        self,
        network: snt.Module,
        dataset: Iterator[types.ReplaySample],
        replay: Optional[replay_base.Replay] = None,
        counter: Optional[counting.Counter] = None,
        logger: Optional[loggers.Logger] = None,
    ) -> base.Learner:
        """The learner; `replay` is for those that send priorities back."""

    def make_tables(self) -> list[tables.Table]:
        """All tables of the replay."""
        return [self.table]

    def make_actor(
        self, policy: policies.Policy, adder: Optional[adders.Adder] = None, seed: int = 0
    ) -> core.Actor:
        """The actor; without `adder` it records nothing."""
        return actors.PolicyActor(policy, self.spec.observations, adder, seed)
