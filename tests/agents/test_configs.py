"""Configs from the fields that JSON gives back."""

from __future__ import annotations

import dataclasses
import json
from typing import Optional

import pytest

from tfagents_x.agents import configs
from tfagents_x.agents.impala import config as impala_config


@dataclasses.dataclass(frozen=True)
class Config:
    width: int = 3
    sizes: tuple[int, ...] = (1, 2)
    bound: Optional[float] = None


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
