"""The fields of a config dataclass: their types, and a config read back from JSON."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, Callable

# `int | None` is another type than `Optional[int]`, and exists from Python 3.10 on.
_UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))


def field_types(config_class: type) -> dict[str, Any]:
    """The type of each field, in the order of the class.

    Raises:
      TypeError: `config_class` isn't a dataclass.
    """
    if not (isinstance(config_class, type) and dataclasses.is_dataclass(config_class)):
        raise TypeError(f"A config is a dataclass, got {config_class!r}.")
    hints = typing.get_type_hints(config_class)
    return {field.name: hints[field.name] for field in dataclasses.fields(config_class)}


def check(config: Any, wanted: str, fits: Callable[[Any], bool], *names: str) -> None:
    """Checks fields of a config, for its `__post_init__`.

    Args:
      config: whose fields.
      wanted: what they must be, in words.
      fits: whether a value is that.
      *names: of the fields.

    Raises:
      ValueError: one is not.
    """
    for name in names:
        if not fits(getattr(config, name)):
            raise ValueError(f"{name} must be {wanted}, got {getattr(config, name)}.")


def from_fields(config_class: type, fields: Mapping[str, Any]) -> Any:
    """Makes the config whose `dataclasses.asdict`, gone through JSON, is `fields`.

    A field that is missing gets its default, so that a config lives on when fields are added.

    Raises:
      ValueError: there is a field that the config hasn't, a value of another type than the
        field's, or one that the config refuses.
    """
    wanted = field_types(config_class)
    unknown = sorted(set(fields) - set(wanted))
    if unknown:
        raise ValueError(
            f"{config_class.__name__} has no {', '.join(unknown)}: the run was made by another "
            "version of tfagents_x. Use that version, or start a new run."
        )
    for name, value in fields.items():
        if not _fits(value, wanted[name]):
            raise ValueError(f"{name} must be {_type_name(wanted[name])}, got {value!r}.")
    return config_class(**{name: _tuples(value) for name, value in fields.items()})


def _fits(value: Any, wanted: Any) -> bool:
    """Whether a value from JSON is of a type; of types that JSON hasn't, every value is."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in _UNIONS:
        return any(_fits(value, a) for a in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is tuple:
        return isinstance(value, (list, tuple)) and _elements_fit(value, arguments)
    if isinstance(value, bool) and wanted in (int, float):  # A bool is an int to Python.
        return False
    if wanted is float:
        return isinstance(value, (int, float))
    return wanted not in (int, bool, str, type(None)) or isinstance(value, wanted)


def _elements_fit(values: typing.Sequence[Any], wanted: tuple[Any, ...]) -> bool:
    if len(wanted) == 2 and wanted[1] is Ellipsis:
        wanted = wanted[:1] * len(values)
    return len(values) == len(wanted) and all(map(_fits, values, wanted))


def _type_name(wanted: Any) -> str:
    plain = isinstance(wanted, type) and typing.get_origin(wanted) is None
    return wanted.__name__ if plain else str(wanted).replace("typing.", "")


def _tuples(value: Any) -> Any:
    # JSON has no tuples, and configs no lists: they are frozen.
    return tuple(map(_tuples, value)) if isinstance(value, (list, tuple)) else value
