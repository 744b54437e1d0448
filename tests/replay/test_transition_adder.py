"""`NStepTransitionAdder`: exactly which items it writes, worked by hand."""

from __future__ import annotations

import dm_env
import numpy as np
import pytest

from tests.replay import worlds
from tfagents_x.replay import adders, tables

TABLE = tables.DEFAULT_TABLE


def transitions(make, n_step, discount, values, end="termination", **kwargs):
    """`(observation, action, reward, discount, next observation)` of each item."""
    replay = make(tables.queue(TABLE, 50), signature=worlds.transitions())
    adder = adders.NStepTransitionAdder(replay, n_step, discount, insert_timeout=0, **kwargs)
    worlds.run_episode(adder, values, end)
    return drain(replay)


def drain(replay):
    data = replay.sample(TABLE, replay.size(TABLE), timeout=0).data
    np.testing.assert_array_equal(
        data.extras["logits"][:, 0], data.observation["position"][:, 0] / 64
    )
    columns = (
        data.observation["position"][:, 0],
        data.action,
        data.reward,
        data.discount,
        data.next_observation["position"][:, 0],
    )
    return list(zip(*(column.tolist() for column in columns)))


def test_one_step(make):
    assert transitions(make, 1, 0.5, [11, 12, 13]) == [
        (11, 1, 1.0, 1.0, 12),
        (12, 2, 2.0, 0.0, 13),
    ]


def test_three_steps_worked_by_hand(make):
    # Rewards 1, 2, 3, 4 follow the observations 11, 12, 13, 14; discounts 1, 1, 1, 0;
    # g = 0.5. For instance from 12 over three steps:
    #   reward   = 2 + 0.5 * 3 + 0.25 * 4 = 4.5
    #   discount = 0.5^2 * 1 * 1 * 0 = 0
    assert transitions(make, 3, 0.5, [11, 12, 13, 14, 15]) == [
        (11, 1, 1.0, 1.0, 12),
        (11, 1, 1 + 0.5 * 2, 0.5, 13),
        (11, 1, 1 + 0.5 * 2 + 0.25 * 3, 0.25, 14),
        (12, 2, 2 + 0.5 * 3 + 0.25 * 4, 0.0, 15),
        (13, 3, 3 + 0.5 * 4, 0.0, 15),
        (14, 4, 4.0, 0.0, 15),
    ]


def test_three_steps_to_a_truncation_bootstrap(make):
    assert transitions(make, 3, 0.5, [11, 12, 13, 14], end="truncation")[-3:] == [
        (11, 1, 1 + 0.5 * 2 + 0.25 * 3, 0.25, 14),
        (12, 2, 2 + 0.5 * 3, 0.5, 14),
        (13, 3, 3.0, 1.0, 14),
    ]


def test_an_episode_shorter_than_n(make):
    assert transitions(make, 5, 0.5, [11, 12, 13]) == [
        (11, 1, 1.0, 1.0, 12),
        (11, 1, 2.0, 0.0, 13),
        (12, 2, 2.0, 0.0, 13),
    ]


@pytest.mark.parametrize(
    "values, expected",
    [
        (
            [11, 12, 13, 14],
            [(11, 1, 2.0, 0.5, 13), (12, 2, 3.5, 0.0, 14), (13, 3, 3.0, 0.0, 14)],
        ),
        ([11, 12], [(11, 1, 1.0, 0.0, 12)]),
    ],
)
def test_without_the_short_ones_at_the_start(make, values, expected):
    assert transitions(make, 2, 0.5, values, short_at_start=False) == expected


def test_discounts_of_the_environment_multiply(make):
    replay = make(tables.queue(TABLE, 9), signature=worlds.transitions())
    adder = adders.NStepTransitionAdder(replay, 2, 0.5, insert_timeout=0)
    adder.add_first(dm_env.restart(worlds.observation(1)))
    adder.add(1, dm_env.transition(1.0, worlds.observation(2), discount=0.5), worlds.extras(1))
    adder.add(2, dm_env.truncation(8.0, worlds.observation(3), discount=0.25), worlds.extras(2))
    assert drain(replay) == [
        (1, 1, 1.0, 0.5, 2),
        (1, 1, 1 + 0.5 * 0.5 * 8, 0.5 * 0.5 * 0.25, 3),
        (2, 2, 8.0, 0.25, 3),
    ]


def test_episodes_do_not_mix(make):
    replay = make(tables.queue(TABLE, 20), signature=worlds.transitions())
    adder = adders.NStepTransitionAdder(replay, 2, 1.0, insert_timeout=0)
    worlds.run_episode(adder, [11, 12])
    adder.add_first(dm_env.restart(worlds.observation(15)))
    adder.add(0, dm_env.transition(7.0, worlds.observation(16)), worlds.extras(15))
    adder.reset()  # Broken off: what was written stays.
    worlds.run_episode(adder, [21, 22])
    assert drain(replay) == [(11, 1, 1.0, 0.0, 12), (15, 0, 7.0, 1.0, 16), (21, 1, 1.0, 0.0, 22)]


def test_priorities_come_from_the_transition(make):
    replay = make(tables.queue(TABLE, 9), signature=worlds.transitions())

    def priority(transition):
        assert transition.extras["logits"].shape == (2,)
        return transition.reward * 100 + transition.next_observation["position"][0]

    adder = adders.NStepTransitionAdder(replay, 2, 1.0, priority_fn=priority, insert_timeout=0)
    worlds.run_episode(adder, [1, 2, 3])
    assert replay.sample(TABLE, 3, timeout=0).info.priority.tolist() == [102, 303, 203]


def test_state_is_empty(make):
    replay = make(tables.queue(TABLE, 9), signature=worlds.transitions())
    adder = adders.NStepTransitionAdder(replay, 2, 1.0)
    assert adder.state() == {}
    adder.load_state({})
    with pytest.raises(ValueError, match="not an NStepTransitionAdder's state"):
        adder.load_state({"num_rows": 3})


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"n_step": 0}, "n_step is 0, must be >= 1"),
        ({"discount": 1.5}, "discount is 1.5, must lie in"),
        ({"discount": float("nan")}, "discount is nan, must lie in"),
    ],
)
def test_refuses_settings_that_cannot_work(make, settings, message):
    replay = make(tables.queue(TABLE, 5), signature=worlds.transitions())
    with pytest.raises(ValueError, match=message):
        adders.NStepTransitionAdder(replay, **{"n_step": 2, "discount": 0.9, **settings})


def test_refuses_a_replay_of_sequences(make):
    replay = make(tables.queue(TABLE, 5), signature=worlds.sequences(3))
    with pytest.raises(ValueError, match=r"made with transition_signature\(\)"):
        adders.NStepTransitionAdder(replay, 2, 0.9)
