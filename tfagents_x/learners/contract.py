"""What an algorithm tells the skeleton in `base`, and the skeleton its user."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

import numpy as np
import sonnet as snt
import tensorflow as tf

from tfagents_x import types

Metrics = dict[str, tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Trained:
    """What one optimizer trains.

    Attributes:
      variables: trainable variables, in the order of their gradients.
      optimizer: Sonnet optimizer, or any object with `apply(updates, parameters)`.
      max_gradient_norm: gradients are scaled down to this global norm; None for no limit.
    """

    variables: Sequence[tf.Variable]
    optimizer: snt.Optimizer
    max_gradient_norm: Optional[float] = None


class Losses(NamedTuple):
    """What an algorithm says about one batch.

    Attributes:
      losses: scalar to minimise for each name in the learner's `trained`.
      metrics: scalars to report, under the names that the source reports.
      per_item: nest of tensors [B, ...] for the host, such as new priorities.
    """

    losses: Mapping[str, tf.Tensor]
    metrics: Metrics
    per_item: types.NestedTensor = ()


class NonFiniteError(ArithmeticError, ValueError):
    """An update produced a metric that is NaN or infinite.

    Attributes:
      step: number of the update, the first is 1.
      metrics: names of the metrics that are not finite.
    """

    def __init__(self, step: int, values: Mapping[str, float]):
        bad = {k: float(v) for k, v in values.items() if not np.isfinite(v)}
        super().__init__(
            f"Update {step} gave "
            + ", ".join(f"{k} = {v}" for k, v in bad.items())
            + ". The parameters are no longer usable; go back to the last checkpoint. Usual "
            "causes: rewards or observations that are not finite, actions outside the action "
            "space, or too high a learning rate."
        )
        self.step = step
        self.metrics = tuple(bad)
