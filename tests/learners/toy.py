"""The smallest learner that uses every part of the skeleton: least squares with a target."""

from __future__ import annotations

import numpy as np
import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import types
from tfagents_x.learners import base, targets
from tfagents_x.utils import distribute, loggers

FEATURES = 3


class ToyLearner(base.Learner):
    """Fits a linear layer, reports each item's error, regresses another layer on the target."""

    def __init__(
        self, dataset, strategy=None, copy=None, learning_rate=0.1, max_norm=None, **kwargs
    ):
        with distribute.scope(strategy):
            self.online, self.target, self.other = (self._layer(i) for i in range(3))
            trained = {
                "online": base.Trained(
                    self.online.trainable_variables, snt.optimizers.Adam(learning_rate), max_norm
                ),
                "other": base.Trained(
                    self.other.trainable_variables, snt.optimizers.Momentum(learning_rate, 0.9)
                ),
            }
        self.traces = 0
        self.seen = []
        copied = copy and targets.TargetCopy(self.online.variables, self.target.variables, **copy)
        super().__init__(
            networks={"online": self.online, "target": self.target, "other": self.other},
            trained=trained,
            dataset=dataset,
            target_copy=copied,
            accelerator_strategy=strategy,
            update_norms=("param_norm", "param_updates_norm"),
            logger=kwargs.pop("logger", loggers.NoOpLogger()),
            **kwargs,
        )

    @staticmethod
    def _layer(index):
        layer = snt.Linear(1, w_init=snt.initializers.Constant(0.1 * (index + 1)))
        layer(tf.zeros([1, FEATURES]))
        return layer

    def _split(self, sample):
        return sample.data, sample.info

    def _losses(self, data):
        self.traces += 1
        x, y = data
        error = tf.squeeze(self.online(x), -1) - y
        other = tf.squeeze(self.other(x) - tf.stop_gradient(self.target(x)), -1)
        losses = {"online": tf.reduce_mean(error**2), "other": tf.reduce_mean(other**2)}
        return base.Losses(losses, {f"{k}_loss": v for k, v in losses.items()}, tf.abs(error))

    def _after_update(self, kept, per_item):
        self.seen.append((kept, per_item))


def samples(count, batch_size=8, seed=0):
    """`count` batches; info holds 64-bit keys, the data a linear function with noise."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        x = rng.normal(size=[batch_size, FEATURES]).astype(np.float32)
        keys = np.arange(batch_size, dtype=np.uint64) + np.uint64(2**40 * (i + 1))
        yield types.ReplaySample(keys, (x, x.sum(-1)))


def variables(learner):
    """All state of the learner, flat."""
    return [v for group in learner.save().values() for vs in group.values() for v in vs]


def run(learner, steps=4):
    return [{k: float(v) for k, v in learner.step().items()} for _ in range(steps)]


def assert_same(actual, expected, tolerance=1e-5):
    tree.assert_same_structure(actual, expected)
    for a, b in zip(tree.flatten(actual), tree.flatten(expected)):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
