"""Episodes of other libraries' datasets, as rows in memory like those of our own."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import tree

from tfagents_x import specs, types
from tfagents_x.datasets import episodes as episodes_lib

_NARROW = {"float64": np.float32, "int64": np.int32, "uint64": np.uint32}


def narrow_dtype(dtype: Any) -> np.dtype:
    """64-bit types as those of 32 bits, which environments here and accelerators have."""
    return np.dtype(_NARROW.get(np.dtype(dtype).name, dtype))


def narrow(array: Any) -> np.ndarray:
    """An array of 64-bit numbers with 32; integers that don't fit in stay as they are."""
    array = np.asarray(array)
    dtype = narrow_dtype(array.dtype)
    if dtype.kind in "iu" and array.size:
        limits = np.iinfo(dtype)
        if array.min() < limits.min or array.max() > limits.max:
            return array
    with np.errstate(over="ignore"):  # What is infinite then, `gather` names.
        return array.astype(dtype, copy=False)


def make_episode(
    observation: types.NestedArray,
    action: types.NestedArray,
    reward: types.NestedArray,
    discount: types.NestedArray,
) -> types.Step:
    """An episode of N steps as `EpisodeWriter.write` takes it.

    Args:
      observation: nest of [N + 1, ...].
      action: nest of [N, ...].
      reward: [N]; () if there is none.
      discount: [N], 0 where the episode terminated.
    """
    as_float32 = lambda x: np.asarray(x, np.float32)
    reward, discount = tree.map_structure(as_float32, (reward, discount))
    with_zeros = lambda x: np.concatenate([x, np.zeros_like(x[:1])])
    action, reward, discount = tree.map_structure(with_zeros, (action, reward, discount))
    start = np.arange(len(tree.flatten(observation)[0])) == 0
    return types.Step(observation, action, reward, discount, start)


def gather(spec: specs.EnvironmentSpec, episodes: Iterable[types.Step]) -> types.Step:
    """All rows of all episodes, one after the other: arrays [R, ...], as `load` gives them.

    Args:
      spec: of what was recorded; `rewards` may be ().
      episodes: as `make_episode` makes them.

    Raises:
      ValueError: an episode doesn't fit the spec, something isn't finite, or there is none.
    """
    row = episodes_lib.row_spec(spec)
    columns: list[list[np.ndarray]] = [[] for _ in tree.flatten(row)]
    for number, episode in enumerate(episodes):
        try:
            leaves = episodes_lib.check_episode(row, episode)
        except ValueError as error:
            raise ValueError(f"Episode {number}: {error}") from error
        for column, leaf in zip(columns, leaves):
            column.append(leaf)
    if not columns[0]:
        raise ValueError("There is no episode of one step or more.")
    return tree.unflatten_as(row, [_joined(column) for column in columns])


def unreadable(folder: str | os.PathLike, error: Exception) -> ValueError:
    """An error of the library that reads the files, as one that says which dataset it was."""
    kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
    return ValueError(f"{os.fspath(folder)} can't be read: {kind}{error}")


def fingerprint(rows: types.Step) -> str:
    """Differs for other rows, wherever and in whatever files they are kept."""
    digest = hashlib.blake2b(digest_size=8)
    for path, leaf in tree.flatten_with_path(rows):
        digest.update(repr((path, leaf.dtype.str, leaf.shape)).encode())
        digest.update(np.ascontiguousarray(leaf).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _joined(pieces: list[np.ndarray]) -> np.ndarray:
    result = np.concatenate(pieces)
    pieces.clear()  # One leaf after the other, so that not everything is there twice.
    return result
