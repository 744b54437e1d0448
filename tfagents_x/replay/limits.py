"""The limiter's arithmetic: may this insert or this sample happen now, and if not, why not.

Both stores answer through these functions, so they agree; the inequalities are
those of Reverb's `RateLimiter`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tfagents_x.replay import tables


class Counts(NamedTuple):
    """What the limiter knows of a table.

    Attributes:
      size: items it holds now.
      inserts: items ever inserted.
      samples: draws ever made.
    """

    size: int
    inserts: int
    samples: int


def can_sample(table: tables.Table, counts: Counts, num_items: int) -> bool:
    """Whether `num_items` draws in a row are allowed.

    Where items leave after `max_times_sampled` draws, every draw is taken to
    remove one: the answer never promises more than is there.
    """
    if counts.size < table.min_size:
        return False
    if table.max_times_sampled and counts.size - num_items + 1 < table.min_size:
        return False
    return _error(table, counts) - num_items >= table.error_range[0]


def can_insert(table: tables.Table, counts: Counts, num_items: int) -> bool:
    """Whether `num_items` inserts in a row are allowed."""
    if counts.size + num_items <= table.min_size:
        return True
    rate = table.samples_per_insert or 1.0
    return _error(table, counts) + rate * num_items <= table.error_range[1]


def _error(table: tables.Table, counts: Counts) -> float:
    return (table.samples_per_insert or 1.0) * counts.inserts - counts.samples


def why_no_sample(table: tables.Table, counts: Counts, num_items: int) -> str:
    """Says what keeps `num_items` from being sampled, and how much is missing."""
    start = f"table {table.name!r} holds {counts.size} item(s), {num_items} wanted: "
    draws = f"each item is given out {table.max_times_sampled} time(s) only, "
    if table.is_queue:
        return start + draws + f"{num_items - counts.size} more must be inserted"
    missing = table.min_size - counts.size
    if missing > 0:
        return start + (
            f"sampling starts at min_size={table.min_size}, {missing} more must be inserted"
        )
    if table.max_times_sampled and missing + num_items - 1 > 0:
        return start + draws + f"{missing + num_items - 1} more must be inserted"
    rate = table.samples_per_insert or 1.0
    lacking = math.ceil((table.error_range[0] + num_items - _error(table, counts)) / rate)
    return start + (
        f"samples_per_insert={rate:g} with error_buffer={table.error_buffer} wants "
        f"{lacking} more insert(s) first ({counts.inserts} inserts, {counts.samples} draws so far)"
    )


def why_no_insert(table: tables.Table, counts: Counts) -> str:
    """Says what keeps one more item from being inserted."""
    start = f"table {table.name!r} holds {counts.size} item(s) and takes no more: "
    if table.is_queue:
        return start + f"the queue is full (max_size={table.max_size}); something must sample it"
    rate = table.samples_per_insert or 1.0
    lacking = math.ceil(_error(table, counts) + rate - table.error_range[1])
    return start + (
        f"samples_per_insert={rate:g} with error_buffer={table.error_buffer} wants "
        f"{lacking} more draw(s) first ({counts.inserts} inserts, {counts.samples} draws so far)"
    )
