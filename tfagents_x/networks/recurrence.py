"""Running recurrent cores over whole sequences: one symbolic loop, stateless layers in one batch.

`unroll` gives the numbers of calling the core step by step. The graph it builds
has the same size for every sequence length, and whatever does not depend on the
recurrence (the layers of a `snt.DeepRNN` that are not cores, the input projection
of a `snt.LSTM`) is computed for all time steps at once.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import types
from tfagents_x.networks import lstm

_Unrolled = tuple[types.NestedTensor, types.NestedTensor]


def unroll(
    core: snt.RNNCore,
    inputs: types.NestedTensor,
    initial_state: types.NestedTensor,
    resets: Optional[tf.Tensor] = None,
) -> _Unrolled:
    """Applies a recurrent core along the leading (time) axis.

    Args:
      core: any `snt.RNNCore`. A `snt.DeepRNN` is taken apart, a plain `snt.LSTM`
        uses a hand-derived gradient; every other core is looped as it is.
      inputs: nest of tensors [T, B, ...], T known at trace time.
      initial_state: state of `core` for a batch of B, as `core.initial_state(B)`.
      resets: [T, B] bool: before the steps where it is True, the state is replaced by the
        core's initial state (an episode starts there). None for nowhere.

    Returns:
      The outputs of all steps, a nest of tensors [T, B, ...], and the state after the
      last step. Equal to `snt.static_unroll` up to rounding, gradients included.

    Raises:
      TypeError: `core` is not a `snt.RNNCore`.
      ValueError: leaves of `inputs` disagree on [T, B], have fewer than two axes, or T is
        unknown or 0.
    """
    if not isinstance(core, snt.RNNCore):
        raise TypeError(
            f"unroll needs a recurrent core (snt.RNNCore), got {type(core).__name__}. "
            "Wrap stateless layers in snt.DeepRNN([...])."
        )
    inputs = tree.map_structure(tf.convert_to_tensor, inputs)
    timed = {"inputs": inputs}
    _check_leading_shape(timed if resets is None else {**timed, "resets": resets})
    return _unroll(core, inputs, initial_state, resets)


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


def _unroll(core: snt.RNNCore, inputs: Any, state: Any, resets: Any) -> _Unrolled:
    if type(core) is snt.DeepRNN:
        return _unroll_deep(core, inputs, state, resets)
    if lstm.is_plain(core):
        return lstm.unroll(core, inputs, state, resets)
    return _loop(core, inputs, state, resets)


def _unroll_deep(core: snt.DeepRNN, inputs: Any, state: Any, resets: Any) -> _Unrolled:
    """Layer by layer instead of step by step: only the cores need the order of time."""
    outputs, states = inputs, list(state)
    position = 0
    for layer in core._layers:
        if isinstance(layer, snt.RNNCore):
            outputs, states[position] = _unroll(layer, outputs, states[position], resets)
            position += 1
        else:
            outputs = batch_apply(layer, outputs)
    return outputs, tuple(states)


def batch_apply(layer: Callable[[Any], Any], inputs: types.NestedTensor) -> types.NestedTensor:
    """Applies a stateless layer to all [T, B] steps in one batch of T * B.

    Args:
      layer: function from a nest of [N, ...] to a nest of [N, ...].
      inputs: nest of tensors [T, B, ...].

    Returns:
      nest of tensors [T, B, ...].

    Raises:
      TypeError: the layer returns something that is not a nest of tensors.
    """
    first = tree.flatten(inputs)[0]
    steps = first.shape[0] or tf.shape(first)[0]
    outputs = layer(tree.map_structure(lambda x: snt.merge_leading_dims(x, 2), inputs))

    def split(leaf: Any) -> tf.Tensor:
        if not tf.is_tensor(leaf):
            raise TypeError(
                f"Layer {getattr(layer, 'name', layer)} returned a {type(leaf).__name__} inside a "
                "sequence; layers of an unrolled DeepRNN must return tensors."
            )
        return tf.reshape(leaf, tf.concat([[steps, -1], tf.shape(leaf)[1:]], 0))

    def split_static(leaf: Any) -> tf.Tensor:
        out = split(leaf)
        out.set_shape(first.shape[:2].concatenate(leaf.shape[1:]))
        return out

    return tree.map_structure(split_static, outputs)


def _loop(core: snt.RNNCore, inputs: Any, state: Any, resets: Any) -> _Unrolled:
    """Any core, one step at a time.

    The first step runs before the loop: it shows the structure of the outputs and
    creates variables that the core makes on its first call.
    """
    steps = tree.flatten(inputs)[0].shape[0]

    def step(t: Any, state: Any) -> tuple[Any, Any]:
        if resets is not None:
            state = _reset(core, state, resets[t])
        return core(tree.map_structure(lambda x: x[t], inputs), state)

    first, state = step(0, state)
    arrays = [
        tf.TensorArray(y.dtype, size=steps, element_shape=y.shape).write(0, y)
        for y in tree.flatten(first)
    ]

    def body(t: tf.Tensor, state: Any, arrays: list) -> tuple:
        output, state = step(t, state)
        return t + 1, state, [a.write(t, y) for a, y in zip(arrays, tree.flatten(output))]

    _, state, arrays = tf.while_loop(
        lambda t, *_: t < steps,
        body,
        (tf.constant(1), state, arrays),
        maximum_iterations=steps - 1,
    )
    return tree.unflatten_as(first, [a.stack() for a in arrays]), state


def _reset(core: snt.RNNCore, state: Any, where: tf.Tensor) -> Any:
    """`state` with the initial state in the rows of the batch where `where` [B] is True."""
    initial = core.initial_state(where.shape[0] or tf.shape(where)[0])

    def select(fresh: tf.Tensor, old: tf.Tensor) -> tf.Tensor:
        rows = tf.reshape(where, [-1] + [1] * (old.shape.rank - 1))
        return tf.where(rows, fresh, old)

    return tree.map_structure(select, initial, state)
