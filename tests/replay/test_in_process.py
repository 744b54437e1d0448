"""What only the in-process store can be asked: its memory, its tree of sums."""

from __future__ import annotations

import gc
import weakref

import numpy as np
from dm_env import specs as dm_specs

from tests.replay import worlds
from tfagents_x.replay import adders, chunks, factory, rows, selectors, tables


def stored_chunks():
    gc.collect()
    return [x for x in gc.get_objects() if isinstance(x, chunks.Chunk)]


def stored_bytes():
    return sum(column.nbytes for chunk in stored_chunks() for column in chunk.columns)


def pixel_replay(table, signature):
    spec = worlds.SPEC._replace(observations=dm_specs.Array((64, 64, 3), np.uint8))
    return factory.make_replay([table], signature(spec), backend="in_process")


def test_overlapping_sequences_share_pixels():
    before = stored_bytes()
    replay = pixel_replay(tables.uniform("u", 1000), lambda s: rows.sequence_signature(s, (), 20))
    adder = adders.SequenceAdder(replay, 20, 1, table="u")
    episode = [worlds.dm_env.restart(np.zeros((64, 64, 3), np.uint8))]
    episode += [
        worlds.dm_env.transition(1.0, np.full((64, 64, 3), i, np.uint8)) for i in range(199)
    ]
    adder.add_first(episode[0])
    for timestep in episode[1:]:
        adder.add(0, timestep)
    assert replay.size("u") == 180
    # 200 rows of 12 KiB, not 180 * 20 of them; chunks hold a few rows more.
    assert 200 * 12288 <= stored_bytes() - before < 260 * 12300
    sample = replay.sample("u", 4, timeout=0)
    assert sample.data.observation.dtype == np.uint8
    assert sample.data.observation.shape == (4, 20, 64, 64, 3)


def test_transitions_share_pixels():
    before = stored_bytes()
    replay = pixel_replay(tables.uniform("u", 1000), rows.transition_signature)
    adder = adders.NStepTransitionAdder(replay, 3, 0.9, table="u")
    adder.add_first(worlds.dm_env.restart(np.zeros((64, 64, 3), np.uint8)))
    for i in range(199):
        adder.add(0, worlds.dm_env.transition(1.0, np.full((64, 64, 3), i, np.uint8)))
    assert replay.size("u") == 199
    assert stored_bytes() - before < 260 * 12300


def test_memory_stays_bounded_and_is_freed():
    before = stored_bytes()
    replay = pixel_replay(tables.uniform("u", 10), lambda s: rows.sequence_signature(s, (), 5))
    adder = adders.SequenceAdder(replay, 5, 5, table="u")
    sizes = []
    for _ in range(6):
        adder.add_first(worlds.dm_env.restart(np.zeros((64, 64, 3), np.uint8)))
        for _ in range(60):
            adder.add(0, worlds.dm_env.transition(1.0, np.zeros((64, 64, 3), np.uint8)))
        adder.reset()
        sizes.append(stored_bytes() - before)
    # 10 items of 5 rows; at each end a chunk (of at most 85 rows) may be in part.
    assert max(sizes[1:]) <= (50 + 2 * 85) * 12320
    replay.close()
    del replay, adder
    assert stored_bytes() == before


def test_a_drained_queue_frees_its_rows():
    replay = factory.make_replay(
        [tables.queue("q", 100)], worlds.sequences(1), backend="in_process"
    )
    before = {id(chunk) for chunk in stored_chunks()}
    worlds.put(replay, "q", range(100))
    mine = [weakref.ref(chunk) for chunk in stored_chunks() if id(chunk) not in before]
    assert mine
    replay.sample("q", 100, timeout=0)
    gc.collect()
    assert not any(chunk() for chunk in mine)


def test_a_rows_chunk_may_be_smaller_than_a_sequence():
    # Rows of 300 KB: three to a chunk, so a sequence of 8 spans several.
    spec = worlds.SPEC._replace(observations=dm_specs.Array((300_000,), np.uint8))
    signature = rows.sequence_signature(spec, (), 8)
    replay = factory.make_replay([tables.queue("q", 9)], signature, backend="in_process")
    adder = adders.SequenceAdder(replay, 8, 3, table="q")
    adder.add_first(worlds.dm_env.restart(np.zeros(300_000, np.uint8)))
    for i in range(1, 20):
        adder.add(0, worlds.dm_env.transition(1.0, np.full(300_000, i, np.uint8)))
    observation = replay.sample("q", 4, timeout=0).data.observation
    np.testing.assert_array_equal(
        observation[:, :, -1], np.arange(4)[:, None] * 3 + np.arange(8)[None]
    )


def test_the_tree_of_sums_draws_what_a_plain_sum_would():
    rng = np.random.default_rng(0)
    selector = selectors.Prioritized(exponent=1.0)
    weights = np.zeros(300)
    for _ in range(2000):
        slot = int(rng.integers(300))
        weights[slot] = rng.choice([0.0, rng.random(), 1e-12, 1e6])
        if weights[slot]:
            selector.put(slot, weights[slot])
        else:
            selector.clear(slot)
    slots, probabilities = selector.select(5000, 300, rng)
    assert np.all(weights[slots] > 0)
    np.testing.assert_allclose(probabilities, weights[slots] / weights.sum(), rtol=1e-12)
    heavy = weights > 1
    assert abs(np.mean(heavy[slots]) - weights[heavy].sum() / weights.sum()) < 1e-3


def test_a_million_weights_do_not_drift():
    selector = selectors.Prioritized(exponent=1.0)
    for _ in range(3):
        for slot in range(1000):
            selector.put(slot, 1e9)
        for slot in range(1000):
            selector.put(slot, 1e-9)
    _, probabilities = selector.select(1, 1000, np.random.default_rng(0))
    np.testing.assert_allclose(probabilities, 1e-3, rtol=1e-12)
