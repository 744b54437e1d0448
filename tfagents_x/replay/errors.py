"""What a store raises instead of waiting for ever."""

from __future__ import annotations


class ReplayTimeout(RuntimeError):
    """A wait on a table's limiter ran out of time. The message says what limits it."""


class ReplayStarved(ReplayTimeout):
    """Not enough could be sampled within the timeout."""


class ReplayFull(ReplayTimeout):
    """An item could not be inserted within the timeout. It stays pending in its writer."""


class ReplayClosed(RuntimeError):
    """The store was closed, before or during the call."""
