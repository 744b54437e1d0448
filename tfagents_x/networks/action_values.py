"""A critic's values of several actions in the same state, as one batch.

What depends on the state alone is computed once for all actions: the observation's
layers of a `CriticMultiplexer`, and the product of the hidden state with an LSTM's
recurrent weights. Rows are arranged as n * M + m for action n in state m.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Optional

import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import types
from tfagents_x.networks import batched, cores, lstm, multiplexers


def evaluate_actions(
    critic: Any,
    observations: types.NestedTensor,
    actions: types.NestedTensor,
    states: Optional[types.NestedTensor] = None,
) -> tuple[types.Nest, types.NestedTensor]:
    """Calls a critic on N actions for each of M observations.

    Args:
      critic: see `evaluate_rows`.
      observations: nest of tensors [M, ...].
      actions: nest of tensors [N, M, ...].
      states: nest of tensors [M, ...], or None for a critic without state.

    Returns:
      What the critic says, tensors [N, M, ...] and distributions with a batch of [N, M], and
      its next states [N, M, ...] (an empty tuple if it has none).
    """
    first = tree.flatten(actions)[0]
    num_actions = batched.batch_size(first)
    flat = tree.map_structure(lambda x: snt.merge_leading_dims(x, 2), actions)
    if states is None:
        values, next_states = evaluate_rows(critic, observations, flat, num_actions), ()
    else:
        values, next_states = step_rows(critic, observations, flat, states, num_actions)
    leading = [num_actions, first.shape[1]]
    return batched.map_leaves(lambda x: batched.split(x, leading), (values, next_states))


def evaluate_rows(
    critic: Any, observations: types.NestedTensor, actions: types.NestedTensor, num_actions: Any
) -> Any:
    """What `critic(observation, action)` says of all rows.

    Args:
      critic: called once on all rows; a `CriticMultiplexer`, also as the first layer of a
        `snt.Sequential`, embeds each observation once.
      observations: nest of tensors [M, ...].
      actions: nest of tensors [num_actions * M, ...].
      num_actions: N.
    """
    return of_actions(critic, observations, num_actions)(actions)


def of_actions(
    critic: Any, observations: types.NestedTensor, num_actions: Any
) -> Callable[[types.NestedTensor], Any]:
    """`evaluate_rows` as a function of the actions; what it can, it computes now."""
    if type(critic) is snt.Sequential and critic._layers:
        first, *others = critic._layers
        begin = of_actions(first, observations, num_actions)
        return lambda actions: snt.Sequential(others)(begin(actions)) if others else begin(actions)
    if type(critic) is multiplexers.CriticMultiplexer:
        embedded = repeat(critic.embed_observation(observations), num_actions)
        return lambda actions: critic.combine(embedded, critic.embed_action(actions))
    repeated = repeat(observations, num_actions)
    return lambda actions: critic(repeated, actions)


def step_rows(
    critic: Any,
    observations: types.NestedTensor,
    actions: types.NestedTensor,
    states: types.NestedTensor,
    num_actions: Any,
) -> tuple[Any, types.NestedTensor]:
    """One step of a recurrent critic for all rows, from M states.

    Args:
      critic: called as `critic(observation, action, state)`; a `CriticDeepRNN` is taken apart.
      observations: nest of tensors [M, ...].
      actions: nest of tensors [num_actions * M, ...].
      states: nest of tensors [M, ...]; scalars belong to all rows.
      num_actions: N.

    Returns:
      What the critic returns: a pair, if it is a recurrent network, of outputs and next states.
    """
    if not cores.takes_pairs(critic):
        tiled = repeat((observations, states), num_actions)
        return critic(tiled[0], actions, tiled[1])
    first, *others = critic._layers
    if isinstance(first, snt.RNNCore):
        inputs = (repeat(observations, num_actions), actions)
        return step_layers(critic._layers, inputs, states, num_actions)
    outputs = evaluate_rows(first._module, observations, actions, num_actions)
    return step_layers(others, outputs, states, num_actions)


def step_layers(
    layers: Sequence[Callable[..., Any]], inputs: Any, states: Sequence[Any], num_actions: Any
) -> tuple[Any, tuple]:
    """A `snt.DeepRNN` of these layers on N * M rows of inputs, from M states."""
    outputs = inputs
    next_states: list[Any] = []
    for layer in layers:
        if isinstance(layer, snt.RNNCore):
            outputs, state = _step(layer, outputs, states[len(next_states)], num_actions)
            next_states.append(state)
        else:
            outputs = layer(outputs)
    return outputs, tuple(next_states)


def _step(core: snt.RNNCore, inputs: Any, state: Any, num_actions: Any) -> tuple[Any, Any]:
    if lstm.is_plain(core):
        return lstm.step_from_shared_state(core, inputs, state, num_actions)
    return core(inputs, repeat(state, num_actions))


def repeat(inputs: types.NestedTensor, multiple: Any) -> types.NestedTensor:
    """[M, ...] -> [multiple * M, ...], one copy after the other; scalars stay as they are."""

    def tile(leaf: tf.Tensor) -> tf.Tensor:
        if leaf.shape.rank == 0:
            return leaf
        return tf.tile(leaf, tf.stack([multiple] + [1] * (leaf.shape.rank - 1)))

    return tree.map_structure(tile, inputs)
