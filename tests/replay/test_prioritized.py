"""Draws by priority: as frequent as they should be, and right while another thread writes."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from tests.replay import worlds
from tfagents_x.replay import tables

PRIORITIES = np.array([0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0])
# What a chi-squared variable with five degrees of freedom exceeds once in a million times: six
# values can be drawn, as one has priority 0.
CHI_SQUARED = 35.9
LENGTH = 3


def expected(priorities, exponent):
    weights = np.where(priorities > 0, priorities**exponent, 0.0)
    return weights / weights.sum()


def statistic(values, probabilities):
    """Pearson's, of draws of 0 ... N - 1."""
    counts = np.bincount(values, minlength=len(probabilities))
    assert not counts[probabilities == 0].any()
    some = probabilities > 0
    wanted = probabilities[some] * len(values)
    return np.sum((counts[some] - wanted) ** 2 / wanted)


def draw(replay, times=40, num=200):
    samples = [replay.sample("p", num, timeout=0) for _ in range(times)]
    values = np.concatenate([worlds.first_values(sample.data) for sample in samples])
    return values, samples[-1].info


def put_all(replay, priorities):
    for value, priority in enumerate(priorities):
        worlds.put(replay, "p", [value], priority=priority)


@pytest.mark.parametrize("exponent", [0.6, 1.0])
def test_frequencies_follow_the_priorities(make, exponent):
    table = tables.prioritized("p", 10, priority_exponent=exponent)
    replay = make(table, signature=worlds.sequences(1))
    put_all(replay, PRIORITIES)
    wanted = expected(PRIORITIES, exponent)
    values, info = draw(replay)
    assert statistic(values, wanted) < CHI_SQUARED
    # The test can tell: another exponent, or a missing one, is far off.
    assert statistic(values, expected(PRIORITIES, exponent - 0.2)) > 2 * CHI_SQUARED
    np.testing.assert_allclose(info.probability, wanted[values[-200:]], rtol=1e-6)


def test_frequencies_follow_updates(make):
    replay = make(tables.prioritized("p", 7, priority_exponent=0.6), signature=worlds.sequences(1))
    put_all(replay, np.ones(7))
    keys = dict(zip(*_keys(replay)))
    assert len(keys) == 7
    for shift in (0, 3):
        new = np.roll(PRIORITIES, shift)
        replay.update_priorities("p", [keys[value] for value in range(7)], new)
        values, info = draw(replay)
        assert statistic(values, expected(new, 0.6)) < CHI_SQUARED
        np.testing.assert_array_equal(info.priority, new[values[-200:]])


def _keys(replay):
    sample = replay.sample("p", 200, timeout=0)
    return worlds.first_values(sample.data), sample.info.key.tolist()


def test_what_was_drawn_outlives_its_eviction(make):
    table = tables.prioritized("p", 7, priority_exponent=0.6)
    replay = make(table, signature=worlds.sequences(LENGTH))
    worlds.put(replay, "p", range(10, 17), length=LENGTH)
    sample = replay.sample("p", 200, timeout=0)
    kept = [leaf.copy() for leaf in (sample.data.reward, sample.data.observation["pixels"])]
    old = dict(zip(worlds.first_values(sample.data), sample.info.key.tolist()))
    worlds.put(replay, "p", range(20, 25), length=LENGTH)  # Five of the seven leave.
    np.testing.assert_array_equal(sample.data.reward, kept[0])
    np.testing.assert_array_equal(sample.data.observation["pixels"], kept[1])
    # Of a batch that is half gone, the rest is updated: the items that begin with 13 and 14.
    ordered = sorted(old)
    assert ordered == list(range(8, 15))
    replay.update_priorities("p", [old[v] for v in ordered], np.full(7, 3.0))
    values, info = draw(replay)
    names = {13: 0, 14: 1, 18: 2, 19: 3, 20: 4, 21: 5, 22: 6}
    new = np.array([3.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    places = np.array([names[value] for value in values])
    # One degree of freedom more than above.
    assert statistic(places, expected(new, 0.6)) < 1.1 * CHI_SQUARED
    np.testing.assert_array_equal(info.priority, new[places[-200:]])
    assert replay.size("p") == 7


def row(value):
    """A row whose leaves say which one of millions it is."""
    shown = {
        "pixels": np.full((2, 2), value % 256, np.uint8),
        "position": np.array([value], np.float32),
    }
    return worlds.step(value % 64)._replace(observation=shown, reward=float(value))


def check_whole(data):
    """Each item's rows are three in a row, and the leaves of a row belong together."""
    position = data.observation["position"][..., 0].astype(int)
    np.testing.assert_array_equal(position - position[:, :1], [[0, 1, 2]] * len(position))
    np.testing.assert_array_equal(data.reward, position)
    pixels = data.observation["pixels"]
    np.testing.assert_array_equal(
        pixels, np.broadcast_to((position % 256)[..., None, None], pixels.shape)
    )
    np.testing.assert_array_equal(data.action, position % 64 % 5)
    np.testing.assert_array_equal(
        data.extras["logits"][..., 0], (position % 64 / 64).astype(np.float32)
    )
    return position[:, 0].tolist()


class Worker(threading.Thread):
    """Works until told to stop; what goes wrong is kept."""

    def __init__(self, done):
        super().__init__(daemon=True)
        self.done, self.error = done, None

    def run(self):
        try:
            while not self.done.is_set():
                self.work()
        except BaseException as error:
            self.error = error

    def finish(self):
        self.join(20)
        assert not self.is_alive(), "a thread still waits"
        if self.error is not None:
            raise self.error


class Writer(Worker):
    """Writes rows 0, 1, 2, ..., and an overlapping item after each of them."""

    def __init__(self, replay, done):
        super().__init__(done)
        self.writer, self.rows = replay.writer(LENGTH), 0

    def work(self):
        self.writer.append(row(self.rows))
        self.rows += 1
        if self.rows >= LENGTH:
            self.writer.create_item("p", LENGTH, 1.0 + self.rows % 5)
        if self.rows % 16 == 0:
            self.writer.flush(timeout=20)


class Sampler(Worker):
    """Samples, checks, and changes priorities, also of what is gone meanwhile."""

    def __init__(self, replay, done):
        super().__init__(done)
        self.replay, self.items, self.previous = replay, {}, np.zeros(0, np.uint64)
        self.num = 0

    def work(self):
        sample = self.replay.sample("p", 8, timeout=20)
        for key, value in zip(sample.info.key.tolist(), check_whole(sample.data)):
            # A key means one item for ever.
            assert self.items.setdefault(key, value) == value
        assert np.all(sample.info.probability > 0)
        keys = np.concatenate([self.previous, sample.info.key])
        self.replay.update_priorities("p", keys, 1.0 + np.arange(len(keys)) % 7)
        self.previous = sample.info.key
        self.num += 8


def everything(replay):
    """The values of all items: whatever was drawn gets priority 0, until nothing else is left."""
    seen = set()
    for _ in range(100 * replay.size("p")):
        sample = replay.sample("p", 20, timeout=0)
        if not sample.info.priority.any():
            return sorted(seen)
        seen.update(check_whole(sample.data))
        replay.update_priorities("p", sample.info.key, np.zeros(20))
    raise AssertionError("items of priority 0 were drawn beside others")


@pytest.mark.parametrize("seconds", [1.5, pytest.param(60, marks=pytest.mark.slow)])
def test_a_writer_and_a_sampler_at_once(make, seconds):
    """Nothing is torn, and at the end the table holds the latest items, each of them once."""
    size = 200
    table = tables.prioritized("p", size, priority_exponent=0.6)
    replay = make(table, signature=worlds.sequences(LENGTH))
    done = threading.Event()
    writer, sampler = Writer(replay, done), Sampler(replay, done)
    for worker in (writer, sampler):
        worker.start()
    time.sleep(seconds)
    done.set()
    for worker in (writer, sampler):
        worker.finish()
    writer.writer.flush(timeout=20)
    assert writer.rows > 2 * size and sampler.num > 200
    last = writer.rows - LENGTH  # The first row of the newest item.
    assert replay._counts(table)[1:] == (last + 1, sampler.num)  # Inserts and draws.
    assert everything(replay) == list(range(last - size + 1, last + 1))
    assert max(sampler.items.values()) > size  # It saw new ones on the way.
