"""Spaces become specs, and values of one values of the other."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tfagents_x import specs
from tfagents_x.environments import spaces as conversions

NESTED = spaces.Dict(
    {
        "image": spaces.Box(0, 255, (4, 4, 3), np.uint8),
        "pair": spaces.Tuple([spaces.Discrete(3, start=-1), spaces.Box(-1.0, 1.0, (2,))]),
        "wheels": spaces.MultiDiscrete([3, 5], start=[10, 0]),
        "lamps": spaces.MultiBinary([2, 2]),
        "speed": spaces.Box(-np.inf, 3.0, (), np.float64),
    }
)


def test_discrete():
    spec = conversions.observation_space_to_spec(spaces.Discrete(4, start=2))
    assert isinstance(spec, specs.DiscreteArray)
    assert (spec.num_values, spec.dtype, spec.name) == (4, np.int32, "observation")


def test_nest():
    spec = conversions.observation_space_to_spec(NESTED)
    assert type(spec) is dict and type(spec["pair"]) is tuple
    image, wheels, speed = spec["image"], spec["wheels"], spec["speed"]
    assert image.shape == (4, 4, 3) and image.dtype == np.uint8 and image.maximum.max() == 255
    assert spec["pair"][0].num_values == 3 and spec["pair"][0].name == "observation['pair'][0]"
    assert spec["pair"][1].dtype == np.float32 and spec["pair"][1].minimum.tolist() == [-1, -1]
    assert wheels.dtype == np.int32 and wheels.maximum.tolist() == [2, 4]
    assert wheels.minimum.tolist() == [0, 0]
    assert spec["lamps"].shape == (2, 2) and spec["lamps"].maximum.max() == 1
    assert speed.dtype == np.float32 and speed.shape == ()
    assert speed.minimum == -np.inf and speed.maximum == 3.0


def test_observations_fit_their_spec_and_are_the_space_s_values():
    spec = conversions.observation_space_to_spec(NESTED)
    convert = conversions.observation_converter(NESTED)
    NESTED.seed(1)
    for _ in range(20):
        value = NESTED.sample()
        got = convert(value)
        for name in ("image", "wheels", "lamps", "speed"):
            spec[name].validate(got[name])
        for part, part_spec in zip(got["pair"], spec["pair"]):
            part_spec.validate(part)
        assert got["pair"][0] == value["pair"][0] + 1
        np.testing.assert_array_equal(got["wheels"], value["wheels"] - [10, 0])
        np.testing.assert_array_equal(got["image"], value["image"])


def test_actions_fit_their_space():
    spec = conversions.action_space_to_spec(NESTED)
    convert = conversions.action_converter(NESTED)
    for end in ("minimum", "maximum"):
        action = {
            "image": getattr(spec["image"], end),
            "pair": tuple(getattr(part, end) for part in spec["pair"]),
            "wheels": getattr(spec["wheels"], end),
            "lamps": getattr(spec["lamps"], end),
            "speed": np.float32(2.5),
        }
        assert NESTED.contains(convert(action)), convert(action)


@pytest.mark.parametrize("bound", [0.1, 0.3, 1e-50, 1.7e308, 16777217.0])
def test_float32_bounds_of_an_action_are_inside_the_float64_ones(bound):
    space = spaces.Box(-bound, bound, (2,), np.float64)
    spec = conversions.action_space_to_spec(space)
    assert spec.dtype == np.float32
    for action in (spec.minimum, spec.maximum):
        assert space.contains(conversions.action_converter(space)(action))
    if bound < 1e38:
        assert np.float32(bound) - spec.maximum[0] <= np.spacing(np.float32(bound))


def test_huge_bounds_are_infinite_without_a_warning(recwarn):
    bound = np.finfo(np.float64).max
    spec = conversions.observation_space_to_spec(spaces.Box(-bound, bound, (1,), np.float64))
    assert spec.maximum[0] == np.inf and spec.minimum[0] == -np.inf
    assert not recwarn.list


def test_discrete_actions_get_the_space_s_type_and_start():
    space = spaces.Discrete(3, start=5)
    convert = conversions.action_converter(space)
    for action in (0, np.int32(0), np.array(0, np.uint8), False):
        got = convert(action)
        assert got == 5 and isinstance(got, np.int64)
    assert convert(np.int32(2)) == 7


def test_huge_discrete_keeps_its_values():
    spec = conversions.observation_space_to_spec(spaces.Discrete(2**40))
    assert spec.dtype == np.int64 and spec.num_values == 2**40


@pytest.mark.parametrize(
    "space, action, message",
    [
        (spaces.Discrete(3), 3, "action must be between 0 and 2, got 3"),
        (spaces.Discrete(3, start=4), -1, "action must be between 0 and 2, got -1"),
        (spaces.Discrete(3), [1], r"must have shape \(\) and dtype int32, got shape \(1,\)"),
        (spaces.Discrete(3), 1.0, "dtype int32, got shape .* dtype float64"),
        (spaces.Discrete(3), None, "dtype int32, got shape .* dtype object"),
        (spaces.MultiDiscrete([2, 3]), [1, 3], r"must be between .* got \[1 3\]"),
        (spaces.MultiBinary(2), [0, 2], r"must be between \[0 0\] and \[1 1\], got \[0 2\]"),
        (spaces.Box(-1, 1, (2,)), [0.0, np.nan], "action is not finite"),
        (spaces.Box(-1, 1, (2,)), 0.0, r"must have shape \(2,\)"),
        (spaces.Box(0, 255, (1,), np.uint8), [0.5], "dtype uint8, got .* float64"),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"b": 0}, r"keys \['a'\], got \['b'\]"),
        (spaces.Dict({"a": spaces.Discrete(2)}), 0, r"keys \['a'\], got int"),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"a": 2}, r"action\['a'\] must be between"),
        (spaces.Tuple([spaces.Discrete(2)]), (0, 1), "tuple of 1 elements, got tuple of 2"),
        (spaces.Tuple([spaces.Discrete(2)]), 0, "tuple of 1 elements, got int"),
    ],
)
def test_bad_action_is_refused(space, action, message):
    with pytest.raises(ValueError, match=message):
        conversions.action_converter(space)(action)


def test_box_actions_beyond_the_bounds_are_the_environment_s_affair():
    got = conversions.action_converter(spaces.Box(-1, 1, (1,)))(np.array([2.0]))
    assert got.tolist() == [2.0] and got.dtype == np.float32


def test_observation_of_another_kind_is_left_for_the_check_to_name():
    got = conversions.observation_converter(spaces.Box(0, 255, (2,), np.uint8))([0.5, 1.5])
    assert got.dtype == np.float64 and got.tolist() == [0.5, 1.5]


def test_observations_are_copies():
    buffer = np.zeros(2, np.float32)
    got = conversions.observation_converter(spaces.Box(-1, 1, (2,)))(buffer)
    buffer[:] = 1
    assert got.tolist() == [0, 0]


def test_scalar_observations():
    convert = conversions.observation_converter(spaces.Discrete(2))
    assert convert(True) == 1 and convert(np.int64(1)).dtype == np.int32


def test_unsupported_space_is_named():
    space = spaces.Dict({"words": spaces.Text(5)})
    with pytest.raises(TypeError, match=r"observation\['words'\]: .* type Text has no spec"):
        conversions.observation_space_to_spec(space)


def test_missing_gymnasium_is_explained(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gymnasium", None)
    with pytest.raises(ImportError, match=r"pip install 'tfagents_x\[gym\]'"):
        conversions.observation_space_to_spec(gymnasium.spaces.Discrete(2))
