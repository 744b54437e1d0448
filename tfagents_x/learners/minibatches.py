"""Several updates in one step, each on its part of the batch, in a loop of the graph."""

from __future__ import annotations

from typing import Any, Callable

import tensorflow as tf
import tree


def part(batch: Any, index: Any, count: int) -> Any:
    """One of `count` equal parts of a batch, with static shapes where the batch has them.

    Args:
      batch: nest of [B, ...].
      index: of the part, a number or an int32 [].
      count: of parts.

    Raises:
      ValueError: B is unknown, or can't be divided by `count`.
    """
    if count == 1:
        return batch
    size = tree.flatten(batch)[0].shape[0]
    if size is None:
        raise ValueError(
            f"num_sgd_steps_per_step = {count} needs a dataset whose batches are all of one size: "
            "pass drop_remainder=True to its `batch`."
        )
    if size % count:
        raise ValueError(
            f"A batch of {size} per replica can't be cut into num_sgd_steps_per_step = {count} "
            "equal minibatches."
        )
    share = size // count

    def take(x: tf.Tensor) -> tf.Tensor:
        # A gather compiles with XLA; a slice of static size from a moving place may not.
        parts = tf.reshape(x, tf.concat([[count, share], tf.shape(x)[1:]], 0))
        return tf.ensure_shape(tf.gather(parts, index), [share, *x.shape[1:]])

    return tree.map_structure(take, batch)


def repeat(update: Callable[[Any], tuple[Any, Any]], count: int) -> tuple[Any, Any]:
    """`update(0)`, `update(1)`, ..., `update(count - 1)`, in this order; traced twice at most.

    Args:
      update: of an index, to metrics and per-item outputs, both nests of tensors.
      count: of updates.

    Returns:
      The means of the metrics, and the per-item outputs, concatenated.
    """
    metrics, per_item = update(0)
    if count == 1:
        return metrics, per_item
    array = lambda x: tf.TensorArray(x.dtype, count, element_shape=x.shape).write(0, x)

    def body(index: tf.Tensor, sums: Any, arrays: Any) -> tuple[tf.Tensor, Any, Any]:
        metrics, per_item = update(index)
        write = lambda to, x: to.write(index, x)
        return (
            index + 1,
            tree.map_structure(tf.add, sums, metrics),
            tree.map_structure(write, arrays, per_item),
        )

    _, sums, arrays = tf.while_loop(
        lambda index, *_: index < count,
        body,
        (tf.constant(1), metrics, tree.map_structure(array, per_item)),
        parallel_iterations=1,
    )
    means = tree.map_structure(lambda x: x / count, sums)
    return means, tree.map_structure(lambda x: x.concat(), arrays)
