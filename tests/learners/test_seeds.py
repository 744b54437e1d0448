"""Losses that sample: repeatable, resumable, and different on every replica."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tests import strategies
from tests.learners import toy
from tfagents_x.learners import base


class DrawingLearner(toy.ToyLearner):
    """Its loss is scaled by noise, which it also reports."""

    _draws = True

    def _losses(self, data):
        result = super()._losses(data)
        seeds = self._seeds(2)
        noise = [tfp.distributions.Normal(0.0, 1.0).sample(seed=seed) for seed in seeds]
        losses = {name: loss * (2.0 + tf.tanh(noise[0])) for name, loss in result.losses.items()}
        metrics = {**result.metrics, "first": noise[0], "second": noise[1]}
        return base.Losses(losses, metrics, result.per_item)


def run(learner, steps):
    rows = [learner.step() for _ in range(steps)]
    return [(float(row["first"]), float(row["second"])) for row in rows]


def make(count, skip=0, **kwargs):
    return DrawingLearner(iter(list(toy.samples(count))[skip:]), **kwargs)


@pytest.mark.parametrize("jit", [False, True])
def test_a_seed_repeats_a_run(jit):
    one, two = (make(3, seed=7, jit_compile=jit) for _ in range(2))
    assert run(one, 3) == run(two, 3)
    for a, b in zip(toy.variables(one), toy.variables(two)):
        np.testing.assert_array_equal(a, b)


def test_every_draw_is_another():
    learner, other, fresh = make(3, seed=7), make(3, seed=8), make(3)
    rows = [*run(learner, 3), *run(other, 3), *run(fresh, 3)]
    draws = [x for row in rows for x in row]
    assert len(set(draws)) == len(draws)


@pytest.mark.parametrize("how", ["save", "checkpoint"])
def test_going_on_draws_what_would_have_been_drawn(how, tmp_path):
    whole = run(make(4, seed=7), 4)
    first = make(4, seed=7)
    begun = run(first, 2)
    second = make(4, skip=2, seed=99)  # Its own seed is replaced.
    if how == "save":
        second.restore(first.save())
    else:
        path = first.checkpointable.write(str(tmp_path / "checkpoint"))
        second.checkpointable.read(path).assert_consumed()
    assert begun + run(second, 2) == whole


def test_replicas_draw_differently():
    strategy = strategies.mirrored()
    learner = make(1, seed=7, strategy=strategy)

    def draw():
        return tfp.distributions.Normal(0.0, 1.0).sample(seed=learner._seeds(1)[0])

    values = strategy.experimental_local_results(strategy.run(tf.function(draw)))
    assert len({float(v) for v in values}) == 2


def test_bad_seeds_are_explained():
    with pytest.raises(ValueError, match="seed must be at least 0"):
        make(1, seed=-1)
    with pytest.raises(TypeError, match="seed must be an int"):
        make(1, seed="x")
