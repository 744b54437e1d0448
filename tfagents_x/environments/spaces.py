"""From gymnasium spaces to dm_env specs, and the values of one to values of the other.

float64 becomes float32 and 64-bit indices become int32, the types that
accelerators have. gymnasium itself is imported on first use.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Callable

import numpy as np

from tfagents_x import specs, types
from tfagents_x.environments.checks import check_action, leaf_name

Converter = Callable[[Any], types.NestedArray]

_INT32_MAX = np.iinfo(np.int32).max


def import_gymnasium() -> ModuleType:
    """Returns the gymnasium module.

    Raises:
      ImportError: it is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module("gymnasium")
    except ImportError as error:
        raise ImportError(
            "gymnasium is needed for this environment but can't be imported "
            f"({error}). Install it with: pip install 'tfagents_x[gym]'"
        ) from error


def observation_space_to_spec(space: Any) -> types.NestedSpec:
    """Returns the spec of the observations that `GymnasiumWrapper` makes of `space`'s values.

    Args:
      space: a gymnasium Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or Tuple of these.

    Returns:
      `DiscreteArray` int32 for Discrete, `BoundedArray` for the other leaves, in dicts and tuples
      like the space's. Bounds are rounded to the nearest float32, as the values are.

    Raises:
      TypeError: a leaf is of another kind.
    """
    return _map_space(lambda leaf, name: _leaf_spec(leaf, name, False), space, "observation", ())


def action_space_to_spec(space: Any) -> types.NestedSpec:
    """Returns the spec of the actions that `GymnasiumWrapper.step` takes for `space`.

    As `observation_space_to_spec`, but float64 bounds are rounded inward: every float32 action
    inside the spec is inside the space.
    """
    return _map_space(lambda leaf, name: _leaf_spec(leaf, name, True), space, "action", ())


def float32_bounds(
    minimum: np.ndarray, maximum: np.ndarray, inward: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Float64 bounds as float32, rounded to the nearest, or into the range if `inward`."""
    with np.errstate(over="ignore"):  # Bounds of +-1.8e308 mean infinity.
        low, high = minimum.astype(np.float32), maximum.astype(np.float32)
    if inward:
        low = np.where(low < minimum, np.nextafter(low, np.float32(np.inf)), low)
        high = np.where(high > maximum, np.nextafter(high, np.float32(-np.inf)), high)
    return low, high


def observation_converter(space: Any) -> Converter:
    """Returns a function from values of `space` to nests of new arrays as its spec says.

    Only casts within a kind are done (float to float, int to int or float): anything else is
    left as it came, for `check_observation` to name. The function raises a ValueError where
    dict keys or tuple lengths differ from the space's.
    """
    return _nest_converter(_observation_leaf, space, "observation", ())


def action_converter(space: Any) -> Converter:
    """Returns a function from actions as `action_space_to_spec` says to values of `space`.

    The function raises a ValueError if an action has the wrong structure, shape or kind of
    dtype, is not finite, or (integer spaces) is out of range.
    """
    return _nest_converter(_action_leaf, space, "action", ())


def _map_space(leaf_fn: Callable[[Any, str], Any], space: Any, root: str, path: tuple) -> Any:
    spaces = import_gymnasium().spaces
    if isinstance(space, spaces.Dict):
        return {k: _map_space(leaf_fn, s, root, (*path, k)) for k, s in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        items = enumerate(space.spaces)
        return tuple(_map_space(leaf_fn, s, root, (*path, i)) for i, s in items)
    return leaf_fn(space, leaf_name(root, path))


def _leaf_spec(space: Any, name: str, inward: bool) -> specs.BoundedArray:
    spaces = import_gymnasium().spaces
    if isinstance(space, spaces.Discrete):
        return specs.DiscreteArray(int(space.n), _index_dtype(space.n), name)
    if isinstance(space, spaces.MultiDiscrete):
        largest = (space.nvec - 1).astype(_index_dtype(np.max(space.nvec)))
        return specs.BoundedArray(space.shape, largest.dtype, 0 * largest, largest, name)
    if isinstance(space, spaces.MultiBinary):
        ones = np.ones(space.shape, space.dtype)
        return specs.BoundedArray(space.shape, space.dtype, 0 * ones, ones, name)
    if isinstance(space, spaces.Box):
        return _box_spec(space, name, inward)
    raise TypeError(
        f"{name}: a gymnasium space of type {type(space).__name__} has no spec. Supported are Box, "
        "Discrete, MultiDiscrete, MultiBinary, Dict and Tuple; convert it with a "
        "gymnasium.ObservationWrapper or ActionWrapper."
    )


def _box_spec(space: Any, name: str, inward: bool) -> specs.BoundedArray:
    if space.dtype.kind != "f" or space.dtype.itemsize <= 4:
        return specs.BoundedArray(space.shape, space.dtype, space.low, space.high, name)
    low, high = float32_bounds(space.low, space.high, inward)
    return specs.BoundedArray(space.shape, np.float32, low, high, name)


def _index_dtype(count: Any) -> type:
    return np.int32 if count <= _INT32_MAX else np.int64


def _nest_converter(
    leaf_fn: Callable[[Any, str], Converter], space: Any, root: str, path: tuple
) -> Converter:
    spaces = import_gymnasium().spaces
    name = leaf_name(root, path)
    if isinstance(space, spaces.Dict):
        items = space.spaces.items()
        return _dict_converter(
            {k: _nest_converter(leaf_fn, s, root, (*path, k)) for k, s in items}, name
        )
    if isinstance(space, spaces.Tuple):
        children = enumerate(space.spaces)
        return _tuple_converter(
            tuple(_nest_converter(leaf_fn, s, root, (*path, i)) for i, s in children), name
        )
    return leaf_fn(space, name)


def _dict_converter(converters: Mapping[str, Converter], name: str) -> Converter:
    def convert(value: Any) -> dict:
        if not isinstance(value, Mapping) or value.keys() != converters.keys():
            got = sorted(value) if isinstance(value, Mapping) else type(value).__name__
            raise ValueError(f"{name} must be a dict with keys {sorted(converters)}, got {got}.")
        return {key: converter(value[key]) for key, converter in converters.items()}

    return convert


def _tuple_converter(converters: tuple, name: str) -> Converter:
    def convert(value: Any) -> tuple:
        if not isinstance(value, (tuple, list)) or len(value) != len(converters):
            raise ValueError(
                f"{name} must be a tuple of {len(converters)} elements, got {type(value).__name__}"
                f"{f' of {len(value)}' if isinstance(value, (tuple, list)) else ''}."
            )
        return tuple(converter(item) for converter, item in zip(converters, value))

    return convert


def _observation_leaf(space: Any, name: str) -> Converter:
    dtype = _leaf_spec(space, name, False).dtype
    start = getattr(space, "start", None)

    def convert(value: Any) -> np.ndarray:
        # A copy: many environments return the buffer that their next step overwrites.
        array = np.array(value)
        if start is not None and array.dtype.kind in "iu":
            array = np.asarray(array - start)
        if array.dtype != dtype and np.can_cast(array.dtype, dtype, "same_kind"):
            array = array.astype(dtype)
        return array

    return convert


def _action_leaf(space: Any, name: str) -> Converter:
    spec = _leaf_spec(space, name, True)
    start = getattr(space, "start", None)
    # Boxes judge their own bounds: many environments clip what exceeds them.
    bounded = not isinstance(space, import_gymnasium().spaces.Box)

    def convert(action: Any) -> Any:
        array = np.asarray(action)
        check_action(array, spec, bounded)
        if start is not None:
            array = array + start
        array = array.astype(space.dtype)
        return array[()] if bounded else array  # Discrete wants a scalar, a Box an array.

    return convert
