"""Checkpoints that survive being killed: complete or absent, verified before they are used.

A checkpoint is a folder. It is written under a temporary name, synced, sealed with
a manifest of sizes and SHA-256 sums, and renamed; so a folder with the final name is
a whole checkpoint, unless the disk damaged it later, which the manifest tells.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
from typing import Any, Callable, Optional

import numpy as np

from tfagents_x import types

_MANIFEST = "manifest.json"
_PREFIX = "step-"


class CheckpointFolder:
    """The checkpoints of one run, newest first in line."""

    def __init__(self, root: os.PathLike, max_to_keep: int = 3):
        """Makes the folder.

        Args:
          root: folder that holds the checkpoints, `step-<number>` each.
          max_to_keep: older ones are deleted; at least 2, so that one can be damaged.

        Raises:
          ValueError: `max_to_keep` is less than 2.
          OSError: the folder can't be made.
        """
        if max_to_keep < 2:
            raise ValueError(f"max_to_keep must be at least 2, got {max_to_keep}.")
        self._root = pathlib.Path(root)
        self._max_to_keep = max_to_keep
        self._root.mkdir(parents=True, exist_ok=True)

    @property
    def root(self) -> pathlib.Path:
        """The folder that holds the checkpoints."""
        return self._root

    def all(self) -> list[pathlib.Path]:
        """Paths of all complete checkpoints, the newest last."""
        found = [p for p in self._root.glob(f"{_PREFIX}*") if p.name[len(_PREFIX) :].isdigit()]
        return sorted(found, key=self.step_of)

    @staticmethod
    def step_of(path: pathlib.Path) -> int:
        """The number that a checkpoint was saved with."""
        return int(path.name[len(_PREFIX) :])

    def save(self, step: int, write: Callable[[pathlib.Path], None]) -> pathlib.Path:
        """Makes the checkpoint of `step`.

        Args:
          step: its number; an existing checkpoint of the same number is replaced.
          write: puts the files into the folder it is given.

        Returns:
          Path of the finished checkpoint.
        """
        final = self._root / f"{_PREFIX}{step}"
        partial = self._root / f".{final.name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        write(partial)
        _seal(partial)
        if final.exists():
            shutil.rmtree(final)
        partial.rename(final)
        sync(self._root)
        for old in self.all()[: -self._max_to_keep]:
            shutil.rmtree(old)
        return final

    def latest(
        self, report: Callable[[str], None] = lambda message: None
    ) -> Optional[pathlib.Path]:
        """The newest checkpoint that is intact, or None if there is none.

        Args:
          report: told about every damaged checkpoint that is passed over.
        """
        paths = self.all()
        for path in reversed(paths):
            damage = find_damage(path)
            if damage is None:
                return path
            then = "there is none before it" if path == paths[0] else "going back to the one before"
            report(f"Checkpoint {path} is damaged ({damage}); {then}.")
        return None

    def drop_after(self, path: pathlib.Path) -> None:
        """Deletes checkpoints newer than `path`, which a resumed run will write again."""
        for other in self.all()[self.all().index(path) + 1 :]:
            shutil.rmtree(other)


def _files(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.name != _MANIFEST)


def _digest(path: pathlib.Path) -> tuple[int, str]:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return path.stat().st_size, digest.hexdigest()


def sync(path: pathlib.Path) -> None:
    """Makes a file, or on POSIX a folder's entries, durable."""
    if path.is_dir() and os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _seal(folder: pathlib.Path) -> None:
    manifest = {}
    for path in _files(folder):
        sync(path)
        manifest[path.relative_to(folder).as_posix()] = _digest(path)
    path = folder / _MANIFEST
    path.write_text(json.dumps(manifest, indent=1))
    sync(path)
    sync(folder)


def find_damage(folder: pathlib.Path) -> Optional[str]:
    """What is wrong with a checkpoint, in words, or None if it is intact."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text())
    except (OSError, ValueError) as error:
        return f"no readable manifest: {error}"
    if not _is_manifest(manifest):
        return f"{_MANIFEST} is no list of files with their sizes and sums"
    unknown = {p.relative_to(folder).as_posix() for p in _files(folder)} - set(manifest)
    if unknown:
        return f"{min(unknown)} is not in {_MANIFEST}"
    for name, (size, digest) in manifest.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes instead of {size}"
        if _digest(path)[1] != digest:
            return f"{name} has other contents than when it was written"
    return None


def _is_manifest(content: Any) -> bool:
    if not isinstance(content, dict):
        return False
    entries = [e if isinstance(e, list) else [] for e in content.values()]
    return bool(entries) and all([type(x) for x in entry] == [int, str] for entry in entries)


def write_nest(path: os.PathLike, nest: types.NestedArray) -> None:
    """Writes a nest of dicts (with string keys), lists, tuples, numbers, strings, None and arrays.

    Arrays go into one `.npz`, the structure into it as JSON; no pickle is involved.

    Raises:
      TypeError: a leaf or container of another type.
    """
    arrays: list[np.ndarray] = []
    structure = json.dumps(_encode(nest, arrays))
    named = {f"array{i}": a for i, a in enumerate(arrays)}
    with open(path, "wb") as file:
        np.savez(file, structure=np.array(structure), **named)


def read_nest(path: os.PathLike) -> types.NestedArray:
    """Reads what `write_nest` wrote; named tuples come back as plain tuples."""
    with np.load(path, allow_pickle=False) as data:
        return _decode(json.loads(str(data["structure"])), data)


def _encode(nest: Any, arrays: list[np.ndarray]) -> Any:
    if nest is None or isinstance(nest, (bool, int, float, str)):
        return {"value": nest}
    if isinstance(nest, dict) and all(isinstance(k, str) for k in nest):
        return {"dict": {k: _encode(v, arrays) for k, v in nest.items()}}
    if isinstance(nest, (list, tuple)):
        kind = "list" if isinstance(nest, list) else "tuple"
        return {kind: [_encode(v, arrays) for v in nest]}
    array = nest.numpy() if hasattr(nest, "numpy") else nest
    if isinstance(array, (np.ndarray, np.generic)) and array.dtype != object:
        arrays.append(np.asarray(array))
        return {"array": len(arrays) - 1}
    raise TypeError(f"Can't write a {type(nest).__name__} without pickle.")


def _decode(node: Any, data: Any) -> Any:
    ((kind, value),) = node.items()
    if kind == "dict":
        return {k: _decode(v, data) for k, v in value.items()}
    if kind in ("list", "tuple"):
        items = [_decode(v, data) for v in value]
        return items if kind == "list" else tuple(items)
    return data[f"array{value}"] if kind == "array" else value
