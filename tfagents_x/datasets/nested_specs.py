"""Environment specs as JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfagents_x import specs, types


def to_json(spec: types.NestedSpec) -> Any:
    """A nest of array specs as plain lists and dictionaries.

    Args:
      spec: dictionaries with text keys, tuples and lists of dm_env array specs.

    Raises:
      TypeError: it holds something else.
    """
    if isinstance(spec, Mapping):
        if not all(isinstance(key, str) for key in spec):
            raise TypeError(f"Keys of a recorded observation must be texts, got {list(spec)}.")
        return {"dict": {key: to_json(value) for key, value in spec.items()}}
    if type(spec) in (tuple, list):  # A named tuple would come back as a plain one.
        return {type(spec).__name__: [to_json(value) for value in spec]}
    if isinstance(spec, specs.Array):
        return {"array": _leaf(spec)}
    raise TypeError(
        "What is recorded must be a nest of dictionaries, tuples, lists and dm_env specs, got "
        f"a {type(spec).__name__}."
    )


def from_json(content: Any) -> types.NestedSpec:
    """What `to_json` was given.

    Raises:
      ValueError: `content` isn't what it returns.
    """
    try:
        (kind, value), *more = content.items()
        if more:
            raise ValueError(f"one of dict, tuple, list, array was expected, got {content}")
        if kind == "dict":
            return {key: from_json(item) for key, item in value.items()}
        if kind in ("tuple", "list"):
            return {"tuple": tuple, "list": list}[kind](from_json(item) for item in value)
        return _array(**value)
    except (AttributeError, TypeError, KeyError, ValueError) as error:
        raise ValueError(f"This is no array spec: {content!r} ({error}).") from error


def _leaf(spec: specs.Array) -> dict[str, Any]:
    result: dict[str, Any] = {"shape": list(spec.shape), "dtype": spec.dtype.name}
    if isinstance(spec, specs.DiscreteArray):
        return {**result, "num_values": int(spec.num_values)}
    if isinstance(spec, specs.BoundedArray):
        # Infinity is no JSON, but text is.
        bounds = {name: getattr(spec, name) for name in ("minimum", "maximum")}
        return {**result, **{k: np.asarray(v).astype(str).tolist() for k, v in bounds.items()}}
    return result


def _array(
    shape: list[int],
    dtype: str,
    num_values: Any = None,
    minimum: Any = None,
    maximum: Any = None,
) -> specs.Array:
    if num_values is not None:
        return specs.DiscreteArray(num_values, np.dtype(dtype))
    if minimum is None:
        return specs.Array(shape, np.dtype(dtype))
    low, high = (np.asarray(bound).astype(dtype) for bound in (minimum, maximum))
    return specs.BoundedArray(shape, np.dtype(dtype), low, high)
