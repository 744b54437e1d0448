"""Checks of what learners are given, made once: at construction, or when a batch is traced."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import types
from tfagents_x.utils import nest

LARGEST = float(np.finfo(np.float32).max)
#: Range of positive numbers that stay positive and finite as float32.
POSITIVE = (1e-30, LARGEST)


def check_number(
    name: str, value: Any, low: float = -math.inf, high: float = math.inf, optional: bool = False
) -> None:
    """Refuses what is no number in [low, high].

    Raises:
      TypeError: not a real number (None is one if `optional`).
      ValueError: NaN, or outside the range.
    """
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    if not low <= float(value) <= high:
        raise ValueError(f"{name} must be between {low} and {high}, got {value}.")


def check_count(name: str, value: Any, low: int = 1) -> None:
    """Refuses what is no int of at least `low` (TypeError, ValueError)."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an int, got {value!r}.")
    if value < low:
        raise ValueError(f"{name} must be at least {low}, got {value}.")


def check_flag(name: str, value: Any) -> None:
    """Refuses what is neither True nor False (TypeError)."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}.")


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Refuses what is none of `choices` (ValueError)."""
    if value not in tuple(choices):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")


def check_network(name: str, network: Any) -> snt.Module:
    """Returns a module that has its variables (TypeError, ValueError)."""
    if not isinstance(network, snt.Module):
        raise TypeError(f"{name} must be a snt.Module, got {type(network).__name__}.")
    if not nest.variables_of(network):
        raise ValueError(
            f"{name} has no variables yet. Call it once on a batch, or use "
            "tfagents_x.utils.create_variables(network, [spec, ...])."
        )
    return network


def check_core(name: str, network: Any) -> None:
    """Refuses what is no recurrent core with variables (TypeError, ValueError)."""
    if not isinstance(network, snt.RNNCore):
        raise TypeError(
            f"{name} must be a recurrent core (snt.RNNCore), got {network!r}. Wrap a feed-forward "
            "one in snt.DeepRNN([network]), a critic in networks.CriticDeepRNN([network])."
        )
    check_network(name, network)


def check_method(name: str, thing: Any, method: str, example: str) -> None:
    """Refuses what has no such method (TypeError); `example` says what would do."""
    if isinstance(thing, type):
        raise TypeError(
            f"{name} must be {example}, got the class {thing.__name__}: make one, as in "
            f"{thing.__name__}(...)."
        )
    if not callable(getattr(thing, method, None)):
        raise TypeError(f"{name} must be {example}, got {thing!r}.")


def check_leaves(
    name: str,
    data: types.NestedTensor,
    spec: types.NestedSpec,
    leading: tuple = (),
) -> None:
    """Compares a batch with its specs.

    Args:
      name: how messages call the batch.
      data: nest of tensors [*leading, ...].
      spec: nest of the same structure with `shape` and `dtype` at every leaf.
      leading: static sizes of the leading axes, None for one that is unknown.

    Raises:
      ValueError: another structure, or a leaf of another shape.
      TypeError: a leaf of another dtype (64-bit specs are compared as 32-bit ones).
    """
    try:
        tree.assert_same_structure(data, spec, check_types=False)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} has another structure than its spec: got {describe(data)}, wanted "
            f"{describe(spec)}."
        ) from None
    for (path, leaf), wanted in zip(tree.flatten_with_path(data), tree.flatten(spec)):
        where = "/".join([name, *map(str, path)])
        shape = tf.TensorShape(leading).concatenate(wanted.shape)
        if not leaf.shape.is_compatible_with(shape):
            raise ValueError(f"{where} has shape {tuple(leaf.shape)}, wanted {tuple(shape)}.")
        dtype = nest.narrow_dtype(tf.as_dtype(wanted.dtype))
        if leaf.dtype != dtype:
            raise TypeError(
                f"{where} has dtype {leaf.dtype.name}, its spec {dtype.name}. Cast it where it is "
                "recorded, or change the spec."
            )


def check_leading(name: str, data: types.NestedTensor, leading: tuple) -> None:
    """Refuses a nest that is empty, or has a leaf that begins otherwise (ValueError)."""
    if not tree.flatten(data):
        raise ValueError(f"{name} is empty, but must have leaves {list(leading)} + [...].")
    for path, leaf in tree.flatten_with_path(data):
        if not leaf.shape[: len(leading)].is_compatible_with(leading):
            where = "/".join([name, *map(str, path)])
            raise ValueError(
                f"{where} has shape {tuple(leaf.shape)}, but must begin with {list(leading)}, "
                "as the actions do."
            )


def describe(data: Any) -> Any:
    """The nest with a short text in place of every leaf: its shape, or its type."""
    text = lambda leaf: str(list(leaf.shape)) if hasattr(leaf, "shape") else type(leaf).__name__
    return tree.map_structure(text, data)
