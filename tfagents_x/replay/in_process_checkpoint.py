"""Saves and restores the in-process store: JSON and plain numpy files, no pickle.

A directory holds `replay.json` (configuration, counters, random state; written last,
so without it the save did not finish), `leaf_<i>.npy` (the rows that items point at,
one file per leaf, chunk after chunk), `chunks.npz` (rows per chunk) and
`table_<i>.npz` (keys, priorities, draws, and which rows each item has).
"""

from __future__ import annotations

import contextlib
import os
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfagents_x.replay import chunks, item_table, manifest, rows
from tfagents_x.replay import tables as tables_lib

FORMAT = "in_process"


def write(
    directory: str,
    tables: Sequence[item_table.ItemTable],
    signature: rows.Signature,
    row_format: rows.RowFormat,
) -> None:
    """Writes `tables`, all as they are at one moment, into `directory`.

    Raises:
      ValueError: `directory` holds a saved replay already.
      OSError: it cannot be written.
    """
    manifest.prepare(directory)
    with contextlib.ExitStack() as stack:
        for table in tables:
            stack.enter_context(table.lock())
        states = [table.state() for table in tables]
    # Rows never change once written: from here on nobody has to wait for the disk.
    numbers, extents = _number_chunks(states)
    _write_rows(directory, numbers, extents, row_format)
    for i, state in enumerate(states):
        _write_table(os.path.join(directory, f"table_{i}.npz"), state, numbers, signature)
    counters = [
        {"inserts": s.inserts, "samples": s.samples, "next_key": s.next_key, "rng": s.rng}
        for s in states
    ]
    configs = [table.config for table in tables]
    manifest.write(directory, FORMAT, configs, signature, row_format, counters)


def read(
    directory: str,
    tables: list[tables_lib.Table],
    signature: rows.Signature,
    row_format: rows.RowFormat,
) -> dict[str, item_table.TableState]:
    """Reads what `write` wrote. Returns the state of each table by name.

    Raises:
      ValueError: the save is missing, unfinished, damaged, or of another configuration.
    """
    counters = manifest.read(directory, FORMAT, tables, signature, row_format)
    try:
        restored = _read_rows(directory, row_format)
        states = [
            _read_table(os.path.join(directory, f"table_{i}.npz"), restored, signature, extra)
            for i, extra in enumerate(counters)
        ]
    except (OSError, EOFError, KeyError, IndexError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"the replay saved in {directory} is damaged ({type(error).__name__}: {error}): "
            "restore from an older checkpoint"
        ) from error
    return {table.name: state for table, state in zip(tables, states)}


def _spans(item: Any) -> Sequence[tuple]:
    """The `(chunk, start, stop)` that an item points at."""
    if isinstance(item, chunks.SequenceRows):
        return item.runs
    return (
        (item.first_chunk, item.first, item.first + 1),
        (item.last_chunk, item.last, item.last + 1),
    )


def _number_chunks(states: Sequence[item_table.TableState]) -> tuple:
    """Numbers the chunks in use, and finds the rows of each that are."""
    numbers: dict[chunks.Chunk, int] = {}
    extents: list[list[int]] = []
    for state in states:
        for item in state.items:
            for chunk, start, stop in _spans(item):
                number = numbers.setdefault(chunk, len(extents))
                if number == len(extents):
                    extents.append([start, stop])
                extent = extents[number]
                extent[0], extent[1] = min(extent[0], start), max(extent[1], stop)
    return numbers, extents


def _write_rows(
    directory: str,
    numbers: Mapping[chunks.Chunk, int],
    extents: Sequence[Sequence[int]],
    row_format: rows.RowFormat,
) -> None:
    bounds = np.array(extents, np.int64).reshape(-1, 2)
    np.savez(os.path.join(directory, "chunks.npz"), extents=bounds)
    total = int((bounds[:, 1] - bounds[:, 0]).sum())
    for i, (shape, dtype) in enumerate(zip(row_format.shapes, row_format.dtypes)):
        header = {
            "descr": np.lib.format.dtype_to_descr(dtype),
            "fortran_order": False,
            "shape": (total,) + shape,
        }
        # Chunk by chunk: a store of pixels must not need its size in memory again.
        with open(os.path.join(directory, f"leaf_{i}.npy"), "wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for chunk, number in numbers.items():
                start, stop = extents[number]
                file.write(np.ascontiguousarray(chunk.columns[i][start:stop]).data)


def _read_rows(directory: str, row_format: rows.RowFormat) -> tuple:
    """Returns the chunks, and for each how far its rows have moved."""
    with np.load(os.path.join(directory, "chunks.npz")) as file:
        extents = file["extents"]
    columns: list[list] = [[] for _ in extents]
    for i in range(row_format.num_leaves):
        leaf = np.load(os.path.join(directory, f"leaf_{i}.npy"), mmap_mode="r")
        first = 0
        for number, (start, stop) in enumerate(extents):
            columns[number].append(np.array(leaf[first : first + stop - start]))
            first += stop - start
        if first != len(leaf):
            raise ValueError(f"leaf_{i}.npy has {len(leaf)} rows, chunks.npz says {first}")
    return [chunks.Chunk(column) for column in columns], extents[:, 0]


def _write_table(
    path: str,
    state: item_table.TableState,
    numbers: Mapping[chunks.Chunk, int],
    signature: rows.Signature,
) -> None:
    spans = [_spans(item) for item in state.items]
    flat = [(numbers[chunk], start, stop) for span in spans for chunk, start, stop in span]
    arrays = {
        "keys": state.keys,
        "priorities": state.priorities,
        "times_sampled": state.times_sampled,
        "num_spans": np.array([len(span) for span in spans], np.int64),
        "spans": np.array(flat, np.int64).reshape(-1, 3),
    }
    if signature.transitions:
        arrays["reward"] = np.array([item.reward for item in state.items])
        arrays["discount"] = np.array([item.discount for item in state.items])
    np.savez(path, **arrays)


def _read_table(
    path: str, restored: tuple, signature: rows.Signature, extra: Mapping[str, Any]
) -> item_table.TableState:
    with np.load(path) as file:
        arrays = dict(file)
    all_chunks, moved = restored
    spans = [
        (all_chunks[number], int(start - moved[number]), int(stop - moved[number]))
        for number, start, stop in arrays["spans"]
    ]
    ends = np.cumsum(arrays["num_spans"])
    groups = [spans[end - size : end] for end, size in zip(ends, arrays["num_spans"])]
    if signature.transitions:
        own = zip(groups, arrays["reward"], arrays["discount"])
        items: list = [
            chunks.TransitionRows(a[0], a[1], b[0], b[1], reward, discount)
            for (a, b), reward, discount in own
        ]
    else:
        items = [chunks.SequenceRows(tuple(group)) for group in groups]
    return item_table.TableState(
        arrays["keys"],
        arrays["priorities"],
        arrays["times_sampled"],
        items,
        extra["inserts"],
        extra["samples"],
        extra["next_key"],
        extra["rng"],
    )
