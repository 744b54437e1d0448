"""The stores that the contract is tested on."""

from __future__ import annotations

import pytest

from tfagents_x.replay import factory

# Where Reverb has no build, its tests are not collected, rather than skipped one by one.
collect_ignore = [] if factory.reverb_available() else ["test_reverb.py"]
BACKENDS = ["in_process"] + (["reverb"] if factory.reverb_available() else [])


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


@pytest.fixture
def make(backend):
    """`make(*tables, signature=..., **kwargs)`, on each store; closes what it made."""
    made = []

    def make_replay(*tables, signature, **kwargs):
        made.append(factory.make_replay(tables, signature, backend=backend, **kwargs))
        return made[-1]

    yield make_replay
    for replay in made:
        replay.close()
