"""`dataset.json`: what a dataset holds, and from where."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any, Optional

from tfagents_x import specs
from tfagents_x.datasets import nested_specs

FILE = "dataset.json"
_FORMAT = "tfagents_x episodes"
_VERSION = 1


@dataclasses.dataclass(frozen=True)
class Part:
    """One file of a dataset.

    Attributes:
      file: its name in the folder.
      episodes, steps: how many it holds.
      returns: of each episode, undiscounted.
      source: where they came from, for a person to read.
    """

    file: str
    episodes: int
    steps: int
    returns: tuple[float, ...]
    source: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a dataset holds.

    Attributes:
      environment: name for `environments.make_environment`; None if it has none.
      spec: shapes, dtypes and bounds of what was recorded.
      parts: its files, in the order in which they were written.
    """

    environment: Optional[str]
    spec: specs.EnvironmentSpec
    parts: tuple[Part, ...] = ()

    @property
    def episodes(self) -> int:
        """Number of episodes."""
        return sum(part.episodes for part in self.parts)

    @property
    def steps(self) -> int:
        """Number of transitions."""
        return sum(part.steps for part in self.parts)

    @property
    def returns(self) -> list[float]:
        """Undiscounted return of each episode."""
        return [value for part in self.parts for value in part.returns]

    @property
    def fingerprint(self) -> str:
        """Changes when episodes are added or taken away; stays when the folder is moved."""
        content = [(p.file, p.episodes, p.steps, p.returns) for p in self.parts]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]

    def spec_json(self) -> dict[str, Any]:
        """The spec as it is written."""
        return {k: nested_specs.to_json(v) for k, v in self.spec._asdict().items()}

    def write(self, folder: str | os.PathLike) -> None:
        """Writes it, replacing the one that is there at once or not at all.

        Raises:
          OSError: it can't be written.
        """
        content = {
            "format": _FORMAT,
            "version": _VERSION,
            "environment": self.environment,
            "spec": self.spec_json(),
            "episodes": self.episodes,
            "steps": self.steps,
            "parts": [dataclasses.asdict(part) for part in self.parts],
        }
        path = pathlib.Path(folder, FILE)
        partial = path.with_suffix(".partial")
        with open(partial, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)


def read(folder: str | os.PathLike) -> Manifest:
    """Reads the manifest of a dataset.

    Raises:
      ValueError: there is none, or it is damaged, or a file that it names is missing.
    """
    path = pathlib.Path(folder, FILE)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(
            f"There is no dataset in {os.fspath(folder)} (no {FILE}). Record one with: "
            "tfagents-x collect --run RUN --steps N --out DATA"
        ) from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} can't be read: {error}.") from error
    try:
        result = _parse(content)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no manifest of recorded episodes: {error!r}.") from error
    missing = [part.file for part in result.parts if not (path.parent / part.file).is_file()]
    if missing:
        raise ValueError(f"{os.fspath(folder)} is not complete: {', '.join(missing)} is missing.")
    return result


def _parse(content: Mapping[str, Any]) -> Manifest:
    if (content["format"], content["version"]) != (_FORMAT, _VERSION):
        raise ValueError(
            f"format {content['format']!r}, version {content['version']!r}; this version of "
            f"tfagents_x reads {_FORMAT!r}, version {_VERSION}"
        )
    fields = {k: nested_specs.from_json(content["spec"][k]) for k in specs.EnvironmentSpec._fields}
    parts = tuple(Part(**{**p, "returns": tuple(p["returns"])}) for p in content["parts"])
    return Manifest(content["environment"], specs.EnvironmentSpec(**fields), parts)
