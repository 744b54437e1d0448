"""Heads that give a policy and a value at once."""

from __future__ import annotations

from collections.abc import Sequence

import sonnet as snt
import tensorflow as tf

from tfagents_x.networks import checks


class PolicyValueHead(snt.Module):
    """Logits and value from the same features (Acme's `PolicyValueHead`).

    By default two linear layers, as there. Unlike there, each of the two can have layers of
    its own, so that the value's large gradients don't shape what the policy sees.
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

        Raises:
          TypeError: a size is no integer, or `value_scale` no number.
          ValueError: a size is not positive, or `value_scale` is NaN.
        """
        super().__init__(name=name)
        num_actions = checks.size("num_actions", num_actions)
        hidden_sizes = checks.sizes("hidden_sizes", hidden_sizes)
        # Acme's names, so that its checkpoints fit too.
        self._policy_layer = _layers([*hidden_sizes, num_actions], "policy")
        self._value_layer = _layers([*hidden_sizes, 1], "value")
        self._value_scale = value_scale
        checks.number("value_scale", value_scale)

    def __call__(self, features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Features [..., B, D] -> logits [..., B, A] and value [..., B].

        Raises:
          TypeError: `features` are not floating-point.
          ValueError: they have fewer than two axes.
        """
        features = checks.features("PolicyValueHead", features)
        value = tf.squeeze(self._value_layer(features), axis=-1)
        return self._policy_layer(features), self._value_scale * value


def _layers(sizes: Sequence[int], name: str) -> snt.Module:
    if len(sizes) == 1:
        return snt.Linear(sizes[0], name=name)
    return snt.nets.MLP(sizes, activation=tf.tanh, name=name)
