"""Episodes as TFRecord files: one `tf.train.Example` each, a serialized tensor for every leaf."""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any, Optional

import numpy as np
import tensorflow as tf
import tree

from tfagents_x import specs, types
from tfagents_x.datasets import manifest as manifest_lib

# A part is closed, and so safe from a crash, after so many bytes of tensors.
_PART_BYTES = 64 << 20


def row_spec(spec: specs.EnvironmentSpec) -> types.Step:
    """Specs of one row; rewards and discounts are float32, as in replay."""
    as_float32 = lambda s: specs.Array(s.shape, np.float32)
    return types.Step(
        observation=spec.observations,
        action=spec.actions,
        reward=tree.map_structure(as_float32, spec.rewards),
        discount=tree.map_structure(as_float32, spec.discounts),
        start_of_episode=specs.Array((), bool),
    )


def leaf_names(nested: Any) -> list[str]:
    """Names of the leaves of a row, as in the files: `reward`, `observation/position`, ..."""
    return ["/".join(map(str, path)) for path, _ in tree.flatten_with_path(nested)]


def check_episode(spec: types.Step, episode: types.Step) -> list[np.ndarray]:
    """The leaves of an episode, [N + 1, ...], if it is one.

    Args:
      spec: of its rows, see `row_spec`.
      episode: see `EpisodeWriter.write`.

    Raises:
      ValueError: a leaf doesn't fit the spec, or something isn't finite.
    """
    try:
        tree.assert_same_structure(spec, episode)
    except (TypeError, ValueError) as error:
        raise ValueError(f"The episode has another structure than the spec: {error}") from error
    leaves = [np.asarray(leaf) for leaf in tree.flatten(episode)]
    lengths = {len(leaf) if leaf.ndim else 0 for leaf in leaves}
    if len(lengths) > 1 or min(lengths) < 2:
        shapes = {name: leaf.shape for name, leaf in zip(leaf_names(spec), leaves)}
        raise ValueError(
            f"An episode has leaves [N + 1, ...] of one length, at least 2, got {shapes}."
        )
    for name, leaf, leaf_spec in zip(leaf_names(spec), leaves, tree.flatten(spec)):
        _check_leaf(name, leaf, leaf_spec)
    return leaves


def _check_leaf(name: str, leaf: np.ndarray, spec: specs.Array) -> None:
    if leaf.shape[1:] != tuple(spec.shape) or leaf.dtype != spec.dtype:
        raise ValueError(
            f"{name} must be {spec.dtype.name} of shape [N + 1, "
            f"{', '.join(map(str, spec.shape))}], got {leaf.dtype.name} of {leaf.shape}."
        )
    if leaf.dtype.kind == "f" and not np.all(np.isfinite(leaf)):
        raise ValueError(f"{name} of the episode is not finite.")


class EpisodeWriter:
    """Appends episodes to a dataset.

    A part is complete when it gets its name and is listed in the manifest; what a process that
    was killed had written since the last complete part is lost, and nothing else.
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        manifest: manifest_lib.Manifest,
        source: Optional[Mapping[str, Any]] = None,
        part_bytes: int = _PART_BYTES,
    ):
        """Makes the folder.

        Args:
          folder: of the dataset.
          manifest: of an empty dataset, or what `manifest.read` gave for one to be continued.
          source: noted in the manifest for the parts written now.
          part_bytes: of tensors, after which a part is closed.

        Raises:
          ValueError: the folder can't be made, or holds a dataset that `manifest` is not of.
        """
        self._folder = pathlib.Path(folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"Can't write to {self._folder}: {error.strerror}.") from error
        there = (self._folder / manifest_lib.FILE).exists()
        if there and manifest_lib.read(folder).fingerprint != manifest.fingerprint:
            raise ValueError(
                f"{self._folder} holds a dataset already. Give another folder, or append to it."
            )
        self._manifest = manifest
        self._spec = row_spec(manifest.spec)
        self._names = leaf_names(self._spec)
        self._source = dict(source or {})
        self._part_bytes = part_bytes
        self._file: Optional[tf.io.TFRecordWriter] = None
        self._bytes = self._steps = 0
        self._returns: list[float] = []

    @property
    def manifest(self) -> manifest_lib.Manifest:
        """Of the parts that are complete."""
        return self._manifest

    def write(self, episode: types.Step) -> None:
        """Adds an episode.

        Args:
          episode: rows of N steps and the last observation, leaves [N + 1, ...] as in the spec.
            Action, reward and discount of the last row are zeros; `start_of_episode` is true in
            the first row; extras are not recorded.

        Raises:
          ValueError: a leaf doesn't fit the spec, or something isn't finite.
        """
        checked = check_episode(self._spec, episode._replace(extras=()))
        leaves = dict(zip(self._names, checked))
        record = tf.train.Example()
        for name, leaf in leaves.items():
            value = tf.io.serialize_tensor(leaf).numpy()
            record.features.feature[name].bytes_list.value.append(value)
            self._bytes += len(value)
        if self._file is None:
            self._file = tf.io.TFRecordWriter(str(self._partial))
        self._file.write(record.SerializeToString())
        self._steps += len(leaves["start_of_episode"]) - 1
        self._returns.append(math.fsum(np.ravel(leaves["reward"])))
        if self._bytes >= self._part_bytes:
            self.close()

    def close(self) -> None:
        """Completes the part under way; more can be written after."""
        if self._file is None:
            return
        self._file.close()
        with open(self._partial, "rb") as file:
            os.fsync(file.fileno())
        part = manifest_lib.Part(
            file=f"part-{len(self._manifest.parts):05d}.tfrecord",
            episodes=len(self._returns),
            steps=self._steps,
            returns=tuple(self._returns),
            source=self._source,
        )
        self._partial.replace(self._folder / part.file)
        self._manifest = dataclasses.replace(self._manifest, parts=(*self._manifest.parts, part))
        self._manifest.write(self._folder)
        self._file, self._bytes, self._steps, self._returns = None, 0, 0, []

    @property
    def _partial(self) -> pathlib.Path:
        return self._folder / ".part.partial"


def read(folder: str | os.PathLike) -> tf.data.Dataset:
    """All episodes, one element each: a `types.Step` of tensors [N + 1, ...].

    Raises:
      ValueError: there is no complete dataset.
    """
    manifest = manifest_lib.read(folder)
    spec = row_spec(manifest.spec)
    names, leaves = leaf_names(spec), tree.flatten(spec)
    features = {name: tf.io.FixedLenFeature([], tf.string) for name in names}

    @tf.autograph.experimental.do_not_convert
    def parse(record: tf.Tensor) -> types.Step:
        values = tf.io.parse_single_example(record, features)
        tensors = [tf.io.parse_tensor(values[n], s.dtype) for n, s in zip(names, leaves)]
        shaped = [tf.ensure_shape(x, [None, *s.shape]) for x, s in zip(tensors, leaves)]
        return tree.unflatten_as(spec, shaped)

    files = [str(pathlib.Path(folder, part.file)) for part in manifest.parts]
    return tf.data.TFRecordDataset(files).map(parse)


def load(folder: str | os.PathLike) -> types.Step:
    """All rows of all episodes in memory, one after the other: arrays [R, ...].

    R is the number of steps plus one row for the last observation of each episode.

    Raises:
      ValueError: there is no complete dataset, it is empty, a file is damaged, or there is too
        little memory.
    """
    manifest = manifest_lib.read(folder)
    rows = manifest.steps + manifest.episodes
    if not rows:
        raise ValueError(f"The dataset in {os.fspath(folder)} has no episodes.")
    try:
        result = tree.map_structure(
            lambda s: np.empty([rows, *s.shape], s.dtype), row_spec(manifest.spec)
        )
    except (MemoryError, ValueError) as error:  # Numpy's say how much it would be.
        raise ValueError(
            f"There is no memory for the {rows} rows that {os.fspath(folder)} says it has: {error}"
        ) from error
    filled = 0
    try:
        for episode in read(folder).as_numpy_iterator():
            until = filled + len(episode.start_of_episode)
            for into, leaf in zip(tree.flatten(result), tree.flatten(episode)):
                into[filled:until] = leaf
            filled = until
    except (tf.errors.OpError, ValueError) as error:
        raise ValueError(
            f"The dataset in {os.fspath(folder)} is damaged after {filled} of {rows} rows: {error}"
        ) from error
    if filled != rows:
        raise ValueError(f"{os.fspath(folder)} holds {filled} rows, its manifest says {rows}.")
    return result
