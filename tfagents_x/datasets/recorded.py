"""Recorded episodes in memory, whichever library wrote them."""

from __future__ import annotations

import dataclasses
import itertools
import os
import pathlib
from typing import Any, Callable, Optional

import numpy as np
import tree

from tfagents_x import specs, types
from tfagents_x.datasets import episodes, foreign, minari_folder, rlds_folder
from tfagents_x.datasets import manifest as manifest_lib

# So many folders at most are searched for the dataset that was meant.
_LOOKED_AT = 1000


@dataclasses.dataclass(frozen=True)
class Recorded:
    """Recorded episodes in memory.

    Attributes:
      folder: absolute path.
      environment: where they were recorded, if that has a name.
      spec: of that environment, as far as the dataset tells; `rewards` are () if there are none.
      fingerprint: changes when episodes are added or taken away, stays when the folder is moved.
      rows: all of them; see `datasets.load`.
    """

    folder: str
    environment: Optional[str]
    spec: specs.EnvironmentSpec
    fingerprint: str
    rows: types.Step

    @property
    def has_rewards(self) -> bool:
        """Whether rewards were recorded."""
        return bool(tree.flatten(self.rows.reward))

    def check_fits(self, name: str, spec: specs.EnvironmentSpec) -> None:
        """Checks that a policy learned from them can act in an environment.

        Args:
          name: of the environment, for messages.
          spec: of the environment.

        Raises:
          ValueError: its observations or actions have another structure, shape or dtype, or
            there are discrete actions in the dataset that it hasn't.
        """
        where = f", {self.environment}." if self.environment else "."
        for part in ("observations", "actions"):
            recorded, wanted = _shapes(getattr(self.spec, part)), _shapes(getattr(spec, part))
            if recorded != wanted:
                raise ValueError(
                    f"The {part} of the dataset in {self.folder} are {recorded}, but those of "
                    f"{name} are {wanted}: give the --env that it was recorded in{where}"
                )
        for values, leaf in zip(tree.flatten(self.rows.action), tree.flatten(spec.actions)):
            if _outside(values, leaf):
                raise ValueError(
                    f"The actions of the dataset in {self.folder} are from {values.min()} to "
                    f"{values.max()}, but those of {name} from {np.min(leaf.minimum)} to "
                    f"{np.max(leaf.maximum)}: give the --env that it was recorded in{where}"
                )


def load_any(folder: str | os.PathLike) -> Recorded:
    """Loads a dataset of any kind that is known; which one is told from the files in it.

    These are the folders of `EpisodeWriter` (`dataset.json`), of RLDS (one version of a dataset
    that TensorFlow Datasets prepared, `dataset_info.json` and `features.json`), and of minari
    (`data/metadata.json`).

    Args:
      folder: of the dataset.

    Raises:
      ValueError: it holds no dataset, or a damaged one, or one without what is needed.
      ImportError: the package that reads it is not installed; the message says how to get it.
      TypeError: observations or actions of a kind that has no spec.
    """
    load = _loader(pathlib.Path(folder))
    if load is None:
        raise ValueError(_nothing(folder))
    environment, spec, fingerprint, rows = load(folder)
    return Recorded(os.path.abspath(folder), environment, spec, fingerprint, rows)


_Loaded = tuple[Optional[str], specs.EnvironmentSpec, str, types.Step]


def _load_own(folder: str | os.PathLike) -> _Loaded:
    manifest = manifest_lib.read(folder)
    return manifest.environment, manifest.spec, manifest.fingerprint, episodes.load(folder)


def _load_rlds(folder: str | os.PathLike) -> _Loaded:
    spec, rows = rlds_folder.load(folder)
    return None, spec, foreign.fingerprint(rows), rows


def _load_minari(folder: str | os.PathLike) -> _Loaded:
    environment, spec, rows = minari_folder.load(folder)
    return environment, spec, foreign.fingerprint(rows), rows


def _loader(folder: pathlib.Path) -> Optional[Callable[[str | os.PathLike], _Loaded]]:
    # Unlike `Path.is_file`, this is false as well where one may not look.
    holds = lambda file: os.path.isfile(folder / file)
    if holds(manifest_lib.FILE):
        return _load_own
    if all(map(holds, rlds_folder.FILES)):
        return _load_rlds
    if any(map(holds, minari_folder.FILES)):
        return _load_minari
    return None


def _nothing(folder: str | os.PathLike) -> str:
    path = pathlib.Path(folder)
    below = itertools.islice(itertools.chain(path.glob("*/"), path.glob("*/*/")), _LOOKED_AT)
    found = [str(p) for p in sorted([path.resolve().parent, *below]) if _loader(p)]
    if found:
        hint = f"But there is one in {' and in '.join(found[:3])}."
    else:
        hint = (
            "Record one with: tfagents-x collect --run RUN --steps N --out DATA. Folders of RLDS "
            f"({' and '.join(rlds_folder.FILES)}) and of minari ({minari_folder.FILES[0]}) are "
            "read as well."
        )
    return f"There is no dataset in {os.fspath(folder)} (no {manifest_lib.FILE}). {hint}"


def _outside(values: np.ndarray, spec: specs.Array) -> bool:
    if values.dtype.kind not in "iu" or not isinstance(spec, specs.BoundedArray):
        return False
    return bool(np.any(values < spec.minimum) or np.any(values > spec.maximum))


def _shapes(spec: types.NestedSpec) -> Any:
    return tree.map_structure(lambda s: f"{s.dtype.name}{list(s.shape)}", spec)
