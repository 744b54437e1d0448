"""Counters: totals, parents, threads, and coming back from a checkpoint."""

from __future__ import annotations

import json
import sys
import threading

import numpy as np
import pytest

from tfagents_x.utils import counting


def test_counts_and_returns_totals():
    counter = counting.Counter()
    assert counter.increment(steps=2) == {"steps": 2}
    assert counter.increment(steps=1, walltime=0.5) == {"steps": 3, "walltime": 0.5}
    counter.get_counts()["steps"] = 99  # A copy.
    assert counter.get_counts() == {"steps": 3, "walltime": 0.5}


def test_prefix_names_counts_and_the_steps_key():
    counter = counting.Counter(prefix="learner")
    assert counter.increment(steps=1) == {"learner_steps": 1}
    assert counter.get_steps_key() == "learner_steps" and counter.get_key("x") == "learner_x"
    assert counting.Counter().get_steps_key() == "steps"
    assert counting.Counter(counter).get_steps_key() == "steps"


def test_children_see_each_other_through_the_parent():
    parent = counting.Counter()
    actor = counting.Counter(parent, prefix="actor", time_delta=0.0)
    learner = counting.Counter(parent, prefix="learner", time_delta=0.0)
    actor.increment(steps=5, episodes=1)
    totals = {"actor_steps": 5, "actor_episodes": 1, "learner_steps": 2}
    assert learner.increment(steps=2) == totals
    assert actor.sync() == totals and parent.get_counts() == totals


def test_only_prefixed():
    parent = counting.Counter()
    parent.increment(steps=1, actors=3)
    child = counting.Counter(parent, prefix="actor", return_only_prefixed=True)
    assert child.increment(steps=2) == {"actor_steps": 2}
    assert parent.get_counts() == {"steps": 1, "actors": 3, "actor_steps": 2}


def test_parent_is_asked_once_in_time_delta_and_totals_are_right_in_between():
    parent = counting.Counter()
    child = counting.Counter(parent, prefix="actor", time_delta=1000.0)
    child.increment(steps=1)
    parent.increment(other=1)
    assert child.increment(steps=1) == {"actor_steps": 2}  # The news are not in yet.
    assert parent.get_counts() == {"actor_steps": 1, "other": 1}
    assert child.sync() == {"actor_steps": 2, "other": 1} == parent.get_counts()


def test_negative_time_delta_is_refused():
    with pytest.raises(ValueError, match="time_delta must be 0 or more"):
        counting.Counter(time_delta=-1.0)


def test_failing_parent_loses_no_counts():
    class Parent(counting.Counter):
        fails = True

        def increment(self, **counts):
            if self.fails:
                raise ConnectionError
            return super().increment(**counts)

    parent = Parent()
    child = counting.Counter(parent, time_delta=0.0)
    with pytest.raises(ConnectionError):
        child.increment(steps=2)
    parent.fails = False
    assert child.increment(steps=1) == {"steps": 3} == parent.get_counts()


@pytest.fixture
def busy_switching():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_threads_lose_no_counts(busy_switching):
    parent = counting.Counter()
    children = [counting.Counter(parent, "actor", time_delta=0.0) for _ in range(2)]

    def count(child):
        for _ in range(500):
            child.increment(steps=1)

    threads = [threading.Thread(target=count, args=(c,)) for c in children for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(child.sync() == {"actor_steps": 2000} for child in children)


def test_restored_family_goes_on_without_counting_twice():
    def family():
        parent = counting.Counter()
        return parent, counting.Counter(parent, prefix="actor", time_delta=1000.0)

    parent, child = family()
    for _ in range(3):
        child.increment(steps=1)
    child_state = child.save()  # Reports the two steps that the parent did not have yet.
    child.sync()  # Time passes between the two: it must not report them again.
    state = json.loads(json.dumps({"parent": parent.save(), "child": child_state}))

    for order in ("parent", "child"), ("child", "parent"):
        new = dict(zip(("parent", "child"), family()))
        new["child"].increment(steps=100)  # What restore must forget.
        for name in order:
            new[name].restore(state[name])
        assert new["child"].increment(steps=1) == {"actor_steps": 4}
        assert new["parent"].get_counts() == {"actor_steps": 4}


def test_state_is_a_copy_and_may_come_back_as_numpy():
    counter = counting.Counter()
    counter.increment(steps=3, walltime=1.5)
    state = counter.save()
    counter.increment(steps=1)
    assert state == {"counts": {"steps": 3, "walltime": 1.5}, "cache": {}}
    new = counting.Counter()
    new.restore({"counts": {"steps": np.array(3), "walltime": np.float64(1.5)}, "cache": {}})
    assert new.get_counts() == state["counts"]
    assert [type(v) for v in new.get_counts().values()] == [int, float]


@pytest.mark.parametrize(
    "state, part",
    [
        ({}, "'counts' is not"),
        ({"counts": {}}, "'cache' is not"),
        ({"counts": {"steps": "3"}, "cache": {}}, "'counts' is not"),
        ({"counts": {"steps": [3]}, "cache": {}}, "'counts' is not"),
        (None, "'counts' is not"),
    ],
)
def test_bad_state_is_refused_and_changes_nothing(state, part):
    counter = counting.Counter()
    counter.increment(steps=1)
    with pytest.raises(ValueError, match=part):
        counter.restore(state)
    assert counter.get_counts() == {"steps": 1}
