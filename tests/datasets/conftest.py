"""What all tests of datasets share."""

from __future__ import annotations

import faulthandler
import sys

import pytest


@pytest.fixture
def ends():
    """Ends the process, and says where it was, if a test runs on for minutes.

    Reading a foreign folder once went on without end inside tf.data, where nothing in Python
    interrupts it.
    """
    faulthandler.dump_traceback_later(150, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()
