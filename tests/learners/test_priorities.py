"""Priorities on their way: order, duplicates, failures, a full queue, the end of the process."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from tests.replay import worlds
from tfagents_x import replay
from tfagents_x.learners.priorities import TABLE, PriorityUpdater

BIG = 2**63 + 1  # No float64 holds it, nor does an int64.


class Client:
    """As `reverb.Client`; keeps what it got, and waits while told to."""

    def __init__(self):
        self.calls = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.error = None
        self.thread = None

    def mutate_priorities(self, table, updates):
        self.thread = threading.current_thread()
        self.go_on.wait(30.0)
        if self.error:
            raise self.error
        self.calls.append((table, updates))


def put(updater, *numbers):
    for n in numbers:
        updater.put([np.array([n], np.uint64)], [np.array([float(n)], np.float32)])


def warnings(caplog):
    return [r for r in caplog.records if r.levelno == logging.WARNING]


def test_updates_arrive_in_order_from_one_other_thread():
    client = Client()
    updater = PriorityUpdater(client)
    put(updater, *range(200))  # More than may wait.
    assert updater.flush(10.0) and updater.num_failed == 0
    assert client.calls == [(TABLE, {n: float(n)}) for n in range(200)]
    assert client.thread is not threading.current_thread()


def test_replicas_are_joined_and_the_last_of_a_key_counts():
    client = Client()
    updater = PriorityUpdater(client, table="other")
    keys = [tf.constant([BIG, 7], tf.uint64), np.array([BIG, 8], np.uint64)]
    updater.put(keys, [tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])])
    assert updater.flush(10.0)
    ((table, updates),) = client.calls
    assert table == "other" and updates == {BIG: 3.0, 7: 2.0, 8: 4.0}
    assert all(type(key) is int for key in updates)
    assert all(type(value) is float for value in updates.values())


def test_put_does_not_wait_for_the_client():
    client = Client()
    client.go_on.clear()
    updater = PriorityUpdater(client)
    start = time.monotonic()
    put(updater, 1, 2, 3)
    assert time.monotonic() - start < 1.0
    assert not updater.flush(0.05) and client.calls == []
    client.go_on.set()
    assert updater.flush(10.0) and len(client.calls) == 3


def test_a_full_queue_makes_training_wait_but_loses_nothing():
    client = Client()
    client.go_on.clear()
    updater = PriorityUpdater(client, max_pending=2, patience=30.0)
    put(updater, 1, 2)
    threading.Timer(0.2, client.go_on.set).start()
    start = time.monotonic()
    put(updater, 3)
    assert time.monotonic() - start > 0.1
    assert updater.flush(10.0) and [list(u) for _, u in client.calls] == [[1], [2], [3]]
    assert updater.num_failed == 0


def test_a_client_that_hangs_stops_training_only_once(caplog):
    client = Client()
    client.go_on.clear()
    updater = PriorityUpdater(client, max_pending=2, patience=0.2)
    start = time.monotonic()
    put(updater, *range(1, 30))
    assert 0.2 <= time.monotonic() - start < 2.0
    assert updater.num_failed == 27
    (warning,) = warnings(caplog)
    assert "has taken none of 2 in 0.2 seconds" in warning.getMessage()
    client.go_on.set()
    assert updater.flush(10.0)
    put(updater, 40)
    assert updater.flush(10.0) and [list(u) for _, u in client.calls] == [[1], [2], [40]]


def test_failures_are_reported_once_counted_and_survived(caplog):
    client = Client()
    client.error = RuntimeError("Socket closed")
    updater = PriorityUpdater(client)
    put(updater, 1, 2, 3)
    assert updater.flush(10.0) and updater.num_failed == 3
    (warning,) = warnings(caplog)
    assert "did not reach replay (RuntimeError: Socket closed)" in warning.getMessage()
    client.error = None
    put(updater, 4)
    assert updater.flush(10.0) and updater.num_failed == 3
    assert client.calls == [(TABLE, {4: 4.0})]


def test_close():
    client = Client()
    updater = PriorityUpdater(client)
    put(updater, 1, 2)
    assert updater.close(10.0) and len(client.calls) == 2
    client.thread.join(10.0)
    assert not client.thread.is_alive()
    assert updater.close() and updater.flush()
    with pytest.raises(ValueError, match="was closed"):
        put(updater, 3)


def test_the_thread_ends_with_its_owner_after_sending():
    client = Client()
    client.go_on.clear()
    updater = PriorityUpdater(client)
    put(updater, 1, 2)
    del updater
    gc.collect()
    client.go_on.set()
    deadline = time.monotonic() + 10.0
    while client.thread is None and time.monotonic() < deadline:
        time.sleep(0.01)
    client.thread.join(10.0)
    assert not client.thread.is_alive() and len(client.calls) == 2


def test_wrong_arguments_are_explained():
    with pytest.raises(TypeError, match="reverb_client must be a reverb.Client.*got 3"):
        PriorityUpdater(3)
    with pytest.raises(ValueError, match="max_pending must be at least 1"):
        PriorityUpdater(Client(), max_pending=0)
    with pytest.raises(ValueError, match="patience must be between"):
        PriorityUpdater(Client(), patience=-1.0)
    with pytest.raises(ValueError, match="2 keys, but 1 priorities"):
        PriorityUpdater(Client()).put([np.array([1, 2])], [np.array([1.0])])


BACKENDS = ["in_process"] + (["reverb"] if replay.reverb_available() else [])
CLIENTS = [(backend, "store") for backend in BACKENDS]
CLIENTS += [("reverb", kind) for kind in ("Client", "TFClient") if "reverb" in BACKENDS]


@pytest.fixture(params=CLIENTS, ids="-".join)
def store_and_client(request):
    """A store with three sequences, and each of the objects that take priorities for it."""
    backend, kind = request.param
    with replay.make_replay([replay.prioritized()], worlds.sequences(), backend) as store:
        worlds.put(store, TABLE, [1, 2, 3])
        if kind == "store":
            yield store, store
        else:
            import reverb

            yield store, getattr(reverb, kind)(store.address)


def priorities_of(store, count=200):
    info = store.sample(TABLE, count, timeout=10.0).info
    return dict(zip(info.key.tolist(), info.priority.tolist()))


def test_stores_and_clients_take_them(store_and_client):
    store, client = store_and_client
    first, *others = priorities_of(store)
    assert len(others) == 2
    updater = PriorityUpdater(client)
    keys = np.array([first, first, 12345], np.uint64)  # Twice; and one that nobody has.
    updater.put([keys], [tf.constant([7.0, 5.0, 1.0])])
    assert updater.flush(10.0) and updater.num_failed == 0
    assert priorities_of(store) == {first: 5.0, **dict.fromkeys(others, 1.0)}


def test_a_store_that_was_closed_is_a_failure(caplog):
    with replay.make_replay([replay.prioritized()], worlds.sequences(), "in_process") as store:
        updater = PriorityUpdater(store)
    put(updater, 1)
    assert updater.flush(10.0) and updater.num_failed == 1
    assert "ReplayClosed" in warnings(caplog)[0].getMessage()


if "reverb" in BACKENDS:

    def test_a_reverb_server_that_is_gone_is_a_failure(caplog):
        import reverb

        store = replay.make_replay([replay.prioritized()], worlds.sequences(), "reverb")
        updater = PriorityUpdater(reverb.Client(store.address))
        put(updater, 1)
        assert updater.flush(10.0) and updater.num_failed == 0
        store.close()
        put(updater, 2)
        assert updater.flush(30.0) and updater.num_failed == 1
        assert len(warnings(caplog)) == 1


_EXIT = """
    import time

    from tfagents_x.learners.priorities import TABLE, PriorityUpdater  # Before the store's module.
    import numpy as np

    from tests.replay import worlds
    from tfagents_x import replay

    store = replay.make_replay([replay.prioritized()], worlds.sequences(), "in_process")
    worlds.put(store, TABLE, [1, 2, 3])
    update = store.update_priorities

    def slow(table, keys, priorities):
        time.sleep(0.1)
        update(table, keys, priorities)  # Raises if the store is closed by now.
        print("updated", keys[0], flush=True)

    store.update_priorities = slow
    updater = PriorityUpdater(store)
    for n in range(10):
        updater.put([np.array([n])], [np.array([1.0])])
    print("end", flush=True)
"""


def run_python(code):
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def test_nothing_is_lost_at_exit():
    result = run_python(_EXIT)
    lines = [line for line in result.stdout.splitlines() if line.startswith(("updated", "end"))]
    assert lines.index("end") < 5  # Most were pending then.
    assert [line for line in lines if line != "end"] == [f"updated {n}" for n in range(10)]
    assert "did not reach" not in result.stderr


_HANGS = """
    import threading

    import numpy as np

    from tfagents_x.learners import priorities

    class Hangs:
        def update_priorities(self, table, keys, numbers):
            threading.Event().wait()

    priorities._SECONDS_AT_EXIT = 0.2
    updater = priorities.PriorityUpdater(Hangs())
    updater.put([np.array([1])], [np.array([1.0])])
"""


def test_a_client_that_hangs_does_not_keep_the_process():
    run_python(_HANGS)
