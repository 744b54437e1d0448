"""The skeleton of every learner: an algorithm adds its loss and names what it trains.

One update is, on every replica: the algorithm's losses, their gradients, the mean
of the gradients over all replicas, clipping, one application per optimizer, and
the copy of online to target variables where one is due. The skeleton also feeds
the data, compiles, counts, logs, refuses to go on with a loss that is not finite,
and saves and restores all of it.
"""

from __future__ import annotations

import abc
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, Union

import numpy as np
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from tfagents_x import core, types
from tfagents_x.learners import checks, feed, minibatches, optimizers, saving, targets
from tfagents_x.learners.contract import Losses, Metrics, NonFiniteError, Trained
from tfagents_x.utils import counting, distribute, loggers, nest

# How TensorFlow's messages end when it was a dataset that failed.
_ITERATOR = "[[IteratorGetNext]]"
# What only errors of TensorFlow's operations, or of calls with the wrong arguments, contain.
_OF_AN_OPERATION = re.compile(r"{{node|' Op |Op:|NOT CONVERTIBLE|positional argument")


class Learner(core.Learner):
    """Base of all learners. A subclass implements `_losses`, and little else."""

    # Name under which the counter adds up wall time, in seconds.
    _time_key = "time_elapsed"
    # Metrics without which an update is void if they are not finite; None for all of them.
    _must_be_finite: Optional[Sequence[str]] = None
    # Whether the losses are random: then there is a seed, and the checkpoint holds it.
    _draws = False

    def __init__(
        self,
        *,
        networks: Mapping[str, snt.Module],
        trained: Mapping[str, Trained],
        dataset: Any,
        target_copy: Optional[Union[targets.TargetCopy, targets.MovingAverage]] = None,
        accelerator_strategy: Optional[tf.distribute.Strategy] = None,
        jit_compile: bool = False,
        num_sgd_steps_per_step: int = 1,
        prefetch_size: int = 2,
        update_norms: Sequence[str] = (),
        counter: Optional[counting.Counter] = None,
        logger: Optional[loggers.Logger] = None,
        saver: Optional[saving.PeriodicSaver] = None,
        seed: Optional[int] = None,
    ):
        """Sets up the skeleton; networks must have their variables by now.

        Args:
          networks: everything with variables that the algorithm uses, by the name that
            `get_variables`, `save` and checkpoints use.
          trained: what is trained by which optimizer; `_losses` gives a loss for each name.
          dataset: `tf.data.Dataset` or iterator of `ReplaySample`, or a distributed one. The
            leading axis is the *global* batch: a strategy's replicas share it.
          target_copy: when target variables are overwritten by online ones, or follow them.
          accelerator_strategy: any synchronous `tf.distribute` strategy; by default the one
            in whose scope the learner is constructed, if any.
          jit_compile: compile the update with XLA.
          num_sgd_steps_per_step: the batch of one `step()` is cut into this many minibatches,
            each of which makes an update; metrics are their means.
          prefetch_size: batches that a `tf.data.Dataset` prepares in advance. A plain iterator
            is never read ahead.
          update_norms: which of `param_norm`, `param_updates_norm` (global l2 norms of the
            parameters after the update, and of their change) to report.
          counter: counts `steps` (calls of `step`) and seconds.
          logger: gets metrics and counts of each step.
          saver: saves after steps; what it finds is restored now.
          seed: of losses that sample. The same seed gives the same updates, also after going on
            from a checkpoint, which holds it; by default a fresh one.

        Raises:
          TypeError: `accelerator_strategy`, a network or the dataset is of the wrong kind.
          ValueError: a number out of range, or variables made outside the strategy's scope.
        """
        checks.check_count("num_sgd_steps_per_step", num_sgd_steps_per_step)
        checks.check_count("prefetch_size", prefetch_size, low=0)
        for name, part in trained.items():
            example = "a Sonnet optimizer, or an object with apply(updates, parameters)"
            checks.check_method(f"the {name} optimizer", part.optimizer, "apply", example)
            name = f"the {name} max_gradient_norm"
            checks.check_number(name, part.max_gradient_norm, *checks.POSITIVE, optional=True)
        checks.check_flag("jit_compile", jit_compile)
        if counter is not None:
            checks.check_method("counter", counter, "increment", "a counting.Counter")
        if logger is not None:
            checks.check_method("logger", logger, "write", "a loggers.Logger")
        self._strategy = distribute.get_strategy(accelerator_strategy)
        self._networks = dict(networks)
        self._trained = dict(trained)
        self._target_copy = target_copy
        self._num_sgd_steps = num_sgd_steps_per_step
        self._update_norms = tuple(update_norms)
        self._counter = counter or counting.Counter()
        self._logger = logger or loggers.make_default_logger("learner")
        self._timestamp: Optional[float] = None
        if seed is not None:
            checks.check_count("seed", seed, low=0)
        self._prepare_variables()
        if self._draws:
            self._make_seed(seed)
        self._feed = feed.Feed(dataset, self._strategy, self._split, prefetch_size)
        # XLA needs functions, and minibatches share their trace; else the calls only cost time.
        nested = jit_compile or num_sgd_steps_per_step > 1
        function = lambda f: tf.function(f, autograph=False, jit_compile=jit_compile or None)
        compiled = lambda f: function(f) if nested else f
        self._gradients_fn = compiled(self._gradients)
        self._apply_fn = compiled(self._apply)
        self._update = tf.function(self._distributed_update, autograph=False)
        self._call: Optional[Callable[[], Any]] = None
        self._saver = saver
        if saver is not None:
            saver.restore(self)

    # What an algorithm provides.

    @abc.abstractmethod
    def _losses(self, data: Any) -> Losses:
        """Losses and metrics of one (per-replica) batch, a pure function of data and variables."""

    def _split(self, sample: types.ReplaySample) -> tuple[Any, Any]:
        """Parts a sample into what the device gets and what stays on the host."""
        return sample.data, ()

    def _exchange(self, data: Any) -> Any:
        """What `_losses` gets of a minibatch; the place where replicas tell each other something.

        Called on each replica, outside what XLA compiles, which can't hold collectives.
        """
        return data

    def _after_update(self, kept: Any, per_item: Any) -> None:
        """Called after each update.

        Args:
          kept: the host's part of the batch.
          per_item: `Losses.per_item` of every replica in this process, a tuple.
        """

    # One update, inside out.

    def _gradients(self, data: Any) -> tuple[dict[str, list], Losses]:
        """Gradients of every loss for the variables it trains."""
        if self._target_copy:
            self._target_copy.before_update(self._num_steps)
        several = len(self._trained) > 1
        # Only what is trained is watched: what target networks do need not be recorded.
        with tf.GradientTape(persistent=several, watch_accessed_variables=False) as tape:
            tape.watch([part.variables for part in self._trained.values()])
            result = self._checked_losses(data)
        gradients = {
            name: tape.gradient(result.losses[name], part.variables)
            for name, part in self._trained.items()
        }
        return gradients, result

    def _checked_losses(self, data: Any) -> Losses:
        """`_losses`, whose errors about operations say that a network doesn't fit the data."""
        try:
            return self._losses(data)
        except (TypeError, ValueError) as error:
            if not _OF_AN_OPERATION.search(str(error)):
                raise
            raise type(error)(
                "A network doesn't fit the batch, whose leaves are "
                f"{checks.describe(data)}: {str(error).splitlines()[0]}"
            ) from error

    def _apply(self, gradients: Mapping[str, list], result: Losses) -> Metrics:
        """Clips and applies averaged gradients; returns the norms asked for."""
        # If a batch fails, nothing changes: not even the counters, which would not wait for it.
        # All gradients need not be there: the first to come are applied beside the backward pass.
        with tf.control_dependencies(tree.flatten(result)):
            return self._apply_all(gradients)

    def _apply_all(self, gradients: Mapping[str, list]) -> Metrics:
        variables = [v for part in self._trained.values() for v in part.variables]
        before = [tf.identity(v) for v in variables] if self._update_norms else []
        for name, part in self._trained.items():
            updates = gradients[name]
            if part.max_gradient_norm is not None:
                updates, _ = tf.clip_by_global_norm(updates, part.max_gradient_norm)
            optimizers.apply(part.optimizer, updates, part.variables)
        if self._target_copy:
            self._target_copy.after_update(self._num_steps)
        distribute.local(self._num_steps).assign_add(1)
        return self._norms(before, variables)

    def _norms(self, before: Sequence[tf.Tensor], variables: Sequence[tf.Variable]) -> Metrics:
        after = [tf.identity(v) for v in variables] if self._update_norms else []
        norms = {
            "param_norm": lambda: tf.linalg.global_norm(after),
            "param_updates_norm": lambda: tf.linalg.global_norm(
                [a - b for a, b in zip(after, before)]
            ),
        }
        return {name: norms[name]() for name in self._update_norms}

    def _replica_update(self, data: Any, index: Any) -> tuple[Metrics, Any]:
        """What one replica does with minibatch `index` of its share of the batch."""
        data = minibatches.part(data, index, self._num_sgd_steps)
        gradients, result = self._gradients_fn(self._exchange(data))
        norms = self._apply_fn(distribute.all_reduce_mean(gradients), result)
        return {**result.metrics, **norms}, result.per_item

    def _distributed_update(self, data: Any) -> tuple[Metrics, tf.Tensor, Any]:
        """All replicas, all minibatches: metrics, whether they are finite, per-item outputs."""

        def run(index: Any) -> tuple[Metrics, Any]:
            metrics, per_item = self._strategy.run(self._replica_update, (data, index))
            mean = lambda x: self._strategy.reduce(tf.distribute.ReduceOp.MEAN, x, axis=None)
            per_item = self._strategy.experimental_local_results(per_item)
            return {name: mean(value) for name, value in metrics.items()}, per_item

        metrics, per_item = minibatches.repeat(run, self._num_sgd_steps)
        guarded = tf.stack(list(self._guarded(metrics).values()))
        finite = tf.reduce_all(tf.math.is_finite(guarded))
        return metrics, finite, per_item

    def _update_on_next(self) -> tuple[Metrics, tf.Tensor, Any, Any]:
        """`_distributed_update` on the next batch, taken inside the graph; and what is kept."""
        data, kept = self._feed.next()
        return (*self._distributed_update(data), kept)

    def _guarded(self, metrics: Metrics) -> Metrics:
        """The scalars that must be finite for learning to go on."""
        names = metrics if self._must_be_finite is None else self._must_be_finite
        return {name: metrics[name] for name in names}

    # What a user calls.

    def step(self) -> Mapping[str, types.NestedTensor]:
        """Does one update (or `num_sgd_steps_per_step`) on the next batch.

        Returns:
          Scalar metrics as tensors; nothing is copied to Python unless a logger reads it.

        Raises:
          NonFiniteError: a metric is NaN or infinite.
          ValueError, TypeError: the batch has the wrong structure, shapes or dtypes.
        """
        try:
            metrics, finite, per_item, kept = self._next_update()
        except tf.errors.InvalidArgumentError as error:
            if _ITERATOR in error.message:  # Of the user's own dataset.
                raise
            raise ValueError(
                f"Update {self.num_updates + 1} failed inside TensorFlow: "
                f"{error.message.splitlines()[0]} Usual cause: actions outside the action space."
            ) from error
        if not finite:
            raise NonFiniteError(self.num_updates, nest.to_numpy(self._guarded(metrics)))
        self._after_update(kept, per_item)
        counts = self._count()
        if self._saver is not None:
            self._saver.save(self)
        self._logger.write({**metrics, **counts})
        return metrics

    def _next_update(self) -> tuple[Metrics, tf.Tensor, Any, Any]:
        if not self._feed.in_graph:
            data, kept = self._feed.next()
            return (*self._update(data), kept)
        if self._call is None:
            # The one trace by itself: a `tf.function` looks for it anew in every call.
            eager = tf.config.functions_run_eagerly()
            function = tf.function(self._update_on_next, autograph=False)
            self._call = function if eager else function.get_concrete_function()
        try:
            return self._call()
        except tf.errors.OutOfRangeError as error:
            raise StopIteration from error

    def _count(self) -> Mapping[str, Any]:
        now = time.monotonic()
        elapsed = now - (self._timestamp or now)
        self._timestamp = now
        return self._counter.increment(steps=1, **{self._time_key: elapsed})

    @property
    def num_updates(self) -> int:
        """Updates done so far, restored ones included."""
        return int(self._num_steps.numpy())

    @property
    def counter(self) -> counting.Counter:
        """Counts this learner's steps and seconds."""
        return self._counter

    @property
    def strategy(self) -> tf.distribute.Strategy:
        """The strategy that the updates run under."""
        return self._strategy

    def get_variables(self, names: Sequence[str]) -> list[list[np.ndarray]]:
        """The variables of each named network, in the order of `module.variables`.

        Raises:
          TypeError: `names` is a single text.
          ValueError: there is no network of that name.
        """
        if isinstance(names, str):
            raise TypeError(f"names must be a list of network names, got the text {names!r}.")
        unknown = [name for name in names if name not in self._networks]
        if unknown:
            raise ValueError(f"No network named {unknown}; this learner has {[*self._networks]}.")
        return [[v.numpy() for v in self._networks[name].variables] for name in names]

    # State.

    def _prepare_variables(self) -> None:
        for name, network in self._networks.items():
            checks.check_network(name, network)
            distribute.check_variables(network.variables, self._strategy, name)
        distribute.accept_in_sonnet(self._strategy)
        owners: dict[int, str] = {}
        for name, part in self._trained.items():
            first = owners.setdefault(id(part.optimizer), name)
            if first != name and len(_variables(part.optimizer)) > 1:
                raise ValueError(
                    f"The {first} and the {name} optimizer are the same object, which keeps "
                    "numbers for one set of parameters only. Make one for each."
                )
            distribute.initialize_optimizer(part.optimizer, part.variables, self._strategy)
            owner = f"the {name} optimizer"
            distribute.check_variables(_variables(part.optimizer), self._strategy, owner)
        with distribute.scope(self._strategy):
            # 32 bits, because TPUs have no 64-bit integers.
            self._num_steps = tf.Variable(0, dtype=tf.int32, trainable=False, name="num_steps")

    def _make_seed(self, seed: Optional[int]) -> None:
        value = secrets.randbits(31) if seed is None else seed % 2**31
        with distribute.scope(self._strategy):
            self._seed = tf.Variable(value, dtype=tf.int32, trainable=False, name="seed")

    def _seeds(self, count: int) -> list[tf.Tensor]:
        """Seeds for tfp, int32 [2] each: others in every update and on every replica."""
        context = tf.distribute.get_replica_context()
        replica = 0 if context is None else context.replica_id_in_sync_group
        replica = tf.cast(replica, tf.int32)
        first = tf.stack([self._seed + replica, tf.convert_to_tensor(self._num_steps)])
        return tf.unstack(tfp.random.split_seed(first, n=count))

    @property
    def checkpointable(self) -> tf.train.Checkpoint:
        """All state under stable names, for `write`/`read` or a `tf.train.CheckpointManager`."""
        optimizers = {f"{name}_optimizer": p.optimizer for name, p in self._trained.items()}
        return tf.train.Checkpoint(**self._networks, **optimizers, **self._numbers())

    def _state(self) -> dict[str, dict[str, Sequence[tf.Variable]]]:
        return {
            "networks": {k: tuple(n.variables) for k, n in self._networks.items()},
            "optimizers": {k: _variables(p.optimizer) for k, p in self._trained.items()},
            "counters": {name: (variable,) for name, variable in self._numbers().items()},
        }

    def _numbers(self) -> dict[str, tf.Variable]:
        numbers = {"num_steps": self._num_steps}
        return {**numbers, "seed": self._seed} if self._draws else numbers

    def save(self) -> types.NestedArray:
        """Networks, optimizer slots and counters as a plain nest of numpy arrays."""
        return tree.map_structure(lambda v: v.numpy(), self._state())

    def restore(self, state: types.NestedArray) -> None:
        """Takes back what `save()` gave, also under another strategy.

        Raises:
          ValueError: the state has other names, shapes or dtypes.
        """
        saving.assign(self._state(), state)


def _variables(optimizer: Any) -> tuple[tf.Variable, ...]:
    """An optimizer's slots and counters; it may have none, as SGD."""
    if isinstance(optimizer, tf.Module):
        return nest.variables_of(optimizer)
    return tuple(getattr(optimizer, "variables", ()))
