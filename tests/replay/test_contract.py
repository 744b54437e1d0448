"""What both stores promise."""

from __future__ import annotations

import collections
import time

import numpy as np
import pytest
import tree

from tests.replay import worlds
from tfagents_x import types
from tfagents_x.replay import errors, rows, tables


def assert_nests_equal(actual, expected):
    tree.assert_same_structure(actual, expected, check_types=False)
    for (path, a), e in zip(tree.flatten_with_path(actual), tree.flatten(expected)):
        np.testing.assert_array_equal(a, e, err_msg=str(path))


def test_a_sampled_sequence_is_what_was_written(make):
    replay = make(tables.queue("q", 4), signature=worlds.sequences(3))
    writer = replay.writer(3)
    steps = [worlds.step(value, start=value == 0) for value in range(4)]
    for step in steps:
        writer.append(step)
    writer.create_item("q", 3, priority=0.5)
    writer.flush()
    sample = replay.sample("q", 1, timeout=0)

    assert isinstance(sample, types.ReplaySample) and isinstance(sample.data, types.Step)
    assert_nests_equal(sample.data, tree.map_structure(lambda *x: np.stack(x)[None], *steps[1:]))
    dtypes = [leaf.dtype for leaf in tree.flatten(sample.data)]
    assert dtypes == [np.uint8, np.float32, np.int32, np.float32, np.float32, bool, np.float32]
    info = sample.info
    assert [leaf.dtype for leaf in info] == [np.uint64, np.float64, np.int64, np.float64, np.int32]
    assert [leaf.tolist() for leaf in info[1:]] == [[1.0], [1], [0.5], [1]]


def test_a_sampled_transition_is_what_was_written(make):
    replay = make(tables.queue("q", 4), signature=worlds.transitions())
    writer = replay.writer(3)
    for value in range(3):
        writer.append(worlds.step(value))
    writer.open_step(worlds.observation(3), False)
    writer.create_transition("q", 2, reward=7.0, discount=0.25)
    writer.close_with_zeros()
    writer.create_transition("q", 1, reward=8.0, discount=0.0)
    writer.flush()
    data = replay.sample("q", 2, timeout=0).data

    assert isinstance(data, types.Transition)
    stack = lambda *values: tree.map_structure(lambda *x: np.stack(x), *values)
    expected = types.Transition(
        stack(worlds.observation(1), worlds.observation(2)),
        np.array([1, 2]),
        np.array([7.0, 8.0]),
        np.array([0.25, 0.0]),
        stack(worlds.observation(3), worlds.observation(3)),
        stack(worlds.extras(1), worlds.extras(2)),
    )
    assert_nests_equal(data, expected)
    assert data.reward.dtype == data.discount.dtype == np.float32


def test_a_queue_gives_each_item_once_in_order(make):
    replay = make(tables.queue("q", 8), signature=worlds.sequences(1))
    worlds.put(replay, "q", range(6))
    assert worlds.first_values(replay.sample("q", 4, timeout=0).data) == [0, 1, 2, 3]
    assert replay.size("q") == 2
    assert worlds.first_values(replay.sample("q", 2, timeout=0).data) == [4, 5]
    assert replay.size("q") == 0


def test_a_full_queue_makes_the_writer_wait_and_loses_nothing(make):
    replay = make(tables.queue("q", 2), signature=worlds.sequences(1))
    writer = replay.writer(1)
    for value in range(4):
        writer.append(worlds.step(value))
        writer.create_item("q", 1)
    with pytest.raises(errors.ReplayFull, match=r"queue is full \(max_size=2\)"):
        writer.flush(timeout=0)
    assert replay.size("q") == 2 and not replay.can_insert("q")
    writer.flush(max_pending=2)  # Two pending are allowed: nothing to wait for.
    assert worlds.first_values(replay.sample("q", 2, timeout=0).data) == [0, 1]
    writer.flush(timeout=5)
    assert worlds.first_values(replay.sample("q", 2, timeout=0).data) == [2, 3]


def test_an_empty_queue_starves_at_once_or_after_the_timeout(make):
    replay = make(tables.queue("q", 4), signature=worlds.sequences(1))
    worlds.put(replay, "q", [1])
    start = time.monotonic()
    with pytest.raises(errors.ReplayStarved, match="table 'q' holds 1 item.*2 wanted.*1 more"):
        replay.sample("q", 2, timeout=0)
    assert time.monotonic() - start < 0.1
    with pytest.raises(errors.ReplayStarved):
        next(replay.iterator("q", 2, timeout=0.05))
    assert time.monotonic() - start >= 0.05
    # The one that was there has not been consumed.
    assert worlds.first_values(replay.sample("q", 1, timeout=0).data) == [1]


def test_a_full_replay_drops_the_oldest(make):
    replay = make(tables.uniform("u", 3), signature=worlds.sequences(1))
    worlds.put(replay, "u", range(10))
    assert replay.size("u") == 3
    drawn = set(worlds.first_values(replay.sample("u", 100, timeout=0).data))
    assert drawn == {7, 8, 9}


def test_uniform_draws_are_uniform(make):
    replay = make(tables.uniform("u", 4), signature=worlds.sequences(1))
    worlds.put(replay, "u", range(4))
    sample = replay.sample("u", 4000, timeout=0)
    counts = collections.Counter(worlds.first_values(sample.data))
    # 1000 +- 5 standard deviations of 27.
    assert sorted(counts) == [0, 1, 2, 3]
    assert all(863 < count < 1137 for count in counts.values())
    np.testing.assert_array_equal(sample.info.probability, 0.25)
    np.testing.assert_array_equal(sample.info.table_size, 4)


def test_times_sampled_counts_every_draw(make):
    replay = make(tables.uniform("u", 1), signature=worlds.sequences(1))
    worlds.put(replay, "u", [5])
    assert replay.sample("u", 3, timeout=0).info.times_sampled.tolist() == [1, 2, 3]
    assert replay.sample("u", 1, timeout=0).info.times_sampled.tolist() == [4]


def test_items_leave_after_max_times_sampled(make):
    table = tables.uniform("u", 5, max_times_sampled=2)
    replay = make(table, signature=worlds.sequences(1))
    worlds.put(replay, "u", range(3))
    drawn = collections.Counter()
    while replay.can_sample("u", 1):
        drawn.update(worlds.first_values(replay.sample("u", 1, timeout=0).data))
    assert drawn == {0: 2, 1: 2, 2: 2}
    assert replay.size("u") == 0


def test_a_batch_out_of_a_table_that_drains_never_takes_more_than_is_there(make):
    table = tables.uniform("u", 9, min_size=2, max_times_sampled=1)
    replay = make(table, signature=worlds.sequences(1))
    worlds.put(replay, "u", range(5))
    assert replay.can_sample("u", 4) and not replay.can_sample("u", 5)
    drawn = worlds.first_values(replay.sample("u", 4, timeout=0).data)
    assert len(set(drawn)) == 4
    assert replay.size("u") == 1 and not replay.can_sample("u", 1)


def test_sampling_waits_for_min_size(make):
    replay = make(tables.uniform("u", 10, min_size=3), signature=worlds.sequences(1))
    worlds.put(replay, "u", range(2))
    assert not replay.can_sample("u", 1)
    with pytest.raises(errors.ReplayStarved, match="min_size=3, 1 more must be inserted"):
        replay.sample("u", 1, timeout=0)
    worlds.put(replay, "u", [2])
    assert replay.can_sample("u", 1000)


def test_samples_per_insert_holds_both_sides_back(make):
    # Worked by hand: error = 2 * inserts - samples must stay within [-4, 8].
    table = tables.Table("u", 10, samples_per_insert=2.0, min_size=1, error_buffer=(-4.0, 8.0))
    replay = make(table, signature=worlds.sequences(1))
    worlds.put(replay, "u", range(4))  # error 8
    assert not replay.can_insert("u")
    assert replay.can_sample("u", 12) and not replay.can_sample("u", 13)
    replay.sample("u", 3, timeout=0)  # error 5
    assert replay.can_insert("u") and not replay.can_insert("u", 2)
    replay.sample("u", 5, timeout=0)  # error 0
    replay.sample("u", 4, timeout=0)  # error -4
    with pytest.raises(errors.ReplayStarved, match="samples_per_insert=2 .*wants 1 more insert"):
        replay.sample("u", 1, timeout=0)
    worlds.put(replay, "u", range(6))  # error 8
    with pytest.raises(errors.ReplayFull, match="wants 2 more draw"):
        worlds.put(replay, "u", [10])


def test_priorities_steer_the_draws(make):
    table = tables.prioritized("p", 5, priority_exponent=0.5)
    replay = make(table, signature=worlds.sequences(1))
    worlds.put(replay, "p", [1], priority=16.0)
    worlds.put(replay, "p", [2], priority=1.0)
    worlds.put(replay, "p", [3], priority=0.0)
    sample = replay.sample("p", 2000, timeout=0)
    values = np.array(worlds.first_values(sample.data))
    # 16 ** 0.5 = 4 against 1: 1600 +- 5 standard deviations of 18.
    assert 1510 < np.sum(values == 1) < 1690
    assert not np.any(values == 3)
    np.testing.assert_allclose(sample.info.probability, np.where(values == 1, 0.8, 0.2))
    np.testing.assert_array_equal(sample.info.priority, np.where(values == 1, 16.0, 1.0))


def test_updated_priorities_count_from_then_on(make):
    replay = make(tables.prioritized("p", 5), signature=worlds.sequences(1))
    worlds.put(replay, "p", [1, 2])
    keys = {}
    while len(keys) < 2:
        sample = replay.sample("p", 8, timeout=0)
        keys.update(zip(worlds.first_values(sample.data), sample.info.key))
    replay.update_priorities("p", [keys[1], 123456789, keys[2]], [0.0, 5.0, 3.0])
    sample = replay.sample("p", 50, timeout=0)
    assert set(worlds.first_values(sample.data)) == {2}
    np.testing.assert_array_equal(sample.info.priority, 3.0)
    np.testing.assert_array_equal(sample.info.probability, 1.0)


def test_with_all_priorities_zero_draws_are_uniform(make):
    replay = make(tables.prioritized("p", 5), signature=worlds.sequences(1))
    worlds.put(replay, "p", [1, 2], priority=0.0)
    sample = replay.sample("p", 100, timeout=0)
    assert set(worlds.first_values(sample.data)) == {1, 2}
    np.testing.assert_array_equal(sample.info.probability, 0.5)


def test_exponent_zero_still_spares_items_of_priority_zero(make):
    table = tables.prioritized("p", 5, priority_exponent=0.0)
    replay = make(table, signature=worlds.sequences(1))
    worlds.put(replay, "p", [1], priority=0.0)
    worlds.put(replay, "p", [2], priority=7.0)
    worlds.put(replay, "p", [3], priority=1.0)
    sample = replay.sample("p", 200, timeout=0)
    assert set(worlds.first_values(sample.data)) == {2, 3}
    np.testing.assert_array_equal(sample.info.probability, 0.5)


def test_keys_of_evicted_items_are_ignored(make):
    replay = make(tables.prioritized("p", 2), signature=worlds.sequences(1))
    worlds.put(replay, "p", [1])
    old = replay.sample("p", 1, timeout=0).info.key
    worlds.put(replay, "p", [2, 3])
    replay.update_priorities("p", old, [100.0])
    sample = replay.sample("p", 50, timeout=0)
    assert set(worlds.first_values(sample.data)) == {2, 3}
    np.testing.assert_array_equal(sample.info.priority, 1.0)


@pytest.mark.parametrize(
    "keys, priorities, message",
    [
        ([1, 2], [1.0], "2 keys and 1 priorities"),
        (np.array([1.0]), [1.0], "keys must be integers, got float64"),
        ([1], [-1.0], "finite and >= 0, got -1.0"),
        ([1, 2], [1.0, float("nan")], "finite and >= 0, got nan"),
    ],
)
def test_bad_priorities_are_refused(make, keys, priorities, message):
    replay = make(tables.prioritized("p", 2), signature=worlds.sequences(1))
    with pytest.raises(ValueError, match=message):
        replay.update_priorities("p", keys, priorities)


def test_tables_are_independent_and_share_rows(make):
    replay = make(tables.queue("q", 4), tables.uniform("u", 4), signature=worlds.sequences(2))
    writer = replay.writer(2)
    for value in range(3):
        writer.append(worlds.step(value))
    writer.create_item("q", 2)
    writer.create_item("u", 2)
    writer.flush()
    assert worlds.first_values(replay.sample("q", 1, timeout=0).data) == [1]
    assert replay.size("q") == 0 and replay.size("u") == 1
    assert worlds.first_values(replay.sample("u", 2, timeout=0).data) == [1, 1]


def test_tail_and_transition_at_read_back_rows(make):
    sequences = make(tables.queue("q", 4), signature=worlds.sequences())
    writer = sequences.writer(3)
    steps = [worlds.step(value) for value in range(5)]
    for step in steps:
        writer.append(step)
    writer.open_step(worlds.observation(9), False)
    assert_nests_equal(writer.tail(3), tree.map_structure(lambda *x: np.stack(x), *steps[2:]))

    replay = make(tables.queue("q", 4), signature=worlds.transitions())
    writer = replay.writer(3)
    for step in steps:
        writer.append(step)
    expected = types.Transition(
        steps[2].observation, steps[2].action, 1.5, 0.5, steps[4].observation, steps[2].extras
    )
    assert_nests_equal(writer.transition_at(2, 1.5, 0.5), expected)


def test_the_writers_rows_are_copies(make):
    replay = make(tables.queue("q", 4), signature=worlds.sequences(1))
    writer = replay.writer(1)
    step = worlds.step(3)
    writer.append(step)
    step.observation["position"][:] = 99.0
    writer.create_item("q", 1)
    writer.flush()
    sample = replay.sample("q", 1, timeout=0)
    assert worlds.first_values(sample.data) == [3]


def test_after_reset_items_cannot_reach_back(make):
    replay = make(tables.queue("q", 4), signature=worlds.sequences())
    writer = replay.writer(3)
    writer.append(worlds.step(1))
    writer.open_step(worlds.observation(2), False)
    writer.reset()
    assert writer.num_steps == 0 and not writer.is_open
    writer.append(worlds.step(5))
    with pytest.raises(ValueError, match="a sequence of 2 rows cannot be made, there are 1"):
        writer.create_item("q", 2)
    writer.create_item("q", 1)
    writer.flush()
    assert worlds.first_values(replay.sample("q", 1, timeout=0).data) == [5]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"observation": {"position": np.zeros(1, np.float32)}}, "observation has another struct"),
        ({"action": np.zeros(2, np.int32)}, r"action has shape \(2,\), its spec says \(\)"),
        ({"action": 1.5}, "action has dtype float64, its spec says int32"),
        ({"reward": None}, "reward has dtype object"),
        ({"extras": ()}, "extras has another structure"),
        ({"extras": {"logits": np.zeros(3)}}, r"extras/logits has shape \(3,\)"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_and_leaves_no_trace(make, change, message):
    replay = make(tables.queue("q", 4), signature=worlds.sequences(1))
    writer = replay.writer(1)
    with pytest.raises(ValueError, match=message):
        writer.append(worlds.step(1)._replace(**change))
    assert writer.num_steps == 0 and not writer.is_open
    writer.append(worlds.step(2))
    writer.create_item("q", 1)
    writer.flush()
    assert worlds.first_values(replay.sample("q", 1, timeout=0).data) == [2]


def test_misuse_of_a_writer_is_refused(make):
    replay = make(tables.queue("q", 4), signature=worlds.sequences(2))
    with pytest.raises(ValueError, match="max_sequence_length is 0"):
        replay.writer(0)
    writer = replay.writer(2)
    for method in ("close_with_zeros",):
        with pytest.raises(ValueError, match=f"call open_step.. before {method}"):
            getattr(writer, method)()
    writer.open_step(worlds.observation(1), True)
    with pytest.raises(ValueError, match="a step is open"):
        writer.open_step(worlds.observation(1), True)
    with pytest.raises(ValueError, match="a step is open"):
        writer.append_zeros()
    writer.close_with_zeros()
    writer.append_zeros()
    with pytest.raises(ValueError, match="no table 'x', there is: q"):
        writer.create_item("x", 2)
    with pytest.raises(ValueError, match="sequence_length=2, got a sequence of 1"):
        writer.create_item("q", 1)
    with pytest.raises(ValueError, match="holds sequences: use create_item"):
        writer.create_transition("q", 1, 0.0, 0.0)
    for priority in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="priority is .*, must be finite and >= 0"):
            writer.create_item("q", 2, priority)
    assert replay.size("q") == 0


def test_misuse_of_a_transition_writer_is_refused(make):
    replay = make(tables.queue("q", 4), signature=worlds.transitions())
    writer = replay.writer(3)
    with pytest.raises(ValueError, match="over 1 step.s. cannot be made: 0 complete rows"):
        writer.create_transition("q", 1, 0.0, 0.0)
    writer.append(worlds.step(1))
    with pytest.raises(ValueError, match="holds transitions: use create_transition"):
        writer.create_item("q", 1)
    writer.open_step(worlds.observation(2), False)
    writer.create_transition("q", 1, 1.0, 1.0)
    writer.create_transition("q", 1, 1.0, 1.0)  # The same once more is fine.
    with pytest.raises(ValueError, match="another reward or discount ends at the open step"):
        writer.create_transition("q", 1, 2.0, 1.0)
    writer.close_with_zeros()
    writer.append(worlds.step(3))
    with pytest.raises(ValueError, match="over 3 step.s. cannot be made.*at least num_steps . 1"):
        writer.create_transition("q", 3, 0.0, 0.0)
    writer.flush()
    assert replay.size("q") == 2


def test_misuse_of_sampling_is_refused(make):
    replay = make(tables.queue("q", 4), signature=worlds.sequences())
    with pytest.raises(ValueError, match="no table 'x', there is: q"):
        replay.sample("x", 1)
    for call in (replay.sample, replay.iterator, replay.dataset):
        with pytest.raises(ValueError, match="would wait for ever"):
            call("q", 5)
        with pytest.raises(ValueError, match="timeout is -1"):
            call("q", 1, timeout=-1)
    for call in (replay.can_sample, replay.can_insert):
        with pytest.raises(ValueError, match="num_items is 0"):
            call("q", 0)


def test_sequences_of_different_lengths_cannot_be_batched(make):
    replay = make(tables.queue("q", 4), signature=worlds.sequences())
    writer = replay.writer(3)
    for value in range(3):
        writer.append(worlds.step(value))
    for length in (3, 2, 1):
        writer.create_item("q", length)
    writer.flush()
    with pytest.raises(ValueError, match=r"different lengths \(2 to 3 rows\).*zero_pad"):
        replay.sample("q", 2, timeout=0)
    assert replay.sample("q", 1, timeout=0).data.reward.shape == (1, 1)


@pytest.mark.parametrize("length", [2, None])
def test_a_dataset_yields_batches_of_the_declared_type(make, length):
    replay = make(tables.uniform("u", 8), signature=worlds.sequences(length))
    worlds.put(replay, "u", range(1, 9), length=2)
    dataset = replay.dataset("u", 3)
    spec = dataset.element_spec
    assert isinstance(spec, types.ReplaySample) and isinstance(spec.data, types.Step)
    assert spec.data.observation["pixels"].shape.as_list() == [3, length, 2, 2]
    batch = next(iter(dataset))
    assert isinstance(batch.data, types.Step) and isinstance(batch.info, types.SampleInfo)
    numpy = tree.map_structure(lambda x: x.numpy(), batch)
    assert [x.dtype for x in numpy.info] == [np.uint64, np.float64, np.int64, np.float64, np.int32]
    assert numpy.data.observation["pixels"].shape == (3, 2, 2, 2)
    position = numpy.data.observation["position"]
    np.testing.assert_array_equal(position[:, 1], position[:, 0] + 1)


def test_a_dataset_of_transitions(make):
    replay = make(tables.uniform("u", 8), signature=worlds.transitions())
    writer = replay.writer(2)
    writer.append(worlds.step(1))
    writer.append(worlds.step(2))
    writer.create_transition("u", 1, 0.5, 1.0)
    writer.flush()
    batch = next(iter(replay.dataset("u", 4, prefetch=0)))
    assert isinstance(batch.data, types.Transition)
    assert batch.data.next_observation["position"].numpy().tolist() == [[2.0]] * 4


def test_a_dataset_ends_when_nothing_comes_within_the_timeout(make):
    replay = make(tables.queue("q", 8), signature=worlds.sequences(1))
    worlds.put(replay, "q", range(5))
    batches = list(replay.dataset("q", 2, timeout=0.2))
    values = [worlds.first_values(tree.map_structure(lambda x: x.numpy(), b.data)) for b in batches]
    assert values == [[0, 1], [2, 3]]


def test_a_nest_without_extras(make):
    signature = rows.sequence_signature(worlds.SPEC, sequence_length=1)
    replay = make(tables.queue("q", 4), signature=signature)
    writer = replay.writer(1)
    writer.append(worlds.step(4)._replace(extras=()))
    writer.create_item("q", 1)
    writer.flush()
    sample = replay.sample("q", 1, timeout=0)
    assert sample.data.extras == () and worlds.first_values(sample.data) == [4]


def test_a_closed_replay_says_so(make):
    replay = make(tables.queue("q", 4), signature=worlds.sequences(1))
    worlds.put(replay, "q", [1])
    iterator = replay.iterator("q", 1)
    with replay:
        pass
    replay.close()  # Twice is fine.
    for call in (lambda: replay.sample("q", 1), lambda: replay.size("q"), lambda: replay.writer(1)):
        with pytest.raises(errors.ReplayClosed):
            call()
    assert list(iterator) == []
