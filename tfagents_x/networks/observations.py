"""From observations as environments give them to the vectors that networks want."""

from __future__ import annotations

import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import types


class ConcatObservation(snt.Module):
    """Flattens every leaf of an observation and concatenates them as float32.

    The order is that of the flattened nest: dictionary keys alphabetically, tuple entries
    in their own order. Integer leaves are cast, not one-hot encoded.
    """

    def __call__(self, observation: types.NestedTensor) -> tf.Tensor:
        """Nest of [B, ...] -> [B, D]."""
        leaves = [tf.cast(x, tf.float32) for x in tree.flatten(observation)]
        return tf.concat([tf.reshape(x, [-1, _size(x)]) for x in leaves], axis=-1)


def _size(leaf: tf.Tensor) -> int:
    return leaf.shape[1:].num_elements()
