"""What recurrent learners of discrete actions check alike: specs, batches, states, values."""

from __future__ import annotations

from typing import Any

import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import specs, types
from tfagents_x.learners import checks


def check_environment(learner: str, environment_spec: Any) -> None:
    """Refuses an environment whose action is not one integer.

    Raises:
      TypeError: no `EnvironmentSpec`.
      ValueError: another kind of action.
    """
    if not isinstance(environment_spec, specs.EnvironmentSpec):
        raise TypeError(
            f"environment_spec must be a specs.EnvironmentSpec, got {environment_spec!r}. "
            "specs.make_environment_spec(environment) makes one."
        )
    if not isinstance(environment_spec.actions, specs.DiscreteArray):
        raise ValueError(
            f"{learner} needs one discrete action (specs.DiscreteArray), got "
            f"{environment_spec.actions!r}. Discretise the action space, or use a learner for "
            "continuous control."
        )


def check_core(name: str, network: Any) -> None:
    """Refuses what is no recurrent core, with or without variables (TypeError)."""
    if not isinstance(network, snt.RNNCore):
        raise TypeError(
            f"{name} must be a recurrent core (snt.RNNCore), got {network!r}. Wrap a "
            "feed-forward one in snt.DeepRNN([network])."
        )


def check_step(learner: str, data: types.Step) -> types.Step:
    """Returns a batch of sequences of discrete actions; at trace time, from static shapes.

    Args:
      learner: how messages call it.
      data: leaves [B, T, ...]; `start_of_episode` and `extras` are not looked at.

    Raises:
      TypeError: a leaf of the wrong dtype.
      ValueError: a leaf of another shape, or T unknown.
    """
    action = data.action
    if not tf.is_tensor(action) or not action.dtype.is_integer:
        raise TypeError(
            f"{learner} needs integer actions, one tensor [B, T], got "
            f"{getattr(action, 'dtype', type(action).__name__)}. For continuous ones there are "
            "SVG0 and RCRR."
        )
    leading = tuple(action.shape) if action.shape.rank == 2 else (None, None)
    if leading[1] is None or 0 in leading:
        raise ValueError(
            f"{learner} needs sequences of discrete actions, [B, T] with T known when the update "
            f"is traced and at least one sequence, got shape {action.shape}."
        )
    floats = {"reward": data.reward, "discount": data.discount}
    checks.check_leaves("batch", floats, dict.fromkeys(floats, _SCALAR), leading)
    checks.check_leading("observation", data.observation, leading)
    return data


_SCALAR = tf.TensorSpec([], tf.float32)


def first_states(recorded: Any, state: Any, batch_size: Any) -> types.NestedTensor:
    """The states that sequences begin in, out of a recorded `core_state`.

    Args:
      recorded: leaves [B, T, ...], or [B, ...] without a time axis; in any containers.
      state: the network's own state, for any batch size.
      batch_size: B, or None while it is unknown.

    Returns:
      Leaves [B, ...], in the containers of `state`.

    Raises:
      ValueError: another number of leaves, or one of another shape.
      TypeError: a leaf of another dtype.
    """
    leaves, own = tree.flatten(recorded), tree.flatten(state)
    if len(leaves) != len(own):
        raise ValueError(
            f"extras['core_state'] has {len(leaves)} tensors, {checks.describe(recorded)}, but the "
            f"network's state is {checks.describe(state)}. Record the states of this network."
        )
    recorded = tree.unflatten_as(state, leaves)
    spec = tree.map_structure(lambda x: tf.TensorSpec(x.shape[1:], x.dtype), state)
    has_time = any(x.shape.rank == y.shape.rank + 1 for x, y in zip(leaves, own))
    leading = (batch_size, None) if has_time else (batch_size,)
    checks.check_leaves("core_state", recorded, spec, leading)
    return tree.map_structure(lambda x: x[:, 0], recorded) if has_time else recorded


def whole_returns(starts: tf.Tensor, discounts: tf.Tensor, n_step: int) -> tf.Tensor:
    """Which n-step returns are of one episode, where sequences run on into the next one.

    The row before an episode's first is the final observation of the one before, with discount
    0: no action followed it. A return that ends in a terminal state is whole; but what was to
    come after a time limit, which leaves discount 1 in the row before the final observation,
    is unknown, and the 0 of that row would say that it is nothing.

    Args:
      starts: [T, B] bool, True in an episode's first row.
      discounts: [T, B], the environment's.
      n_step: rewards in a return.

    Returns:
      [T - 1, B] bool, for the returns from rows 0 ... T - 2 on.
    """
    final = starts[1:]
    no_row = tf.zeros_like(final[:1])
    cut = final & tf.concat([no_row, discounts[:-2] != 0], axis=0)
    # How many cuts there are up to each row, and up to the last one that its return looks at.
    passed = tf.cumsum(tf.cast(cut, tf.int32), axis=0)
    rows = tf.range(tf.shape(passed)[0])
    ends = tf.gather(passed, tf.minimum(rows + n_step - 1, rows[-1]))
    return tf.logical_not(final | (ends > passed))


def check_action_values(learner: str, values: Any, num_actions: int) -> tf.Tensor:
    """Returns a network's output for [T, B] steps if it is action values [T, B, A].

    Raises:
      TypeError: no tensor of floats.
      ValueError: of another shape, or another A than `num_actions`.
    """
    if not tf.is_tensor(values) or not values.dtype.is_floating:
        raise TypeError(f"{learner}'s networks must return action values [B, A], got {values!r}.")
    if values.shape.rank != 3:
        raise ValueError(
            f"{learner}'s networks must return action values [B, A], got, for [T, B] steps, "
            f"shape {values.shape}."
        )
    if values.shape[-1] != num_actions:
        raise ValueError(
            f"The network has values for {values.shape[-1]} actions, the environment {num_actions}."
        )
    return values
