"""Rearranging nests of tensors and creating the variables of a network from specs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import types


def batch_to_sequence(data: types.NestedTensor) -> types.NestedTensor:
    """Exchanges the first two axes of every leaf, [B, T, ...] <-> [T, B, ...].

    Raises:
      ValueError: a leaf has fewer than two axes.
    """
    return tree.map_structure_with_path(_swap_leading, data)


def _swap_leading(path: tuple, leaf: Any) -> tf.Tensor:
    leaf = tf.convert_to_tensor(leaf)
    if leaf.shape.rank is None or leaf.shape.rank < 2:
        raise ValueError(
            f"Expected [B, T, ...] but {'/'.join(map(str, path)) or 'the tensor'} has shape "
            f"{leaf.shape}."
        )
    return tf.transpose(leaf, [1, 0, *range(2, leaf.shape.rank)])


def add_batch_dim(nest: types.NestedArray) -> types.NestedTensor:
    """Adds a leading axis of 1 to every leaf: [...] -> [1, ...]."""
    return tree.map_structure(lambda x: tf.expand_dims(tf.convert_to_tensor(x), 0), nest)


def zeros_like_spec(spec: types.NestedSpec, batch_shape: Sequence[int] = ()) -> types.NestedArray:
    """Zeros of shape [*batch_shape, *spec.shape] for every spec of a nest."""
    return tree.map_structure(lambda s: np.zeros((*batch_shape, *s.shape), s.dtype), spec)


def tensor_specs(spec: types.NestedSpec, batch_shape: Sequence[Any] = ()) -> Any:
    """`tf.TensorSpec` of shape [*batch_shape, *spec.shape] for every spec of a nest."""
    return tree.map_structure_with_path(
        lambda path, s: tf.TensorSpec(
            (*batch_shape, *s.shape), s.dtype, name="_".join(map(str, path)) or "input"
        ),
        spec,
    )


def variables_of(module: tf.Module) -> tuple[tf.Variable, ...]:
    """The module's variables, none if it has not made them yet (where Sonnet would raise)."""
    return tuple(tf.Module.variables.fget(module))


def create_variables(network: snt.Module, input_spec: Sequence[types.NestedSpec]) -> None:
    """Calls `network` once on zeros with a batch of 1, so that its variables exist.

    Args:
      network: a Sonnet module; a `snt.RNNCore` also gets its initial state.
      input_spec: the specs of its positional arguments, without batch axis.
    """
    inputs = zeros_like_spec(list(input_spec), [1])
    inputs = tree.map_structure(tf.convert_to_tensor, inputs)
    if isinstance(network, snt.RNNCore):
        inputs.append(network.initial_state(1))
    network(*inputs)


def to_numpy(nest: types.NestedTensor) -> types.NestedArray:
    """Every tensor or variable of a nest as a numpy array."""
    return tree.map_structure(lambda x: x.numpy() if hasattr(x, "numpy") else np.asarray(x), nest)


_NARROW = {
    tf.float64: tf.float32,
    tf.int64: tf.int32,
    tf.uint64: tf.uint32,
}


def narrow_dtype(dtype: tf.DType) -> tf.DType:
    """The 32-bit counterpart of a 64-bit dtype, and any other dtype as it is."""
    return _NARROW.get(dtype, dtype)


def narrow(leaf: Any) -> tf.Tensor:
    """A 64-bit tensor or array as a 32-bit tensor, anything else as a tensor of its own dtype.

    Accelerators have no 64-bit integers, and networks are float32.
    """
    tensor = tf.convert_to_tensor(leaf)
    return tf.cast(tensor, narrow_dtype(tensor.dtype))
