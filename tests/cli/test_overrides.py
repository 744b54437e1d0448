"""`--set key=value`."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any, Literal, Optional

import pytest

from tfagents_x.agents import configs
from tfagents_x.agents.impala.config import IMPALAConfig
from tfagents_x.cli import overrides


@dataclasses.dataclass(frozen=True)
class Config:
    batch_size: int = 16
    batch_norm: bool = False
    learning_rate: float = 1e-3
    clip: Optional[float] = 40.0
    name: str = "a"
    sizes: tuple[int, ...] = (64,)
    betas: tuple[float, float] = (0.9, 0.999)
    mode: Literal["mean", "sum"] = "mean"
    count: Optional[int] = None

    def __post_init__(self):
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {self.batch_size}.")


@pytest.mark.parametrize(
    ("assignment", "key", "value"),
    [
        ("batch_size=32", "batch_size", 32),
        ("batch_size=1e3", "batch_size", 1000),
        (" batch_size = 32 ", "batch_size", 32),
        ("batch_norm=true", "batch_norm", True),
        ("batch_norm=No", "batch_norm", False),
        ("batch_norm=1", "batch_norm", True),
        ("learning_rate=3e-4", "learning_rate", 3e-4),
        ("learning_rate=1", "learning_rate", 1.0),
        ("clip=none", "clip", None),
        ("clip=2", "clip", 2.0),
        ("name=x=y", "name", "x=y"),
        ("name=none", "name", "none"),
        ("sizes=64,32", "sizes", (64, 32)),
        ("sizes=(64, 32)", "sizes", (64, 32)),
        ("sizes=64,", "sizes", (64,)),
        ("sizes=", "sizes", ()),
        ("betas=0.5,1", "betas", (0.5, 1.0)),
        ("mode=sum", "mode", "sum"),
        ("count=None", "count", None),
        ("count=4", "count", 4),
    ],
)
def test_values_are_read_as_the_type_of_the_field(assignment, key, value):
    changed = overrides.apply(Config(), [assignment])
    assert getattr(changed, key) == value
    assert type(getattr(changed, key)) is type(value)
    assert dataclasses.replace(changed, **{key: getattr(Config(), key)}) == Config()


@pytest.mark.parametrize(
    ("assignment", "wanted"),
    [
        ("batch_size=many", "batch_size wants whole number, got 'many'"),
        ("batch_size=1.5", "batch_size wants whole number, got '1.5'"),
        ("batch_size=inf", "batch_size wants whole number, got 'inf'"),
        ("batch_size=", "batch_size wants whole number, got ''"),
        ("batch_norm=perhaps", "batch_norm wants true or false, got 'perhaps'"),
        ("learning_rate=fast", "learning_rate wants number, got 'fast'"),
        ("learning_rate=none", "learning_rate wants number, got 'none'"),
        ("clip=no", "clip wants number or none, got 'no'"),
        ("sizes=64,x", "sizes wants whole numbers joined by commas, like 64,64, got '64,x'"),
        ("sizes=64,,64", "sizes wants whole numbers"),
        ("betas=0.9", r"betas wants \(number,number\), got '0.9'"),
        ("mode=max", "mode wants mean or sum, got 'max'"),
    ],
)
def test_bad_values_are_refused_with_the_wanted_type(assignment, wanted):
    with pytest.raises(ValueError, match=wanted):
        overrides.apply(Config(), [assignment])


def test_unknown_keys_are_refused_with_the_nearest():
    with pytest.raises(ValueError, match=r"Unknown setting 'batchsize'\. Nearest: batch_size"):
        overrides.apply(Config(), ["batchsize=3"])
    with pytest.raises(ValueError, match=r"Unknown setting 'zzz'\. There are: batch_size, .*count"):
        overrides.apply(Config(), ["zzz=3"])


@pytest.mark.parametrize("assignment", ["batch_size", "=3", ""])
def test_text_that_is_no_assignment_is_refused(assignment):
    with pytest.raises(ValueError, match="written key=value, got"):
        overrides.apply(Config(), [assignment])


def test_what_the_config_refuses_is_refused():
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        overrides.apply(Config(), ["batch_size=0"])


def test_the_last_of_several_counts():
    changed = overrides.apply(Config(), ["batch_size=3", "name=b", "batch_size=4"])
    assert changed == Config(batch_size=4, name="b")


@pytest.mark.skipif(sys.version_info < (3, 10), reason="such a type needs Python 3.10")
def test_unions_written_with_a_bar():
    @dataclasses.dataclass(frozen=True)
    class New:
        clip: float | None = None

    assert overrides.apply(New(), ["clip=3"]).clip == 3.0
    assert overrides.apply(New(), ["clip=none"]).clip is None


def test_a_type_that_has_no_text_form_is_refused():
    @dataclasses.dataclass(frozen=True)
    class Odd:
        thing: dict[str, Any] = dataclasses.field(default_factory=dict)

    with pytest.raises(TypeError, match="can't be given as text"):
        overrides.apply(Odd(), ["thing=x"])


@pytest.mark.parametrize("config", [Config(), IMPALAConfig()])
def test_every_default_can_be_written_as_text(config):
    for key in configs.field_types(type(config)):
        value = getattr(config, key)
        assignment = f"{key}={overrides.format_value(value)}"
        assert getattr(overrides.apply(config, [assignment]), key) == value, assignment
