"""Metrics as TensorBoard events."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

import numpy as np

from tfagents_x.utils.loggers import base, files


class TensorBoardLogger(base.Logger):
    """Writes numbers as scalar events to a file of its own in `logdir`.

    The file is made, and TensorFlow imported, at the first write. The `tensorboard` package is
    not needed to write, only to look. Texts and arrays of more than one element are left out.
    """

    def __init__(
        self,
        logdir: str | os.PathLike,
        label: str = "",
        steps_key: str | None = "steps",
    ):
        """Prepares `logdir`.

        Args:
          logdir: directory for the events; made if need be.
          label: put before each name with a `/`, if not empty.
          steps_key: name of the metric that is the step of the others; with None, the writes
            are counted.

        Raises:
          ValueError: `logdir` can't be written.
        """
        self._logdir = os.fspath(logdir)
        files.prepare_directory(self._logdir)
        self._label = label
        self._steps_key = steps_key
        self._num_writes = 0
        self._writer: Any = None
        self._path = self._logdir
        self._closed = False

    def write(self, data: base.LoggingData) -> None:
        """Writes one event that holds all numbers of `data`.

        Raises:
          ValueError: `data` lacks the steps key, or the logger is closed.
          OSError: the event can't be written; the message names the file.
        """
        values = base.to_numpy(data)
        step = self._step(values)
        import tensorflow as tf

        summary = tf.compat.v1.Summary()
        for name, value in values.items():
            number = _to_number(value)
            if name != self._steps_key and number is not None:
                tag = f"{self._label}/{name}" if self._label else name
                summary.value.add(tag=tag, simple_value=number)
        self._add(tf.compat.v1.Event(step=step, summary=summary))
        self._num_writes += 1

    def truncate_after(self, key: str, value: base.Number) -> None:
        """Tells TensorBoard to drop all points after step `value` that `logdir` holds so far.

        That goes for the points of other loggers too: those that count other steps need a
        `logdir` of their own.

        Raises:
          ValueError: `key` is not this logger's steps key.
        """
        if key != self._steps_key:
            raise ValueError(
                f"The TensorBoard log {self._logdir!r} goes by {self._steps_key!r} and can't be "
                f"truncated by {key!r}."
            )
        import tensorflow as tf

        # A session that starts at step s makes TensorBoard forget all points from s on; but the
        # first start it reads is nothing to it, so there are two.
        log = tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.START)
        for _ in range(2):
            self._add(tf.compat.v1.Event(step=int(value) + 1, session_log=log))

    def close(self) -> None:
        """Closes the file."""
        self._closed = True
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _step(self, values: dict) -> int:
        if self._steps_key is None:
            return self._num_writes
        if self._steps_key not in values:
            raise ValueError(
                f"The metrics lack {self._steps_key!r}, the step of the TensorBoard log "
                f"{self._logdir!r}; they have: {', '.join(values)}. Give its steps_key one of "
                "these, or None to count the writes."
            )
        return int(values[self._steps_key])

    def _add(self, event: Any) -> None:
        if self._closed:
            raise ValueError(f"The TensorBoard log {self._logdir!r} is closed.")
        if self._writer is None:
            self._open()
        self._write_event(event)

    def _open(self) -> None:
        import tensorflow as tf

        # TensorBoard reads the files of a directory in the order of their names. Host and
        # process keep apart loggers that start in the same instant.
        now = time.time_ns()
        name = f"events.out.tfevents.{now // 10**9:010d}.{now % 10**9:09d}"
        name = f"{name}.{socket.gethostname()}.{os.getpid()}"
        self._path = os.path.join(self._logdir, name)
        self._writer = tf.io.TFRecordWriter(self._path)
        self._write_event(tf.compat.v1.Event(file_version="brain.Event:2"))

    def _write_event(self, event: Any) -> None:
        import tensorflow as tf

        event.wall_time = time.time()
        try:
            self._writer.write(event.SerializeToString())
            self._writer.flush()
        except tf.errors.OpError as error:
            raise OSError(f"Can't write the log {self._path!r}: {error.message}") from error


def _to_number(value: Any) -> float | None:
    array = np.asarray(value)
    return float(array.reshape(())) if array.size == 1 and array.dtype.kind in "fiub" else None
