"""The table of an agent's settings."""

from __future__ import annotations

import dataclasses
import io

import pytest
from rich import console

from tfagents_x.agents import configs, registry
from tfagents_x.cli import settings


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings.

    Attributes:
      rate: how fast; given as
        a number.
      low, high: of the range.
      silent: [0, 1] says nothing.

    And then:
      more: text.
    """

    rate: float = 0.25
    low: int = 0
    high: int = 9
    silent: bool = True
    undocumented: str = "x"


def test_docs_are_read_from_the_attributes_section():
    assert settings.attribute_docs(Config) == {
        "rate": "how fast; given as a number.",
        "low": "of the range.",
        "high": "of the range.",
        "silent": "[0, 1] says nothing.",
    }


def test_a_class_without_docstring_has_no_docs():
    assert settings.attribute_docs(dataclasses.make_dataclass("C", [("x", int, 1)])) == {}


def _text(config_class):
    output = io.StringIO()
    console.Console(file=output, width=120).print(settings.make_table(config_class, "Settings"))
    return output.getvalue()


def test_the_table_has_all_fields_with_default_type_and_text():
    lines = _text(Config).splitlines()
    (rate,) = [line for line in lines if " rate" in line or line.startswith(("rate", "│rate"))]
    for part in ("0.25", "number", "how fast; given as a number."):
        assert part in rate
    assert all(any(name in line for line in lines) for name in configs.field_types(Config))


def test_square_brackets_are_text_not_markup():
    assert "[0, 1] says nothing." in _text(Config)


@pytest.mark.parametrize("agent", registry.names())
def test_every_setting_of_every_agent_is_explained(agent):
    config_class = registry.get_builder(agent).config_class
    assert set(settings.attribute_docs(config_class)) == set(configs.field_types(config_class))
