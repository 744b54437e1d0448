"""What agents with continuous actions share: the range of the actions."""

from __future__ import annotations

from typing import Any

import numpy as np
import sonnet as snt
import tensorflow_probability as tfp

from tfagents_x import specs


class ActionRange(snt.Module):
    """Maps a normal distribution over [-1, 1]^A linearly to the range of the action spec."""

    def __init__(self, spec: specs.BoundedArray):
        """Keeps the range of `spec`, which `check_actions` has accepted."""
        super().__init__(name="action_range")
        low, high = (np.broadcast_to(x, spec.shape) for x in (spec.minimum, spec.maximum))
        self._center = (0.5 * (low + high)).astype(np.float32)
        self._scale = (0.5 * (high - low)).astype(np.float32)

    def __call__(self, unit: tfp.distributions.Distribution) -> tfp.distributions.Distribution:
        """The distribution with mean and standard deviation in the range of the actions."""
        # Not a `TransformedDistribution`: divergences and means should stay at hand.
        return tfp.distributions.MultivariateNormalDiag(
            loc=unit.mean() * self._scale + self._center,
            scale_diag=unit.stddev() * self._scale,
        )


def check_actions(agent: str, spec: Any, or_discrete: bool = False) -> None:
    """Checks that actions are vectors with finite bounds.

    Args:
      agent: name for the message.
      spec: of the actions.
      or_discrete: whether the message offers one discrete action as well.

    Raises:
      ValueError: they are not.
    """
    continuous = isinstance(spec, specs.BoundedArray) and np.issubdtype(spec.dtype, np.floating)
    if not continuous or len(spec.shape) != 1:
        wanted, space = ("one discrete action, or ", "Discrete or ") if or_discrete else ("", "")
        raise ValueError(
            f"{agent} needs {wanted}continuous actions, one vector, but this environment's is "
            f"{spec!r}. Choose an environment with a {space}Box action space."
        )
    if not (np.all(np.isfinite(spec.minimum)) and np.all(np.isfinite(spec.maximum))):
        raise ValueError(
            f"{agent} needs actions with finite bounds, got {spec!r}: wrap the environment in one "
            "that has them."
        )
