"""Settings of the SVG0 agent."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Optional

from tfagents_x.agents import configs

_COUNTS = (
    "batch_size",
    "sequence_period",
    "min_replay_size",
    "max_replay_size",
    "target_update_period",
    "num_action_samples",
)
_POSITIVE = (
    "updates_per_step",
    "policy_learning_rate",
    "critic_learning_rate",
    "prior_learning_rate",
    "value_scale",
    "init_scale",
)
_COSTS = ("distillation_cost", "entropy_regularizer_cost", "min_scale")
_FRACTIONS = ("discount", "lambda_")
_WIDTHS = ("policy_layer_sizes", "critic_layer_sizes", "prior_layer_sizes")


@dataclasses.dataclass(frozen=True)
class SVG0Config:
    """What can be changed about the agent; every field can be given on the command line.

    Attributes:
      batch_size: sequences in one update.
      sequence_length: transitions of a sequence; one more step serves as bootstrap.
      sequence_period: steps between the starts of two sequences; as much as sequence_length
        makes each transition part of exactly one.
      min_replay_size: sequences that the replay holds before the first update.
      max_replay_size: sequences that it holds at most; then the oldest leave.
      updates_per_step: updates for each step of the environment.
      discount: of future rewards.
      lambda_: of Retrace; 1 trusts the data as far as the policies agree, 0 looks one step
        ahead.
      num_action_samples: actions over which values and losses average.
      target_update_period: updates between two copies of the networks to their targets.
      policy_learning_rate, critic_learning_rate, prior_learning_rate: of Adam.
      max_gradient_norm: each network's gradients are clipped to this global norm; None for no
        limit.
      distillation_cost: weight of the divergence from the prior, in the policy's loss and in
        the values; without a prior it does nothing.
      entropy_regularizer_cost: weight of the policy's entropy; see the learner, whose estimate
        of it has a gradient of zero on average. min_scale is what keeps up exploration.
      policy_layer_sizes, critic_layer_sizes, prior_layer_sizes: widths of the layers.
      value_scale: typical size of a value; the critic's output is multiplied by it.
      init_scale: standard deviation of the policy's actions at first, where 1 is half the range
        of the action space.
      min_scale: smallest standard deviation, in the same unit.
      use_prior: learn a prior that the policy stays close to.
      policy_keys, critic_keys, prior_keys: entries of the observation that each network sees,
        where observations are dictionaries; None for all.
      jit_compile: compile the update with XLA.
    """

    batch_size: int = 64
    sequence_length: int = 5
    sequence_period: int = 1
    min_replay_size: int = 1000
    max_replay_size: int = 100_000
    updates_per_step: float = 0.5
    discount: float = 0.99
    lambda_: float = 1.0
    num_action_samples: int = 10
    target_update_period: int = 100
    policy_learning_rate: float = 1e-3
    critic_learning_rate: float = 1e-3
    prior_learning_rate: float = 1e-3
    max_gradient_norm: Optional[float] = 40.0
    distillation_cost: float = 1e-3
    entropy_regularizer_cost: float = 1e-3
    policy_layer_sizes: tuple[int, ...] = (64, 64)
    critic_layer_sizes: tuple[int, ...] = (128, 128)
    prior_layer_sizes: tuple[int, ...] = (64, 64)
    value_scale: float = 10.0
    init_scale: float = 0.7
    min_scale: float = 0.1
    use_prior: bool = False
    policy_keys: Optional[tuple[str, ...]] = None
    critic_keys: Optional[tuple[str, ...]] = None
    prior_keys: Optional[tuple[str, ...]] = None
    jit_compile: bool = False

    def __post_init__(self) -> None:
        check = functools.partial(configs.check, self)
        check("at least 1", lambda x: x >= 1, *_COUNTS, "sequence_length")
        check("positive and finite", lambda x: 0 < x < math.inf, *_POSITIVE)
        check("at least 0 and finite", lambda x: 0 <= x < math.inf, *_COSTS)
        check("in [0, 1]", lambda x: 0 <= x <= 1, *_FRACTIONS)
        check("positive, or none", lambda x: x is None or x > 0, "max_gradient_norm")
        widths = "one or more positive widths"
        check(widths, lambda x: len(x) > 0 and min(x) >= 1, *_WIDTHS)
        if self.min_replay_size > self.max_replay_size:
            raise ValueError(
                f"min_replay_size must be at most max_replay_size, got {self.min_replay_size} and "
                f"{self.max_replay_size}: updates would never begin."
            )
        if self.prior_keys is not None and not self.use_prior:
            raise ValueError(
                f"prior_keys are {self.prior_keys}, but there is no prior: set use_prior as well."
            )
