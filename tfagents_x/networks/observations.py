"""From observations as environments give them to the vectors that networks want."""

from __future__ import annotations

import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import types
from tfagents_x.utils import nest


class ConcatObservation(snt.Module):
    """Flattens every leaf of an observation and concatenates them as float32.

    The order is that of the flattened nest: dictionary keys alphabetically, tuple entries
    in their own order. Integer leaves are cast, not one-hot encoded.
    """

    def __call__(self, observation: types.NestedTensor) -> tf.Tensor:
        """Nest of [B, ...] -> [B, D].

        Raises:
          TypeError: a leaf is no tensor of numbers or booleans.
          ValueError: there is no leaf, a leaf has no batch axis, or the batch sizes differ.
        """
        to_floats = lambda path, leaf: nest.cast(nest.path_name(path), leaf, tf.float32)
        return nest.batch_concat(tree.map_structure_with_path(to_floats, observation))
