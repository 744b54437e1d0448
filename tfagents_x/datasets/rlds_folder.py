"""RLDS datasets on disk, as TensorFlow Datasets writes them (Ramos et al., 2021, arXiv:2111.02767).

TensorFlow Datasets is imported on first use.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Optional

import numpy as np
import tensorflow as tf
import tree

from tfagents_x import specs, types
from tfagents_x.datasets import foreign

#: What tells such a folder from others.
FILES = ("dataset_info.json", "features.json")

_NEEDED = ("observation", "action", "is_last")
_READ = (*_NEEDED, "reward", "discount", "is_terminal")
# More than any episode has.
_ALL = 1 << 40


def load(folder: str | os.PathLike) -> tuple[specs.EnvironmentSpec, types.Step]:
    """Reads the split `train`, or the only one, into memory.

    Episodes end as the format says: the last step holds the last observation alone, and
    `is_terminal` there whether the episode terminated. An episode whose last step isn't marked
    `is_last` was cut off while it was recorded: the action of that step is left out, since what
    came of it is not known. So are episodes without a single whole step.

    Returns:
      The spec, and rows as `episodes.load` gives them. 64-bit numbers become 32-bit ones. The
      format knows no bounds: of one discrete action there are as many as its class labels or,
      without these, as the greatest one says, and the rest is a plain `Array`. `rewards` are ()
      if none were recorded.

    Raises:
      ImportError: TensorFlow Datasets is not installed.
      ValueError: it holds no RLDS episodes, lacks what is needed, or is damaged.
    """
    tfds = _import_tfds()
    try:
        builder = tfds.builder_from_directory(os.fspath(folder))
    except Exception as error:  # Of any type: it runs what the files name.
        raise ValueError(
            f"TensorFlow Datasets can't open {os.fspath(folder)}: {type(error).__name__}: {error}"
        ) from error
    features = _step_features(tfds, builder.info.features, folder)
    spec = _make_spec(features, folder)
    try:
        rows = foreign.gather(spec, _episodes(tfds, builder, tuple(features), folder))
    except Exception as error:  # Of any type: the files are read now.
        raise foreign.unreadable(folder, error) from error
    return spec._replace(actions=_discrete(spec.actions, features["action"], rows)), rows


def _import_tfds() -> ModuleType:
    try:
        # The package itself hides why it can't be imported.
        from tensorflow_datasets import public_api
    except ImportError as error:
        raise ImportError(
            "TensorFlow Datasets is needed to read RLDS datasets but can't be imported "
            f"({error}). Install it with: pip install 'tfagents_x[rlds]'"
        ) from error
    return public_api


def _step_features(tfds: ModuleType, features: Any, folder: Any) -> dict[str, Any]:
    """Features of a step that are read, by name."""
    episode = _named(features)
    if not isinstance(episode.get("steps"), tfds.features.Dataset):
        raise ValueError(
            f"{os.fspath(folder)} is no RLDS dataset: it has no nested dataset 'steps', but "
            f"{', '.join(episode) or 'nothing with a name'}."
        )
    found = _named(episode["steps"].feature)
    missing = [name for name in _NEEDED if name not in found]
    if missing:
        raise ValueError(
            f"The steps in {os.fspath(folder)} lack {', '.join(missing)}; they have "
            f"{', '.join(found) or 'nothing with a name'}."
        )
    return {name: found[name] for name in _READ if name in found}


def _named(features: Any) -> dict[str, Any]:
    return dict(features) if hasattr(features, "keys") else {}


def _make_spec(features: dict[str, Any], folder: Any) -> specs.EnvironmentSpec:
    def convert(name: str) -> types.NestedSpec:
        info = features[name].get_tensor_info()
        return tree.map_structure_with_path(
            lambda path, x: _leaf_spec("/".join(map(str, (name, *path))), x, folder), info
        )

    return specs.EnvironmentSpec(
        observations=convert("observation"),
        actions=convert("action"),
        rewards=convert("reward") if "reward" in features else (),
        discounts=specs.BoundedArray((), np.float32, 0.0, 1.0),
    )


def _leaf_spec(name: str, info: Any, folder: Any) -> specs.Array:
    dtype = tf.as_dtype(info.dtype)
    if not (dtype.is_floating or dtype.is_integer or dtype.is_bool) or None in info.shape:
        raise ValueError(
            f"{name} in {os.fspath(folder)} is {dtype.name} of shape {info.shape}, but numbers of "
            "one known shape are needed. Write the dataset again without it, or convert it."
        )
    return specs.Array(info.shape, foreign.narrow_dtype(dtype.as_numpy_dtype), name)


def _discrete(spec: types.NestedSpec, feature: Any, rows: types.Step) -> types.NestedSpec:
    if tree.is_nested(spec) or spec.shape or not np.issubdtype(spec.dtype, np.integer):
        return spec
    count = getattr(feature, "num_classes", None) or int(rows.action.max()) + 1
    return specs.DiscreteArray(max(count, 1), spec.dtype, "action")


def _episodes(
    tfds: ModuleType, builder: Any, names: tuple[str, ...], folder: Any
) -> Iterator[types.Step]:
    """Episodes in the order of the files, so that numbers of rows always mean the same."""
    options = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
    episodes = builder.as_dataset(
        split=_split(builder, folder), shuffle_files=False, read_config=options
    )

    @tf.autograph.experimental.do_not_convert
    def whole(episode: Any) -> tf.data.Dataset:
        return episode["steps"].map(_select(names)).batch(_ALL)

    # Fused with a map, `batch` counts on to its size after the last step, here without end.
    unfused = tf.data.Options()
    unfused.experimental_optimization.map_and_batch_fusion = False
    for steps in episodes.flat_map(whole).with_options(unfused).as_numpy_iterator():
        episode = _episode(tree.map_structure(foreign.narrow, steps))
        if episode is not None:
            yield episode


def _select(names: tuple[str, ...]) -> Any:
    return tf.autograph.experimental.do_not_convert(lambda step: {n: step[n] for n in names})


def _split(builder: Any, folder: Any) -> str:
    splits = sorted(builder.info.splits)
    if "train" in splits or len(splits) == 1:
        return "train" if "train" in splits else splits[0]
    raise ValueError(
        f"{os.fspath(folder)} has no split 'train'; it has: {', '.join(splits) or 'none'}."
    )


def _episode(steps: dict[str, Any]) -> Optional[types.Step]:
    """The steps [L, ...] of an episode as N = L - 1 steps and a last observation."""
    is_last = steps["is_last"]
    length = len(is_last)
    if np.any(is_last[:-1]):
        raise ValueError("An episode goes on after the step that is marked is_last.")
    if length < 2:
        return None
    cut = lambda x: x[:-1]
    discount = np.ones([length - 1], np.float32)
    if "discount" in steps:
        discount = np.array(steps["discount"][:-1], np.float32)
    if "is_terminal" in steps and steps["is_terminal"][-1]:
        discount[-1] = 0.0
    return foreign.make_episode(
        steps["observation"],
        tree.map_structure(cut, steps["action"]),
        tree.map_structure(cut, steps.get("reward", ())),
        discount,
    )
