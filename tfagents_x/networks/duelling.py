"""Duelling action values."""

from __future__ import annotations

from collections.abc import Sequence

import sonnet as snt
import tensorflow as tf

from tfagents_x.networks import checks


class DuellingMLP(snt.Module):
    """Q(s, a) = V(s) + A(s, a) - mean over a of A(s, a), a ReLU MLP for each of V and A.

    Equation 9 of Wang et al., https://arxiv.org/abs/1511.06581 (Acme's `DuellingMLP`).
    """

    def __init__(self, num_actions: int, hidden_sizes: Sequence[int]):
        """Makes the layers; their variables come with the first call.

        Args:
          num_actions: number A of action values.
          hidden_sizes: widths of the hidden layers, for V and for A.

        Raises:
          ValueError: a size is not positive.
        """
        super().__init__(name="duelling_q_network")
        hidden_sizes = checks.sizes("hidden_sizes", hidden_sizes)
        num_actions = checks.size("num_actions", num_actions)
        self._value_mlp = snt.nets.MLP([*hidden_sizes, 1])
        self._advantage_mlp = snt.nets.MLP([*hidden_sizes, num_actions])

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        """Features [..., B, D] -> action values [..., B, A], of the same float dtype.

        Raises:
          TypeError: `inputs` are not floating-point.
          ValueError: `inputs` have fewer than two axes.
        """
        inputs = checks.features("DuellingMLP", inputs)
        advantages = self._advantage_mlp(inputs)
        advantages -= tf.reduce_mean(advantages, axis=-1, keepdims=True)
        return self._value_mlp(inputs) + advantages
