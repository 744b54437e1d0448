"""What a row of replay looks like, and what items are made of rows.

A row is a `types.Step`. An item is either a sequence (consecutive rows, a `Step`
with leaves [T, ...]) or a `Transition` (two rows `n` apart, the observation of
the second being `next_observation`). Both point at rows, so overlapping items
share them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
import tree

from tfagents_x import specs, types


@dataclasses.dataclass(frozen=True)
class Signature:
    """Type of the items of a replay. Made by `sequence_signature` or `transition_signature`.

    Attributes:
      step: `types.Step` of specs: shapes and dtypes of one row (no time dimension).
      sequence_length: rows of every item, or None where items may differ in length.
      transitions: whether items are `Transition`s instead of sequences.
    """

    step: types.Step
    sequence_length: Optional[int] = None
    transitions: bool = False

    def item_spec(self) -> Any:
        """The item's nest, a `Leaf` (shape without batch dimension, dtype) at every leaf."""
        row = tree.map_structure(_leaf, self.step)
        if self.transitions:
            return types.Transition(
                row.observation,
                row.action,
                row.reward,
                row.discount,
                row.observation,
                row.extras,
            )
        time = (self.sequence_length,)
        return tree.map_structure(lambda leaf: Leaf(time + leaf.shape, leaf.dtype), row)


@dataclasses.dataclass(frozen=True)
class Leaf:
    """Shape (None where it varies) and numpy dtype of one leaf."""

    shape: tuple
    dtype: np.dtype


def _leaf(spec: Any) -> Leaf:
    """Reads a dm_env spec, a `tf.TensorSpec` or an array."""
    if not (hasattr(spec, "shape") and hasattr(spec, "dtype")):
        raise ValueError(
            f"a spec must have a shape and a dtype, got {spec!r}: use dm_env.specs.Array"
        )
    dtype = getattr(spec.dtype, "as_numpy_dtype", spec.dtype)
    return Leaf(tuple(int(size) for size in spec.shape), np.dtype(dtype))


def _step_spec(environment_spec: specs.EnvironmentSpec, extras_spec: types.NestedSpec) -> Any:
    def as_float32(spec: Any) -> specs.Array:
        # dm_env's defaults are float64, which no learner wants.
        return specs.Array(spec.shape, np.float32, name=spec.name)

    return types.Step(
        observation=environment_spec.observations,
        action=environment_spec.actions,
        reward=as_float32(environment_spec.rewards),
        discount=as_float32(environment_spec.discounts),
        start_of_episode=specs.Array((), bool, name="start_of_episode"),
        extras=extras_spec,
    )


def sequence_signature(
    environment_spec: specs.EnvironmentSpec,
    extras_spec: types.NestedSpec = (),
    sequence_length: Optional[int] = None,
) -> Signature:
    """Items are sequences of `types.Step`.

    Args:
      environment_spec: of the environment; float64 rewards and discounts become float32.
      extras_spec: nest of specs (shape and dtype) of what the actor adds to each step.
      sequence_length: rows of every item. None allows any length, at the price of
        datasets without a static time dimension (which TPUs need).

    Raises:
      ValueError: `sequence_length` < 1.
    """
    if sequence_length is not None and sequence_length < 1:
        raise ValueError(f"sequence_length is {sequence_length}, must be >= 1")
    return Signature(_step_spec(environment_spec, extras_spec), sequence_length)


def transition_signature(
    environment_spec: specs.EnvironmentSpec, extras_spec: types.NestedSpec = ()
) -> Signature:
    """Items are `types.Transition`s, as `NStepTransitionAdder` writes them."""
    return Signature(_step_spec(environment_spec, extras_spec), transitions=True)


# The fields of `Step` in the order in which a `Transition` holds them.
_TRANSITION_FIELDS = ("observation", "action", "reward", "discount", "observation", "extras")

# What follows from an observation: the second half of a row.
_OUTCOME = ("action", "reward", "discount", "extras")


class RowFormat:
    """Takes rows apart into checked arrays, and puts flat leaves together again.

    Leaves are numbered in the order of `tree.flatten(step)`.

    Attributes:
      names: path of each leaf, for messages ('observation/pixels').
      shapes, dtypes: of each leaf.
      outcome_leaves: numbers of the leaves of action, reward, discount and extras.
    """

    def __init__(self, step_spec: types.Step):
        self._spec = step_spec
        self._ranges: dict = {}
        self.names: list = []
        self.shapes: list = []
        self.dtypes: list = []
        for field, spec in zip(types.Step._fields, step_spec):
            first = len(self.names)
            for path, leaf in tree.flatten_with_path(spec):
                self.names.append("/".join([field, *(str(part) for part in path)]))
                self.shapes.append(_leaf(leaf).shape)
                self.dtypes.append(_leaf(leaf).dtype)
            self._ranges[field] = range(first, len(self.names))
        self.outcome_leaves = [i for field in _OUTCOME for i in self._ranges[field]]
        self._castable = {(i, dtype) for i, dtype in enumerate(self.dtypes)}
        self._seen: set = set()

    @property
    def num_leaves(self) -> int:
        """Number of leaves of a row."""
        return len(self.names)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        sizes = (
            int(np.prod(s, dtype=np.int64)) * d.itemsize for s, d in zip(self.shapes, self.dtypes)
        )
        return sum(sizes)

    def leaves(self, field: str) -> range:
        """Numbers of the leaves of one field of `Step`."""
        return self._ranges[field]

    def flatten(self, field: str, value: types.NestedArray) -> list:
        """Returns the leaves of `value` as arrays of the right shape and a castable dtype.

        Raises:
          ValueError: `value` has another structure, shape or dtype than the spec.
        """
        return self._flatten((field,), self._ranges[field], (value,))

    def flatten_outcome(
        self,
        action: types.NestedArray,
        reward: types.NestedArray,
        discount: types.NestedArray,
        extras: types.NestedArray,
    ) -> list:
        """`flatten` of the four at once, the leaves `outcome_leaves`."""
        return self._flatten(_OUTCOME, self.outcome_leaves, (action, reward, discount, extras))

    def zeros(self, field: str) -> list:
        """Zero leaves of one field."""
        return [np.zeros(self.shapes[i], self.dtypes[i]) for i in self._ranges[field]]

    def zero_outcome(self) -> list:
        """Zero leaves `outcome_leaves`."""
        return [leaf for field in _OUTCOME for leaf in self.zeros(field)]

    def unflatten(self, leaves: Sequence[Any]) -> types.Step:
        """Puts leaves (of any shape) into a `Step`."""
        return tree.unflatten_as(self._spec, leaves)

    def unflatten_transition(self, leaves: Sequence[Any]) -> types.Transition:
        """Puts leaves (of any shape), in the order of its fields, into a `Transition`."""
        rest, parts = list(leaves), []
        for field in _TRANSITION_FIELDS:
            size = len(self._ranges[field])
            parts.append(tree.unflatten_as(getattr(self._spec, field), rest[:size]))
            rest = rest[size:]
        return types.Transition(*parts)

    def _flatten(self, fields: tuple, numbers: Sequence[int], values: tuple) -> list:
        flat = tree.flatten(values)
        # Comparing whole structures takes longer than storing the row. Once is enough to
        # catch a wrong nest; later rows are held to the leaf count, shapes and dtypes.
        if len(flat) != len(numbers) or fields not in self._seen:
            for field, value in zip(fields, values):
                self._check_structure(field, value)
            self._seen.add(fields)
        arrays = []
        for i, value in zip(numbers, flat):
            array = value if type(value) is np.ndarray else np.asarray(value)
            if array.shape != self.shapes[i] or (i, array.dtype) not in self._castable:
                self._check_leaf(i, array)
            arrays.append(array)
        return arrays

    def _check_structure(self, field: str, value: types.NestedArray) -> None:
        spec = getattr(self._spec, field)
        try:
            tree.assert_same_structure(spec, value, check_types=False)
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{field} has another structure than its spec.\n  given:  "
                f"{_describe(value)}\n  wanted: {_describe(spec)}"
            ) from error

    def _check_leaf(self, number: int, array: np.ndarray) -> None:
        name, wanted = self.names[number], self.dtypes[number]
        if array.shape != self.shapes[number]:
            raise ValueError(f"{name} has shape {array.shape}, its spec says {self.shapes[number]}")
        if np.can_cast(array.dtype, wanted, "same_kind"):
            self._castable.add((number, array.dtype))
        elif not _fits(array, wanted):
            raise ValueError(
                f"{name} has dtype {array.dtype}, its spec says {wanted}: "
                "convert it before adding it, or change the spec"
            )


def _fits(array: np.ndarray, dtype: np.dtype) -> bool:
    """Whether integers of another signedness fit (a Python int for a uint8 leaf, say)."""
    if array.dtype.kind not in "iu" or dtype.kind not in "iu":
        return False
    info = np.iinfo(dtype)
    return bool(np.all(array >= info.min) and np.all(array <= info.max))


def _describe(nest: Any) -> str:
    return str(tree.map_structure(lambda x: f"{type(x).__name__}{_shape(x)}", nest))


def _shape(leaf: Any) -> str:
    return str(list(leaf.shape)) if hasattr(leaf, "shape") else ""
