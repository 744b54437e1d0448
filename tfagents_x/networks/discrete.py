"""Networks of discrete-action agents."""

from __future__ import annotations

from typing import Callable

import sonnet as snt
import tensorflow as tf

from tfagents_x import types
from tfagents_x.networks import checks


class DiscreteFilteredQNetwork(snt.Module):
    """Action values in which actions that the data hardly shows are worth the least.

    Where p(a | s) / max p(. | s) of the imitation network is below the threshold, the value
    is replaced by the state's lowest. Fujimoto et al., https://arxiv.org/abs/1910.01708,
    section 4 (Acme's `DiscreteFilteredQNetwork`).
    """

    def __init__(
        self,
        g_network: Callable[[types.NestedTensor], tf.Tensor],
        q_network: Callable[[types.NestedTensor], tf.Tensor],
        threshold: float,
    ):
        """Takes the networks, which stay available as `g_network` and `q_network`.

        Args:
          g_network: from observations to logits [B, A] of what the behaviour policy does.
          q_network: from observations to action values [B, A].
          threshold: in [0, 1]; 0 keeps all actions, 1 only the likeliest.

        Raises:
          TypeError: a network can't be called, or `threshold` is no number.
          ValueError: `threshold` is outside of [0, 1].
        """
        super().__init__(name="discrete_filtered_qnet")
        checks.number("threshold", threshold, "from 0 to 1", 0.0, 1.0)
        self.g_network = checks.function("g_network", g_network)
        self.q_network = checks.function("q_network", q_network)
        self._threshold = threshold

    def __call__(self, o_t: types.NestedTensor) -> tf.Tensor:
        """Observations [B, ...] -> filtered action values [B, A].

        Raises:
          TypeError: a network's output is not floating-point.
          ValueError: the networks' outputs have different shapes.
        """
        q_t = checks.floats("DiscreteFilteredQNetwork (after q_network)", self.q_network(o_t))
        logits = checks.floats("DiscreteFilteredQNetwork (after g_network)", self.g_network(o_t))
        if not q_t.shape.is_compatible_with(logits.shape):
            raise ValueError(
                "g_network and q_network must give the same shape [B, A], got "
                f"{logits.shape} and {q_t.shape}."
            )
        g_t = tf.nn.softmax(logits)
        likelihood = g_t / tf.reduce_max(g_t, axis=-1, keepdims=True)
        lowest = tf.reduce_min(q_t, axis=-1, keepdims=True)
        return tf.where(likelihood >= self._threshold, q_t, lowest)
