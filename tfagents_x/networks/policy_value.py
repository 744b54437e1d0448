"""Heads that give a policy and a value at once."""

from __future__ import annotations

from collections.abc import Sequence

import sonnet as snt
import tensorflow as tf


class PolicyValueHead(snt.Module):
    """Logits and value from the same features (Acme's `PolicyValueHead`).

    Unlike there, each of the two can have layers of its own, so that the value's large
    gradients don't shape what the policy sees.
    """

    def __init__(
        self,
        num_actions: int,
        hidden_sizes: Sequence[int] = (),
        value_scale: float = 1.0,
        name: str = "policy_value_head",
    ):
        """Makes the layers; their variables come with the first call.

        Args:
          num_actions: number A of logits.
          hidden_sizes: widths of each head's own tanh layers.
          value_scale: the value is this times the output of its layers; about the size that
            returns have, so that the layers' weights need not grow to it.
          name: of the module.
        """
        super().__init__(name=name)
        self._policy = _mlp([*hidden_sizes, num_actions], "policy")
        self._value = _mlp([*hidden_sizes, 1], "value")
        self._value_scale = value_scale

    def __call__(self, features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """[B, D] -> logits [B, A] and value [B]."""
        value = tf.squeeze(self._value(features), axis=-1)
        return self._policy(features), self._value_scale * value


def _mlp(sizes: Sequence[int], name: str) -> snt.nets.MLP:
    return snt.nets.MLP(sizes, activation=tf.tanh, name=name)
