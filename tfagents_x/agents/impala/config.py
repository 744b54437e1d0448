"""Settings of the IMPALA agent."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Optional

from tfagents_x.agents import configs

_COUNTS = ("batch_size", "sequence_period", "max_queue_size", "learning_rate_decay_updates")
_COSTS = ("adam_epsilon", "entropy_cost", "baseline_cost")
_FRACTIONS = ("discount", "learning_rate_final_fraction")
_LIMITS = ("max_gradient_norm", "max_abs_reward")


@dataclasses.dataclass(frozen=True)
class IMPALAConfig:
    """What can be changed about the agent; every field can be given on the command line.

    Attributes:
      batch_size: sequences in one update.
      sequence_length: steps T of a sequence, the bootstrap step included.
      sequence_period: steps between the starts of two sequences; T - 1 makes each
        transition part of exactly one.
      max_queue_size: sequences that may wait for the learner.
      discount: of future rewards.
      learning_rate: of Adam's first update.
      learning_rate_decay_updates: the rate falls linearly over so many updates.
      learning_rate_final_fraction: to this fraction of the first rate, and stays there; 1 for
        a constant rate.
      adam_beta1, adam_beta2, adam_epsilon: of Adam.
      max_gradient_norm: gradients are clipped to this global norm; None for no limit.
      entropy_cost: weight of the negative entropy.
      baseline_cost: weight of the squared value error.
      max_abs_reward: rewards are clipped to +- this; None for no clipping.
      hidden_sizes: widths of the layers before the core.
      head_sizes: widths of the layers that policy and value each have for themselves.
      value_scale: typical size of a return; the value head's output is multiplied by it.
      lstm_size: width of the LSTM core; 0 for a feed-forward network.
      jit_compile: compile the update with XLA.
    """

    batch_size: int = 4
    sequence_length: int = 20
    sequence_period: int = 19
    max_queue_size: int = 1000
    discount: float = 0.99
    learning_rate: float = 2e-3
    learning_rate_decay_updates: int = 2000
    learning_rate_final_fraction: float = 0.02
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_epsilon: float = 1e-5
    max_gradient_norm: Optional[float] = 40.0
    entropy_cost: float = 0.01
    baseline_cost: float = 0.1
    max_abs_reward: Optional[float] = None
    hidden_sizes: tuple[int, ...] = ()
    head_sizes: tuple[int, ...] = (64, 64)
    value_scale: float = 10.0
    lstm_size: int = 0
    jit_compile: bool = False

    def __post_init__(self) -> None:
        check = functools.partial(configs.check, self)
        check("at least 1", lambda x: x >= 1, *_COUNTS)
        check("positive and finite", lambda x: 0 < x < math.inf, "learning_rate", "value_scale")
        check("at least 0 and finite", lambda x: 0 <= x < math.inf, *_COSTS)
        check("in [0, 1]", lambda x: 0 <= x <= 1, *_FRACTIONS)
        check("in [0, 1)", lambda x: 0 <= x < 1, "adam_beta1", "adam_beta2")
        check("positive, or none", lambda x: x is None or x > 0, *_LIMITS)
        if self.sequence_length < 2:
            raise ValueError(
                "sequence_length must be at least 2 (the last step only serves as bootstrap), "
                f"got {self.sequence_length}."
            )
        if self.lstm_size < 0 or any(size < 1 for size in (*self.hidden_sizes, *self.head_sizes)):
            raise ValueError(
                f"Layer widths must be positive, got hidden_sizes = {self.hidden_sizes}, "
                f"head_sizes = {self.head_sizes}, lstm_size = {self.lstm_size}."
            )
