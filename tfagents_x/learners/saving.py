"""Learners that save themselves: a checkpoint and snapshots every so many minutes."""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Mapping
from typing import Any, Optional

import numpy as np
import sonnet as snt
import tree

from tfagents_x import types
from tfagents_x.learners import checks
from tfagents_x.utils import savers, snapshots

DIRECTORY = snapshots.DIRECTORY


class PeriodicSaver:
    """Writes `checkpoints/` and `snapshots/` of a learner, at first and then every half hour.

    What Acme's learners do with `checkpoint=True`. In the default directory nothing is ever
    found to go on from, since each process has its own folder there; in a directory that is
    named, a learner takes up the newest intact checkpoint when it is constructed.
    """

    def __init__(
        self,
        directory: os.PathLike | str,
        modules: Mapping[str, snt.Module],
        time_delta_minutes: float = 30.0,
    ):
        """Names the folders; they are made with the first save.

        Args:
          directory: where to write; `DIRECTORY` is the default of the learners.
          modules: what to export as SavedModels, by name; each built by
            `utils.create_variables`, which notes the inputs.
          time_delta_minutes: least time between two saves.

        Raises:
          TypeError: `time_delta_minutes` is no number.
          ValueError: a module's inputs are not known, or `time_delta_minutes` is negative.
        """
        checks.check_number("time_delta_minutes", time_delta_minutes, 0.0)
        self.directory = snapshots.process_folder(directory)
        self._seconds = 60.0 * time_delta_minutes
        self._last: Optional[float] = None
        self._snapshotter = snapshots.Snapshotter(modules, directory=os.fspath(self.directory))

    def restore(self, learner: Any) -> None:
        """Takes up the newest intact checkpoint of the directory, if there is one."""
        if not (self.directory / "checkpoints").is_dir():
            return
        path = self._folder().latest()
        if path is not None:
            learner.checkpointable.read(os.fspath(path / "state")).assert_consumed()
            learner.counter.restore(savers.read_nest(path / "counts.npz"))

    def save(self, learner: Any, force: bool = False) -> bool:
        """Saves if it is time, or if `force`; returns whether it did."""
        now = time.monotonic()
        if not force and self._last is not None and now - self._last < self._seconds:
            return False
        self._last = now

        def write(path: pathlib.Path) -> None:
            learner.checkpointable.write(os.fspath(path / "state"))
            savers.write_nest(path / "counts.npz", learner.counter.save())

        self._folder().save(learner.num_updates, write)
        self._snapshotter.save(force=True)
        return True

    def _folder(self) -> savers.CheckpointFolder:
        return savers.CheckpointFolder(self.directory / "checkpoints")


def assign(variables: types.Nest, values: types.NestedArray) -> None:
    """Gives a nest of variables the values of a nest of the same structure.

    Raises:
      ValueError: `values` has other names or shapes; nothing is assigned then.
    """
    names = lambda nested: {"/".join(map(str, p)) for p, _ in tree.flatten_with_path(nested)}
    missing, unknown = names(variables) - names(values), names(values) - names(variables)
    if missing or unknown:
        raise ValueError(
            "This state was not saved by a learner like this one: it lacks "
            f"{sorted(missing)[:3] or 'nothing'} and has {sorted(unknown)[:3] or 'nothing'} "
            "that this learner has not."
        )
    for (path, variable), value in zip(tree.flatten_with_path(variables), tree.flatten(values)):
        if tuple(variable.shape) != np.shape(value):
            raise ValueError(
                f"{'/'.join(map(str, path))} has shape {tuple(variable.shape)}, the saved "
                f"state {np.shape(value)}: it belongs to a network of another size."
            )
    for variable, value in zip(tree.flatten(variables), tree.flatten(values)):
        variable.assign(value)
