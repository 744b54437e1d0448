"""What a table is: how many items it holds, which it gives out, and when it makes callers wait.

Pure configuration, the same for every store. A table's limiter has the semantics
of Reverb's `RateLimiter`: with `error = inserts * samples_per_insert - samples`,
an insert may not lift `error` above `max_error`, and a sample may not push it
below `min_error` nor happen before the table holds `min_size` items.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable
from typing import Optional, Union

DEFAULT_TABLE = "priority_table"  # Acme's `DEFAULT_PRIORITY_TABLE`.

SELECTORS = ("fifo", "uniform", "prioritized")

ErrorBuffer = Union[None, float, tuple[float, float]]


@dataclasses.dataclass(frozen=True)
class Table:
    """Configuration of one table. Usually made by `queue`, `uniform` or `prioritized`.

    Attributes:
      name: what writers and samplers call the table.
      max_size: most items it holds; when full, the oldest leaves.
      selector: which item is sampled: 'fifo' (the oldest), 'uniform' or
        'prioritized' (probability proportional to `priority ** priority_exponent`).
      max_times_sampled: draws after which an item leaves; 0 means no limit.
      min_size: items the table must hold before anything can be sampled.
      samples_per_insert: draws per inserted item that the limiter keeps to; None
        for no such limit.
      error_buffer: how far `error` (see the module) may stray: a number `e` means
        `min_size * samples_per_insert -+ e`, a pair is `(min_error, max_error)`.
      priority_exponent: of 'prioritized' only.

    Raises:
      ValueError: a number that no table can have.
    """

    name: str
    max_size: int
    selector: str = "uniform"
    max_times_sampled: int = 0
    min_size: int = 1
    samples_per_insert: Optional[float] = None
    error_buffer: ErrorBuffer = None
    priority_exponent: float = 1.0

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a table needs a name that is not empty")
        if self.selector not in SELECTORS:
            raise ValueError(
                f"table {self.name!r}: selector is {self.selector!r}, "
                f"must be one of {', '.join(SELECTORS)}"
            )
        self._check_sizes()
        self._check_limits()

    def _check_sizes(self) -> None:
        if self.max_size < 1:
            raise ValueError(f"table {self.name!r}: max_size is {self.max_size}, must be >= 1")
        if not 1 <= self.min_size <= self.max_size:
            raise ValueError(
                f"table {self.name!r}: min_size is {self.min_size}, must lie between 1 and "
                f"max_size ({self.max_size}), or sampling would wait for ever"
            )
        if self.max_times_sampled < 0:
            raise ValueError(
                f"table {self.name!r}: max_times_sampled is {self.max_times_sampled}, "
                "must be >= 0 (0 means no limit)"
            )

    def _check_limits(self) -> None:
        if not self.priority_exponent >= 0:
            raise ValueError(
                f"table {self.name!r}: priority_exponent is {self.priority_exponent}, must be >= 0"
            )
        if self.samples_per_insert is None:
            if self.error_buffer is not None:
                raise ValueError(
                    f"table {self.name!r}: error_buffer needs samples_per_insert, which is None"
                )
            return
        if not self.samples_per_insert > 0:
            raise ValueError(
                f"table {self.name!r}: samples_per_insert is {self.samples_per_insert}, "
                "must be > 0, or None for no limit"
            )
        if self.error_buffer is None:
            raise ValueError(
                f"table {self.name!r}: samples_per_insert needs an error_buffer; "
                "uniform() and prioritized() choose one"
            )
        self._check_error_range()

    def _check_error_range(self) -> None:
        low, high = self.error_range
        rate = self.samples_per_insert or 0.0
        if high - low < max(1.0, rate):
            raise ValueError(
                f"table {self.name!r}: error_buffer {self.error_buffer} leaves a range of "
                f"{high - low:g}, too narrow for samples_per_insert={rate:g}: "
                "it would block inserts and samples for ever"
            )
        if low > self.min_size * rate:
            raise ValueError(
                f"table {self.name!r}: the lower error bound {low:g} is above min_size * "
                f"samples_per_insert = {self.min_size * rate:g}: sampling would wait for ever"
            )

    @functools.cached_property
    def is_queue(self) -> bool:
        """Whether this is what `queue` makes."""
        once = self.selector == "fifo" and self.max_times_sampled == 1
        return once and self.error_buffer == (0.0, float(self.max_size))

    @functools.cached_property
    def error_range(self) -> tuple[float, float]:
        """`(min_error, max_error)`, infinite without `samples_per_insert`."""
        if self.samples_per_insert is None:
            return -math.inf, math.inf
        if isinstance(self.error_buffer, (int, float)):
            center = self.samples_per_insert * self.min_size
            return center - self.error_buffer, center + self.error_buffer
        assert self.error_buffer is not None  # __post_init__ has seen to that.
        return self.error_buffer


def queue(name: str = DEFAULT_TABLE, max_size: int = 1000) -> Table:
    """A first-in first-out queue: each item is sampled once, a full queue makes writers wait.

    Same limits as `reverb.Table.queue`.
    """
    return Table(
        name=name,
        max_size=max_size,
        selector="fifo",
        max_times_sampled=1,
        samples_per_insert=1.0,
        error_buffer=(0.0, float(max_size)),
    )


def uniform(
    name: str = DEFAULT_TABLE,
    max_size: int = 1_000_000,
    min_size: int = 1,
    samples_per_insert: Optional[float] = None,
    error_buffer: ErrorBuffer = None,
    tolerance: float = 0.1,
    max_times_sampled: int = 0,
) -> Table:
    """A replay buffer that gives every item the same chance.

    Args:
      name: of the table.
      max_size: most items it holds.
      min_size: items it must hold before sampling starts.
      samples_per_insert: draws per inserted item, None for no limit.
      error_buffer: see `Table`. By default as in Acme's builders:
        `tolerance * samples_per_insert * min_size`, at least `2 * samples_per_insert`
        (and at least 2, which the limiter needs to make progress).
      tolerance: relative slack of the default `error_buffer`.
      max_times_sampled: draws after which an item leaves, 0 for no limit.
    """
    return Table(
        name=name,
        max_size=max_size,
        selector="uniform",
        max_times_sampled=max_times_sampled,
        min_size=min_size,
        samples_per_insert=samples_per_insert,
        error_buffer=_error_buffer(samples_per_insert, min_size, error_buffer, tolerance),
    )


def prioritized(
    name: str = DEFAULT_TABLE,
    max_size: int = 1_000_000,
    min_size: int = 1,
    samples_per_insert: Optional[float] = None,
    error_buffer: ErrorBuffer = None,
    tolerance: float = 0.1,
    max_times_sampled: int = 0,
    priority_exponent: float = 0.6,
) -> Table:
    """A replay buffer that draws items in proportion to `priority ** priority_exponent`.

    The arguments are those of `uniform`. An item of priority 0 is not drawn unless
    all are 0; then all have the same chance (Schaul et al. 2016, as in Reverb).
    """
    return Table(
        name=name,
        max_size=max_size,
        selector="prioritized",
        max_times_sampled=max_times_sampled,
        min_size=min_size,
        samples_per_insert=samples_per_insert,
        error_buffer=_error_buffer(samples_per_insert, min_size, error_buffer, tolerance),
        priority_exponent=priority_exponent,
    )


def _error_buffer(
    samples_per_insert: Optional[float],
    min_size: int,
    error_buffer: ErrorBuffer,
    tolerance: float,
) -> ErrorBuffer:
    if samples_per_insert is None or error_buffer is not None:
        return error_buffer
    return max(tolerance * samples_per_insert * min_size, 2.0 * max(1.0, samples_per_insert))


def check_names(tables: Iterable[Table]) -> None:
    """Raises ValueError for no tables, or two of one name."""
    names = [table.name for table in tables]
    if not names:
        raise ValueError("a replay needs at least one table")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"two tables are named {', '.join(repeated)}; names must differ")


def check_feasible(table: Table, batch_size: int) -> None:
    """Raises ValueError if no state of `table` could ever give `batch_size` items at once."""
    if batch_size < 1:
        raise ValueError(f"table {table.name!r}: batch_size is {batch_size}, must be >= 1")
    room = table.max_size - table.min_size + 1
    if table.max_times_sampled and batch_size > room:
        raise ValueError(
            f"table {table.name!r}: a batch of {batch_size} would wait for ever: items leave "
            f"after {table.max_times_sampled} draw(s), and with max_size={table.max_size}, "
            f"min_size={table.min_size} at most {room} can be drawn in a row. "
            f"Make max_size at least {batch_size + table.min_size - 1}."
        )
    _check_error_room(table, batch_size)


def _check_error_room(table: Table, batch_size: int) -> None:
    if table.samples_per_insert is None or table.is_queue:
        return
    # Inserts stop once one more would lift the error above `high`, so all that a
    # sampler can count on is an error of `high - samples_per_insert`.
    low, high = table.error_range
    step = table.samples_per_insert
    reachable = max(high - step, step * table.min_size)
    if reachable - low < batch_size:
        raise ValueError(
            f"table {table.name!r}: a batch of {batch_size} would wait for ever: with "
            f"samples_per_insert={step:g} and error_buffer={table.error_buffer} inserts stop "
            f"before so many draws are allowed. Make error_buffer at least "
            f"{(batch_size + step) / 2:g}."
        )
