"""A critic's values of many sampled actions, a few samples at a time.

All samples at once may be rows by the ten thousand, whose activations fit into no cache and have
to be kept for the backward pass. A sample's gradient by its action is known as soon as its value
is, and is all that a policy needs.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

import tensorflow as tf

from tfagents_x import types
from tfagents_x.networks import action_values

# Rows of a round. Fewer cost more rounds, more fall out of the processor's cache.
_ROWS = 4096


def sampled_values(
    critic: Any,
    observations: types.NestedTensor,
    actions: tf.Tensor,
    differentiable: bool = True,
) -> tf.Tensor:
    """Values of S actions in each of M states, differentiable by the actions only.

    Args:
      critic: `critic(observation, action)` to [N] or [N, 1]; each row must depend on its own
        observation and action alone.
      observations: nest of tensors [M, ...].
      actions: [S, M, ...].
      differentiable: whether they are differentiable at all.

    Returns:
      Values [S, M]. No gradient passes to the critic's parameters or to the observations. First
      derivatives only.
    """
    results = _evaluate(critic, observations, tf.stop_gradient(actions), differentiable)
    values, *gradients = map(tf.stop_gradient, results)
    if not differentiable:
        return values
    (by_actions,) = gradients

    @tf.custom_gradient
    def with_gradient(actions: tf.Tensor) -> Any:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            shape = tf.concat([tf.shape(upstream), [1] * (actions.shape.rank - 2)], 0)
            return tf.reshape(upstream, shape) * by_actions

        return tf.identity(values), gradient

    return with_gradient(actions)


def _evaluate(
    critic: Any, observations: types.NestedTensor, actions: tf.Tensor, differentiable: bool
) -> list[tf.Tensor]:
    """Values [S, M] and, if wanted, their gradients [S, M, ...]."""
    num_samples = actions.shape[0]
    at_once = _samples_at_once(num_samples, actions.shape[1])
    critic_of_actions = action_values.of_actions(critic, observations, at_once)

    def values(rows: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(rows)
            found = tf.reshape(critic_of_actions(rows), [-1])
        return [found, tape.gradient(found, rows)] if differentiable else [found]

    rounds = tf.reshape(actions, [num_samples // at_once, -1, *actions.shape[2:]])
    if rounds.shape[0] == 1:
        results = [x[tf.newaxis] for x in values(rounds[0])]
    else:
        # Values, and what has the shape of the actions.
        shapes = [rounds.shape[1:2], rounds.shape[1:]]
        results = _loop(values, rounds, shapes if differentiable else shapes[:1])
    return [tf.reshape(x, [num_samples, -1, *x.shape[2:]]) for x in results]


def _loop(
    values: Callable[[tf.Tensor], list[tf.Tensor]], rounds: tf.Tensor, shapes: list[tf.TensorShape]
) -> list[tf.Tensor]:
    """Stacks `values` of each round."""
    count = rounds.shape[0]
    arrays = [tf.TensorArray(rounds.dtype, count, element_shape=shape) for shape in shapes]

    def body(index: tf.Tensor, arrays: list) -> tuple[tf.Tensor, list]:
        results = values(rounds[index])
        return index + 1, [array.write(index, x) for array, x in zip(arrays, results)]

    _, arrays = tf.while_loop(
        lambda index, *_: index < count, body, (tf.constant(0), arrays), maximum_iterations=count
    )
    return [array.stack() for array in arrays]


def _samples_at_once(num_samples: int, num_states: Optional[int]) -> int:
    """The largest divisor of S whose rows are not too many."""
    limit = max(1, _ROWS // num_states) if num_states else 1
    return max(n for n in range(1, num_samples + 1) if num_samples % n == 0 and n <= limit)
