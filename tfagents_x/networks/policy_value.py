"""Heads that give a policy and a value at once."""

from __future__ import annotations

import sonnet as snt
import tensorflow as tf


class PolicyValueHead(snt.Module):
    """Two linear layers on the same features (Acme's `PolicyValueHead`)."""

    def __init__(self, num_actions: int, name: str = "policy_value_head"):
        """Args: `num_actions` is the number A of logits."""
        super().__init__(name=name)
        self._policy = snt.Linear(num_actions, name="policy")
        self._value = snt.Linear(1, name="value")

    def __call__(self, features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """[B, D] -> logits [B, A] and value [B]."""
        return self._policy(features), tf.squeeze(self._value(features), axis=-1)
