"""R2D2Learner where a sequence runs on into the next episode."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import specs, types
from tfagents_x.learners import discrete
from tfagents_x.learners.r2d2 import R2D2Learner
from tfagents_x.utils import loggers

B, T, HIDDEN = 2, 9, 3
SPEC = specs.EnvironmentSpec(
    observations=specs.Array((4,), np.float32),
    actions=specs.DiscreteArray(3),
    rewards=specs.Array((), np.float32),
    discounts=specs.BoundedArray((), np.float32, 0.0, 1.0),
)


@pytest.mark.parametrize(
    ("before", "n_step", "wanted"),
    [
        # Row 4 is a final observation. After a terminal state, only it is left out ...
        (0, 3, [1, 1, 1, 1, 0, 1, 1, 1]),
        # ... after a time limit also the returns that look at it: those of rows 2 and 3.
        (1, 3, [1, 1, 0, 0, 0, 1, 1, 1]),
        (1, 2, [1, 1, 1, 0, 0, 1, 1, 1]),
        (1, 1, [1, 1, 1, 1, 0, 1, 1, 1]),
        (1, 20, [0, 0, 0, 0, 0, 1, 1, 1]),
    ],
)
def test_whole_returns(before, n_step, wanted):
    starts, discounts = np.zeros([T, B], bool), np.ones([T, B], np.float32)
    starts[5, 1], discounts[3, 1], discounts[4, 1] = True, before, 0
    whole = discrete.whole_returns(tf.constant(starts), tf.constant(discounts), n_step)
    np.testing.assert_array_equal(whole[:, 1], np.array(wanted, bool))
    assert whole.shape == [T - 1, B] and np.all(whole[:, 0])


def test_whole_returns_of_several_episodes():
    """Final observations in rows 0, 2 and 7, the first and last one after time limits."""
    starts, discounts = np.zeros([T, 1], bool), np.ones([T, 1], np.float32)
    starts[[1, 3, 8]] = True
    discounts[[0, 1, 2, 7]] = 0
    whole = discrete.whole_returns(tf.constant(starts), tf.constant(discounts), 3)
    np.testing.assert_array_equal(whole[:, 0], np.array([0, 1, 0, 1, 1, 0, 0, 0], bool))


def sample(seed=0):
    rng = np.random.default_rng(seed)
    floats = lambda *shape: rng.normal(size=shape).astype(np.float32)
    step = types.Step(
        observation=floats(B, T, 4),
        action=rng.integers(3, size=[B, T]).astype(np.int32),
        reward=floats(B, T),
        discount=np.ones([B, T], np.float32),
        start_of_episode=np.zeros([B, T], bool),
        extras={"core_state": (floats(B, T, HIDDEN),)},
    )
    ones = np.ones(B)
    info = types.SampleInfo(np.arange(B, dtype=np.uint64), ones, ones, ones, ones)
    return types.ReplaySample(info, step)


def make(batches, length=T, burn_in_length=0, **options):
    tf.random.set_seed(1)
    network, target = (snt.DeepRNN([snt.VanillaRNN(HIDDEN), snt.Linear(3)]) for _ in range(2))
    options = {"n_step": 3, "logger": loggers.NoOpLogger(), **options}
    return R2D2Learner(SPEC, network, target, burn_in_length, length, iter(batches), **options)


def first_loss(batch, *args, **options):
    return float(make([batch], *args, **options).step()["loss"])


def with_end(batch, row, discount):
    """An episode whose final observation is in `row`; `discount` came before it."""
    data = tree.map_structure(np.copy, batch.data)
    data.start_of_episode[:, row + 1] = True
    data.discount[:, row - 1], data.discount[:, row], data.reward[:, row] = discount, 0, 0
    return batch._replace(data=data)


@pytest.mark.parametrize(
    ("burn_in", "options"),
    [(0, {}), (2, {"jit_compile": True}), (2, {"compatibility": "acme_tf"})],
)
def test_the_next_episode_is_learned_from_as_if_it_stood_alone(burn_in, options):
    """All of the first episode is within reach of its time limit, and so is left out."""
    row = 2 + burn_in
    batch = with_end(sample(), row, 1.0)
    begin = row + 1
    alone = tree.map_structure(lambda x: x[:, begin:], batch.data)
    alone = alone._replace(extras=tree.map_structure(np.zeros_like, alone.extras))
    actual = first_loss(batch, burn_in_length=burn_in, mask_episode_ends=True, **options)
    wanted = first_loss(batch._replace(data=alone), T - begin, **options)
    np.testing.assert_allclose(actual, wanted, rtol=1e-5)
    assert wanted > 1e-3
    assert abs(first_loss(batch, burn_in_length=burn_in, **options) - wanted) > 1e-3


def test_an_episode_before_is_learned_from_up_to_its_terminal_state():
    """One learner; its rate is 0, so that its losses can be compared."""
    batch = with_end(sample(), 4, 0.0)

    def changed(name, row):
        data = tree.map_structure(np.copy, batch.data)
        getattr(data, name)[:, row] += 1
        return batch._replace(data=data)

    matter = [("reward", 3), ("observation", 0), ("reward", 5)]
    not_matter = [("reward", 4), ("observation", 4)]
    batches = [batch, *(changed(*change) for change in matter + not_matter)]
    learner = make(batches, mask_episode_ends=True, learning_rate=0.0)
    first, *others = (float(learner.step()["loss"]) for _ in batches)
    assert [loss != first for loss in others] == [True] * 3 + [False] * 2


def test_without_ends_nothing_changes():
    assert first_loss(sample(), mask_episode_ends=True) == pytest.approx(
        first_loss(sample()), rel=1e-6
    )


def test_flags_of_another_kind_are_explained():
    batch = sample()
    for flags in (np.zeros([B, T], np.float32), np.zeros([B], bool)):
        bad = batch._replace(data=batch.data._replace(start_of_episode=flags))
        with pytest.raises((TypeError, ValueError), match="start_of_episode"):
            first_loss(bad, mask_episode_ends=True)
