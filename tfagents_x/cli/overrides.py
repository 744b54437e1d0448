"""Settings of an agent from text: `key=value`, read as the type that the config's field has."""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterable
from typing import Any, Callable

from tfagents_x.agents import configs

# `int | None` is another type than `Optional[int]`, and exists from Python 3.10 on.
_UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))
_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")
_NONE = ("none", "null")


def apply(config: Any, assignments: Iterable[str]) -> Any:
    """Changes fields of a config.

    Args:
      config: a dataclass instance.
      assignments: texts `key=value`; of two for the same key, the later one counts.

    Returns:
      A new config of the same class.

    Raises:
      ValueError: no `=`, unknown key (the nearest are named), a value that can't be read as the
        field's type, or that the config refuses.
    """
    return dataclasses.replace(config, **parse(type(config), assignments))


def parse(config_class: type, assignments: Iterable[str]) -> dict[str, Any]:
    """Values by key; see `apply`."""
    wanted = configs.field_types(config_class)
    values = {}
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        key = key.strip()
        if not separator or not key:
            raise ValueError(f"A setting is written key=value, got {assignment!r}.")
        if key not in wanted:
            raise ValueError(_unknown(key, wanted))
        values[key] = _read_setting(key, text.strip(), wanted[key])
    return values


def describe(wanted: Any) -> str:
    """A type in words, as in 'whole number or none'."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in _UNIONS:
        return " or ".join(describe(a) for a in sorted(arguments, key=_is_none))
    if origin is tuple:
        return _describe_tuple(arguments)
    if origin is typing.Literal:
        return " or ".join(str(a) for a in arguments)
    names = {int: "whole number", float: "number", bool: "true or false", str: "text"}
    return names.get(wanted, "none" if _is_none(wanted) else getattr(wanted, "__name__", "value"))


def format_value(value: Any) -> str:
    """A value as it is written on the command line; the inverse of reading it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(map(format_value, value))
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def _describe_tuple(arguments: tuple[Any, ...]) -> str:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return f"{describe(arguments[0])}s joined by commas, like {_EXAMPLES[arguments[0]]}"
    return "(" + ",".join(map(describe, arguments)) + ")"


_EXAMPLES: dict[Any, str] = {int: "64,64", float: "0.5,1", str: "a,b", bool: "true,false"}


def _unknown(key: str, wanted: Iterable[str]) -> str:
    near = difflib.get_close_matches(key, list(wanted), n=3, cutoff=0.5)
    hint = f"Nearest: {', '.join(near)}." if near else f"There are: {', '.join(wanted)}."
    return f"Unknown setting {key!r}. {hint}"


def _read_setting(key: str, text: str, wanted: Any) -> Any:
    try:
        return _read(text, wanted)
    except ValueError:
        raise ValueError(f"{key} wants {describe(wanted)}, got {text!r}.") from None


def _read(text: str, wanted: Any) -> Any:
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in _UNIONS:
        return _first_that_reads(text, sorted(arguments, key=_is_none, reverse=True))
    if origin is tuple:
        return _read_tuple(text, arguments)
    if origin is typing.Literal:
        return {str(a): a for a in arguments}[text] if text in map(str, arguments) else _refuse()
    if _is_none(wanted):
        return None if text.lower() in _NONE else _refuse()
    readers: dict[Any, Callable[[str], Any]] = {
        bool: _read_bool,
        int: _read_int,
        float: float,
        str: str,
    }
    if wanted not in readers:
        raise TypeError(f"Settings of type {wanted} can't be given as text.")
    return readers[wanted](text)


def _first_that_reads(text: str, alternatives: Iterable[Any]) -> Any:
    for wanted in alternatives:
        try:
            return _read(text, wanted)
        except ValueError:
            continue
    return _refuse()


def _read_tuple(text: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    parts = [part.strip() for part in text.strip("()[]").split(",")]
    if parts[-1] == "":  # As in `64,`, or nothing at all.
        parts.pop()
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_read(part, arguments[0]) for part in parts)
    if len(parts) != len(arguments):
        _refuse()
    return tuple(_read(part, wanted) for part, wanted in zip(parts, arguments))


def _read_bool(text: str) -> bool:
    if text.lower() not in _TRUE + _FALSE:
        _refuse()
    return text.lower() in _TRUE


def _read_int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        number = float(text)  # Whole numbers may be written 1e5.
        return int(number) if number.is_integer() else _refuse()


def _refuse() -> Any:
    raise ValueError


def _is_none(wanted: Any) -> bool:
    return wanted is type(None)
