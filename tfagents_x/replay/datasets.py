"""`tf.data` pipelines over replay. Imports TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable, Optional

import numpy as np
import tensorflow as tf
import tree

from tfagents_x import types
from tfagents_x.replay import rows

# dtypes of `SampleInfo`'s fields, Reverb's.
INFO_DTYPES = types.SampleInfo(tf.uint64, tf.float64, tf.int64, tf.float64, tf.int32)


def tensor_spec(signature: rows.Signature, batch_shape: tuple[int, ...] = ()) -> Any:
    """The item's nest of `tf.TensorSpec`, with `batch_shape` in front."""
    return tree.map_structure(
        lambda leaf: tf.TensorSpec(batch_shape + leaf.shape, tf.as_dtype(leaf.dtype)),
        signature.item_spec(),
    )


def sample_spec(signature: rows.Signature, batch_size: int) -> types.ReplaySample:
    """Element spec of a dataset of batches."""
    info = types.SampleInfo(*(tf.TensorSpec((batch_size,), dtype) for dtype in INFO_DTYPES))
    return types.ReplaySample(info, tensor_spec(signature, (batch_size,)))


def from_sampler(
    sample: Callable[[float], Optional[types.ReplaySample]],
    signature: rows.Signature,
    batch_size: int,
    prefetch: int,
) -> tf.data.Dataset:
    """A dataset of the batches that `sample` draws.

    Args:
      sample: waits up to the given number of seconds for a batch; returns None if there
        is none yet, raises StopIteration if there will be none any more.
      signature: of the items.
      batch_size: number of items B.
      prefetch: batches to prepare ahead.
    """
    spec = sample_spec(signature, batch_size)
    # TensorFlow cannot interrupt Python. Whoever drops an iterator waits for the call in
    # progress to end, so a call must end soon, with a batch or without.
    nothing = (False, _zeros(spec))

    def generate() -> Iterator[tuple[bool, types.ReplaySample]]:
        while True:
            try:
                batch = sample(_PATIENCE)
            except StopIteration:
                return
            yield nothing if batch is None else (True, batch)

    flag = tf.TensorSpec((), tf.bool)
    dataset = tf.data.Dataset.from_generator(generate, output_signature=(flag, spec))
    dataset = dataset.filter(_is_there).map(_batch)
    return dataset.prefetch(prefetch) if prefetch else dataset


_PATIENCE = 0.05


@tf.autograph.experimental.do_not_convert
def _is_there(there: tf.Tensor, batch: types.ReplaySample) -> tf.Tensor:
    del batch
    return there


@tf.autograph.experimental.do_not_convert
def _batch(there: tf.Tensor, batch: types.ReplaySample) -> types.ReplaySample:
    del there
    return batch


def _zeros(spec: Any) -> Any:
    """Zeros of the types of `spec`; what it leaves open is 1."""
    return tree.map_structure(
        lambda s: np.zeros([1 if n is None else n for n in s.shape], s.dtype.as_numpy_dtype), spec
    )


def batch_items(
    items: tf.data.Dataset, signature: rows.Signature, batch_size: int, prefetch: int
) -> tf.data.Dataset:
    """Batches a dataset of single Reverb items and puts them into our named tuples."""
    batches = items.batch(batch_size, drop_remainder=True)
    spec = sample_spec(signature, batch_size)

    @tf.autograph.experimental.do_not_convert
    def rename(sample: Any) -> types.ReplaySample:
        info = types.SampleInfo(*sample.info)
        data = tree.map_structure(lambda s, x: tf.ensure_shape(x, s.shape), spec.data, sample.data)
        return types.ReplaySample(info, data)

    batches = batches.map(rename)
    return batches.prefetch(prefetch) if prefetch else batches
