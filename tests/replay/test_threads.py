"""Several threads at once: nothing is lost, nothing is torn, nobody waits for ever."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from tests.replay import worlds
from tfagents_x.replay import errors, tables

WAIT = 20  # Seconds that a healthy store never needs.


def start(function, *args):
    thread = threading.Thread(target=function, args=args, daemon=True)
    thread.start()
    return thread


def join(*threads):
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive(), "a thread still waits"


def test_a_queue_between_threads_loses_and_doubles_nothing(make):
    replay = make(tables.queue("q", 5), signature=worlds.sequences(2))
    got, lock = [], threading.Lock()

    def write(offset):
        writer = replay.writer(2)
        for value in range(offset, offset + 40):
            writer.append(worlds.step(value))
            writer.append(worlds.step(value))
            writer.create_item("q", 2)
            writer.flush(timeout=WAIT)

    def read():
        for _ in range(20):
            data = replay.sample("q", 3, timeout=WAIT).data
            position = data.observation["position"][..., 0]
            # The two rows of an item belong together, and so do the leaves of a row.
            np.testing.assert_array_equal(position[:, 0], position[:, 1])
            np.testing.assert_array_equal(data.reward, position / 8)
            with lock:
                got.extend(position[:, 0].astype(int).tolist())

    writers = [start(write, offset) for offset in (0, 80, 160)]
    join(*writers, *[start(read) for _ in range(2)])
    assert sorted(got) == [v for offset in (0, 80, 160) for v in range(offset, offset + 40)]
    for offset in (0, 80, 160):  # Each writer's items come in its order, if one thread reads.
        assert len([v for v in got if offset <= v < offset + 40]) == 40


def test_updates_sampling_and_inserting_at_once(make):
    table = tables.prioritized("p", 16, priority_exponent=1.0)
    replay = make(table, signature=worlds.sequences(1))
    worlds.put(replay, "p", range(4))
    done = threading.Event()

    def write():
        value = 0
        while not done.is_set():
            worlds.put(replay, "p", [value % 100], priority=1.0 + value % 3)
            value += 1

    def learn():
        for _ in range(60):
            sample = replay.sample("p", 4, timeout=WAIT)
            assert np.all(sample.info.probability > 0)
            np.testing.assert_array_equal(
                sample.data.reward[:, 0], sample.data.observation["position"][:, 0, 0] / 8
            )
            replay.update_priorities("p", sample.info.key, sample.info.priority + 1.0)

    writer = start(write)
    join(*[start(learn) for _ in range(2)])
    done.set()
    join(writer)
    assert replay.size("p") == 16


def test_a_waiting_sampler_gets_what_comes(make):
    replay = make(tables.uniform("u", 4, min_size=2), signature=worlds.sequences(1))
    got = []
    thread = start(lambda: got.append(replay.sample("u", 2)))  # Waits for ever.
    worlds.put(replay, "u", [1])
    time.sleep(0.05)
    assert not got
    worlds.put(replay, "u", [2])
    join(thread)
    assert set(worlds.first_values(got[0].data)) <= {1, 2}


def test_close_wakes_whoever_waits(make):
    replay = make(tables.queue("q", 1), tables.queue("full", 1), signature=worlds.sequences(1))
    worlds.put(replay, "full", [1])
    ended = []

    def sample():
        with pytest.raises(errors.ReplayClosed):
            replay.sample("q", 1)
        ended.append("sample")

    def write():
        writer = replay.writer(1)
        writer.append(worlds.step(2))
        writer.create_item("full", 1)
        with pytest.raises(errors.ReplayClosed):
            writer.flush()
        ended.append("flush")

    def iterate():
        assert list(replay.iterator("q", 1)) == []
        ended.append("iterate")

    threads = [start(sample), start(write), start(iterate)]
    time.sleep(0.1)
    assert not ended
    replay.close()
    join(*threads)
    assert sorted(ended) == ["flush", "iterate", "sample"]


def test_saving_while_others_work(make, tmp_path):
    replay = make(tables.uniform("u", 50), signature=worlds.sequences(3))
    worlds.put(replay, "u", [5], length=3)
    done = threading.Event()

    def write():
        while not done.is_set():
            worlds.put(replay, "u", range(5, 25), length=3)

    writer = start(write)
    for i in range(3):
        replay.save(tmp_path / str(i))
    done.set()
    join(writer)
    for i in range(3):
        restored = make(
            tables.uniform("u", 50), signature=worlds.sequences(3), restore_from=tmp_path / str(i)
        )
        position = restored.sample("u", 40, timeout=0).data.observation["position"][..., 0]
        np.testing.assert_array_equal(position - position[:, :1], [[0, 1, 2]] * 40)
