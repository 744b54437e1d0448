"""Batches of recorded rows: what is in them, in which order, and going on."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tree

from tests.datasets import recordings
from tfagents_x import datasets

LENGTHS = (3, 1, 4)
ROWS = tree.map_structure(
    lambda *x: np.concatenate(x), *[recordings.episode(i, n) for i, n in enumerate(LENGTHS)]
)


def values(batch):
    return batch.observation["place"][..., 0]


def test_sequences_go_on_into_the_next_episode():
    batches = datasets.Sequences(ROWS, 1, sequence_length=3, period=2)
    found = sorted(values(next(batches))[0].tolist() for _ in range(batches.size))
    assert found == [[0, 1, 2], [2, 3, 100], [100, 101, 200], [200, 201, 202], [202, 203, 204]]
    batch = next(batches)
    assert batch.reward.shape == (1, 3) and batch.observation["pixel"].dtype == np.uint8


def test_sequences_within_episodes():
    batches = datasets.Sequences(ROWS, 1, 3, across_episodes=False)
    found = sorted(values(next(batches))[0].tolist() for _ in range(batches.size))
    assert found == [[0, 1, 2], [1, 2, 3], [200, 201, 202], [201, 202, 203], [202, 203, 204]]


def test_transitions():
    batches = datasets.Transitions(ROWS, 1)
    found = {}
    for _ in range(batches.size):
        batch = next(batches)
        found[values(batch)[0]] = (batch.next_observation["place"][0, 0], batch.reward[0])
    wanted = [0, 1, 2, 100, 200, 201, 202, 203]
    assert sorted(found) == wanted
    assert all(found[v] == (v + 1, v) for v in wanted)


@pytest.mark.parametrize("batch_size", [1, 3, 8, 20])
def test_every_item_once_per_epoch_and_in_a_new_order(batch_size):
    batches = datasets.Transitions(ROWS, batch_size, seed=1)
    drawn = [v for _ in range(24) for v in values(next(batches)).tolist()]
    epochs = [drawn[i : i + 8] for i in range(0, len(drawn) - 8, 8)]
    assert len(epochs) >= 2 and all(sorted(e) == sorted(epochs[0]) for e in epochs)
    assert len({tuple(e) for e in epochs}) > 1


def test_a_seed_repeats_and_another_differs():
    draw = lambda seed: [
        values(b).tolist() for b in itertools.islice(datasets.Transitions(ROWS, 3, seed), 6)
    ]
    assert draw(5) == draw(5) != draw(6)


def test_going_on():
    whole, part = (datasets.Sequences(ROWS, 3, 2, seed=2) for _ in range(2))
    for _ in range(7):
        next(whole), next(part)
    resumed = datasets.Sequences(ROWS, 3, 2, seed=2)
    resumed.load_state(part.state())
    for _ in range(9):
        tree.map_structure(np.testing.assert_array_equal, next(resumed), next(whole))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(batch_size=0, sequence_length=2), "batch_size must be at least 1"),
        (dict(batch_size=1, sequence_length=0), "sequence_length must be at least 1"),
        (dict(batch_size=1, sequence_length=2, period=0), "period must be at least 1"),
        (dict(batch_size=1, sequence_length=99), "There are no 99 rows:"),
        (dict(batch_size=1, sequence_length=6, across_episodes=False), "6 rows in one episode"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        datasets.Sequences(ROWS, **arguments)


def test_no_transition():
    last = tree.map_structure(lambda x: x[:1], ROWS)
    with pytest.raises(ValueError, match="no transition"):
        datasets.Transitions(last, 1)
