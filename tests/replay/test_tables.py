from __future__ import annotations

import pytest

from tfagents_x.replay import limits, tables


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"name": ""}, "needs a name"),
        ({"max_size": 0}, "max_size is 0, must be >= 1"),
        ({"selector": "newest"}, "must be one of fifo, uniform, prioritized"),
        ({"min_size": 0}, "between 1 and max_size"),
        ({"min_size": 11}, "between 1 and max_size"),
        ({"max_times_sampled": -1}, "max_times_sampled is -1"),
        ({"priority_exponent": -0.5}, "priority_exponent is -0.5"),
        ({"priority_exponent": float("nan")}, "priority_exponent is nan"),
        ({"samples_per_insert": 0.0, "error_buffer": 1.0}, "must be > 0"),
        ({"samples_per_insert": 1.0}, "needs an error_buffer"),
        ({"error_buffer": 1.0}, "needs samples_per_insert"),
        ({"samples_per_insert": 4.0, "error_buffer": 1.0}, "too narrow"),
        ({"samples_per_insert": 1.0, "error_buffer": (5.0, 9.0)}, "lower error bound 5 is above"),
    ],
)
def test_refuses_a_table_that_cannot_work(settings, message):
    with pytest.raises(ValueError, match=message):
        tables.Table(**{"name": "t", "max_size": 10, **settings})


def test_names_must_differ():
    with pytest.raises(ValueError, match="two tables are named a"):
        tables.check_names([tables.uniform("a"), tables.queue("a", 3)])
    with pytest.raises(ValueError, match="at least one table"):
        tables.check_names([])


def test_default_error_buffer_is_acmes():
    assert tables.uniform(min_size=1000, samples_per_insert=8.0).error_buffer == 0.1 * 8 * 1000
    assert tables.uniform(min_size=1, samples_per_insert=8.0).error_buffer == 16.0
    assert tables.uniform(min_size=1, samples_per_insert=0.25).error_buffer == 2.0
    assert tables.uniform().error_buffer is None


@pytest.mark.parametrize(
    "table, batch_size, message",
    [
        (tables.queue("q", 4), 5, "Make max_size at least 5"),
        (tables.uniform("u", 10, min_size=4, max_times_sampled=1), 8, "at most 7 can be drawn"),
        (tables.uniform("u", 10, samples_per_insert=1.0), 4, "Make error_buffer at least 2.5"),
        (tables.uniform("u", 10), 0, "batch_size is 0"),
    ],
)
def test_a_batch_that_would_wait_for_ever_is_refused(table, batch_size, message):
    with pytest.raises(ValueError, match=message):
        tables.check_feasible(table, batch_size)


@pytest.mark.parametrize(
    "table, batch_size",
    [
        (tables.queue("q", 4), 4),
        (tables.queue("q", 1), 1),
        (tables.uniform("u", 10, min_size=4, max_times_sampled=1), 7),
        (tables.uniform("u", 10, samples_per_insert=1.0, error_buffer=2.5), 4),
        (tables.uniform("u", 3), 1000),
    ],
)
def test_a_feasible_batch_is_reached_by_inserting_until_blocked(table, batch_size):
    tables.check_feasible(table, batch_size)
    counts = limits.Counts(0, 0, 0)
    while not limits.can_sample(table, counts, batch_size):
        assert limits.can_insert(table, counts, 1), limits.why_no_insert(table, counts)
        size = min(table.max_size, counts.size + 1)
        counts = limits.Counts(size, counts.inserts + 1, counts.samples)


def test_infeasible_by_the_limiter_really_blocks():
    table = tables.uniform("u", 10, samples_per_insert=1.0, error_buffer=(-1.0, 1.0))
    with pytest.raises(ValueError, match="would wait for ever"):
        tables.check_feasible(table, 3)
    counts = limits.Counts(1, 1, 0)
    assert not limits.can_insert(table, counts, 1)
    assert not limits.can_sample(table, counts, 3)


@pytest.mark.parametrize(
    "table, counts, num, message",
    [
        (tables.queue("q", 9), (2, 5, 3), 4, "holds 2 item.*, 4 wanted: .*2 more must be inserted"),
        (tables.uniform("u", 9, min_size=7), (2, 2, 0), 1, "starts at min_size=7, 5 more"),
        (
            tables.uniform("u", 99, samples_per_insert=0.5, error_buffer=(0.0, 50.0)),
            (10, 10, 3),
            4,
            "wants 4 more insert.* first .10 inserts, 3 draws so far",
        ),
        (tables.uniform("u", 9, 2, max_times_sampled=3), (3, 3, 0), 4, "3 time.* 2 more must"),
    ],
)
def test_says_what_keeps_a_batch_back(table, counts, num, message):
    counts = limits.Counts(*counts)
    assert not limits.can_sample(table, counts, num)
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(limits.why_no_sample(table, counts, num))


@pytest.mark.parametrize(
    "table, counts, message",
    [
        (tables.queue("q", 4), (4, 6, 2), "the queue is full .max_size=4."),
        (
            tables.uniform("u", 99, samples_per_insert=2.0, error_buffer=(0.0, 10.0)),
            (6, 6, 3),
            "wants 1 more draw.* first .6 inserts, 3 draws so far",
        ),
    ],
)
def test_says_what_keeps_an_insert_back(table, counts, message):
    counts = limits.Counts(*counts)
    assert not limits.can_insert(table, counts, 1)
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(limits.why_no_insert(table, counts))
