"""`SequenceAdder`: exactly which items it writes, worked by hand."""

from __future__ import annotations

import dm_env
import numpy as np
import pytest
import tree

from tests.replay import worlds
from tfagents_x.replay import adders, errors, tables

TABLE = tables.DEFAULT_TABLE
PAD = 0


def make_adder(make, length, period, behavior, fixed=True, **kwargs):
    replay = make(tables.queue(TABLE, 50), signature=worlds.sequences(length if fixed else None))
    adder = adders.SequenceAdder(
        replay, length, period, end_of_episode_behavior=behavior, insert_timeout=0, **kwargs
    )
    return replay, adder


def drain(replay):
    """All items in the order in which they were written, without batch dimension."""
    items = []
    while replay.can_sample(TABLE, 1):
        items.append(tree.map_structure(lambda x: x[0], replay.sample(TABLE, 1, timeout=0).data))
    return items


def values(replay):
    """For each item the values of its rows' observations; padding is `PAD`."""
    return [item.observation["position"][:, 0].astype(int).tolist() for item in drain(replay)]


def test_every_leaf_of_the_items_of_an_episode(make):
    # Sequences of 3 rows every 2 rows. The episode sees 11, 12, 13, 14; rewards 1, 2, 3.
    replay, adder = make_adder(make, 3, 2, "zero_pad")
    worlds.run_episode(adder, [11, 12, 13, 14])
    first, second = drain(replay)

    assert first.observation["position"][:, 0].tolist() == [11, 12, 13]
    assert first.action.tolist() == [1, 2, 3]  # value % 5
    assert first.reward.tolist() == [1, 2, 3]
    assert first.discount.tolist() == [1, 1, 0]  # terminated
    assert first.start_of_episode.tolist() == [True, False, False]
    assert first.extras["logits"][:, 0].tolist() == [11 / 64, 12 / 64, 13 / 64]

    # The last observation is a row with zeros for the rest; then a row of zeros.
    assert second.observation["position"][:, 0].tolist() == [13, 14, 0]
    assert second.observation["pixels"][:, 0, 0].tolist() == [13, 14, 0]
    assert second.action.tolist() == [3, 0, 0]
    assert second.reward.tolist() == [3, 0, 0]
    assert second.discount.tolist() == [0, 0, 0]
    assert second.start_of_episode.tolist() == [False, False, False]
    assert second.extras["logits"][:, 0].tolist() == [13 / 64, 0, 0]


def test_a_truncated_episode_keeps_its_discount(make):
    replay, adder = make_adder(make, 3, 3, "zero_pad")
    worlds.run_episode(adder, [11, 12, 13], end="truncation")
    (item,) = drain(replay)
    assert item.reward.tolist() == [1, 2, 0]
    # 1 where time ran out; the row of the last observation has no discount of its own.
    assert item.discount.tolist() == [1, 1, 0]


EPISODES = [[11, 12, 13, 14, 15], [21, 22], [31, 32, 33, 34]]


@pytest.mark.parametrize(
    "behavior, expected",
    [
        # Rows 11..15 | 21 22 | 31..34, a sequence of 3 is due every 2 rows from the start
        # of each episode.
        (
            "zero_pad",
            [[11, 12, 13], [13, 14, 15], [21, 22, PAD], [31, 32, 33], [33, 34, PAD]],
        ),
        ("truncate", [[11, 12, 13], [13, 14, 15], [21, 22], [31, 32, 33], [33, 34]]),
        # The latest 3 rows, whatever was written before.
        ("write", [[11, 12, 13], [13, 14, 15], [21, 22], [31, 32, 33], [32, 33, 34]]),
        # One stream: 11 12 13 14 15 21 22 31 32 33 34.
        (
            "continue",
            [[11, 12, 13], [13, 14, 15], [15, 21, 22], [22, 31, 32], [32, 33, 34]],
        ),
    ],
)
def test_which_rows_are_written(make, behavior, expected):
    replay, adder = make_adder(make, 3, 2, behavior, fixed=False)
    for episode in EPISODES:
        worlds.run_episode(adder, episode)
    assert values(replay) == expected


@pytest.mark.parametrize(
    "length, period, behavior, expected",
    [
        # The last row was due at the same time as a whole sequence: nothing is left over.
        (5, 5, "zero_pad", [[1, 2, 3, 4, 5]]),
        (5, 5, "truncate", [[1, 2, 3, 4, 5]]),
        # The sequence before the last observation leaves that alone in the rest.
        (4, 4, "zero_pad", [[1, 2, 3, 4], [5, PAD, PAD, PAD]]),
        (4, 4, "truncate", [[1, 2, 3, 4], [5]]),
        (8, 3, "zero_pad", [[1, 2, 3, 4, 5, PAD, PAD, PAD]]),
        (8, 3, "truncate", [[1, 2, 3, 4, 5]]),
        (1, 1, "zero_pad", [[1], [2], [3], [4], [5]]),
        # With gaps between sequences the last rows may belong to none.
        (2, 5, "zero_pad", [[1, 2]]),
        (2, 5, "truncate", [[1, 2]]),
        (2, 4, "zero_pad", [[1, 2], [5, PAD]]),
    ],
)
def test_lengths_and_periods(make, length, period, behavior, expected):
    replay, adder = make_adder(make, length, period, behavior, fixed=False)
    worlds.run_episode(adder, [1, 2, 3, 4, 5])
    assert values(replay) == expected


def test_continued_sequences_mark_where_episodes_start(make):
    replay, adder = make_adder(make, 4, 4, "continue")
    worlds.run_episode(adder, [1, 2, 3], end="truncation")
    worlds.run_episode(adder, [4, 5])
    (item,) = drain(replay)
    assert item.observation["position"][:, 0].tolist() == [1, 2, 3, 4]
    assert item.start_of_episode.tolist() == [True, False, False, True]
    assert item.discount.tolist() == [1, 1, 0, 0]
    assert item.reward.tolist() == [1, 2, 0, 1]


def test_priorities_come_from_the_sequence(make):
    seen = []

    def priority(sequence):
        seen.append(sequence)
        return sequence.reward.sum()

    replay, adder = make_adder(make, 2, 2, "zero_pad", priority_fn=priority)
    worlds.run_episode(adder, [1, 2, 3, 4])
    assert replay.sample(TABLE, 2, timeout=0).info.priority.tolist() == [3.0, 3.0]
    assert seen[1].observation["position"].tolist() == [[3.0], [4.0]]
    assert seen[1].start_of_episode.tolist() == [False, False]


def test_reset_forgets_the_episode_under_way(make):
    for behavior in ("zero_pad", "continue"):
        replay, adder = make_adder(make, 3, 3, behavior)
        adder.add_first(dm_env.restart(worlds.observation(1)))
        adder.add(1, dm_env.transition(1.0, worlds.observation(2)), worlds.extras(1))
        adder.reset()
        worlds.run_episode(adder, [5, 6, 7])
        assert values(replay) == [[5, 6, 7]]


@pytest.mark.parametrize("behavior", ["zero_pad", "continue"])
def test_a_resumed_adder_writes_the_same_items(make, behavior):
    replay, adder = make_adder(make, 4, 3, behavior)
    for episode in EPISODES:
        worlds.run_episode(adder, episode)
    expected = values(replay)

    replay, adder = make_adder(make, 4, 3, behavior)
    worlds.run_episode(adder, EPISODES[0])
    # Also in the middle of an episode the state is that of the last episode's end.
    adder.add_first(dm_env.restart(worlds.observation(21)))
    state = adder.state()
    assert all(isinstance(leaf, (np.ndarray, np.generic)) for leaf in tree.flatten(state))
    before = values(replay)
    resumed_replay, resumed = make_adder(make, 4, 3, behavior)
    resumed.load_state(state)
    tree.map_structure(np.testing.assert_array_equal, resumed.state(), state)
    for episode in EPISODES[1:]:
        worlds.run_episode(resumed, episode)
    assert before + values(resumed_replay) == expected


def test_the_state_survives_many_episodes(make):
    _, adder = make_adder(make, 4, 3, "continue")
    for episode in EPISODES:
        worlds.run_episode(adder, episode)
    state = adder.state()
    assert state["num_rows"] == 11
    assert state["rows"]["observation/position"][:, 0].tolist() == [31, 32, 33, 34]


def test_another_adders_state_is_refused(make):
    _, adder = make_adder(make, 4, 3, "continue")
    worlds.run_episode(adder, EPISODES[0])
    state = adder.state()
    _, padding = make_adder(make, 4, 3, "zero_pad")
    _, longer = make_adder(make, 6, 3, "continue")
    for other in (padding, longer):
        with pytest.raises(ValueError, match="it is of another adder"):
            other.load_state(state)
    with pytest.raises(ValueError, match="lacks num_rows or rows"):
        adder.load_state({})
    with pytest.raises(ValueError, match="the state's rows have the leaves"):
        adder.load_state({"num_rows": 0, "rows": {}})


def test_a_full_queue_is_reported_and_no_step_is_lost(make):
    replay = make(tables.queue(TABLE, 1), signature=worlds.sequences(2))
    adder = adders.SequenceAdder(replay, 2, 1, insert_timeout=0)
    adder.add_first(dm_env.restart(worlds.observation(1)))
    for value in (2, 3):
        adder.add(1, dm_env.transition(1.0, worlds.observation(value)), worlds.extras(1))
    with pytest.raises(errors.ReplayFull, match="the queue is full"):
        adder.add(1, dm_env.transition(1.0, worlds.observation(4)), worlds.extras(1))
    assert worlds.first_values(replay.sample(TABLE, 1, timeout=5).data) == [1]
    with pytest.raises(errors.ReplayFull):
        adder.add(1, dm_env.transition(1.0, worlds.observation(5)), worlds.extras(1))
    assert worlds.first_values(replay.sample(TABLE, 1, timeout=5).data) == [2]


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"sequence_length": 0}, "sequence_length is 0, must be >= 1"),
        ({"period": 0}, "period is 0, must be >= 1"),
        ({"end_of_episode_behavior": "stop"}, "must be an EndBehavior or one of 'zero_pad'"),
        ({"end_of_episode_behavior": "truncate"}, "may write shorter sequences"),
        ({"sequence_length": 4}, "sequence_length is 4, the replay's signature says 3"),
        ({"table": "other"}, "no table 'other', it has: priority_table"),
    ],
)
def test_refuses_settings_that_cannot_work(make, settings, message):
    replay = make(tables.queue(TABLE, 5), signature=worlds.sequences(3))
    with pytest.raises(ValueError, match=message):
        adders.SequenceAdder(replay, **{"sequence_length": 3, "period": 1, **settings})


def test_refuses_a_replay_of_transitions(make):
    replay = make(tables.queue(TABLE, 5), signature=worlds.transitions())
    with pytest.raises(ValueError, match=r"made with sequence_signature\(\)"):
        adders.SequenceAdder(replay, 3, 1)


def test_wrong_calls_are_refused(make):
    _, adder = make_adder(make, 3, 3, "zero_pad")
    first = dm_env.restart(worlds.observation(1))
    later = dm_env.transition(1.0, worlds.observation(2))
    with pytest.raises(ValueError, match="call add_first.. before add"):
        adder.add(1, later, worlds.extras(1))
    with pytest.raises(ValueError, match="wants the first timestep"):
        adder.add_first(later)
    adder.add_first(first)
    with pytest.raises(ValueError, match="the last episode has not ended: call reset"):
        adder.add_first(first)
    with pytest.raises(ValueError, match="pass it to add_first"):
        adder.add(1, first, worlds.extras(1))
    with pytest.raises(ValueError, match="reward is nan: it must be finite"):
        adder.add(1, later._replace(reward=float("nan")), worlds.extras(1))
    with pytest.raises(ValueError, match="discount is inf"):
        adder.add(1, later._replace(discount=np.float32("inf")), worlds.extras(1))
    with pytest.raises(ValueError, match="reward is None"):
        adder.add(1, later._replace(reward=None), worlds.extras(1))


def test_a_step_that_does_not_fit_can_be_given_again(make):
    replay, adder = make_adder(make, 2, 2, "zero_pad")
    adder.add_first(dm_env.restart(worlds.observation(1)))
    bad = dm_env.termination(1.0, {**worlds.observation(2), "position": np.zeros(3, np.float32)})
    with pytest.raises(ValueError, match=r"observation/position has shape \(3,\)"):
        adder.add(1, bad, worlds.extras(1))
    with pytest.raises(ValueError, match="extras has another structure"):
        adder.add(1, dm_env.termination(1.0, worlds.observation(2)))
    adder.add(1, dm_env.termination(1.0, worlds.observation(2)), worlds.extras(1))
    assert values(replay) == [[1, 2]]
