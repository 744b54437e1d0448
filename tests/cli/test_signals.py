"""Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal
import threading

import pytest

from tfagents_x.cli import signals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_asks_to_stop_the_second_exits(number, code):
    stops, exits = [], []
    with signals.Stopper(exit_now=exits.append) as stopper:
        stopper.call(lambda: stops.append("stop"))
        assert stopper.exit_code == 0
        signal.raise_signal(number)
        assert (stops, exits) == (["stop"], [])
        assert stopper.received == number
        assert stopper.exit_code == code
        signal.raise_signal(number)
        assert (stops, exits) == (["stop"], [code])


def test_before_there_is_anything_to_save_the_first_signal_exits():
    exits = []
    with signals.Stopper(exit_now=exits.append):
        signal.raise_signal(signal.SIGINT)
    assert exits == [130]


def test_the_former_handlers_come_back():
    before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    with signals.Stopper(exit_now=print):
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == before


def test_outside_the_main_thread_nothing_is_installed():
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work():
        with signals.Stopper(exit_now=print):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
