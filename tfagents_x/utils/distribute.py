"""Everything the library knows about `tf.distribute`.

Sonnet's optimizers accept only Sonnet's own strategies, and variables made under
a plain `tf.distribute.MirroredStrategy`, `MultiWorkerMirroredStrategy` or
`TPUStrategy` refuse assignment inside a replica. Both restrictions end here:
`scope` makes replica-local variables under any strategy, `local` finds a
replica's own copy of a mirrored variable, and `apply_gradients` puts the two
together.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Optional

import sonnet as snt
import tensorflow as tf
import tree
from sonnet.src.distribute import replicator
from sonnet.src.optimizers import optimizer_utils
from tensorflow.python.distribute import values as _values

from tfagents_x import types

_UNSUPPORTED = (tf.distribute.experimental.ParameterServerStrategy,)


def get_strategy(strategy: Optional[tf.distribute.Strategy] = None) -> tf.distribute.Strategy:
    """Returns `strategy`, or the one in whose scope we are, or TensorFlow's default.

    Raises:
      TypeError: `strategy` is not a `tf.distribute.Strategy`.
      ValueError: it is a parameter-server strategy, whose updates are asynchronous.
    """
    strategy = strategy or tf.distribute.get_strategy()
    if not isinstance(strategy, tf.distribute.Strategy):
        raise TypeError(
            f"accelerator_strategy must be a tf.distribute.Strategy, got {strategy!r}. "
            "Leave it out for a single device."
        )
    if isinstance(strategy, _UNSUPPORTED):
        raise ValueError(
            f"{type(strategy).__name__} updates parameters asynchronously, which no learner here "
            "does. Use MirroredStrategy, MultiWorkerMirroredStrategy or TPUStrategy."
        )
    return strategy


@contextlib.contextmanager
def scope(strategy: Optional[tf.distribute.Strategy] = None) -> Iterator[None]:
    """`strategy.scope()` whose variables are replica-local, as Sonnet's Replicator makes them.

    Create networks and optimizers in here:

        with distribute.scope(strategy):
            network = MyNetwork()
            utils.nest.create_variables(network, ...)

    Args:
      strategy: any synchronous strategy; None means the current one.
    """
    strategy = get_strategy(strategy)
    with contextlib.ExitStack() as stack:
        stack.enter_context(strategy.scope())
        if is_distributed(strategy):
            stack.enter_context(tf.variable_creator_scope(replicator.replica_local_creator))
        yield


def is_distributed(strategy: tf.distribute.Strategy) -> bool:
    """Whether the strategy keeps one copy of each variable per replica."""
    default = not tf.distribute.has_strategy() and strategy is tf.distribute.get_strategy()
    return not default and not isinstance(strategy, tf.distribute.OneDeviceStrategy)


def check_variables(
    variables: Iterable[tf.Variable], strategy: tf.distribute.Strategy, owner: str
) -> None:
    """Refuses variables that were made outside the strategy they will be trained under.

    Args:
      variables: of a network or an optimizer.
      strategy: the learner's.
      owner: how the error message names the object that holds them.

    Raises:
      ValueError: a variable has no copy on every replica.
    """
    if not is_distributed(strategy) or strategy.num_replicas_in_sync == 1:
        return
    strays = [v.name for v in variables if not isinstance(v, _values.DistributedVariable)]
    if strays:
        raise ValueError(
            f"{len(strays)} variable(s) of {owner} (the first is {strays[0]!r}) were created "
            f"outside the scope of the {type(strategy).__name__}, so its "
            f"{strategy.num_replicas_in_sync} replicas can't each have a copy. Create networks "
            "and optimizers inside `with tfagents_x.utils.distribute.scope(strategy):`."
        )


def local(variable: tf.Variable) -> tf.Variable:
    """The copy of `variable` that belongs to this replica, which may be assigned to.

    Replica-local and ordinary variables are returned as they are; a mirrored variable
    (made under a plain `MirroredStrategy.scope()`) yields its component.
    """
    mirrored = (
        isinstance(variable, _values.DistributedVariable)
        and variable.synchronization != tf.VariableSynchronization.ON_READ
    )
    in_replica = not tf.distribute.in_cross_replica_context()
    return variable._get() if mirrored and in_replica else variable


def accept_in_sonnet(strategy: tf.distribute.Strategy) -> None:
    """Tells Sonnet's optimizers that this kind of strategy is fine (see the module's text)."""
    known = optimizer_utils._SUPPORTED_STRATEGIES
    if is_distributed(strategy) and not isinstance(strategy, known):
        optimizer_utils._SUPPORTED_STRATEGIES = (*known, type(strategy))


def initialize_optimizer(
    optimizer: snt.Optimizer, variables: Sequence[tf.Variable], strategy: tf.distribute.Strategy
) -> None:
    """Makes an optimizer's slots now, in the strategy's scope, so that they can be restored.

    Optimizers without Sonnet's `_initialize` make their slots in their first `apply`.
    """
    if hasattr(optimizer, "_initialize"):
        with scope(strategy):
            optimizer._initialize(variables)


def all_reduce_mean(nest: types.NestedTensor) -> types.NestedTensor:
    """Means over the replicas of every tensor of a nest, called in replica context.

    None leaves stay None. Without replicas nothing happens.
    """
    context = tf.distribute.get_replica_context()
    flat = tree.flatten(nest)
    tensors = [x for x in flat if x is not None]
    if context is None or context.num_replicas_in_sync == 1 or not tensors:
        return nest
    reduced = iter(context.all_reduce("MEAN", tensors))
    return tree.unflatten_as(nest, [None if x is None else next(reduced) for x in flat])


def all_reduce_max(value: tf.Tensor) -> tf.Tensor:
    """The largest of the replicas' values of a floating-point scalar, called in replica context."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return value
    # Replicas reduce by sums only: each fills its own place of a vector.
    index = tf.cast(context.replica_id_in_sync_group, tf.int32)
    places = tf.equal(tf.range(context.num_replicas_in_sync), index)
    return tf.reduce_max(context.all_reduce("SUM", tf.where(places, value, tf.zeros_like(value))))


def all_gather(value: tf.Tensor) -> tf.Tensor:
    """The replicas' values [...], one after the other [R, ...], called in replica context."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return value[tf.newaxis]
    return context.all_gather(value[tf.newaxis], axis=0)


def apply_gradients(
    optimizer: snt.Optimizer,
    gradients: Sequence[Optional[tf.Tensor]],
    variables: Sequence[tf.Variable],
) -> None:
    """`optimizer.apply` in replica context, under any strategy."""
    optimizer.apply(gradients, [local(v) for v in variables])


def distribute_batch(batch: types.NestedArray, strategy: tf.distribute.Strategy) -> Any:
    """Splits a global batch over the replicas of this process.

    Args:
      batch: nest of arrays or tensors [B, ...].
      strategy: B must be a multiple of its replicas on this worker.

    Returns:
      A nest of per-replica values, or of tensors if there is one replica.

    Raises:
      ValueError: B can't be split evenly.
    """
    replicas = len(strategy.extended.worker_devices) if is_distributed(strategy) else 1
    if replicas == 1:
        return tree.map_structure(tf.convert_to_tensor, batch)
    sizes = {int(x.shape[0]) for x in tree.flatten(batch)}
    if len(sizes) != 1 or next(iter(sizes)) % replicas:
        raise ValueError(
            f"A batch of {sorted(sizes)} can't be split evenly over {replicas} replicas. "
            f"Use a batch size that is a multiple of {replicas}."
        )
    share = next(iter(sizes)) // replicas

    def part(context: tf.distribute.experimental.ValueContext) -> Any:
        start = context.replica_id_in_sync_group % replicas * share
        return tree.map_structure(lambda x: tf.convert_to_tensor(x[start : start + share]), batch)

    return strategy.experimental_distribute_values_from_function(part)


def check_equal_shares(batch: Any, strategy: tf.distribute.Strategy) -> Any:
    """Returns a distributed batch as it is, if the replicas' shares are equal.

    The mean of means over unequal shares would not be the mean over the batch.

    Raises:
      ValueError: they are not.
    """
    shares = strategy.experimental_local_results(tree.flatten(batch)[0])
    sizes = [int(share.shape[0]) for share in shares]
    if len(set(sizes)) > 1:
        raise ValueError(
            f"A batch of {sum(sizes)} fell into unequal shares, {sizes}. Use a batch size that is "
            f"a multiple of {len(sizes)} replicas, with drop_remainder=True."
        )
    return batch
