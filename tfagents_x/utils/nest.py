"""Rearranging nests of tensors and creating the variables of a network from specs."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import types


def batch_to_sequence(data: types.NestedTensor) -> types.NestedTensor:
    """Exchanges the first two axes of every leaf, [B, T, ...] <-> [T, B, ...].

    Acme's `batch_to_sequence`; its own inverse.

    Raises:
      ValueError: a leaf has fewer than two axes.
    """
    return tree.map_structure_with_path(_swap_leading, data)


def _swap_leading(path: tuple, leaf: Any) -> tf.Tensor:
    leaf = as_tensor(path_name(path), leaf)
    if leaf.shape.rank is None or leaf.shape.rank < 2:
        raise ValueError(f"Expected [B, T, ...] but {path_name(path)} has shape {leaf.shape}.")
    return tf.transpose(leaf, [1, 0, *range(2, leaf.shape.rank)])


def path_name(path: tuple) -> str:
    """How error messages call the leaf at `path`."""
    return "/".join(map(str, path)) or "the tensor"


def as_tensor(name: str, value: Any) -> tf.Tensor:
    """Converts `value` to a tensor, whatever its dtype and shape.

    Raises:
      TypeError: it is no tensor, array or number.
    """
    try:
        return tf.convert_to_tensor(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(
            f"{name} is a {type(value).__name__}, but must be a tensor, an array or a number "
            f"({error})."
        ) from error


def require_int(name: str, value: Any) -> None:
    """Refuses what is no int of at least 1.

    Raises:
      TypeError: it is no int.
      ValueError: it is less than 1.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} is {value!r}, but must be an int.")
    if value < 1:
        raise ValueError(f"{name} is {value}, but must be at least 1.")


def cast(name: str, value: Any, dtype: tf.DType) -> tf.Tensor:
    """Converts numbers or booleans to a tensor of `dtype`.

    Raises:
      TypeError: `value` holds something else.
    """
    tensor = as_tensor(name, value)
    if not (tensor.dtype.is_floating or tensor.dtype.is_integer or tensor.dtype.is_bool):
        raise TypeError(f"{name} is {tensor.dtype.name}, but must hold numbers or booleans.")
    return tf.cast(tensor, dtype)


def add_batch_dim(nest: types.NestedArray) -> types.NestedTensor:
    """Adds a leading axis of 1 to every leaf: [...] -> [1, ...]. Acme's `add_batch_dim`.

    Raises:
      TypeError: a leaf is no tensor, array or number.
    """
    return tree.map_structure_with_path(
        lambda path, x: tf.expand_dims(as_tensor(path_name(path), x), 0), nest
    )


def squeeze_batch_dim(nest: types.NestedTensor) -> types.NestedTensor:
    """Takes the leading axis of 1 off every leaf: [1, ...] -> [...]. Acme's `squeeze_batch_dim`.

    Raises:
      ValueError: the leading axis of a leaf is missing, or is not 1.
    """
    return tree.map_structure_with_path(lambda path, x: _squeeze(path, x, 0), nest)


def _squeeze(path: tuple, leaf: Any, axis: int) -> tf.Tensor:
    leaf = as_tensor(path_name(path), leaf)
    rank = leaf.shape.rank
    if rank is not None and not (-rank <= axis < rank and leaf.shape[axis] in (1, None)):
        raise ValueError(f"{path_name(path)} has shape {leaf.shape}, but axis {axis} must be 1.")
    return tf.squeeze(leaf, axis)


def batch_concat(inputs: types.NestedTensor) -> tf.Tensor:
    """Flattens every leaf but for its first axis, and concatenates them. Acme's `batch_concat`.

    Args:
      inputs: nest of tensors [B, ...] of one dtype; [B] counts as [B, 1].

    Returns:
      [B, D] of that dtype, in the order of the flattened nest: dictionary keys
      alphabetically, whatever the order of insertion, tuple entries in their own order.

    Raises:
      TypeError: the dtypes of two leaves differ, or a leaf is no tensor, array or number.
      ValueError: there is no leaf, a leaf has no batch axis, or the batch sizes differ.
    """
    named = [(path_name(path), x) for path, x in tree.flatten_with_path(inputs)]
    leaves = {name: as_tensor(name, x) for name, x in named}
    if not leaves:
        raise ValueError("batch_concat needs at least one tensor, got an empty nest.")
    first, batch = next(iter(leaves)), tf.TensorShape([None])
    for name, leaf in leaves.items():
        if not leaf.shape.rank:
            raise ValueError(f"Expected [B, ...] but {name} has shape {leaf.shape}.")
        if leaf.dtype != leaves[first].dtype:
            raise TypeError(
                f"{name} is {leaf.dtype.name}, but {first} is {leaves[first].dtype.name}: use "
                "tf.cast to give all leaves one dtype."
            )
        if not batch.is_compatible_with(leaf.shape[:1]):
            shapes = {k: tuple(v.shape) for k, v in leaves.items()}
            raise ValueError(f"All leaves must have the same batch size, got {shapes}.")
        batch = batch.merge_with(leaf.shape[:1])
    return tf.concat([_flatten(leaf) for leaf in leaves.values()], axis=-1)


def _flatten(leaf: tf.Tensor) -> tf.Tensor:
    """[B, ...] -> [B, D], B = 0 included."""
    size = leaf.shape[1:].num_elements()
    if size is None:
        size = tf.reduce_prod(tf.shape(leaf)[1:])
    flat = tf.reshape(leaf, tf.stack([tf.shape(leaf)[0], size]))
    flat.set_shape([leaf.shape[0], None])
    return flat


def tile_tensor(tensor: Any, multiple: Any) -> tf.Tensor:
    """Stacks `multiple` copies along a new leading axis: [...] -> [multiple, ...].

    Acme's `tile_tensor`.

    Args:
      tensor: of any shape and dtype.
      multiple: at least 1; an int, or a scalar integer tensor.

    Raises:
      TypeError: `multiple` is not an integer, or `tensor` no tensor, array or number.
      ValueError: `multiple` is less than 1.
    """
    return _tile("tensor", tensor, multiple)


def _tile(name: str, value: Any, multiple: Any) -> tf.Tensor:
    tensor = as_tensor(name, value)
    _check_multiple(multiple)
    leading = tf.reshape(tf.cast(multiple, tf.int32), [1])
    return tf.broadcast_to(tensor, tf.concat([leading, tf.shape(tensor)], axis=0))


def _check_multiple(multiple: Any) -> None:
    tensor = as_tensor("multiple", multiple)
    if not tensor.dtype.is_integer:
        raise TypeError(f"multiple is {multiple!r}, but must be an int.")
    number = tf.get_static_value(tensor)
    if number is not None and number < 1:
        raise ValueError(f"multiple is {number}, but must be at least 1.")


def tile_nested(inputs: types.NestedTensor, multiple: Any) -> types.NestedTensor:
    """`tile_tensor` of every leaf. Acme's `tile_nested`."""
    return tree.map_structure_with_path(lambda path, x: _tile(path_name(path), x, multiple), inputs)


def zeros_like(nest: Any) -> types.NestedTensor:
    """Zeros in the shapes and dtypes of a nest of arrays, tensors or specs.

    Acme's `zeros_like`.

    Raises:
      TypeError: a leaf has no shape and dtype.
      ValueError: a dimension is unknown.
    """
    return tree.map_structure_with_path(lambda path, x: _zeros(path, x), nest)


def _zeros(path: tuple, leaf: Any, batch_shape: Sequence[int] = ()) -> tf.Tensor:
    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        raise TypeError(
            f"{path_name(path)} is a {type(leaf).__name__}, but must have a shape and a dtype: "
            "pass arrays, tensors, specs (tfagents_x.specs) or tf.TensorSpec."
        )
    shape = tf.TensorShape(leaf.shape)
    if not shape.is_fully_defined():
        raise ValueError(f"{path_name(path)} has shape {shape}, but every dimension must be known.")
    return tf.zeros([*batch_shape, *shape], leaf.dtype)


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


def create_variables(network: snt.Module, input_spec: Sequence[types.NestedSpec]) -> Any:
    """Calls `network` once on zeros with a batch of 1, so that its variables exist.

    Acme's `create_variables`. Notes on the network, in `_input_signature`, what it was called
    with, which `snapshots.make_snapshot` needs: one nest of `tf.TensorSpec` [None, ...] for
    each argument.

    Args:
      network: a Sonnet module; a `snt.RNNCore` also gets its initial state.
      input_spec: list of nests of specs or `tf.TensorSpec`, one for each positional argument,
        without batch axis.

    Returns:
      Nest of `tf.TensorSpec` of the network's outputs, without batch axis; None where the
      output is no tensor (a distribution), or its first axis isn't the batch.

    Raises:
      TypeError: `input_spec` is not a list, a leaf is not a spec, or their number is not that
        of the network's arguments.
      ValueError: a dimension of a spec is unknown.
    """
    if not isinstance(input_spec, (list, tuple)) or hasattr(input_spec, "_fields"):
        raise TypeError(
            f"input_spec is a {type(input_spec).__name__}, but must be a list with one nest of "
            "specs for each argument of the network: create_variables(network, [spec])."
        )
    inputs = tree.map_structure_with_path(lambda p, x: _zeros(p, x, [1]), list(input_spec))
    if isinstance(network, snt.RNNCore):
        inputs.append(network.initial_state(1))
    output = _call(network, inputs, len(input_spec))
    # Past Sonnet's `__setattr__`, which would make the list a part of checkpoints.
    object.__setattr__(network, "_input_signature", tree.map_structure(batched_spec, inputs))
    return tree.map_structure(_unbatched_spec, output)


def _call(network: snt.Module, inputs: Sequence[Any], num_specs: int) -> Any:
    try:
        return network(*inputs)
    except TypeError as error:
        # What Python says of too few or too many arguments; other errors speak for themselves.
        if "positional argument" not in str(error):
            raise
        state = " and its initial state" if len(inputs) > num_specs else ""
        raise TypeError(
            f"input_spec has {num_specs} specs, and {network.name} could not be called with one "
            f"tensor for each{state}: {error}. It must have one spec for each argument of the "
            "network, for a critic create_variables(critic, [observation_spec, action_spec])."
        ) from error


def _has_batch_of_one(tensor: tf.Tensor) -> bool:
    return bool(tensor.shape.rank) and tensor.shape[0] == 1


def batched_spec(tensor: tf.Tensor) -> tf.TensorSpec:
    """The spec of a tensor [1, ...] with the batch size left open, [None, ...].

    A tensor without such an axis (a state that is common to the batch) keeps its shape.
    """
    shape = [None, *tensor.shape[1:]] if _has_batch_of_one(tensor) else tensor.shape
    return tf.TensorSpec(shape, tensor.dtype)


def _unbatched_spec(output: Any) -> Optional[tf.TensorSpec]:
    if not isinstance(output, tf.Tensor):
        return None
    if output.shape.rank == 0:
        return tf.TensorSpec([], output.dtype)
    return tf.TensorSpec(output.shape[1:], output.dtype) if _has_batch_of_one(output) else None


def to_numpy(nest: types.NestedTensor) -> types.NestedArray:
    """Every tensor or variable of a nest as a numpy array. Acme's `to_numpy`."""
    return tree.map_structure(lambda x: x.numpy() if hasattr(x, "numpy") else np.asarray(x), nest)


def to_numpy_squeeze(nest: types.NestedTensor, axis: int = 0) -> types.NestedArray:
    """`to_numpy` without axis `axis`, which must be 1 in every leaf. Acme's `to_numpy_squeeze`.

    Raises:
      ValueError: it is missing, or not 1.
    """
    return to_numpy(tree.map_structure_with_path(lambda path, x: _squeeze(path, x, axis), nest))


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
    tensor = as_tensor("the tensor", leaf)
    return tf.cast(tensor, narrow_dtype(tensor.dtype))
