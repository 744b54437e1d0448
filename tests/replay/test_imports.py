"""What replay imports, and what it says where Reverb is missing or broken."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time

import pytest

from tests.replay import worlds
from tfagents_x.replay import factory, tables


def run(code, timeout=60):
    """Runs `code` in a fresh Python; returns its output."""
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_in_process_replay_needs_neither_tensorflow_nor_reverb():
    code = """
    import sys
    from tests.replay import worlds
    from tfagents_x import replay
    store = replay.make_replay([replay.queue("q", 2)], worlds.sequences(1), backend="in_process")
    worlds.put(store, "q", [1])
    store.sample("q", 1)
    print(sorted({"tensorflow", "reverb", "gymnasium", "matplotlib"} & set(sys.modules)))
    """
    assert run(code).strip() == "[]"


# A `reverb` that fails to import like a missing one, or like one beside a newer TensorFlow.
BREAK = """
import importlib.abc, sys

class Broken(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "reverb":
            raise {error}

sys.meta_path.insert(0, Broken())
from tests.replay import worlds
from tfagents_x import replay
assert not replay.reverb_available()
store = replay.make_replay([replay.queue("q", 2)], worlds.sequences(1))
print(type(store).__name__)
try:
    replay.make_replay([replay.queue("q", 2)], worlds.sequences(1), backend="reverb")
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    "error, expected",
    [
        (
            "ModuleNotFoundError(\"No module named 'reverb'\")",
            ["Reverb cannot be imported (No module named 'reverb')"],
        ),
        (
            'ImportError("libreverb.so: undefined symbol: _ZN10tensorflow")',
            ["beside a TensorFlow it was not built for", "needs TensorFlow 2.15"],
        ),
    ],
)
def test_without_reverb_auto_falls_back_and_asking_says_what_to_install(error, expected):
    output = run(BREAK.format(error=error))
    assert output.startswith("InProcessReplay\n")
    for words in (
        *expected,
        "pip install 'tfagents_x[reverb]'",
        "Linux x86-64, Python 3.9 to 3.11",
        "backend='in_process'",
    ):
        assert words in output


def test_unknown_backend():
    with pytest.raises(ValueError, match="backend is 'redis', must be one of auto, reverb"):
        factory.make_replay([tables.queue("q", 2)], worlds.sequences(1), backend="redis")


def test_a_process_ends_while_a_dataset_waits(backend):
    code = f"""
    import threading, time
    from tests.replay import worlds
    from tfagents_x import replay
    store = replay.make_replay([replay.queue("q", 4)], worlds.sequences(1), backend={backend!r})
    worlds.put(store, "q", [1, 2])
    iterator = iter(store.dataset("q", 2, prefetch=2))
    print(worlds.first_values(__import__("tree").map_structure(
        lambda x: x.numpy(), next(iterator).data)))
    time.sleep(0.2)  # The dataset's own thread waits for more by now.
    """
    assert run(code).strip().splitlines()[-1] == "[1, 2]"


def test_an_iterator_can_be_dropped_while_it_waits(make):
    replay = make(tables.queue("q", 4), signature=worlds.sequences(1))
    worlds.put(replay, "q", [1, 2])
    dropped = threading.Event()

    def look_at_one_batch():
        for _ in replay.dataset("q", 2):
            time.sleep(0.1)  # Its own thread waits for the next one by now.
            break
        dropped.set()

    threading.Thread(target=look_at_one_batch, daemon=True).start()
    assert dropped.wait(20)


def test_reverb_keeps_quiet_but_passes_on_what_others_say(backend):
    code = f"""
    import os
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    from tests.replay import worlds
    from tfagents_x import replay
    store = replay.make_replay([replay.queue("q", 4)], worlds.sequences(1), backend={backend!r})
    worlds.put(store, "q", [1])
    store.sample("q", 1)
    os.write(2, b"mine\\n")
    if {backend!r} == "reverb":
        from tfagents_x.replay import reverb_logs
        with reverb_logs.quiet():
            os.write(2, b"[reverb/cc/x.cc:1] chatter\\nother\\n[reverb/cc/x.cc:2] load failed\\n")
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = result.stderr.splitlines()
    assert "mine" in lines
    assert [line for line in lines if line.startswith("[reverb/")] == (
        ["[reverb/cc/x.cc:2] load failed"] if backend == "reverb" else []
    )
    assert backend == "in_process" or "other" in lines
