"""Strategies over the two logical devices that `conftest.py` makes."""

from __future__ import annotations

import itertools

import tensorflow as tf

# From 1000 on: the code blocks of the README make a strategy with the default base, 0.
_key_bases = itertools.count(1000, 1000)


def mirrored(
    kind: type[tf.distribute.MirroredStrategy] = tf.distribute.MirroredStrategy,
) -> tf.distribute.MirroredStrategy:
    """A new strategy of this kind, with collectives of its own.

    TensorFlow numbers the collectives of every strategy from the same start, so two
    strategies in one process would meet in each other's; its own tests set this base too.
    """
    isolated = type(kind.__name__, (kind,), {"_collective_key_base": next(_key_bases)})
    return isolated(["CPU:0", "CPU:1"])
