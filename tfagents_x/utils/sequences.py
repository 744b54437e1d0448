"""What Acme's SVG0 does with sequences: time first, [T, B, ...]."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable, Optional

import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import types
from tfagents_x.utils import nest


def static_rnn(
    core: Callable[[Any], types.NestedTensor], inputs: types.NestedTensor, unroll_length: int
) -> types.NestedTensor:
    """Outputs of a stateless `core` at each of the first `unroll_length` steps.

    `static_rnn` of Acme's SVG0, which calls the core step by step. Here all steps go through
    it as one batch of T * B, and the shapes that one single step gives tell where in the
    outputs that batch is. Random draws are thus made together, and a core whose rows depend
    on each other (batch normalization) sees all steps at once. Steps are taken one by one
    where that can't be: a leaf is shorter than `unroll_length`, or has another batch size,
    or an output has no batch axis to be found.

    Args:
      core: from a nest [B, ...] to a nest of tensors.
      inputs: nest of tensors [T, B, ...], T known when traced. A leaf with fewer than
        `unroll_length` steps is None in those it lacks.
      unroll_length: the number of steps, at least 1.

    Returns:
      Nest of [unroll_length, ...], where ... is the shape of an output of one step.

    Raises:
      TypeError: the core returns something that is no tensor, a leaf is no tensor, or
        `unroll_length` no int.
      ValueError: `unroll_length` is less than 1 or more than the longest leaf has steps, or
        the number of steps of a leaf is unknown.
    """
    nest.require_int("unroll_length", unroll_length)
    inputs = tree.map_structure_with_path(_with_steps, inputs)
    longest = max((leaf.shape[0] for leaf in tree.flatten(inputs)), default=unroll_length)
    if longest < unroll_length:
        raise ValueError(
            f"unroll_length is {unroll_length}, but the inputs have only {longest} steps: it must "
            "be at most that of the longest."
        )
    if unroll_length > 1 and _is_one_batch(inputs, unroll_length):
        stacked = _all_steps_at_once(core, inputs, unroll_length)
        if stacked is not None:
            return stacked
    steps = [_one_step(core, inputs, t) for t in range(unroll_length)]
    return tree.map_structure(lambda *ts: tf.stack(ts), *steps)


def _with_steps(path: tuple, leaf: Any) -> tf.Tensor:
    name = "/".join(map(str, path)) or "the input"
    leaf = nest.as_tensor(name, leaf)
    if not leaf.shape.rank or leaf.shape[0] is None:
        raise ValueError(f"Expected [T, B, ...] with a known T, but {name} has {leaf.shape}.")
    return leaf


def _is_one_batch(inputs: types.NestedTensor, unroll_length: int) -> bool:
    """Whether all leaves have all steps, and the same batch size."""
    leaves = tree.flatten(inputs)
    shapes = {tuple(x.shape[1:2]) for x in leaves}
    return len(shapes) == 1 and shapes != {()} and all(x.shape[0] >= unroll_length for x in leaves)


def _one_step(core: Callable, inputs: types.NestedTensor, t: int) -> types.NestedTensor:
    outputs = core(tree.map_structure(lambda x: x[t] if t < x.shape[0] else None, inputs))
    for path, leaf in tree.flatten_with_path(outputs):
        if not tf.is_tensor(leaf):
            name = "/".join(map(str, path)) or "output"
            raise TypeError(
                f"The core's {name} is a {type(leaf).__name__}, but must be a tensor: steps of "
                "anything else can't be stacked."
            )
    return outputs


def _all_steps_at_once(
    core: Callable, inputs: types.NestedTensor, num_steps: int
) -> Optional[types.NestedTensor]:
    """Stacked outputs from one batch of all steps, or None where the batch isn't found in them."""
    one = _one_step(core, inputs, 0)
    flat = tree.map_structure(lambda x: snt.merge_leading_dims(x[:num_steps], 2), inputs)
    merged = core(flat)
    batch, many = tree.flatten(inputs)[0].shape[1], tree.flatten(flat)[0].shape[0]
    parts = []
    for of_one, of_all in zip(tree.flatten(one), tree.flatten(merged)):
        axis = _batch_axis(of_one.shape, of_all.shape, batch, many)
        if axis is None:
            return None
        parts.append(_split(of_all, axis, num_steps))
    return tree.unflatten_as(one, parts)


def _batch_axis(
    one: tf.TensorShape, merged: tf.TensorShape, batch: Optional[int], many: Optional[int]
) -> Optional[int]:
    """The one axis that is `batch` in a step's shape and `many` in that of all; or None."""
    pairs = list(zip(one, merged)) if one.rank == merged.rank and one.rank else []
    found = [i for i, pair in enumerate(pairs) if pair == (batch, many)]
    others_agree = all(a == b for i, (a, b) in enumerate(pairs) if i not in found)
    return found[0] if len(found) == 1 and others_agree else None


def _split(merged: tf.Tensor, axis: int, num_steps: int) -> tf.Tensor:
    """[..., T * B, ...] -> [T, ..., B, ...]."""
    shape = tf.shape(merged)
    split = tf.reshape(
        merged,
        tf.concat([shape[:axis], [num_steps, shape[axis] // num_steps], shape[axis + 1 :]], 0),
    )
    others = [i for i in range(merged.shape.rank + 1) if i != axis]
    return tf.transpose(split, [axis, *others])


def mask_out_restarting(tensor: tf.Tensor, start_of_episode: tf.Tensor) -> tf.Tensor:
    """0 where an episode starts, `tensor` elsewhere.

    `mask_out_restarting` of Acme's SVG0. That one multiplies by 0 or 1, so that an infinite
    or NaN entry becomes NaN where it is masked; this one selects, and gives 0 there. An
    integer mask, which Acme takes and inverts bit by bit, is refused.

    Args:
      tensor: [T, B], of any numeric dtype.
      start_of_episode: [T, B], bool.

    Returns:
      [T, B], in the dtype of `tensor`.

    Raises:
      TypeError: the mask is not bool, or one of the two no tensor.
      ValueError: one of the two is not of rank 2, or their shapes differ.
    """
    tensor = nest.as_tensor("tensor", tensor)
    mask = nest.as_tensor("start_of_episode", start_of_episode)
    if mask.dtype != tf.bool:
        raise TypeError(
            f"start_of_episode is {mask.dtype.name}, but must be bool: use "
            "tf.cast(start_of_episode, tf.bool)."
        )
    for name, value in (("tensor", tensor), ("start_of_episode", mask)):
        if value.shape.rank not in (2, None):
            raise ValueError(f"{name} has shape {value.shape}, but must have [T, B].")
    if not tensor.shape.is_compatible_with(mask.shape):
        raise ValueError(
            f"start_of_episode has shape {mask.shape}, but tensor {tensor.shape}: they must have "
            "the same, [T, B]."
        )
    return tf.where(mask, tf.zeros_like(tensor), tensor)


def batch_concat_selection(
    observation_dict: Mapping[str, tf.Tensor],
    concat_keys: Optional[Iterable[str]] = None,
    output_dtype: tf.DType = tf.float32,
) -> tf.Tensor:
    """Concatenates chosen entries of a flat observation, as `batch_concat`.

    `batch_concat_selection` of Acme's SVG0.

    Args:
      observation_dict: tensors [B, ...] by name.
      concat_keys: names of the entries in the order wanted; None, and also an empty list,
        stands for all in alphabetical order.
      output_dtype: what every entry is cast to first; True becomes 1.

    Returns:
      [B, D] of `output_dtype`.

    Raises:
      KeyError: a name is not in the observation.
      TypeError: `observation_dict` is not a mapping, an entry is a nest or holds no numbers,
        or `concat_keys` is a single string.
      ValueError: as `batch_concat`.
    """
    if not isinstance(observation_dict, Mapping):
        raise TypeError(
            f"observation_dict is a {type(observation_dict).__name__}, but must be a mapping "
            "from names to tensors."
        )
    if isinstance(concat_keys, str):
        raise TypeError(f"concat_keys is {concat_keys!r}, but must be a list: [{concat_keys!r}].")
    names = list(concat_keys or ()) or sorted(observation_dict)
    return nest.batch_concat([_entry(observation_dict, name, output_dtype) for name in names])


def _entry(observation: Mapping[str, tf.Tensor], name: str, dtype: tf.DType) -> tf.Tensor:
    if name not in observation:
        raise KeyError(f"The observation has no {name!r}, only {sorted(observation)}.")
    if tree.is_nested(observation[name]):
        raise TypeError(
            f"The entry {name!r} of the observation is a {type(observation[name]).__name__}, but "
            "must be a tensor: flatten the observation first, or use batch_concat."
        )
    return nest.cast(f"the entry {name!r} of the observation", observation[name], dtype)
