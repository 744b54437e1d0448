"""Loggers: what arrives where, what is dropped unread, and what survives a kill."""

from __future__ import annotations

import csv
import errno
import os
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from tfagents_x.utils import loggers


def read_csv(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# --- conversion ---------------------------------------------------------------------------------


def test_values_become_numpy():
    got = loggers.to_numpy(
        {
            "tensor": tf.constant(1.5),
            "variable": tf.Variable([1, 2]),
            "python": 3,
            "text": "hi",
            "text_tensor": tf.constant("hé"),
            "half": tf.constant(0.5, tf.bfloat16),
            "none": None,
            "flag": True,
            "nested": {"a": {"b": np.float32(0.1)}},
        }
    )
    assert got["tensor"] == 1.5 and isinstance(got["tensor"], np.float32)
    assert got["variable"].tolist() == [1, 2]
    assert got["python"] == 3 and got["text"] == "hi" and got["text_tensor"] == "hé"
    assert got["half"] == 0.5 and got["half"].dtype == np.float32
    assert got["none"] is None and got["flag"]
    assert got["nested/a/b"] == np.float32(0.1)
    again = loggers.to_numpy(got)
    assert again.keys() == got.keys()
    assert all(np.array_equal(again[name], value) for name, value in got.items())


def test_graph_tensor_is_named():
    @tf.function
    def traced(x):
        with pytest.raises(TypeError, match=r"metric 'loss' is a tensor of a tf.function's graph"):
            loggers.to_numpy({"loss": x})
        return x

    traced(tf.constant(1.0))


def test_import_needs_no_tensorflow():
    code = (
        "import sys; sys.modules['tensorflow'] = None\n"
        "from tfagents_x.utils import loggers\n"
        "loggers.make_default_logger('x').write({'loss': 0.5})"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "[x] loss = 0.5\n"


# --- terminal, memory, nothing ------------------------------------------------------------------


def test_terminal_line():
    lines = []
    logger = loggers.TerminalLogger("learner", lines.append)
    logger.write({"steps": 1234567, "loss": np.float32(0.123456), "b": None, "a": "x\ny"})
    logger.write({"big": 123456.0, "nan": tf.constant(np.nan), "list": np.arange(3)})
    assert lines[0] == "[learner] a = x y | loss = 0.12346 | steps = 1234567"
    assert lines[1] == "[learner] big = 1.2346e+05 | list = [0 1 2] | nan = nan"
    loggers.TerminalLogger(print_fn=lines.append).write({"a": 1})
    assert lines[2] == "a = 1"


def test_in_memory():
    logger = loggers.InMemoryLogger()
    for step in range(4):
        logger.write({"steps": step, **({"loss": tf.constant(0.5)} if step else {})})
    assert logger.values("loss") == [0.5] * 3
    logger.truncate_after("steps", 1)
    assert logger.values("steps") == [0, 1]
    logger.truncate_after("steps", 1)
    logger.close()
    assert len(logger.data) == 2


def test_no_op():
    logger = loggers.NoOpLogger()
    logger.write({"a": object()})
    logger.truncate_after("a", 1)
    logger.close()


# --- filters and dispatch -----------------------------------------------------------------------


class Unreadable:
    """A value that must not be brought to the host."""

    def numpy(self):
        raise AssertionError("a dropped value was read")


def test_time_filter_drops_without_reading():
    now = [100.0]
    sink = loggers.InMemoryLogger()
    logger = loggers.TimeFilter(sink, 10.0, clock=lambda: now[0])
    logger.write({"a": 0})
    for now[0] in (100.0, 105.0, 109.9):
        logger.write({"a": Unreadable()})
    now[0] = 110.0
    logger.write({"a": 1})
    assert sink.values("a") == [0, 1]
    with pytest.raises(AssertionError, match="was read"):
        loggers.TimeFilter(sink, 0.0).write({"a": Unreadable()})


def test_time_filter_of_zero_lets_all_through():
    sink = loggers.InMemoryLogger()
    logger = loggers.TimeFilter(sink, 0.0)
    for step in range(5):
        logger.write({"steps": step})
    assert sink.values("steps") == list(range(5))
    with pytest.raises(ValueError, match="time_delta must be 0 or more"):
        loggers.TimeFilter(sink, -1.0)


def test_none_filter():
    sink = loggers.InMemoryLogger()
    loggers.NoneFilter(sink).write({"a": None, "b": 0, "c": False})
    assert sink.data == [{"b": 0, "c": False}]


class Failing(loggers.Logger):
    def write(self, data):
        raise OSError("no more room")

    def close(self):
        raise OSError("can't close")


class Closing(loggers.InMemoryLogger):
    closed = False

    def close(self):
        self.closed = True


def test_dispatcher_converts_once_and_reaches_all():
    class Once:
        reads = 0

        def numpy(self):
            self.reads += 1
            return np.float32(1)

    value, sinks = Once(), [loggers.InMemoryLogger(), loggers.InMemoryLogger()]
    logger = loggers.Dispatcher(sinks)
    logger.write({"a": value, "steps": 1})
    logger.write({"a": 2, "steps": 2})
    logger.truncate_after("steps", 1)
    assert value.reads == 1
    assert [sink.data for sink in sinks] == [[{"a": 1, "steps": 1}]] * 2


def test_dispatcher_closes_all_although_one_fails():
    last = Closing()
    with pytest.raises(OSError, match="can't close"):
        loggers.Dispatcher([Failing(), last]).close()
    assert last.closed


@pytest.mark.parametrize(
    "wrap",
    [loggers.NoneFilter, lambda to: loggers.TimeFilter(to, 0.0), loggers.AsyncLogger],
)
def test_wrappers_pass_on_truncate_and_close(wrap):
    sink = Closing()
    logger = wrap(sink)
    for step in range(3):
        logger.write({"steps": step})
    logger.truncate_after("steps", 0)
    logger.close()
    assert sink.values("steps") == [0] and sink.closed


# --- asynchronous -------------------------------------------------------------------------------


def test_async_keeps_order_and_writes_all_before_close_returns():
    class Slow(loggers.InMemoryLogger):
        def write(self, data):
            time.sleep(0.001)
            super().write(data)

    sink = Slow()
    logger = loggers.AsyncLogger(sink)
    row = {}
    for row["steps"] in range(30):  # The caller may reuse its dict.
        logger.write(row)
    logger.close()
    logger.close()
    assert sink.values("steps") == list(range(30))
    with pytest.raises(ValueError, match="closed"):
        logger.write({"steps": 0})


def test_async_raises_what_failed_in_the_thread():
    logger = loggers.AsyncLogger(Failing())
    logger.write({"a": 1})
    logger._queue.join()
    with pytest.raises(OSError, match="no more room"):
        logger.write({"a": 2})
    with pytest.raises(OSError, match="can't close"):
        logger.close()


# --- CSV ----------------------------------------------------------------------------------------


def test_csv_rows_are_on_disk_at_once_and_read_back_exactly(tmp_path):
    path = tmp_path / "deep" / "down" / "metrics.csv"
    logger = loggers.CSVLogger(path)
    logger.write({"steps": 1, "loss": tf.constant(0.1), "wide": np.float64(1) / 3, "t": 'a,"b"\nc'})
    logger.write({"steps": 2, "loss": np.float32(np.nan)})
    rows = read_csv(path)
    assert [row["steps"] for row in rows] == ["1", "2"]
    assert rows[0]["loss"] == "0.1" and rows[1]["loss"] == "nan"
    assert float(rows[0]["wide"]) == 1 / 3
    assert rows[0]["t"] == 'a,"b" c' and rows[1]["t"] == ""
    logger.close()
    logger.close()
    with pytest.raises(ValueError, match=r"metrics.csv' is closed"):
        logger.write({"steps": 3})


def test_csv_new_names_become_columns_and_no_row_is_lost(tmp_path):
    path = tmp_path / "metrics.csv"
    logger = loggers.CSVLogger(path)
    for row in ({"a": 1}, {"b": 2}, {"a": 3, "c": 4}, {}, {"a": 5}):
        logger.write(row)
    assert read_csv(path) == [
        {"a": "1", "b": "", "c": ""},
        {"a": "", "b": "2", "c": ""},
        {"a": "3", "b": "", "c": "4"},
        {"a": "5", "b": "", "c": ""},
    ]
    assert os.listdir(tmp_path) == ["metrics.csv"]


def test_csv_resume_appends_also_with_new_names(tmp_path):
    path = tmp_path / "metrics.csv"
    first = loggers.CSVLogger(path)
    first.write({"steps": 1, "loss": 0.5})
    first.close()
    second = loggers.CSVLogger(path)
    second.write({"loss": 0.25, "steps": 2})  # In another order.
    second.write({"steps": 3, "extra": 1})
    rows = read_csv(path)
    assert [row["steps"] for row in rows] == ["1", "2", "3"]
    assert [row["loss"] for row in rows] == ["0.5", "0.25", ""]


@pytest.mark.parametrize("torn", ["3,0.", "3,0.125", "3", '3,"unclosed', ""])
def test_csv_torn_last_row_is_dropped_on_resume(tmp_path, torn):
    path = tmp_path / "metrics.csv"
    path.write_text("steps,loss\n1,0.5\n2,0.25\n" + torn)
    logger = loggers.CSVLogger(path)
    logger.write({"steps": 4, "loss": 1.0})
    rows = read_csv(path)
    assert [row["steps"] for row in rows] == ["1", "2", "4"]
    assert rows[-1]["loss"] == "1.0"


def test_csv_torn_header_is_dropped(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("steps,lo")
    loggers.CSVLogger(path).write({"a": 1})
    assert read_csv(path) == [{"a": "1"}]


def test_csv_truncate_after_drops_the_newer_rows(tmp_path):
    path = tmp_path / "metrics.csv"
    logger = loggers.CSVLogger(path)
    logger.truncate_after("steps", 3)  # Nothing there: nothing to do.
    logger.write({"note": "before"})
    for step in (1, 2, 3, 4, 5):
        logger.write({"steps": step, "loss": 0.5})
    logger.write({"note": "newer, although it has no steps"})
    logger.truncate_after("steps", 3)
    logger.write({"steps": 4, "loss": 0.25})
    rows = read_csv(path)
    assert [row["steps"] for row in rows] == ["", "1", "2", "3", "4"]
    assert rows[-1]["loss"] == "0.25"


def test_csv_truncate_by_something_else_is_refused(tmp_path):
    path = tmp_path / "metrics.csv"
    logger = loggers.CSVLogger(path)
    logger.write({"steps": 1, "name": "x"})
    with pytest.raises(ValueError, match="no column 'step' to truncate at; it has: steps, name"):
        logger.truncate_after("step", 1)
    with pytest.raises(ValueError, match=r"'name' of the CSV log .* holds 'x', which is no number"):
        logger.truncate_after("name", 1)
    logger.write({"steps": 2})
    assert [row["steps"] for row in read_csv(path)] == ["1", "2"]


def test_csv_full_disk_while_running_names_the_file(tmp_path):
    resource = pytest.importorskip("resource")  # Windows has no limits to set.
    path = tmp_path / "metrics.csv"
    logger = loggers.CSVLogger(path)
    logger.write({"steps": 0, "text": "x"})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        with pytest.raises(OSError, match=r"Can't write the log '.*metrics.csv'"):
            logger.write({"steps": 1, "text": "y" * 1000})
        with pytest.raises(OSError, match=r"Can't write the log '.*metrics.csv'"):
            logger.write({"steps": 1, "new_column": "y" * 1000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert read_csv(path)[0] == {"steps": "0", "text": "x"}


# --- unwritable places --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda directory: loggers.CSVLogger(os.path.join(directory, "metrics.csv")),
        loggers.TensorBoardLogger,
        lambda directory: loggers.make_default_logger("x", directory=directory),
    ],
)
def test_unwritable_directory_is_an_error_at_construction(tmp_path, make, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    for bad in (tmp_path / "file", tmp_path / "file" / "sub"):
        with pytest.raises(ValueError, match=r"Can't write logs to the directory '.*file.*: "):
            make(os.fspath(bad))

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ValueError, match=r"No space left on device. Choose another directory"):
        make(os.fspath(tmp_path / "full"))
    assert os.listdir(tmp_path / "full") == []


def test_csv_in_place_of_something_else_is_refused(tmp_path):
    (tmp_path / "metrics.csv").mkdir()
    with pytest.raises(ValueError, match="is not a regular file"):
        loggers.CSVLogger(tmp_path / "metrics.csv")


# --- TensorBoard --------------------------------------------------------------------------------


def read_events(directory):
    """Returns (file, step, {tag: value} or session status) of all events in `directory`."""
    events = []
    for index, name in enumerate(sorted(os.listdir(directory))):
        assert name.startswith("events.out.tfevents.")
        for record in tf.data.TFRecordDataset(os.path.join(directory, name)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            if event.HasField("file_version"):
                assert event.file_version == "brain.Event:2"
            elif event.HasField("session_log"):
                events.append((index, event.step, event.session_log.status))
            else:
                values = {v.tag: v.simple_value for v in event.summary.value}
                events.append((index, event.step, values))
    return events


def test_tensorboard_scalars(tmp_path):
    logger = loggers.TensorBoardLogger(tmp_path, "learner")
    assert os.listdir(tmp_path) == []  # Nothing before the first write.
    logger.write({"steps": 7, "loss": tf.constant(0.5), "one": [2], "many": [1, 2], "text": "x"})
    assert read_events(tmp_path) == [(0, 7, {"learner/loss": 0.5, "learner/one": 2.0})]
    logger.write({"steps": 8, "loss": None, "flag": True})
    logger.close()
    logger.close()
    assert read_events(tmp_path)[1:] == [(0, 8, {"learner/flag": 1.0})]
    with pytest.raises(ValueError, match="is closed"):
        logger.write({"steps": 9})


def test_tensorboard_counts_writes_without_a_steps_key(tmp_path):
    logger = loggers.TensorBoardLogger(tmp_path, steps_key=None)
    logger.write({"a": 1})
    logger.write({"a": 2})
    assert read_events(tmp_path) == [(0, 0, {"a": 1.0}), (0, 1, {"a": 2.0})]


def test_tensorboard_missing_steps_are_explained(tmp_path):
    logger = loggers.TensorBoardLogger(tmp_path, steps_key="learner_steps")
    with pytest.raises(ValueError, match=r"lack 'learner_steps'.* they have: steps, loss"):
        logger.write({"steps": 1, "loss": 2})


def test_tensorboard_resume_tells_what_to_forget(tmp_path):
    first = loggers.TensorBoardLogger(tmp_path)
    for step in (1, 2, 3):
        first.write({"steps": step, "loss": step})
    first.close()
    second = loggers.TensorBoardLogger(tmp_path)
    with pytest.raises(ValueError, match="goes by 'steps' and can't be truncated by 'x'"):
        second.truncate_after("x", 2)
    second.truncate_after("steps", 2)
    second.write({"steps": 3, "loss": 30})
    start = tf.compat.v1.SessionLog.START
    assert read_events(tmp_path)[3:] == [(1, 3, start), (1, 3, start), (1, 3, {"loss": 30.0})]


def test_tensorboard_itself_shows_the_resumed_curve(tmp_path):
    # Newer TensorFlow comes without it; what it reads is tested above all the same.
    module = "tensorboard.backend.event_processing.plugin_event_accumulator"
    reader = pytest.importorskip(module)
    first = loggers.TensorBoardLogger(tmp_path)
    for step in (1, 2, 3, 4):
        first.write({"steps": step, "loss": step})
    first.close()
    for value in (10, 30):  # Resumed twice from the same checkpoint.
        resumed = loggers.TensorBoardLogger(tmp_path)
        resumed.truncate_after("steps", 2)
        resumed.write({"steps": 3, "loss": value})
    accumulator = reader.EventAccumulator(os.fspath(tmp_path)).Reload()
    points = [(e.step, tf.make_ndarray(e.tensor_proto)) for e in accumulator.Tensors("loss")]
    assert points == [(1, 1.0), (2, 2.0), (3, 30.0)]
    (metadata,) = (accumulator.SummaryMetadata(tag) for tag in accumulator.Tags()["tensors"])
    assert metadata.plugin_data.plugin_name == "scalars"


# --- the default logger -------------------------------------------------------------------------


def test_default_prints_and_limits_the_rate(capsys):
    logger = loggers.make_default_logger("learner", time_delta=1000.0)
    logger.write({"steps": 1, "b": None})
    logger.write({"steps": 2, "b": Unreadable()})
    assert capsys.readouterr().out == "[learner] steps = 1\n"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_default_writes_files_where_told(tmp_path, asynchronous):
    lines = []
    logger = loggers.make_default_logger(
        "learner", True, 0.0, asynchronous, lines.append, directory=tmp_path, use_tensorboard=True
    )
    for step in (1, 2, 3):
        logger.write({"steps": step, "loss": tf.constant(0.5)})
    logger.truncate_after("steps", 2)
    logger.close()
    assert len(lines) == 3
    assert [row["steps"] for row in read_csv(tmp_path / "learner.csv")] == ["1", "2"]
    assert read_events(tmp_path / "tensorboard" / "learner")[0] == (0, 1, {"learner/loss": 0.5})


def test_default_file_switches(tmp_path):
    loggers.make_default_logger("x", save_data=False, directory=tmp_path / "off")
    assert not (tmp_path / "off").exists()
    for arguments in ({"save_data": True}, {"use_tensorboard": True}):
        with pytest.raises(ValueError, match="needs a place for the files: pass directory="):
            loggers.make_default_logger("x", **arguments)
