"""Distributions as nests of parameters: splitting, merging and stacking their batch axes.

A head that returns a tfp distribution is applied once to all time steps. What comes out
has a batch of [T * B], or is one distribution for every step; what is wanted is the same
distribution with a batch of [T, B]. It is made from the parameters, so that it keeps its
class, its attributes and its analytic divergences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Callable

import tensorflow as tf
import tensorflow_probability as tfp
import tree

from tfagents_x import types

_ToTensor = Callable[[tf.Tensor], tf.Tensor]


def flatten(nest: types.Nest) -> list[tf.Tensor]:
    """The tensors of a nest, and of its distributions the parameters that have their batch axes.

    Args:
      nest: tensors and distributions, batch axes leading.

    Raises:
      TypeError: a leaf is neither, or a distribution that can't be rebuilt from parameters.
    """
    tensors: list[tf.Tensor] = []

    def collect(tensor: tf.Tensor) -> tf.Tensor:
        tensors.append(tensor)
        return tensor

    map_leaves(collect, nest)
    return tensors


def unflatten_as(nest: types.Nest, tensors: Sequence[tf.Tensor]) -> types.Nest:
    """`nest` with its `flatten`ed tensors replaced by `tensors`, in the same order."""
    rest: Iterator[tf.Tensor] = iter(tensors)
    return map_leaves(lambda _: next(rest), nest)


def map_leaves(fn: _ToTensor, nest: types.Nest) -> types.Nest:
    """Applies `fn` to the tensors of a nest, and to the batched parameters of its distributions.

    Args:
      fn: may change the leading axes of what it gets, for all tensors alike. What a
        distribution has without batch axes (atoms, a shared scale) is not given to it.
      nest: tensors and distributions.

    Returns:
      The nest of the results, distributions rebuilt.

    Raises:
      TypeError: see `flatten`.
    """
    return tree.map_structure(lambda leaf: _map_leaf(fn, leaf), nest)


def split(tensor: tf.Tensor, leading: Sequence[Any]) -> tf.Tensor:
    """[prod(leading), ...] -> [*leading, ...]; at most one of `leading` is unknown (None)."""
    shape = [-1 if n is None else n for n in leading]
    out = tf.reshape(tensor, tf.concat([shape, tf.shape(tensor)[1:]], 0))
    return tf.ensure_shape(out, tf.TensorShape(leading).concatenate(tensor.shape[1:]))


def _map_leaf(fn: _ToTensor, leaf: Any) -> Any:
    if isinstance(leaf, tfp.distributions.Distribution):
        return _map_distribution(fn, leaf)
    if not tf.is_tensor(leaf):
        raise TypeError(
            f"A network returned a {type(leaf).__name__} inside a sequence; the layers of an "
            "unrolled core must return tensors or tfp distributions."
        )
    return fn(leaf)


def _map_distribution(fn: _ToTensor, distribution: Any) -> tfp.distributions.Distribution:
    """The distribution rebuilt; `fn` sees each parameter that has all of its batch axes."""
    parameters = dict(distribution.parameters)
    properties = distribution.parameter_properties(dtype=distribution.dtype)
    rank = distribution.batch_shape.rank
    if not rank:
        return distribution
    for name, known in properties.items():
        value = parameters.get(name)
        event_rank = known.instance_event_ndims(distribution)
        if value is None or event_rank == known.NO_EVENT_NDIMS:
            continue  # Not given, or no part of the batch at all, such as a number of axes.
        inner = rank + (event_rank or 0)
        if isinstance(value, tfp.distributions.Distribution):
            # The axes in front are the batch, what comes behind them belongs to the event.
            if value.batch_shape.rank == inner:
                parameters[name] = _map_distribution(fn, value)
        elif known.is_tensor:
            value = tf.convert_to_tensor(value, dtype_hint=distribution.dtype)
            parameters[name] = fn(value) if value.shape.rank == inner else value
        else:
            _require_shared(distribution, name, value, event_rank)
    return _rebuild(distribution, parameters)


def _require_shared(distribution: Any, name: str, value: Any, rank: Any) -> None:
    """A bijector that is the same for the whole batch (tanh, fixed bounds) stays as it is."""
    of_bijector = getattr(value, "experimental_batch_shape", None)
    batch = value.batch_shape if of_bijector is None else of_bijector(x_event_ndims=rank)
    if batch.rank is None or batch.rank >= distribution.batch_shape.rank:
        raise TypeError(
            f"{type(distribution).__name__} has a {name} with a batch of {batch}, which can't be "
            "taken apart by time step. Let the network return the parameters, and make the "
            "distribution outside."
        )


def _rebuild(distribution: Any, parameters: dict) -> tfp.distributions.Distribution:
    kind = type(distribution)
    try:
        return kind(**parameters)
    except TypeError as error:
        raise TypeError(
            f"{kind.__name__} can't be made again from its own `parameters` ({error}): its "
            "constructor must take what `parameters` holds, as tfp's own distributions do."
        ) from error


def batch_size(nest: types.NestedTensor, axis: int = 0) -> Any:
    """Size of an axis of the first tensor of a nest: a number where known, else a tensor."""
    first = tree.flatten(nest)[0]
    return first.shape[axis] if first.shape[axis] is not None else tf.shape(first)[axis]
