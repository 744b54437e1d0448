"""The fields of a config dataclass: their types, and a config read back from JSON."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any


def field_types(config_class: type) -> dict[str, Any]:
    """The type of each field, in the order of the class.

    Raises:
      TypeError: `config_class` isn't a dataclass.
    """
    if not (isinstance(config_class, type) and dataclasses.is_dataclass(config_class)):
        raise TypeError(f"A config is a dataclass, got {config_class!r}.")
    hints = typing.get_type_hints(config_class)
    return {field.name: hints[field.name] for field in dataclasses.fields(config_class)}


def from_fields(config_class: type, fields: Mapping[str, Any]) -> Any:
    """Makes the config whose `dataclasses.asdict`, gone through JSON, is `fields`.

    A field that is missing gets its default, so that a config lives on when fields are added.

    Raises:
      ValueError: there is a field that the config hasn't, or a value that it refuses.
    """
    unknown = sorted(set(fields) - set(field_types(config_class)))
    if unknown:
        raise ValueError(
            f"{config_class.__name__} has no {', '.join(unknown)}: the run was made by another "
            "version of tfagents_x. Use that version, or start a new run."
        )
    return config_class(**{name: _tuples(value) for name, value in fields.items()})


def _tuples(value: Any) -> Any:
    # JSON has no tuples, and configs no lists: they are frozen.
    return tuple(map(_tuples, value)) if isinstance(value, (list, tuple)) else value
