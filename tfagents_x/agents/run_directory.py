"""What a training run leaves on disk, and whether a run can go on where another stopped."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any, Optional

import tfagents_x


@dataclasses.dataclass(frozen=True)
class RunSpec:
    """What defines a run; two runs with equal specs make the same numbers.

    Attributes:
      agent: name in the registry of agents.
      environment: name for `environments.make_environment`.
      seed: of networks, episodes and actions.
      replay: `'in_process'` or `'reverb'`.
      config: fields of the agent's config.
    """

    agent: str
    environment: str
    seed: int
    replay: str
    config: Mapping[str, Any]

    def differences(self, other: RunSpec) -> dict[str, tuple]:
        """Names of the settings that differ, with both values."""
        mine, theirs = _flat(self), _flat(other)
        names = sorted({*mine, *theirs})
        pairs = {n: (mine.get(n), theirs.get(n)) for n in names}
        return {n: pair for n, pair in pairs.items() if pair[0] != pair[1]}


def _flat(spec: RunSpec) -> dict[str, Any]:
    # Through JSON, so that a tuple equals the list that was read back.
    fields = json.loads(json.dumps(dataclasses.asdict(spec)))
    return {**{k: v for k, v in fields.items() if k != "config"}, **fields["config"]}


class RunDirectory:
    """Names the files of one run.

    `config.json`, `metrics/episodes.csv`, `metrics/learner.csv`, `tensorboard/`,
    `checkpoints/`, `policy/` (SavedModel), `learning_curve.png`.
    """

    def __init__(self, path: os.PathLike):
        """Only keeps the path; `create` makes the folder."""
        self.path = pathlib.Path(path)
        self.config = self.path / "config.json"
        self.episodes = self.path / "metrics" / "episodes.csv"
        self.learner = self.path / "metrics" / "learner.csv"
        self.tensorboard = self.path / "tensorboard"
        self.checkpoints = self.path / "checkpoints"
        self.policy = self.path / "policy"
        self.learning_curve = self.path / "learning_curve.png"

    def create(self, spec: RunSpec, steps: Optional[int] = None) -> None:
        """Makes the folder of a new run and writes its config.

        Args:
          spec: what defines the run.
          steps: environment steps it is meant to do; no part of what defines it.

        Raises:
          ValueError: there is a run already, or the folder can't be written.
        """
        if self.config.exists():
            raise ValueError(
                f"{self.path} holds a run already. Give another --run directory, or --resume to "
                "go on with it."
            )
        try:
            self.episodes.parent.mkdir(parents=True, exist_ok=True)
            self._write(spec, steps)
        except OSError as error:
            raise ValueError(
                f"Can't write to the run directory {self.path}: {error.strerror or error}. "
                "Give a writable --run directory."
            ) from error

    def open(self, spec: Optional[RunSpec] = None) -> RunSpec:
        """Reads the config of the run that is there.

        Args:
          spec: if given, must be the same run.

        Raises:
          ValueError: there is no run, its config is unreadable, or it differs from `spec`.
        """
        stored = self.read()
        differences = {} if spec is None else stored.differences(spec)
        if differences:
            listed = ", ".join(f"{k}: {a!r} there, {b!r} now" for k, (a, b) in differences.items())
            raise ValueError(
                f"The run in {self.path} has another config ({listed}). Resume it with its own "
                "settings, or start a new run in another directory."
            )
        return stored

    def read(self) -> RunSpec:
        """The spec of the run.

        Raises:
          ValueError: there is none, or it can't be read.
        """
        try:
            content = json.loads(self.config.read_text())
            names = [f.name for f in dataclasses.fields(RunSpec)]
            return RunSpec(**{name: content[name] for name in names})
        except FileNotFoundError:
            raise ValueError(
                f"There is no run in {self.path} (no {self.config.name}). "
                "Start one without --resume."
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self.config} can't be read: {error!r}.") from error

    def read_steps(self) -> Optional[int]:
        """Environment steps that the run is meant to do, if it was told.

        Raises:
          ValueError: the config can't be read.
        """
        self.read()
        return json.loads(self.config.read_text()).get("steps")

    def write_steps(self, steps: int) -> None:
        """Changes the number of steps that the run is meant to do.

        Raises:
          ValueError: the config can't be read.
          OSError: it can't be written.
        """
        self._write(self.read(), steps)

    def _write(self, spec: RunSpec, steps: Optional[int]) -> None:
        content = {
            "tfagents_x": tfagents_x.__version__,
            **dataclasses.asdict(spec),
            "steps": steps,
        }
        partial = self.config.with_suffix(".partial")
        partial.write_text(json.dumps(content, indent=2) + "\n")
        partial.replace(self.config)
