"""Sonnet optimizers with a schedule that lives in the graph and in the checkpoint."""

from __future__ import annotations

from typing import Any

import sonnet as snt
import tensorflow as tf


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
