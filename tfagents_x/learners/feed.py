"""Where a learner's batches come from: datasets and iterators, one device or many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import tensorflow as tf
import tree

from tfagents_x import types
from tfagents_x.utils import distribute, nest

_DISTRIBUTED = (tf.distribute.DistributedDataset, tf.distribute.DistributedIterator)

Split = Callable[[types.ReplaySample], tuple[Any, Any]]


class Feed:
    """Yields (device part, host part) of one batch after another.

    A `tf.data.Dataset` is prefetched and, under a strategy with replicas, distributed:
    its batch is the global one. A plain iterator is read one batch per call, never
    ahead, and its batch is cut into equal shares. Already distributed input is taken
    as it is. What goes to the device is narrowed to 32 bits.
    """

    def __init__(
        self, source: Any, strategy: tf.distribute.Strategy, split: Split, prefetch_size: int
    ):
        """Args as in `learners.base.Learner`; `split` parts a sample into device and host.

        Raises:
          TypeError: `source` is neither a dataset nor an iterator.
          ValueError: negative `prefetch_size`.
        """
        if prefetch_size < 0:
            raise ValueError(f"prefetch_size must not be negative, got {prefetch_size}.")
        self._strategy = strategy
        self._split = split
        self._ready: Callable[[Any], tuple[Any, Any]] = lambda batch: batch
        self._share: Callable[[Any], Any] = lambda data: data
        self._in_graph = False
        self._batches = self._open(source, prefetch_size)

    @property
    def in_graph(self) -> bool:
        """Whether `next` may be called inside a `tf.function`, which is faster.

        So it is for a dataset on one device whose batches are all of the same, known shapes.
        Out of data, the function then raises `tf.errors.OutOfRangeError`.
        """
        return self._in_graph

    def next(self) -> tuple[Any, Any]:
        """The next batch.

        Raises:
          StopIteration: the source has ended.
        """
        device, host = self._ready(next(self._batches))
        return self._share(device), host

    def _open(self, source: Any, prefetch_size: int) -> Iterator[Any]:
        if isinstance(source, tf.data.Dataset):
            return iter(self._prepared(source, prefetch_size))
        if isinstance(source, _DISTRIBUTED):
            # Per-replica values are taken as they are.
            return map(self._split, iter(source))
        if not hasattr(source, "__next__") and not hasattr(source, "__iter__"):
            raise TypeError(
                "dataset must be a tf.data.Dataset or an iterator of ReplaySample, got "
                f"{type(source).__name__}."
            )
        self._share = lambda data: distribute.distribute_batch(data, self._strategy)
        return map(self._parts, iter(source))

    def _prepared(self, source: tf.data.Dataset, prefetch_size: int) -> Any:
        prefetch = lambda x: x.prefetch(prefetch_size) if prefetch_size else x
        dataset = source.map(lambda *sample: self._parts(_sample(sample)))
        if distribute.is_distributed(self._strategy):
            self._share = lambda data: distribute.check_equal_shares(data, self._strategy)
            return self._strategy.experimental_distribute_dataset(prefetch(dataset))
        if not _is_static(dataset.element_spec):
            return prefetch(dataset)
        self._in_graph = True
        # Parted in the update's graph: a stage of its own takes longer than what it does.
        self._ready = lambda x: self._parts(_sample(x if type(x) is tuple else (x,)))
        return prefetch(source)

    def _parts(self, sample: Any) -> tuple[Any, Any]:
        if isinstance(sample, (types.Step, types.Transition)):  # As offline datasets have it.
            sample = types.ReplaySample(info=(), data=sample)
        if not hasattr(sample, "info") or not hasattr(sample, "data"):
            raise TypeError(
                "The dataset must yield ReplaySample(info, data), Step or Transition, got a "
                f"{type(sample).__name__}. Wrap what you have: ReplaySample(info=(), data=step)."
            )
        device, host = self._split(sample)
        return tree.map_structure_with_path(_narrow, device), host


def _narrow(path: tuple, leaf: Any) -> tf.Tensor:
    try:
        return nest.narrow(leaf)
    except (TypeError, ValueError) as error:
        where = "/".join(map(str, path))
        raise type(error)(f"{where or 'The batch'} of the batch: {error}") from error


def _sample(elements: tuple) -> Any:
    """The dataset's element; a plain (info, data) pair reaches `map` as two arguments."""
    return elements[0] if len(elements) == 1 else types.ReplaySample(*elements)


def _is_static(element_spec: Any) -> bool:
    leaves = tf.nest.flatten(element_spec)
    return all(isinstance(x, tf.TensorSpec) and x.shape.is_fully_defined() for x in leaves)
