"""Batches of DreamerV3: their form, and where they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_x import types
from tfagents_x.learners import checks
from tfagents_x.networks.dreamer.model import DreamerModel


class Batch(NamedTuple):
    """Sequences [B, T, ...]; row t is about the observation at t.

    Attributes:
      obs: what was seen.
      actions: what was done there; floats [.., A], one-hot for discrete actions, or int32 [..].
        At a last observation, where nothing was done, anything.
      rewards: floats, received on arriving there; 0 at the first step of an episode.
      is_first: bool, whether an episode begins there. The learner takes the first step of each
        row for one in all but the action before it.
      is_last: bool, whether an episode ends there; the learner doesn't use it.
      is_terminated: bool, whether nothing can follow.
    """

    obs: Any
    actions: Any
    rewards: Any
    is_first: Any
    is_last: Any
    is_terminated: Any


def samples(dataset: Any) -> Any:
    """A dataset or iterator of batches as one of `ReplaySample`s, which the skeleton takes."""
    if isinstance(dataset, tf.data.Dataset):
        kind = dataset.element_spec
        bare = isinstance(kind, (Mapping, Batch)) and not hasattr(kind, "info")
        return dataset.map(lambda *batch: _sample(*batch)) if bare else dataset
    if isinstance(dataset, (tf.distribute.DistributedDataset, tf.distribute.DistributedIterator)):
        return dataset
    if not hasattr(dataset, "__iter__"):
        return dataset  # What it should be is said by the feed.
    return _mapped(iter(dataset))


def _mapped(batches: Iterator[Any]) -> Iterator[types.ReplaySample]:
    return (x if hasattr(x, "info") else _sample(x) for x in batches)


def _sample(*batch: Any) -> types.ReplaySample:
    # `tf.data` hands over a named tuple as its fields.
    return types.ReplaySample((), as_batch(batch[0] if len(batch) == 1 else Batch(*batch)))


def as_batch(data: Any) -> Batch:
    """A batch, or a mapping with its fields, as a `Batch`.

    Raises:
      TypeError: it is something else.
      ValueError: a field is missing, or there are others.
    """
    if isinstance(data, Batch):
        return data
    if not isinstance(data, Mapping):
        raise TypeError(
            f"DreamerV3 needs batches with {', '.join(Batch._fields)} (a dictionary, or a "
            f"dreamer_batch.Batch), got {type(data).__name__}."
        )
    missing = [name for name in Batch._fields if name not in data and name != "is_last"]
    unknown = sorted(set(data) - set(Batch._fields))
    if missing or unknown:
        raise ValueError(
            f"DreamerV3 needs batches with {', '.join(Batch._fields)}; this one lacks "
            f"{missing or 'nothing'} and has {unknown or 'nothing'} besides."
        )
    return Batch(**{name: data.get(name, ()) for name in Batch._fields})


def check(batch: Batch, model: DreamerModel) -> Batch:
    """Compares a batch with the specs, at trace time; returns it with actions as floats.

    Raises:
      ValueError: wrong shapes.
      TypeError: wrong dtypes.
    """
    leading = tuple(batch.rewards.shape[:2])
    if batch.rewards.shape.rank != 2:
        raise ValueError(f"rewards must be [B, T], got shape {tuple(batch.rewards.shape)}.")
    if leading[1] is None:
        raise ValueError(
            "The length T of sequences must be known when the update is traced: give the "
            "dataset's elements static shapes, say with tf.ensure_shape."
        )
    scalars = {"rewards": tf.float32, "is_first": tf.bool, "is_terminated": tf.bool}
    for name, dtype in scalars.items():
        checks.check_leaves(name, getattr(batch, name), tf.TensorSpec([], dtype), leading)
    checks.check_leaves("obs", batch.obs, model.observation_spec, leading)
    actions = batch.actions
    if model.discrete and actions.dtype.is_integer:
        checks.check_leaves("actions", actions, tf.TensorSpec([], tf.int32), leading)
        actions = tf.one_hot(actions, model.num_actions)
    width = tf.TensorSpec([model.num_actions], tf.float32)
    checks.check_leaves("actions", actions, width, leading)
    return batch._replace(actions=actions)
