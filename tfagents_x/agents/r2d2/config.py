"""Settings of the R2D2 agent."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Optional

from tfagents_x.agents import configs

_COUNTS = (
    "batch_size",
    "trace_length",
    "sequence_period",
    "min_replay_size",
    "max_replay_size",
    "target_update_period",
    "n_step",
    "learning_rate_decay_updates",
)
_POSITIVE = ("updates_per_step", "learning_rate")
_EXPONENTS = ("adam_epsilon", "importance_sampling_exponent", "priority_exponent")
_FRACTIONS = (
    "discount",
    "learning_rate_final_fraction",
    "max_priority_weight",
    "epsilon",
    "evaluation_epsilon",
)
_LIMITS = ("max_gradient_norm", "max_abs_reward")
_ENDS = ("continue", "zero_pad")


@dataclasses.dataclass(frozen=True)
class R2D2Config:
    """What can be changed about the agent; every field can be given on the command line.

    Attributes:
      batch_size: sequences in one update.
      burn_in_length: steps at the start of a sequence that only bring the LSTM's state up to
        date.
      trace_length: steps after them that are learned from; one more serves as bootstrap.
      sequence_period: steps between the starts of two sequences.
      end_of_episode: how a sequence goes on that an episode's end cuts short: "continue" with
        the next episode, or "zero_pad" with zeros, as in Acme.
      min_replay_size: sequences that the replay holds before the first update.
      max_replay_size: sequences that it holds at most; then the oldest leave.
      updates_per_step: updates for each step of the environment; with zero_pad more, as where
        an episode ends a sequence brings fewer than sequence_period new ones.
      discount: of future rewards.
      n_step: rewards in a return.
      target_update_period: updates between two copies of the network to its target.
      learning_rate: of Adam's first update.
      learning_rate_decay_updates: the rate falls linearly over so many updates.
      learning_rate_final_fraction: to this fraction of the first rate, and stays there; 1 for
        a constant rate.
      adam_epsilon: of Adam.
      max_gradient_norm: gradients are clipped to this global norm; None for no limit.
      max_abs_reward: rewards are clipped to +- this; None for no clipping.
      priority_exponent: sequences are drawn in proportion to their priority to this power; 0
        for equal chances.
      importance_sampling_exponent: how far the weights of the losses make up for that; 1 for
        all of it.
      max_priority_weight: a priority is this times the largest error of its sequence, plus the
        rest times the mean one.
      epsilon: how often the actor takes a random action.
      evaluation_epsilon: how often an evaluation does.
      hidden_sizes: widths of the layers before the LSTM; not for images.
      lstm_size: width of the LSTM, 512 in the paper; 0 for a feed-forward network.
      head_sizes: widths of the layers that value and advantages each have for themselves; not
        for images.
      jit_compile: compile the update with XLA.
    """

    batch_size: int = 64
    burn_in_length: int = 2
    trace_length: int = 20
    sequence_period: int = 10
    end_of_episode: str = "continue"
    min_replay_size: int = 100
    max_replay_size: int = 3_000
    updates_per_step: float = 0.1
    discount: float = 0.995
    n_step: int = 2
    target_update_period: int = 100
    learning_rate: float = 1e-3
    learning_rate_decay_updates: int = 6_000
    learning_rate_final_fraction: float = 0.02
    adam_epsilon: float = 1e-3
    max_gradient_norm: Optional[float] = 40.0
    max_abs_reward: Optional[float] = None
    priority_exponent: float = 0.6
    importance_sampling_exponent: float = 0.2
    max_priority_weight: float = 0.9
    epsilon: float = 0.05
    evaluation_epsilon: float = 0.0
    hidden_sizes: tuple[int, ...] = (64,)
    lstm_size: int = 64
    head_sizes: tuple[int, ...] = (64,)
    jit_compile: bool = False

    def __post_init__(self) -> None:
        check = functools.partial(configs.check, self)
        check("at least 1", lambda x: x >= 1, *_COUNTS)
        check("at least 0", lambda x: x >= 0, "burn_in_length", "lstm_size")
        check("positive and finite", lambda x: 0 < x < math.inf, *_POSITIVE)
        check("at least 0 and finite", lambda x: 0 <= x < math.inf, *_EXPONENTS)
        check("in [0, 1]", lambda x: 0 <= x <= 1, *_FRACTIONS)
        check("positive, or none", lambda x: x is None or x > 0, *_LIMITS)
        check(f"one of {', '.join(_ENDS)}", lambda x: x in _ENDS, "end_of_episode")
        positive = lambda x: all(size >= 1 for size in x)
        check("positive widths", positive, "hidden_sizes", "head_sizes")
        if self.min_replay_size > self.max_replay_size:
            raise ValueError(
                f"min_replay_size must be at most max_replay_size, got {self.min_replay_size} and "
                f"{self.max_replay_size}: updates would never begin."
            )

    @property
    def sequence_length(self) -> int:
        """Steps of a sequence in replay, the bootstrap step included."""
        return self.burn_in_length + self.trace_length + 1
