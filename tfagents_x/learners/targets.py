"""Periodic copies of online variables to target variables."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import sonnet as snt
import tensorflow as tf

from tfagents_x.learners import checks
from tfagents_x.utils import distribute, nest


def pair(
    *networks: tuple[snt.Module, snt.Module],
) -> tuple[list[tf.Variable], list[tf.Variable]]:
    """All variables of the online and of the target networks, given as pairs."""
    online = [v for network, _ in networks for v in nest.variables_of(network)]
    target = [v for _, network in networks for v in nest.variables_of(network)]
    return online, target


def check_pairs(online: Sequence[tf.Variable], target: Sequence[tf.Variable]) -> None:
    """Refuses variables that can't be copied one by one (ValueError)."""
    shapes = [tuple(v.shape) for v in online], [tuple(v.shape) for v in target]
    if shapes[0] != shapes[1]:
        raise ValueError(
            "Online and target networks must have the same variables, got shapes "
            f"{shapes[0]} and {shapes[1]}. Build the target with the same constructor arguments."
        )
    shared = {id(v) for v in online} & {id(v) for v in target}
    if shared:
        raise ValueError(
            f"{len(shared)} variable(s) are in both the online and the target network; the "
            "target must be a network of its own."
        )


@dataclasses.dataclass(frozen=True)
class TargetCopy:
    """Overwrites `target` by `online` every `period` updates.

    The sources differ in when they do it, and golden numbers depend on it. With k the
    number of updates done before this one (0 for the first), a copy is due

    - `at_start` (SVG0): before the gradients are computed, if k is a multiple of the period;
    - by default (RCRR, Acme TF's R2D2): after the update, if k is a multiple of the period,
      so after updates 1, P + 1, 2P + 1, ...;
    - `count_this` (the JAX R2D2): after the update, if k + 1 is a multiple of the period,
      so after updates P, 2P, ...

    Attributes:
      online, target: variables, pair by pair.
      period: in updates, at least 1.
      at_start: copy before the update instead of after it.
      count_this: count the update being done.
    """

    online: Sequence[tf.Variable]
    target: Sequence[tf.Variable]
    period: int
    at_start: bool = False
    count_this: bool = False

    def __post_init__(self) -> None:
        checks.check_count("target_update_period", self.period)
        check_pairs(self.online, self.target)

    def before_update(self, num_steps: tf.Variable) -> None:
        """Copies if this is an `at_start` copy and due; in replica context."""
        if self.at_start:
            self._copy_if_due(num_steps)

    def after_update(self, num_steps: tf.Variable) -> None:
        """Copies if this is no `at_start` copy and due; `num_steps` still excludes this update."""
        if not self.at_start:
            self._copy_if_due(num_steps + 1 if self.count_this else num_steps)

    def _copy_if_due(self, count: tf.Tensor) -> None:
        tf.cond(tf.equal(count % self.period, 0), self._copy, lambda: tf.constant(False))

    def _copy(self) -> tf.Tensor:
        for source, destination in zip(self.online, self.target):
            distribute.local(destination).assign(distribute.local(source))
        return tf.constant(True)


@dataclasses.dataclass(frozen=True)
class MovingAverage:
    """Moves `target` towards `online` after every update: target = d target + (1 - d) online.

    Attributes:
      online, target: variables, pair by pair.
      decay: d, in [0, 1].
    """

    online: Sequence[tf.Variable]
    target: Sequence[tf.Variable]
    decay: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.decay <= 1.0:
            raise ValueError(f"The target's decay must be in [0, 1], got {self.decay}.")
        check_pairs(self.online, self.target)

    def before_update(self, num_steps: tf.Variable) -> None:
        """Nothing is due."""

    def after_update(self, num_steps: tf.Variable) -> None:
        """Moves; in replica context."""
        for source, destination in zip(self.online, self.target):
            target, online = tf.convert_to_tensor(destination), tf.convert_to_tensor(source)
            moved = self.decay * target + (1.0 - self.decay) * online
            distribute.local(destination).assign(moved)
