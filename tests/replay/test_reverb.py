"""What only a Reverb server can be asked: being reached from elsewhere, agreeing with ours.

Left out by conftest.py where there is no Reverb.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.replay import worlds
from tfagents_x.replay import errors, factory, reverb_replay, tables

TABLES = [tables.queue("q", 4), tables.uniform("u", 4, max_times_sampled=2)]


@pytest.fixture
def server():
    with reverb_replay.ReverbReplay(TABLES, worlds.sequences(1)) as replay:
        yield replay


def test_a_connection_writes_and_samples(server):
    with reverb_replay.ReverbReplay.connect(
        server.address, TABLES, worlds.sequences(1)
    ) as connection:
        worlds.put(connection, "q", [1, 2, 3])
        assert server.size("q") == connection.size("q") == 3
        assert not connection.can_sample("q", 4) and connection.can_insert("q", 1)
        assert worlds.first_values(connection.sample("q", 2, timeout=0).data) == [1, 2]
        assert worlds.first_values(server.sample("q", 1, timeout=0).data) == [3]
        with pytest.raises(errors.ReplayStarved, match="holds 0 item"):
            connection.sample("q", 1, timeout=0)
        with pytest.raises(errors.ReplayFull, match="the queue is full"):
            worlds.put(connection, "q", range(5))
        batch = next(iter(connection.dataset("q", 4)))
        assert batch.data.reward.shape == (4, 1)
    assert server.size("u") == 0  # Closing a connection leaves the server be.


def test_only_the_server_can_be_saved_and_restored(server, tmp_path):
    connection = reverb_replay.ReverbReplay.connect(server.address, TABLES, worlds.sequences(1))
    with pytest.raises(ValueError, match="only the process that runs the Reverb server can save"):
        connection.save(tmp_path)
    with pytest.raises(ValueError, match="belong to the server"):
        reverb_replay.ReverbReplay(
            TABLES, worlds.sequences(1), restore_from=tmp_path, address=server.address
        )


def test_a_server_without_the_tables_is_refused(server):
    with pytest.raises(ValueError, match="has no table other, it has: q, u"):
        reverb_replay.ReverbReplay.connect(
            server.address, [tables.queue("other", 2)], worlds.sequences(1)
        )


@pytest.mark.parametrize(
    "table",
    [
        tables.queue("t", 5),
        tables.uniform("t", 6, min_size=3),
        tables.uniform("t", 20, min_size=4, samples_per_insert=1.5, error_buffer=6.0),
        tables.Table("t", 5, "fifo", samples_per_insert=0.5, error_buffer=(-3.0, 4.0)),
        tables.uniform("t", 8, min_size=2, max_times_sampled=1),
    ],
    ids=["queue", "min_size", "ratio", "slow_ratio", "once"],
)
def test_both_stores_allow_the_same(table):
    """A random walk of inserts and draws; after each, both limiters must agree."""
    rng = np.random.default_rng(1)
    pair = [
        factory.make_replay([table], worlds.sequences(1), backend=backend)
        for backend in ("in_process", "reverb")
    ]
    writers = [replay.writer(1) for replay in pair]
    for turn in range(60):
        for num in range(1, 12):
            allowed = [replay.can_insert("t", num) for replay in pair]
            assert allowed[0] == allowed[1], (turn, num)
            allowed = [replay.can_sample("t", num) for replay in pair]
            assert allowed[0] == allowed[1], (turn, num)
        assert pair[0].size("t") == pair[1].size("t")
        if rng.random() < 0.5 and pair[0].can_insert("t"):
            for writer in writers:
                writer.append(worlds.step(turn))
                writer.create_item("t", 1)
                writer.flush(timeout=0)
        num = int(rng.integers(1, 4))
        if rng.random() < 0.6 and pair[0].can_sample("t", num):
            for replay in pair:
                replay.sample("t", num, timeout=0)
    for replay in pair:
        replay.close()
