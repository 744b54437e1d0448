"""Behaviour cloning: a policy learns the actions of a dataset by supervised learning.

Pomerleau, 1989; `acme.agents.jax.bc` (numbers and metrics) and `acme.agents.tf.bc`
(constructor). The losses are in `bc_losses`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import types
from tfagents_x.learners import base, bc_losses, checks, saving
from tfagents_x.utils import counting, distribute, loggers, nest

_OWN_METRICS = ("loss", "gradient_norm")
# Acme's learner writes a snapshot every hour.
_MINUTES = 60.0


class BCLearner(base.Learner):
    """Clones the behaviour in a dataset, with discrete or continuous actions.

    Batches are `Transition`s of [B, ...] (bare, or as the data of a `ReplaySample`), of which
    only `observation` and `action` are needed; the other fields can be `()` or None, unless
    `loss_fn` reads them. Metrics are `loss`, `gradient_norm` (the global l2 norm of the
    gradient, mean over the replicas, before the optimizer sees it), and what `loss_fn` adds.
    """

    _draws = True
    _time_key = "walltime"
    _must_be_finite = _OWN_METRICS

    def __init__(
        self,
        network: snt.Module,
        learning_rate: float,
        dataset: Any,
        counter: Optional[counting.Counter] = None,
        logger: Optional[loggers.Logger] = None,
        checkpoint: bool = True,
        *,
        loss_fn: Optional[bc_losses.Loss] = None,
        loss_has_aux: bool = False,
        optimizer: Optional[snt.Optimizer] = None,
        num_sgd_steps_per_step: int = 1,
        accelerator_strategy: Optional[tf.distribute.Strategy] = None,
        jit_compile: bool = False,
        prefetch_size: int = 2,
        seed: Optional[int] = None,
        directory: str = saving.DIRECTORY,
    ):
        """Positional order and defaults are those of Acme's TensorFlow learner.

        Args:
          network: feed-forward, from observations [B, ...] to logits [B, A], a tfp distribution
            over actions, or what `loss_fn` wants; its variables must exist.
          learning_rate: of Adam; not used if `optimizer` is given.
          dataset: see `base.Learner`.
          counter: see `base.Learner`; by default one with the prefix `learner`, as in the JAX
            learner. `counting.Counter()` counts `steps`, as the TensorFlow one.
          logger: see `base.Learner`.
          checkpoint: write checkpoints and the snapshot `network`, now and then every hour.
          loss_fn: `loss_fn(network, transitions)` to a scalar, a mean over the batch. By
            default `bc_losses.logp()`: the cross-entropy of logits, or the log-probability
            under the network's distribution. If it has an argument named `seed`, it gets an
            int32 [2] in it, another one for each update and replica.
          loss_has_aux: `loss_fn` returns a pair: the loss, and a dictionary of tensors to
            report. These are passed on as they are (booleans and integers as float32); with
            several updates per step, or several replicas, as the mean over all of these and
            over any axes of their own.
          optimizer: replaces Adam. It gets the parameters too, so weight decay works.
          num_sgd_steps_per_step: see `base.Learner`.
          accelerator_strategy: see `base.Learner`.
          jit_compile: see `base.Learner`.
          prefetch_size: see `base.Learner`.
          seed: of losses that draw; see `base.Learner`.
          directory: where `checkpoint` writes; see `saving.PeriodicSaver`.

        Raises:
          TypeError: the network, `loss_fn` or optimizer is none.
          ValueError: a number is out of range, or the network has no variables yet.
        """
        checks.check_network("network", network)
        if optimizer is None:
            checks.check_number("learning_rate", learning_rate, 0.0, checks.LARGEST)
        if loss_fn is not None:
            bc_losses.check_loss_fn("loss_fn", loss_fn)
        strategy = distribute.get_strategy(accelerator_strategy)
        with distribute.scope(strategy):
            optimizer = optimizer or snt.optimizers.Adam(learning_rate)
        self._network = network
        self._loss_fn = bc_losses.logp() if loss_fn is None else loss_fn
        # Loss functions of users may read any field of the transitions.
        self._reads_all = loss_fn is not None
        self._loss_has_aux = loss_has_aux
        self._has_several = num_sgd_steps_per_step != 1 or strategy.num_replicas_in_sync != 1
        super().__init__(
            networks={"policy": network},
            trained={"policy": base.Trained(network.trainable_variables, optimizer)},
            dataset=dataset,
            accelerator_strategy=strategy,
            jit_compile=jit_compile,
            num_sgd_steps_per_step=num_sgd_steps_per_step,
            prefetch_size=prefetch_size,
            counter=counter or counting.Counter(prefix="learner"),
            logger=logger,
            seed=seed,
            saver=saving.PeriodicSaver(directory, {"network": network}, _MINUTES)
            if checkpoint
            else None,
        )

    def _split(self, sample: types.ReplaySample) -> tuple[Any, Any]:
        data = _without_none(sample.data)
        if not self._reads_all and isinstance(data, types.Transition):
            unused = set(data._fields) - {"observation", "action"}
            data = data._replace(**dict.fromkeys(unused, ()))
        return data, ()

    def _losses(self, data: types.Transition) -> base.Losses:
        _check_batch(data)
        (seed,) = self._seeds(1)
        result = bc_losses.call(self._loss_fn, self._network, data, seed)
        loss, metrics = _parts(result, self._loss_has_aux)
        if self._has_several:
            metrics = {name: tf.reduce_mean(value) for name, value in metrics.items()}
        return base.Losses({"policy": loss}, {"loss": tf.cast(loss, tf.float32), **metrics})

    def _apply(self, gradients: Mapping[str, list], result: base.Losses) -> base.Metrics:
        if all(gradient is None for gradient in gradients["policy"]):
            raise ValueError(
                "The loss does not depend on the network's variables. loss_fn must compute it "
                "from network(transitions.observation), without tf.stop_gradient or numpy."
            )
        norm = tf.linalg.global_norm(gradients["policy"])
        return {**super()._apply(gradients, result), "gradient_norm": norm}


def _without_none(data: Any) -> Any:
    """The transitions with the empty nest in the place of fields that are None."""
    missing = [name for name in getattr(data, "_fields", ()) if getattr(data, name) is None]
    return data._replace(**dict.fromkeys(missing, ())) if missing else data


def _check_batch(data: Any) -> None:
    """At trace time, from static shapes."""
    if not hasattr(data, "observation") or not hasattr(data, "action"):
        raise TypeError(
            "BC learns from transitions: the dataset must yield types.Transition of [B, ...], or "
            f"ReplaySample of them, got a {type(data).__name__}."
        )
    if isinstance(data, types.Step) and getattr(data.reward, "shape", tf.TensorShape([])).rank > 1:
        raise ValueError(
            f"BC learns from transitions [B, ...], got Steps of [B, T, ...] = {data.reward.shape}. "
            "RCRRLearner(..., policy_improvement_modes='all') clones from sequences."
        )
    actions = tree.flatten(data.action)
    rows = actions[0].shape[:1].as_list() if actions else []
    if not tree.flatten(data.observation) or rows in ([], [0]):
        raise ValueError(
            "BC needs an observation and an action, [B, ...] with at least one row, got "
            f"{checks.describe({'observation': data.observation, 'action': data.action})}."
        )
    for name in ("action", "observation"):
        checks.check_leading(name, getattr(data, name), tuple(rows))


def _parts(result: Any, has_aux: bool) -> tuple[tf.Tensor, base.Metrics]:
    """What the loss function returned, as the loss and further metrics."""
    if not has_aux:
        if isinstance(result, (tuple, list)):
            raise TypeError(
                f"loss_fn returned a {type(result).__name__} of {len(result)}, but must return a "
                "scalar. If it is the pair (loss, metrics), pass loss_has_aux=True."
            )
        return bc_losses.check_loss("loss_fn", result), {}
    pair = isinstance(result, (tuple, list)) and len(result) == 2
    if not pair or not isinstance(result[1], Mapping):
        raise TypeError(
            "With loss_has_aux=True loss_fn must return the pair (loss, metrics), metrics a "
            f"dictionary of tensors, got {result!r}."
        )
    metrics = {name: _metric(name, value) for name, value in result[1].items()}
    return bc_losses.check_loss("loss_fn", result[0]), metrics


def _metric(name: Any, value: Any) -> tf.Tensor:
    if not isinstance(name, str) or name in _OWN_METRICS:
        raise ValueError(
            f"loss_fn reports a metric under the name {name!r}; it must be a text other than "
            f"{' and '.join(map(repr, _OWN_METRICS))}, which the learner reports itself."
        )
    tensor = None if tree.is_nested(value) else nest.as_tensor(f"The metric {name}", value)
    if tensor is None or not (
        tensor.dtype.is_floating or tensor.dtype.is_integer or tensor.dtype.is_bool
    ):
        raise TypeError(f"The metric {name} must be one tensor of numbers, got {value!r}.")
    return tensor if tensor.dtype.is_floating else tf.cast(tensor, tf.float32)
