"""The settings of an agent as a table: name, type, default, and what the docstring says."""

from __future__ import annotations

import inspect
import re

from rich import console, table

from tfagents_x.agents import configs
from tfagents_x.cli import overrides

_ENTRY = re.compile(r"(?P<names>\w+(?:, *\w+)*):\s*(?P<text>.*)")


def make_table(config_class: type, title: str) -> table.Table:
    """A table with a row for each field of a config dataclass."""
    docs = attribute_docs(config_class)
    defaults = config_class()
    result = table.Table(title=title, title_justify="left", header_style="bold")
    result.add_column("setting", style="cyan", no_wrap=True)
    result.add_column("default", no_wrap=True)
    result.add_column("type", style="dim")
    result.add_column("what it is")
    for name, wanted in configs.field_types(config_class).items():
        default = overrides.format_value(getattr(defaults, name))
        result.add_row(name, default, overrides.describe(wanted), docs.get(name, ""))
    return result


def attribute_docs(config_class: type) -> dict[str, str]:
    """What the `Attributes:` section of a Google-style docstring says about each name.

    Names that share an entry (`a, b: of Adam.`) share its text.
    """
    docs = {}
    for line in _entries(inspect.getdoc(config_class) or ""):
        entry = _ENTRY.fullmatch(line)
        if entry:
            docs.update({n.strip(): entry["text"] for n in entry["names"].split(",")})
    return docs


def _entries(docstring: str) -> list[str]:
    """The entries of the section, each on one line."""
    entries: list[tuple[int, str]] = []
    inside = False
    for line in docstring.splitlines():
        indent, text = len(line) - len(line.lstrip()), line.strip()
        if not indent and text:
            inside = text == "Attributes:"
        elif inside and text and entries and indent > entries[0][0]:
            entries[-1] = (entries[-1][0], f"{entries[-1][1]} {text}")
        elif inside and text:
            entries.append((indent, text))
    return [text for _, text in entries]


def show(config_class: type, agent: str) -> None:
    """Prints the table, and how to use it."""
    output = console.Console(highlight=False)
    output.print(make_table(config_class, f"Settings of {agent}"))
    output.print("Change them with: tfagents-x train --set KEY=VALUE ...", style="dim")
