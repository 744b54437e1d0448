"""Applying Sonnet's optimizers, Adam in one fused operation per variable, and a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import sonnet as snt
import tensorflow as tf

from tfagents_x.utils import distribute


def apply(
    optimizer: snt.Optimizer,
    updates: Sequence[Optional[tf.Tensor]],
    variables: Sequence[tf.Variable],
) -> None:
    """Applies gradients in replica context, under any strategy.

    Args:
      optimizer: `snt.optimizers.Adam` and subclasses that keep its `apply` get their own
        numbers by TensorFlow's fused kernel, with a tenth of the operations. Any other one
        is called as it is.
      updates: one gradient for each variable; None leaves a variable alone.
      variables: what the optimizer was initialized for.
    """
    dense = not any(isinstance(update, tf.IndexedSlices) for update in updates)
    if dense and getattr(type(optimizer), "apply", None) is snt.optimizers.Adam.apply:
        _apply_adam(optimizer, updates, variables)
    else:
        distribute.apply_gradients(optimizer, updates, variables)


def _apply_adam(
    optimizer: snt.optimizers.Adam,
    updates: Sequence[Optional[tf.Tensor]],
    variables: Sequence[tf.Variable],
) -> None:
    """The kernel adds epsilon to the uncorrected root, Sonnet to the corrected one.

    With c = sqrt(1 - beta2^t), epsilon * c in the former is epsilon in the latter.
    """
    optimizer._initialize(variables)
    distribute.local(optimizer.step).assign_add(1)
    step = tf.cast(optimizer.step, tf.float32)
    beta1, beta2 = tf.cast(optimizer.beta1, tf.float32), tf.cast(optimizer.beta2, tf.float32)
    beta1_power, beta2_power = tf.pow(beta1, step), tf.pow(beta2, step)
    epsilon = tf.cast(optimizer.epsilon, tf.float32) * tf.sqrt(1.0 - beta2_power)
    rate = tf.cast(optimizer.learning_rate, tf.float32)
    handle = lambda variable: distribute.local(variable).handle
    for update, variable, m, v in zip(updates, variables, optimizer.m, optimizer.v):
        if update is None:
            continue
        numbers = (beta1_power, beta2_power, rate, beta1, beta2, epsilon)
        tf.raw_ops.ResourceApplyAdam(
            var=handle(variable),
            m=handle(m),
            v=handle(v),
            **dict(zip(_NUMBERS, [tf.cast(x, update.dtype) for x in numbers])),
            grad=update,
        )


_NUMBERS = ("beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon")


class LinearDecayAdam(snt.optimizers.Adam):
    """Adam whose learning rate falls linearly with its own step counter, then stays.

    In update k (the first is 1) the rate is `learning_rate * max(final_fraction,
    1 - (1 - final_fraction) * (k - 1) / decay_updates)`.
    """

    def __init__(
        self,
        learning_rate: float,
        decay_updates: int,
        final_fraction: float = 0.0,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
    ):
        """Makes the optimizer.

        Args:
          learning_rate: of the first update.
          decay_updates: updates after which the rate no longer falls.
          final_fraction: of the first rate, at the end, in [0, 1].
          beta1: see `snt.optimizers.Adam`, as for `beta2` and `epsilon`.
          beta2: see `beta1`.
          epsilon: see `beta1`.

        Raises:
          ValueError: a number out of range.
        """
        if decay_updates < 1 or not 0.0 <= final_fraction <= 1.0:
            raise ValueError(
                "LinearDecayAdam needs decay_updates >= 1 and final_fraction in [0, 1], got "
                f"{decay_updates} and {final_fraction}."
            )
        self._decay_updates = decay_updates
        self._final_fraction = final_fraction
        super().__init__(learning_rate, beta1, beta2, epsilon)

    @property
    def learning_rate(self) -> Any:
        """Rate of the update that the step counter is at."""
        done = tf.cast(self.step - 1, tf.float32) / self._decay_updates
        fraction = tf.maximum(self._final_fraction, 1.0 - (1.0 - self._final_fraction) * done)
        return self._first_rate * fraction

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        self._first_rate = value


class UncorrectedAdam(snt.optimizers.Adam):
    """Adam in the form of its paper's last remark, of which TensorFlow's kernel is made.

    w -= learning_rate * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon)

    `epsilon` stands beside the uncorrected root: in the terms of `snt.optimizers.Adam` it is
    epsilon / sqrt(1 - beta2^t), 31.6 times larger in the first update.
    """

    @property
    def epsilon(self) -> Any:
        """What Sonnet's form adds in the update that the step counter is at."""
        beta2 = tf.cast(self.beta2, tf.float32)
        power = tf.pow(beta2, tf.cast(self.step, tf.float32))
        return self._uncorrected_epsilon / tf.sqrt(1.0 - power)

    @epsilon.setter
    def epsilon(self, value: Any) -> None:
        self._uncorrected_epsilon = value
