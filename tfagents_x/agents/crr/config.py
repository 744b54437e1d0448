"""Settings of the CRR agent."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Literal, Optional

from tfagents_x.agents import configs

_COUNTS = (
    "batch_size",
    "sequence_period",
    "target_update_period",
    "num_action_samples_td_learning",
    "num_action_samples_policy_weight",
    "lstm_size",
    "cwp_num_action_samples",
    "evaluation_period",
    "evaluation_episodes",
)
_POSITIVE = (
    "policy_learning_rate",
    "critic_learning_rate",
    "beta",
    "ratio_upper_bound",
    "cwp_beta",
    "init_scale",
)


@dataclasses.dataclass(frozen=True)
class CRRConfig:
    """What can be changed about the agent; every field can be given on the command line.

    Attributes:
      batch_size: sequences in one update.
      sequence_length: rows of a sequence; the last one serves as bootstrap.
      sequence_period: rows between the starts of two sequences.
      discount: of future rewards.
      target_update_period: updates between two copies of the networks to their targets.
      policy_improvement_modes: weights of the regression on the recorded actions: exp and
        binary prefer those that are better than the policy's own, all is behaviour cloning.
      beta: temperature of the advantage in exp; the smaller, the choosier.
      ratio_upper_bound: greatest weight in exp.
      baseline_reduce_function: how the values of the policy's own actions become a baseline.
      num_action_samples_td_learning: actions that the critic's target averages over.
      num_action_samples_policy_weight: actions that the baseline is estimated from.
      policy_learning_rate, critic_learning_rate: of Adam.
      policy_layer_sizes, critic_layer_sizes: widths of the layers before the LSTM.
      lstm_size: width of the LSTMs.
      num_atoms: of the critic's distribution over returns.
      value_min, value_max: ends of its support; None takes them from the returns in the data.
      init_scale: standard deviation of the policy's actions at first, where 1 is half the range
        of the action space.
      min_scale: smallest standard deviation, in the same unit.
      cwp_num_action_samples: actions that the critic-weighted policy chooses from.
      cwp_beta: temperature of its choice, in units of return.
      evaluation_period: updates from one evaluation to the next.
      evaluation_episodes: episodes of each.
      jit_compile: compile the update with XLA.
    """

    batch_size: int = 32
    sequence_length: int = 12
    sequence_period: int = 4
    discount: float = 0.99
    target_update_period: int = 100
    policy_improvement_modes: Literal["exp", "binary", "all"] = "exp"
    beta: float = 1.0
    ratio_upper_bound: float = 20.0
    baseline_reduce_function: Literal["mean", "max", "min"] = "mean"
    num_action_samples_td_learning: int = 1
    num_action_samples_policy_weight: int = 4
    policy_learning_rate: float = 3e-4
    critic_learning_rate: float = 3e-4
    policy_layer_sizes: tuple[int, ...] = (64,)
    critic_layer_sizes: tuple[int, ...] = (64,)
    lstm_size: int = 64
    num_atoms: int = 51
    value_min: Optional[float] = None
    value_max: Optional[float] = None
    init_scale: float = 0.5
    min_scale: float = 0.05
    cwp_num_action_samples: int = 16
    cwp_beta: float = 1.0
    evaluation_period: int = 2_000
    evaluation_episodes: int = 10
    jit_compile: bool = False

    def __post_init__(self) -> None:
        check = functools.partial(configs.check, self)
        check("at least 1", lambda x: x >= 1, *_COUNTS)
        check("at least 2", lambda x: x >= 2, "sequence_length", "num_atoms")
        check("positive and finite", lambda x: 0 < x < math.inf, *_POSITIVE)
        check("at least 0 and finite", lambda x: 0 <= x < math.inf, "min_scale")
        check("in [0, 1]", lambda x: 0 <= x <= 1, "discount")
        widths = "one or more positive widths"
        fits = lambda x: len(x) > 0 and min(x) >= 1
        check(widths, fits, "policy_layer_sizes", "critic_layer_sizes")
        finite = lambda x: x is None or math.isfinite(x)
        check("finite, or none", finite, "value_min", "value_max")
        low, high = self.value_min, self.value_max
        if low is not None and high is not None and low >= high:
            raise ValueError(f"value_min must be less than value_max, got {low} and {high}.")
