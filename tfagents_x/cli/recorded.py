"""The dataset that `train --dataset` names."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Optional

import tree

from tfagents_x import datasets, specs, types
from tfagents_x.datasets import manifest as manifest_lib


@dataclasses.dataclass(frozen=True)
class Recorded:
    """Recorded episodes in memory.

    Attributes:
      folder: absolute path.
      environment: where they were recorded, if that has a name.
      spec: of that environment.
      fingerprint: see `Manifest`.
      rows: all of them; see `datasets.load`.
    """

    folder: str
    environment: Optional[str]
    spec: specs.EnvironmentSpec
    fingerprint: str
    rows: types.Step

    def check_fits(self, name: str, spec: specs.EnvironmentSpec) -> None:
        """Checks that a policy learned from them can act in an environment.

        Raises:
          ValueError: its observations or actions have another structure, shape or dtype.
        """
        for part in ("observations", "actions"):
            recorded, wanted = _shapes(getattr(self.spec, part)), _shapes(getattr(spec, part))
            if recorded != wanted:
                raise ValueError(
                    f"The {part} of the dataset in {self.folder} are {recorded}, but those of "
                    f"{name} are {wanted}: give the --env that it was recorded in"
                    + (f", {self.environment}." if self.environment else ".")
                )


def load(agent: str, folder: Optional[str], replay: Optional[str] = None) -> Recorded:
    """Loads a dataset.

    Args:
      agent: that is to learn from it, for messages.
      folder: as given.
      replay: as given; an offline agent has none.

    Raises:
      ValueError: no folder was given, or there is no complete dataset in it.
    """
    if folder is None:
        raise ValueError(
            f"{agent} learns from recorded episodes: give --dataset DATA, as in: tfagents-x train "
            f"--agent {agent} --dataset DATA. Record them with: tfagents-x collect --run RUN "
            "--steps N --out DATA"
        )
    if replay not in (None, "auto"):
        raise ValueError(
            f"{agent} learns from recorded episodes and has no replay: leave --replay."
        )
    manifest = manifest_lib.read(folder)
    return Recorded(
        folder=os.path.abspath(folder),
        environment=manifest.environment,
        spec=manifest.spec,
        fingerprint=manifest.fingerprint,
        rows=datasets.load(folder),
    )


def _shapes(spec: types.NestedSpec) -> Any:
    return tree.map_structure(lambda s: f"{s.dtype.name}{list(s.shape)}", spec)
