"""Saved and restored stores go on as if nothing had happened."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import tree

from tests.replay import worlds
from tfagents_x.replay import adders, factory, tables

TABLES = (
    tables.queue("q", 6),
    tables.uniform("u", 4, samples_per_insert=2.0, error_buffer=(-4.0, 20.0)),
    tables.prioritized("p", 8, max_times_sampled=30, priority_exponent=1.0),
)


def fill(replay):
    writer = replay.writer(3)
    for value in range(7):
        writer.append(worlds.step(value))
        if value >= 2:
            for table in ("q", "u", "p"):
                writer.create_item(table, 3, priority=float(value))
    writer.flush(timeout=0)


def assert_equal(a, b):
    tree.map_structure(np.testing.assert_array_equal, a, b)


def test_items_priorities_draws_and_limits_come_back(make, tmp_path):
    replay = make(*TABLES, signature=worlds.sequences(3))
    fill(replay)
    replay.sample("q", 2, timeout=0)
    drawn = replay.sample("u", 7, timeout=0)
    replay.update_priorities("p", replay.sample("p", 1, timeout=0).info.key, [9.0])
    directory = tmp_path / "saved"
    replay.save(directory)
    restored = make(*TABLES, signature=worlds.sequences(3), restore_from=directory)

    assert [restored.size(name) for name in "qup"] == [3, 4, 5]
    for num in range(1, 30):
        for name in "qup":
            assert restored.can_insert(name, num) == replay.can_insert(name, num), (name, num)
            assert restored.can_sample(name, num) == replay.can_sample(name, num), (name, num)
    assert_equal(replay.sample("q", 3, timeout=0).data, restored.sample("q", 3, timeout=0).data)
    times = dict(zip(drawn.info.key.tolist(), drawn.info.times_sampled.tolist()))
    again = restored.sample("u", 7, timeout=0)
    for key, count in zip(again.info.key.tolist(), again.info.times_sampled.tolist()):
        times[key] = times.get(key, 0) + 1
        assert count == times[key]
    draws = [restored.sample("p", 1, timeout=0).info.priority[0] for _ in range(60)]
    assert 9.0 in draws and set(draws) <= {2.0, 3.0, 4.0, 5.0, 6.0, 9.0}


def test_a_restored_store_takes_more(make, tmp_path):
    replay = make(tables.queue("q", 3), signature=worlds.sequences(1))
    worlds.put(replay, "q", [1, 2])
    replay.save(tmp_path / "a")
    restored = make(
        tables.queue("q", 3), signature=worlds.sequences(1), restore_from=tmp_path / "a"
    )
    worlds.put(restored, "q", [3])
    assert not restored.can_insert("q")
    restored.save(tmp_path / "b")  # A restored store can be saved in its turn.
    twice = make(tables.queue("q", 3), signature=worlds.sequences(1), restore_from=tmp_path / "b")
    assert worlds.first_values(twice.sample("q", 3, timeout=0).data) == [1, 2, 3]


def test_transitions_come_back(make, tmp_path):
    replay = make(tables.queue("q", 20), signature=worlds.transitions())
    worlds.run_episode(adders.NStepTransitionAdder(replay, 2, 0.5, table="q"), [1, 2, 3, 4])
    replay.save(tmp_path)
    restored = make(tables.queue("q", 20), signature=worlds.transitions(), restore_from=tmp_path)
    assert restored.size("q") == 4
    assert_equal(replay.sample("q", 4).data, restored.sample("q", 4).data)


def test_an_empty_store_comes_back(make, tmp_path):
    make(*TABLES, signature=worlds.sequences(3)).save(tmp_path)
    restored = make(*TABLES, signature=worlds.sequences(3), restore_from=tmp_path)
    assert [restored.size(name) for name in "qup"] == [0, 0, 0]
    fill(restored)
    assert restored.size("p") == 5


def test_auto_restores_the_backend_that_saved(backend, make, tmp_path):
    make(*TABLES, signature=worlds.sequences(3)).save(tmp_path)
    restored = factory.make_replay(TABLES, worlds.sequences(3), restore_from=tmp_path)
    with restored:
        assert type(restored).__name__.lower().startswith(backend.replace("_", ""))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"tables": (tables.queue("q", 7), *TABLES[1:])}, "saved with other tables"),
        ({"signature": worlds.sequences(4)}, "saved with other items"),
        ({"signature": worlds.rows.sequence_signature(worlds.SPEC)}, "saved with other leaves"),
    ],
)
def test_another_configuration_is_refused(make, tmp_path, change, message):
    make(*TABLES, signature=worlds.sequences(3)).save(tmp_path)
    given = {"tables": TABLES, "signature": worlds.sequences(3), **change}
    with pytest.raises(ValueError, match=message):
        make(*given["tables"], signature=given["signature"], restore_from=tmp_path)


def test_what_is_missing_or_damaged_is_refused(make, backend, tmp_path):
    def restore(directory):
        return make(*TABLES, signature=worlds.sequences(3), restore_from=directory)

    with pytest.raises(ValueError, match="no complete saved replay: replay.json is missing"):
        restore(tmp_path / "nowhere")
    replay = make(*TABLES, signature=worlds.sequences(3))
    fill(replay)
    replay.save(tmp_path / "a")
    with pytest.raises(ValueError, match="holds a saved replay already"):
        replay.save(tmp_path / "a")
    data = "leaf_1.npy" if backend == "in_process" else "reverb/items.tfrecord"
    os.remove(tmp_path / "a" / data)
    with pytest.raises(ValueError, match=r"is damaged.*restore from an older checkpoint"):
        restore(tmp_path / "a")
    manifest = tmp_path / "a" / "replay.json"
    manifest.write_text(manifest.read_text()[:40])
    with pytest.raises(ValueError, match=r"replay.json is damaged"):
        restore(tmp_path / "a")
    manifest.write_text(json.dumps({"version": 99}))
    with pytest.raises(ValueError, match="not a replay manifest of version 1"):
        restore(tmp_path / "a")


def test_another_stores_save_is_refused(make, backend, tmp_path):
    make(*TABLES, signature=worlds.sequences(3)).save(tmp_path)
    path = tmp_path / "replay.json"
    path.write_text(path.read_text().replace(f'"{backend}"', '"another"'))
    with pytest.raises(ValueError, match="saved by backend='another'"):
        make(*TABLES, signature=worlds.sequences(3), restore_from=tmp_path)


def in_process(restore_from=None, seed=3):
    return factory.make_replay(
        TABLES, worlds.sequences(3), "in_process", seed=seed, restore_from=restore_from
    )


def go_on(replay):
    fill(replay)
    return [
        replay.sample(name, num, timeout=0)
        for _ in range(5)
        for name, num in (("u", 2), ("p", 6), ("q", 1))
    ]


def test_in_process_draws_go_on_bit_for_bit(tmp_path):
    replay = in_process()
    fill(replay)
    replay.sample("u", 3, timeout=0)
    for _ in range(110):
        replay.sample("p", 1, timeout=0)  # Some items have left by now: slots have moved.
    assert 2 < replay.size("p") < 5
    replay.sample("q", 5, timeout=0)
    replay.save(tmp_path)
    restored = in_process(restore_from=tmp_path, seed=99)  # The saved state counts.
    for a, b in zip(go_on(replay), go_on(restored)):
        assert_equal(a, b)


def test_in_process_seeds_matter():
    keys = []
    for seed in (1, 1, 2):
        replay = in_process(seed=seed)
        fill(replay)
        keys.append(replay.sample("u", 12, timeout=0).info.key.tolist())
    assert keys[0] == keys[1] != keys[2]


def test_in_process_files_hold_no_pickle(tmp_path):
    replay = in_process()
    fill(replay)
    replay.save(tmp_path)
    for path in tmp_path.iterdir():
        if path.suffix in (".npy", ".npz"):
            loaded = np.load(path, allow_pickle=False)
            for array in [loaded] if path.suffix == ".npy" else loaded.values():
                assert array.dtype != object


def test_in_process_saves_each_row_once(tmp_path):
    replay = in_process()
    fill(replay)  # 7 rows, in 5 + 4 + 5 items of 3 rows each.
    replay.save(tmp_path)
    assert np.load(tmp_path / "leaf_0.npy").shape == (7, 2, 2)


def test_a_truncated_file_is_refused(tmp_path):
    replay = in_process()
    fill(replay)
    replay.save(tmp_path)
    for name in ("leaf_0.npy", "table_2.npz", "chunks.npz"):
        path = tmp_path / name
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        with pytest.raises(ValueError, match="is damaged"):
            in_process(restore_from=tmp_path)
        path.write_bytes(content)
    in_process(restore_from=tmp_path).close()
