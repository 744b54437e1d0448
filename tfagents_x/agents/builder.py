"""What an agent must be able to make, so that one training loop serves them all."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping
from typing import Any, Callable, Optional

import sonnet as snt

from tfagents_x import core, datasets, specs, types
from tfagents_x.agents import actors, policies
from tfagents_x.learners import base
from tfagents_x.replay import adders, rows, tables
from tfagents_x.replay import base as replay_base
from tfagents_x.utils import counting, loggers, nest

#: An agent's networks by the names under which checkpoints hold them.
Networks = Mapping[str, snt.Module]


def with_targets(
    make: Callable[[], Mapping[str, snt.Module]], spec: specs.EnvironmentSpec
) -> dict[str, snt.Module]:
    """Makes networks twice: online, and as `target_...`, with the same values to begin with.

    Args:
      make: makes them, without variables; `critic` takes observations and actions, all others
        observations.
      spec: of the environment.
    """
    online, target = make(), make()
    networks = {**online, **{f"target_{name}": network for name, network in target.items()}}
    for name, network in networks.items():
        actions = [spec.actions] if name.endswith("critic") else []
        nest.create_variables(network, [spec.observations, *actions])
    for name, network in online.items():
        for variable, source in zip(target[name].variables, network.variables):
            variable.assign(source)
    return networks


class Builder(abc.ABC):
    """Makes the parts of one agent from its config and an environment's specs.

    Agents that collect their own data are `OnlineBuilder`s, those that learn from a dataset
    `OfflineBuilder`s.
    """

    #: Class of the config; a frozen dataclass.
    config_class: type
    config: Any

    #: How long a training run is that was not told: environment steps, offline updates.
    default_steps: int = 150_000

    #: Names of the policies that an evaluation can act with, the usual one first.
    policy_names: tuple[str, ...] = ("policy",)

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
    def batch_size(self) -> int:
        """Items in one batch of the learner."""
        return self.config.batch_size

    @abc.abstractmethod
    def make_networks(self) -> dict[str, snt.Module]:
        """All networks, with their variables.

        What `policies.Policy.networks` names has the names of the learner's `networks`, and so
        of its checkpoints, and can be read from them alone.

        Raises:
          ValueError: the agent can't act in this environment.
        """

    @abc.abstractmethod
    def make_policy(
        self, networks: Networks, evaluation: bool = False, name: str = "policy"
    ) -> policies.Policy:
        """A policy.

        Args:
          networks: as `make_networks` gives them.
          evaluation: the one to be evaluated; else the one that collects data.
          name: one of `policy_names`; see `check_policy`.
        """

    def check_policy(self, name: str) -> None:
        """Raises a `ValueError` if `name` is none of the agent's policies."""
        if name not in self.policy_names:
            raise ValueError(
                f"This agent has no policy {name!r}; it has: {', '.join(self.policy_names)}."
            )

    def make_actor(
        self, policy: policies.Policy, adder: Optional[adders.Adder] = None, seed: int = 0
    ) -> core.Actor:
        """The actor; without `adder` it records nothing."""
        return actors.PolicyActor(policy, self.spec.observations, adder, seed)


class OnlineBuilder(Builder):
    """Of an agent that learns from what it does itself, by way of replay."""

    @property
    @abc.abstractmethod
    def table(self) -> tables.Table:
        """The replay table that the learner samples from."""

    @property
    @abc.abstractmethod
    def steps_per_batch(self) -> int:
        """Environment steps from one batch to the next; to tell waiting from starving."""

    @property
    def steps_to_first_batch(self) -> int:
        """Environment steps before the first batch; more where the replay fills up first."""
        return self.steps_per_batch

    @abc.abstractmethod
    def signature(self, networks: Networks) -> rows.Signature:
        """Type of the replay's items, extras included."""

    @abc.abstractmethod
    def make_adder(self, replay: replay_base.Replay) -> adders.Adder:
        """Turns steps into replay items."""

    @abc.abstractmethod
    def make_learner(
        self,
        networks: Networks,
        dataset: Iterator[types.ReplaySample],
        replay: Optional[replay_base.Replay] = None,
        counter: Optional[counting.Counter] = None,
        logger: Optional[loggers.Logger] = None,
        seed: int = 0,
    ) -> base.Learner:
        """The learner; `replay` is for those that send priorities back, `seed` for those that draw.

        A learner whose losses are random must repeat them from `seed` and its checkpoint.
        """

    def settle(self, learner: base.Learner) -> None:
        """Waits until what `learner` sends to replay in the background has arrived there.

        Called before every batch and checkpoint, so that a run repeats.
        """

    def make_tables(self) -> list[tables.Table]:
        """All tables of the replay."""
        return [self.table]


class OfflineBuilder(Builder):
    """Of an agent that learns from recorded episodes, and acts only to show what it has learned."""

    default_steps = 10_000

    #: Whether it can't learn from episodes without rewards.
    needs_rewards: bool = True

    @classmethod
    def fit(cls, config: Any, rows: types.Step) -> Any:
        """The config with what it leaves to the data filled in.

        Args:
          config: of `config_class`.
          rows: all that was recorded, arrays [R, ...], as `datasets.load` gives them.
        """
        del rows
        return config

    @property
    def evaluation_period(self) -> int:
        """Updates from one evaluation to the next."""
        return self.config.evaluation_period

    @property
    def evaluation_episodes(self) -> int:
        """Episodes of an evaluation."""
        return self.config.evaluation_episodes

    @abc.abstractmethod
    def make_batches(self, rows: types.Step, seed: int) -> datasets.Batches:
        """Batches of what was recorded, as the learner takes them.

        Raises:
          ValueError: there is too little of it.
        """

    @abc.abstractmethod
    def make_learner(
        self,
        networks: Networks,
        dataset: Iterator[Any],
        counter: Optional[counting.Counter] = None,
        logger: Optional[loggers.Logger] = None,
        seed: int = 0,
    ) -> base.Learner:
        """The learner; must repeat its updates from `seed` and its checkpoint."""
