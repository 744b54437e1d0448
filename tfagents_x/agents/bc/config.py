"""Settings of the BC agent."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Literal

from tfagents_x.agents import configs

_COUNTS = ("batch_size", "num_sgd_steps_per_step", "evaluation_period", "evaluation_episodes")


@dataclasses.dataclass(frozen=True)
class BCConfig:
    """What can be changed about the agent; every field can be given on the command line.

    Attributes:
      batch_size: transitions in one gradient step.
      num_sgd_steps_per_step: gradient steps in one update. Updates are what --steps, the logs
        and evaluation_period count: each takes batch_size * num_sgd_steps_per_step transitions,
        and many small gradient steps in one update cost less than as many updates.
      loss: logp is the log-probability of the recorded actions (for discrete ones, the
        cross-entropy); mse their squared distance from a sample of the policy, for continuous
        actions; peerbc and rcal add a regularisation.
      peerbc_base_loss: what peerbc, for continuous actions, regularises.
      peerbc_zeta: how much of the loss of permuted actions it subtracts.
      rcal_discount: of the Bellman equation by which rcal, for discrete actions and on top of
        logp, finds rewards.
      rcal_alpha: how much of their mean magnitude it adds.
      learning_rate: of Adam.
      hidden_sizes: widths of the layers.
      init_scale: standard deviation of continuous actions at first, where 1 is half the range
        of the action space.
      min_scale: smallest standard deviation, in the same unit.
      evaluation_period: updates from one evaluation to the next.
      evaluation_episodes: episodes of each.
      jit_compile: compile the update with XLA.
    """

    batch_size: int = 256
    num_sgd_steps_per_step: int = 1
    loss: Literal["logp", "mse", "peerbc", "rcal"] = "logp"
    peerbc_base_loss: Literal["logp", "mse"] = "logp"
    peerbc_zeta: float = 0.1
    rcal_discount: float = 0.99
    rcal_alpha: float = 0.1
    learning_rate: float = 1e-3
    hidden_sizes: tuple[int, ...] = (64, 64)
    init_scale: float = 0.5
    min_scale: float = 0.05
    evaluation_period: int = 2_000
    evaluation_episodes: int = 10
    jit_compile: bool = False

    def __post_init__(self) -> None:
        check = functools.partial(configs.check, self)
        check("at least 1", lambda x: x >= 1, *_COUNTS)
        check("positive and finite", lambda x: 0 < x < math.inf, "learning_rate", "init_scale")
        finite = lambda x: 0 <= x < math.inf
        check("at least 0 and finite", finite, "peerbc_zeta", "rcal_alpha", "min_scale")
        check("in [0, 1]", lambda x: 0 <= x <= 1, "rcal_discount")
        fits = lambda x: len(x) > 0 and min(x) >= 1
        check("one or more positive widths", fits, "hidden_sizes")
