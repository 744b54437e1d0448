"""Configs from the fields that JSON gives back."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Literal, Optional

import pytest

from tfagents_x.agents import configs
from tfagents_x.agents.impala import config as impala_config


@dataclasses.dataclass(frozen=True)
class Config:
    width: int = 3
    sizes: tuple[int, ...] = (1, 2)
    bound: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Wide:
    rate: float = 0.1
    fast: bool = False
    name: str = "x"
    mode: Literal["a", "b"] = "a"
    pair: tuple[int, float] = (1, 2.0)
    anything: Any = None
    sizes: tuple[int, ...] = ()
    bound: Optional[int] = None


def test_every_field_has_its_type_in_order():
    types = configs.field_types(Config)
    assert list(types) == ["width", "sizes", "bound"]
    assert types["width"] is int
    assert types["bound"] == Optional[float]


@pytest.mark.parametrize("wrong", [3, Config(), dict])
def test_field_types_wants_a_dataclass(wrong):
    with pytest.raises(TypeError, match="dataclass"):
        configs.field_types(wrong)


@pytest.mark.parametrize(
    "config",
    [
        Config(),
        Config(width=7, sizes=(), bound=0.5),
        impala_config.IMPALAConfig(hidden_sizes=(8, 4), max_abs_reward=1.0),
    ],
)
def test_round_trip_through_json(config):
    fields = json.loads(json.dumps(dataclasses.asdict(config)))
    assert configs.from_fields(type(config), fields) == config


def test_missing_fields_get_their_defaults():
    assert configs.from_fields(Config, {"width": 9}) == Config(width=9)


def test_unknown_fields_are_refused():
    with pytest.raises(ValueError, match=r"Config has no depth, height: .*another version"):
        configs.from_fields(Config, {"height": 1, "width": 2, "depth": 3})


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("rate", "0.1", "float"),
        ("rate", True, "float"),
        ("fast", 1, "bool"),
        ("name", None, "str"),
        ("mode", "c", r"Literal\['a', 'b'\]"),
        ("pair", [1], r"tuple\[int, float\]"),
        ("pair", [1.5, 1.0], r"tuple\[int, float\]"),
        ("sizes", 3, r"tuple\[int, \.\.\.\]"),
        ("sizes", [1, "2"], r"tuple\[int, \.\.\.\]"),
        ("bound", 1.5, "int"),
        ("bound", False, "int"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(name, value, wanted):
    with pytest.raises(ValueError, match=f"{name} must be .*{wanted}.*, got ") as caught:
        configs.from_fields(Wide, {name: value})
    assert str(caught.value).endswith(f"got {value!r}.")


def test_values_that_fit_are_taken():
    fields = {
        "rate": 1,
        "fast": True,
        "name": "",
        "mode": "b",
        "pair": [3, 4],
        "anything": {"x": [1]},
        "sizes": [5, 6],
        "bound": None,
    }
    config = configs.from_fields(Wide, fields)
    assert (config.rate, config.pair, config.sizes) == (1, (3, 4), (5, 6))
    assert configs.from_fields(Wide, {"bound": 2}).bound == 2
