"""Running recurrent cores over whole sequences: one symbolic loop, stateless layers in one batch.

`unroll` gives the numbers of calling the core step by step. The graph it builds
has the same size for every sequence length, and whatever does not depend on the
recurrence (the layers of a `snt.DeepRNN` that are not cores, the input projection
of a `snt.LSTM`, heads that return distributions) is computed for all time steps at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Optional

import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import types
from tfagents_x.networks import batched, lstm

_Unrolled = tuple[types.NestedTensor, types.NestedTensor]


def unroll(
    core: snt.RNNCore,
    inputs: types.NestedTensor,
    initial_state: types.NestedTensor,
    resets: Optional[tf.Tensor] = None,
    return_all_states: bool = False,
) -> _Unrolled:
    """Applies a recurrent core along the leading (time) axis.

    Args:
      core: any `snt.RNNCore`. A `snt.DeepRNN` or `CriticDeepRNN` is taken apart, a plain
        `snt.LSTM` uses a hand-derived gradient, and a core with a method
        `unroll_all(inputs, state, resets) -> (outputs, states)` uses that; every other core
        is looped as it is.
      inputs: nest of tensors [T, B, ...], T known at trace time; for a `CriticDeepRNN` the
        pair (observations, actions).
      initial_state: state of `core` for a batch of B, as `core.initial_state(B)`.
      resets: [T, B] bool: before the steps where it is True, the state is replaced by the
        core's initial state (an episode starts there). None for nowhere.
      return_all_states: return the states after every step instead of the last one.

    Returns:
      The outputs of all steps, a nest of tensors [T, B, ...] and distributions with a batch
      of [T, B]; and the state after the last step, or those after every step, [T, B, ...].
      Equal to `snt.static_unroll` up to rounding, gradients included.

    Raises:
      TypeError: `core` is not a `snt.RNNCore`, or returns something else than tensors and
        distributions.
      ValueError: leaves of `inputs` disagree on [T, B], have fewer than two axes, or T is
        unknown or 0; or `initial_state` has another structure than the core's.
    """
    if not isinstance(core, snt.RNNCore):
        raise TypeError(
            f"unroll needs a recurrent core (snt.RNNCore), got {type(core).__name__}. "
            "Wrap stateless layers in snt.DeepRNN([...])."
        )
    inputs = _tensors("inputs", inputs)
    _check_leading_shape({"inputs": inputs})
    if resets is not None:
        (resets,) = _tensors("resets", (resets,))
        _check_resets(resets)
        _check_leading_shape({"inputs": inputs, "resets": resets})
    initial_state = _checked_state(core, initial_state, batched.batch_size(inputs, axis=1))
    outputs, states = unroll_core(core, inputs, initial_state, resets)
    return outputs, states if return_all_states else tree.map_structure(lambda s: s[-1], states)


def _check_leading_shape(nests: Any) -> None:
    shapes = {}
    for path, leaf in tree.flatten_with_path(nests):
        name = "/".join(map(str, path))
        if leaf.shape.rank is None or leaf.shape.rank < 2:
            raise ValueError(f"unroll needs [T, B, ...], got {leaf.shape} for {name}.")
        shapes[name] = tuple(leaf.shape[:2])
    if len(set(shapes.values())) != 1:
        raise ValueError(f"unroll needs inputs that agree on [T, B], got {shapes}.")
    leading = next(iter(shapes.values()))
    if not leading[0]:
        raise ValueError(
            f"unroll needs a known number of time steps of at least 1, got [T, B] = {leading}."
        )


def _tensors(name: str, nest: Any) -> Any:
    def convert(path: tuple, leaf: Any) -> tf.Tensor:
        try:
            return tf.convert_to_tensor(leaf)
        except (TypeError, ValueError) as error:
            where = "/".join([name, *map(str, path)])
            raise TypeError(f"{where} is no tensor, but a {type(leaf).__name__}.") from error

    return tree.map_structure_with_path(convert, nest)


def _check_resets(resets: tf.Tensor) -> None:
    if resets.dtype != tf.bool:
        raise TypeError(
            f"resets must be bool, True where an episode starts, got {resets.dtype.name}: use "
            "tf.cast(resets, tf.bool)."
        )
    if resets.shape.rank != 2:
        raise ValueError(f"resets must be [T, B], got shape {resets.shape}.")


def _checked_state(core: snt.RNNCore, state: Any, batch: Any) -> Any:
    """`state` as tensors, in the containers of the core's own states."""
    wanted = core.initial_state(batch)
    try:
        tree.assert_same_structure(wanted, state, check_types=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"initial_state does not have the structure of {core.name}.initial_state(batch_size): "
            f"wanted {_shapes(wanted)}, got {_shapes(state)}."
        ) from error
    state = tree.unflatten_as(wanted, tree.flatten(_tensors("initial_state", state)))
    for (path, leaf), own in zip(tree.flatten_with_path(state), tree.flatten(wanted)):
        if leaf.dtype != own.dtype or not leaf.shape.is_compatible_with(own.shape):
            raise ValueError(
                f"{'/'.join(['initial_state', *map(str, path)])} is {leaf.dtype.name} of shape "
                f"{leaf.shape}, but {core.name} has {own.dtype.name} of shape {own.shape} for a "
                f"batch of {batch if isinstance(batch, int) else 'that size'}."
            )
    return state


def _shapes(nest: Any) -> str:
    return str(tree.map_structure(lambda x: tuple(getattr(x, "shape", ())), nest))


def unroll_core(core: snt.RNNCore, inputs: Any, state: Any, resets: Any) -> _Unrolled:
    """`unroll` without checks, and with the states after every step: for `unroll_all` methods."""
    if has_own(core, "unroll_all"):
        return core.unroll_all(inputs, state, resets)
    if isinstance(core, snt.DeepRNN) and type(core).__call__ is snt.DeepRNN.__call__:
        return unroll_layers(core._layers, inputs, state, resets)
    if lstm.is_plain(core):
        return lstm.unroll(core, inputs, state, resets)
    return _loop(core, inputs, state, resets)


def has_own(core: snt.RNNCore, method: str) -> bool:
    """Whether `core` has `method`, and no subclass has changed `__call__` since it was written."""
    classes = type(core).__mro__
    owner = lambda name: next((i for i, c in enumerate(classes) if name in vars(c)), len(classes))
    return owner(method) <= owner("__call__") and owner(method) < len(classes)


def unroll_layers(
    layers: Sequence[Callable[..., Any]], inputs: Any, states: Any, resets: Any
) -> _Unrolled:
    """Layer by layer instead of step by step: only the cores need the order of time.

    Args:
      layers: of a `snt.DeepRNN`.
      inputs: nest of tensors [T, B, ...].
      states: one for each layer that is a `snt.RNNCore`.
      resets: [T, B] bool or None.

    Returns:
      Outputs and all states, as `unroll_core`.
    """
    outputs, states = inputs, list(states)
    position = 0
    for layer in layers:
        if isinstance(layer, snt.RNNCore):
            outputs, states[position] = unroll_core(layer, outputs, states[position], resets)
            position += 1
        else:
            outputs = batch_apply(layer, outputs)
    return outputs, tuple(states)


def batch_apply(layer: Callable[[Any], Any], inputs: types.NestedTensor) -> types.Nest:
    """Applies a stateless layer to all [T, B] steps in one batch of T * B.

    Args:
      layer: function from a nest of [N, ...] to a nest of tensors [N, ...] and distributions
        with a batch of [N].
      inputs: nest of tensors [T, B, ...] (or distributions, from the layer before).

    Returns:
      Nest of tensors [T, B, ...] and distributions with a batch of [T, B].

    Raises:
      TypeError: the layer returns something else than tensors and distributions.
    """
    first = batched.flatten(inputs)[0]
    leading = [batched.batch_size(first), first.shape[1]]
    outputs = layer(batched.map_leaves(lambda x: snt.merge_leading_dims(x, 2), inputs))
    return batched.map_leaves(lambda x: batched.split(x, leading), outputs)


def _loop(core: snt.RNNCore, inputs: Any, state: Any, resets: Any) -> _Unrolled:
    """Any core, one step at a time.

    The first step runs before the loop: it shows the structure of the outputs and
    creates variables that the core makes on its first call.
    """
    steps = tree.flatten(inputs)[0].shape[0]

    def step(t: Any, state: Any) -> tuple[Any, Any]:
        if resets is not None:
            state = reset(core, state, resets[t])
        return core(tree.map_structure(lambda x: x[t], inputs), state)

    first = _first_step(core, step, state)
    arrays = [
        tf.TensorArray(y.dtype, size=steps, element_shape=y.shape).write(0, y)
        for y in batched.flatten(first)
    ]

    def body(t: tf.Tensor, state: Any, arrays: list) -> tuple:
        results = step(t, state)
        return t + 1, results[1], [a.write(t, y) for a, y in zip(arrays, batched.flatten(results))]

    *_, arrays = tf.while_loop(
        lambda t, *_: t < steps,
        body,
        (tf.constant(1), first[1], arrays),
        maximum_iterations=steps - 1,
    )
    return batched.unflatten_as(first, [a.stack() for a in arrays])


def _first_step(core: snt.RNNCore, step: Callable[..., Any], state: Any) -> tuple[Any, Any]:
    try:
        return step(0, state)
    except TypeError as error:
        raise TypeError(
            f"{core.name} could not be called as core(inputs, state): {error} (A core of several "
            "inputs is unrolled as RNNUnpackWrapper(core), with a tuple of them.)"
        ) from error


def reset(core: snt.RNNCore, state: types.NestedTensor, where: tf.Tensor) -> types.NestedTensor:
    """`state` with the initial state in the rows of the batch where `where` [B] is True."""
    initial = core.initial_state(where.shape[0] or tf.shape(where)[0])

    def select(fresh: tf.Tensor, old: tf.Tensor) -> tf.Tensor:
        rows = tf.reshape(where, [-1] + [1] * (old.shape.rank - 1))
        return tf.where(rows, fresh, old)

    return tree.map_structure(select, initial, state)


def states_before(
    core: snt.RNNCore,
    initial_state: types.NestedTensor,
    states: types.NestedTensor,
    resets: Optional[tf.Tensor] = None,
) -> types.NestedTensor:
    """The states that each step started from.

    Args:
      core: what was unrolled.
      initial_state: what it started from, leaves [B, ...].
      states: the states after every step, leaves [T, B, ...], as `unroll` returns them.
      resets: [T, B] bool, as given to `unroll`.

    Returns:
      Nest of tensors [T, B, ...]: row t is what step t saw.
    """
    earlier = tree.map_structure(lambda s: s[:-1], states)
    return _prepend(core, initial_state, earlier, resets)


def unroll_before(
    core: snt.RNNCore,
    inputs: types.NestedTensor,
    initial_state: types.NestedTensor,
    resets: Optional[tf.Tensor] = None,
) -> types.NestedTensor:
    """`states_before` of an `unroll` of these arguments, without its last step and its outputs."""
    cut = lambda nest: tree.map_structure(lambda x: x[:-1], nest)
    if tree.flatten(inputs)[0].shape[0] == 1:
        first = tree.map_structure(lambda s: s[tf.newaxis][:0], initial_state)
        return _prepend(core, initial_state, first, resets)
    earlier_resets = None if resets is None else resets[:-1]
    _, states = unroll(core, cut(inputs), initial_state, earlier_resets, return_all_states=True)
    return _prepend(core, initial_state, states, resets)


def _prepend(core: snt.RNNCore, first: Any, rest: Any, resets: Optional[tf.Tensor]) -> Any:
    """[first, *rest] along time, with the initial state where an episode starts."""
    states = tree.map_structure(lambda s, r: tf.concat([s[tf.newaxis], r], 0), first, rest)
    if resets is None:
        return states
    merged = tree.map_structure(lambda x: snt.merge_leading_dims(x, 2), states)
    merged = reset(core, merged, tf.reshape(resets, [-1]))
    return tree.map_structure(lambda x: batched.split(x, resets.shape), merged)
