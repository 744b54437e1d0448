"""Settings of the DreamerV3 agent."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Literal

from tfagents_x.agents import configs

_COUNTS = ("batch_size", "horizon", "sequence_period", "min_replay_size", "max_replay_size")
_POSITIVE = (
    "training_ratio",
    "world_model_lr",
    "actor_lr",
    "critic_lr",
    "world_model_grad_clip",
    "actor_grad_clip",
    "critic_grad_clip",
)
_FRACTIONS = ("gamma", "gae_lambda", "return_normalization_decay")


@dataclasses.dataclass(frozen=True)
class DreamerV3Config:
    """What can be changed about the agent; every field can be given on the command line.

    Attributes:
      model_size: of all networks.
      batch_size: sequences in one update.
      batch_length: steps of a sequence.
      training_ratio: steps that are replayed for each step of the environment; an update replays
        batch_size * batch_length of them.
      horizon: steps that are dreamed from each step of the batch.
      gamma: discount of future rewards.
      gae_lambda: how far value targets trust dreamed rewards over the critic.
      entropy_scale: weight of the entropy of the actor.
      return_normalization_decay: of the running percentiles that returns are scaled by.
      world_model_lr, actor_lr, critic_lr: learning rates of Adam.
      world_model_grad_clip, actor_grad_clip, critic_grad_clip: global norms that gradients are
        clipped to.
      sequence_period: steps between the starts of two sequences; 1 for all there are.
      min_replay_size: sequences that the replay holds before the first update.
      max_replay_size: sequences that it holds at most; then the oldest leave.
      jit_compile: compile the update with XLA.
    """

    model_size: Literal["nano", "micro", "mini", "XXS", "XS", "S", "M", "L", "XL"] = "XS"
    batch_size: int = 16
    batch_length: int = 64
    training_ratio: float = 1024.0
    horizon: int = 15
    gamma: float = 0.997
    gae_lambda: float = 0.95
    entropy_scale: float = 3e-4
    return_normalization_decay: float = 0.99
    world_model_lr: float = 1e-4
    actor_lr: float = 3e-5
    critic_lr: float = 3e-5
    world_model_grad_clip: float = 1000.0
    actor_grad_clip: float = 100.0
    critic_grad_clip: float = 100.0
    sequence_period: int = 1
    min_replay_size: int = 1000
    max_replay_size: int = 1_000_000
    jit_compile: bool = False

    def __post_init__(self) -> None:
        check = functools.partial(configs.check, self)
        check("at least 1", lambda x: x >= 1, *_COUNTS)
        check("at least 2", lambda x: x >= 2, "batch_length")
        check("positive and finite", lambda x: 0 < x < math.inf, *_POSITIVE)
        check("at least 0 and finite", lambda x: 0 <= x < math.inf, "entropy_scale")
        check("in [0, 1]", lambda x: 0 <= x <= 1, *_FRACTIONS)
        check("positive", lambda x: x > 0, "gamma")
        if self.min_replay_size > self.max_replay_size:
            raise ValueError(
                f"min_replay_size must be at most max_replay_size, got {self.min_replay_size} and "
                f"{self.max_replay_size}: updates would never begin."
            )

    @property
    def updates_per_step(self) -> float:
        """Updates for each step of the environment."""
        return self.training_ratio / (self.batch_size * self.batch_length)
