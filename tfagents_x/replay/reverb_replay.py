"""Replay in Reverb: a server in this process, or one at an address. Imports Reverb."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional

import numpy as np
import reverb
import tree

from tfagents_x import types
from tfagents_x.replay import (
    base,
    datasets,
    errors,
    limits,
    manifest,
    reverb_logs,
    reverb_writer,
    rows,
)
from tfagents_x.replay import tables as tables_lib
from tfagents_x.replay import writer as writer_lib

FORMAT = "reverb"
# Reverb has no call that waits for a limiter with a timeout without also drawing, so we
# ask, at first often and then at this interval (seconds).
_SLOWEST_POLL = 0.01
# Seconds after which a server that does not answer is taken to be gone.
_PATIENCE = 20


class ReverbReplay(base.Replay):
    """`Replay` on a Reverb server.

    Draws are not repeatable: Reverb's selectors take no seed.

    Args:
      tables: configuration of the tables.
      signature: type of the items.
      restore_from: directory that `save` wrote.
      port: of the server; None picks a free one.
      address: of a server that runs elsewhere and serves the same tables; none is started
        then. See `connect`.

    Raises:
      ValueError: bad tables, a damaged checkpoint, or one of another configuration.
      ReplayClosed: nobody answers at `address`.
    """

    def __init__(
        self,
        tables: Sequence[tables_lib.Table],
        signature: rows.Signature,
        restore_from: Optional[str] = None,
        port: Optional[int] = None,
        address: Optional[str] = None,
    ):
        super().__init__(tables, signature)
        self._server: Any = None
        self._local: dict[str, reverb.Table] = {}
        self._checkpoints: Optional[str] = None
        if address is None:
            address = f"localhost:{self._start(list(tables), port, restore_from)}"
        elif restore_from is not None or port is not None:
            raise ValueError("restore_from and port belong to the server, not to a connection")
        self._address = address
        self._client = reverb.Client(address)
        # Between "enough is there" and drawing it, no other thread of ours may draw.
        self._sampling = {table.name: threading.Lock() for table in tables}
        self._check_server()

    @classmethod
    def connect(
        cls, address: str, tables: Sequence[tables_lib.Table], signature: rows.Signature
    ) -> ReverbReplay:
        """Connects to the `ReverbReplay` of another process, made with the same arguments.

        Raises:
          ReplayClosed: nobody answers at `address`.
          ValueError: the server there has other tables.
        """
        return cls(tables, signature, address=address)

    @property
    def address(self) -> str:
        """Where the server listens, for `connect`."""
        return self._address

    def writer(self, max_sequence_length: int) -> writer_lib.Writer:
        """Returns a writer for one actor; see `Replay`."""
        self._check_open()
        return reverb_writer.ReverbWriter(
            self._client,
            self._signature,
            self._format,
            self._tables,
            max_sequence_length,
            self._why_blocked,
        )

    def dataset(
        self,
        table: str,
        batch_size: int,
        prefetch: int = 2,
        timeout: Optional[float] = None,
    ) -> Any:
        """Returns a `tf.data.Dataset` of batches; see `Replay`."""
        tables_lib.check_feasible(self._table(table), batch_size)
        base.deadline_in(timeout)
        spec = datasets.tensor_spec(self._signature)
        items = reverb.TrajectoryDataset(
            self._address,
            table,
            dtypes=tree.map_structure(lambda s: s.dtype, spec),
            shapes=tree.map_structure(lambda s: s.shape, spec),
            max_in_flight_samples_per_worker=2 * batch_size,
            rate_limiter_timeout_ms=-1 if timeout is None else int(1000 * timeout),
        )
        return datasets.batch_items(items, self._signature, batch_size, prefetch)

    def save(self, directory: str) -> None:
        """Writes all tables into `directory`; see `Replay`."""
        self._check_open()
        if self._checkpoints is None:
            raise ValueError(
                "only the process that runs the Reverb server can save it, "
                f"this one is connected to {self._address}"
            )
        manifest.prepare(directory)
        with reverb_logs.quiet():
            written = self._client.checkpoint()
        target = os.path.join(directory, "reverb")
        shutil.rmtree(target, ignore_errors=True)  # Of a save that did not finish.
        shutil.move(written, target)
        tables = list(self._tables.values())
        manifest.write(directory, FORMAT, tables, self._signature, self._format)

    def _start(
        self, tables: Sequence[tables_lib.Table], port: Optional[int], restore_from: Optional[str]
    ) -> int:
        """Starts the server, and returns its port."""
        spec = datasets.tensor_spec(self._signature)
        served = {table.name: _reverb_table(table, spec) for table in tables}
        saved = None if restore_from is None else self._saved(restore_from, tables)
        self._checkpoints = tempfile.mkdtemp(prefix="reverb_")
        checkpointer = reverb.checkpointers.DefaultCheckpointer(self._checkpoints, "", saved)
        with reverb_logs.quiet():
            self._server = reverb.Server(list(served.values()), port, checkpointer)
        # A server that restores puts tables of its own in place of these.
        self._local = served if saved is None else {}
        return self._server.port

    def _saved(self, directory: str, tables: Sequence[tables_lib.Table]) -> str:
        manifest.read(directory, FORMAT, tables, self._signature, self._format)
        saved = os.path.join(os.path.abspath(directory), "reverb")
        # Reverb aborts the process over a checkpoint that lacks a file.
        found = {os.path.basename(path) for path in glob.glob(os.path.join(saved, "*"))}
        missing = {"DONE", "tables.tfrecord", "items.tfrecord", "chunks.tfrecord"} - found
        if missing:
            raise ValueError(
                f"the replay saved in {directory} is damaged, {', '.join(sorted(missing))} "
                "missing: restore from an older checkpoint"
            )
        return saved

    def _check_server(self) -> None:
        served = self._server_info()
        missing = sorted(set(self._tables) - set(served))
        if missing:
            raise ValueError(
                f"the Reverb server at {self._address} has no table {', '.join(missing)}, "
                f"it has: {', '.join(sorted(served))}"
            )

    def _server_info(self) -> Any:
        """Information on all tables, from the server.

        Raises:
          ReplayClosed: this replay was closed, or nobody answers.
        """
        self._check_open()
        try:
            return self._client.server_info(timeout=_PATIENCE)
        except (RuntimeError, reverb.errors.ReverbError) as error:
            self._check_open()
            raise errors.ReplayClosed(
                f"no Reverb server answers at {self._address} within {_PATIENCE} seconds: {error}"
            ) from error

    def _sample(
        self, table: tables_lib.Table, batch_size: int, deadline: float
    ) -> types.ReplaySample:
        lock = self._sampling[table.name]
        if not lock.acquire(timeout=_lock_timeout(deadline)):
            raise errors.ReplayStarved(self._why_starved(table, batch_size))
        try:
            self._wait_for(table, batch_size, deadline)
            items = self._draw(table.name, batch_size)
        finally:
            lock.release()
        info = types.SampleInfo(
            *(
                np.array([getattr(item.info, field) for item in items], dtype.as_numpy_dtype)
                for field, dtype in zip(types.SampleInfo._fields, datasets.INFO_DTYPES)
            )
        )
        return types.ReplaySample(info, self._data(_stack([item.data for item in items])))

    def _draw(self, table: str, num: int) -> list:
        with reverb_logs.quiet_sampler():
            return list(self._client.sample(table, num, emit_timesteps=False))

    def _wait_for(self, table: tables_lib.Table, num: int, deadline: float) -> None:
        pause = _SLOWEST_POLL / 64
        self._check_open()
        while not self._can_sample(table, num):
            if time.monotonic() >= deadline:
                raise errors.ReplayStarved(self._why_starved(table, num))
            time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(2 * pause, _SLOWEST_POLL)
            self._check_open()

    def _why_starved(self, table: tables_lib.Table, num: int) -> str:
        return limits.why_no_sample(table, self._counts(table), num)

    def _why_blocked(self, table: str) -> Optional[str]:
        """What keeps the next item out of `table`, None if nothing does. For writers."""
        self._check_open()
        config = self._tables[table]
        if self._can_insert(config, 1):
            return None
        return limits.why_no_insert(config, self._counts(config))

    def _can_sample(self, table: tables_lib.Table, num_items: int) -> bool:
        local = self._local.get(table.name)
        # Microseconds instead of a call to the server; but the limiter of a table whose
        # items leave knows nothing of what will be left (`limits.can_sample`).
        if local is not None and (table.is_queue or not table.max_times_sampled):
            return local.can_sample(num_items)
        return super()._can_sample(table, num_items)

    def _can_insert(self, table: tables_lib.Table, num_items: int) -> bool:
        local = self._local.get(table.name)
        return local.can_insert(num_items) if local else super()._can_insert(table, num_items)

    def _counts(self, table: tables_lib.Table) -> limits.Counts:
        local = self._local.get(table.name)
        info = local.info if local else self._server_info()[table.name]
        limiter = info.rate_limiter_info
        return limits.Counts(
            info.current_size, limiter.insert_stats.completed, limiter.sample_stats.completed
        )

    def _update_priorities(self, table: tables_lib.Table, updates: Mapping[int, float]) -> None:
        self._client.mutate_priorities(table.name, updates=dict(updates))

    def _close(self) -> None:
        if self._server is not None:
            with reverb_logs.quiet():
                self._server.stop()
        if self._checkpoints is not None:
            shutil.rmtree(self._checkpoints, ignore_errors=True)


def _reverb_table(table: tables_lib.Table, spec: Any) -> reverb.Table:
    selectors: Mapping[str, Callable[[], Any]] = {
        "fifo": reverb.selectors.Fifo,
        "uniform": reverb.selectors.Uniform,
        "prioritized": lambda: reverb.selectors.Prioritized(table.priority_exponent),
    }
    low, high = np.clip(table.error_range, -_MAX_FLOAT, _MAX_FLOAT)
    return reverb.Table(
        name=table.name,
        sampler=selectors[table.selector](),
        remover=reverb.selectors.Fifo(),
        max_size=table.max_size,
        rate_limiter=reverb.rate_limiters.RateLimiter(
            samples_per_insert=table.samples_per_insert or 1.0,
            min_size_to_sample=table.min_size,
            min_diff=float(low),
            max_diff=float(high),
        ),
        max_times_sampled=table.max_times_sampled,
        signature=spec,
    )


_MAX_FLOAT = float(np.finfo(np.float64).max)


def _stack(items: Sequence[list]) -> list:
    shapes = {tuple(np.shape(leaf) for leaf in item) for item in items}
    if len(shapes) > 1:
        lengths = sorted({shape[0][0] for shape in shapes if shape[0]})
        raise ValueError(
            f"cannot batch sequences of different lengths ({lengths[0]} to {lengths[-1]} rows): "
            "write them with end_of_episode_behavior='zero_pad', or sample with batch_size=1"
        )
    return [np.stack(leaves) for leaves in zip(*items)]


def _lock_timeout(deadline: float) -> float:
    remaining = max(0.0, deadline - time.monotonic())
    return -1 if remaining > threading.TIMEOUT_MAX else remaining
