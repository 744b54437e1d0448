"""Checks on what an environment hands out, so that a bad number stops where it appears."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import dm_env
import numpy as np
import tree

from tfagents_x import specs, types


def check_finite(timestep: dm_env.TimeStep, episode: int, step: int) -> None:
    """Checks that reward, discount and every floating-point observation are finite.

    Args:
      timestep: what `reset()` (reward and discount None) or `step()` returned.
      episode: index of the episode, from 0, for the message.
      step: number of actions taken in the episode so far, for the message.

    Raises:
      ValueError: a value is NaN or infinite, or reward or discount is not a scalar number.
    """
    if not timestep.first():
        _check_scalar("reward", timestep.reward, episode, step)
        _check_scalar("discount", timestep.discount, episode, step)
    # Naming the leaf costs more than finding out that all is well.
    if all(map(_all_finite, tree.flatten(timestep.observation))):
        return
    for path, leaf in tree.flatten_with_path(timestep.observation):
        if not _all_finite(leaf):
            raise _not_finite(leaf_name("observation", path), leaf, episode, step)


def check_observation(observation: types.NestedArray, spec: types.NestedSpec, episode: int) -> None:
    """Checks that `observation` has the structure, shapes and dtypes of `spec`.

    Raises:
      ValueError: it has not; the message names the first leaf that differs.
    """
    if _leaf_names(observation) != _leaf_names(spec):
        raise ValueError(
            f"The first observation of episode {episode} has other leaves than "
            f"observation_spec():\n  observation: {_leaf_names(observation)}\n"
            f"  spec:        {_leaf_names(spec)}\nMake the environment return what it declares."
        )
    for (path, leaf), leaf_spec in zip(tree.flatten_with_path(observation), tree.flatten(spec)):
        _check_leaf(leaf_name("observation", path), np.asarray(leaf), leaf_spec, episode)


def check_action(action: np.ndarray, spec: specs.BoundedArray, bounded: bool) -> None:
    """Checks one action, or one leaf of it, before the environment gets it.

    Args:
      action: the array.
      spec: what it should be; its name is the message's.
      bounded: whether it must also lie within the spec's bounds.

    Raises:
      ValueError: it has another shape or kind of dtype, isn't finite, or is out of bounds.
    """
    wanted = "fiub" if spec.dtype.kind == "f" else "iub"
    name = spec.name or "action"
    if action.shape != tuple(spec.shape) or action.dtype.kind not in wanted:
        raise ValueError(
            f"{name} must have shape {tuple(spec.shape)} and dtype {spec.dtype}, got shape "
            f"{action.shape} and dtype {action.dtype}. Actions carry no batch dimension here."
        )
    if bounded and ((action < spec.minimum) | (action > spec.maximum)).any():
        raise ValueError(f"{name} must be between {spec.minimum} and {spec.maximum}, got {action}.")
    if action.dtype.kind == "f" and not np.isfinite(action).all():
        raise ValueError(f"{name} is not finite: {action}. The policy gave NaN or infinity.")


def leaf_name(root: str, path: Sequence[Any]) -> str:
    """Returns the name of the leaf at `path` of the nest `root`, like `observation['x'][0]`."""
    return root + "".join(f"[{key!r}]" for key in path)


def _check_leaf(name: str, leaf: np.ndarray, spec: Any, episode: int) -> None:
    if tuple(leaf.shape) == tuple(spec.shape) and leaf.dtype == spec.dtype:
        return
    raise ValueError(
        f"{name}, first of episode {episode}, has shape {tuple(leaf.shape)} and dtype "
        f"{leaf.dtype}, but observation_spec() says shape {tuple(spec.shape)} and dtype "
        f"{np.dtype(spec.dtype)}. Make the environment return what it declares."
    )


def _check_scalar(name: str, value: Any, episode: int, step: int) -> None:
    if isinstance(value, (float, np.float32)) and math.isfinite(value):
        return  # By far the most common, and numpy is slow on scalars.
    array = np.asarray(value)
    if array.shape != () or array.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} at step {step} of episode {episode} must be one number, got {value!r} "
            f"({type(value).__name__})."
        )
    if not np.isfinite(array):
        raise _not_finite(name, array, episode, step)


def _all_finite(leaf: Any) -> bool:
    array = np.asarray(leaf)
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())


def _not_finite(name: str, value: Any, episode: int, step: int) -> ValueError:
    array = np.asarray(value)
    bad = ~np.isfinite(array)
    number = f"{array[bad].flat[0]}"
    count = f", {int(bad.sum())} of {array.size} elements" if array.size > 1 else ""
    article = "an" if name[0] in "aeiou" else "a"
    return ValueError(
        f"The environment gave {article} {name} that is not finite ({number}{count}) at step "
        f"{step} of episode {episode} (episodes count from 0). Fix or clip it in the environment: "
        "training on it would turn the parameters into NaN."
    )


def _leaf_names(nest: types.Nest) -> str:
    return ", ".join(leaf_name("observation", path) for path, _ in tree.flatten_with_path(nest))
