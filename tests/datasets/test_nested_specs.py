"""Specs as JSON and back."""

from __future__ import annotations

import collections
import json

import numpy as np
import pytest

from tfagents_x import specs
from tfagents_x.datasets import nested_specs

NEST = {
    "image": specs.Array((2, 3, 1), np.uint8),
    "pair": (specs.Array((), np.float64), [specs.DiscreteArray(4, np.int64)]),
    "bounded": specs.BoundedArray((2,), np.float32, [-1.5, -np.inf], 0.1),
}


def assert_equal_specs(found, wanted):
    assert type(found) is type(wanted)
    if isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for key, value in wanted.items():
            assert_equal_specs(found[key], value)
    elif isinstance(wanted, (tuple, list)):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted):
            assert_equal_specs(a, b)
    else:
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        for name in ("minimum", "maximum", "num_values"):
            if hasattr(wanted, name):
                np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


def test_there_and_back():
    text = json.dumps(nested_specs.to_json(NEST), allow_nan=False)
    assert_equal_specs(nested_specs.from_json(json.loads(text)), NEST)


@pytest.mark.parametrize(
    "spec",
    [None, 3, {1: NEST["image"]}, collections.namedtuple("Pair", "a")(NEST["image"])],
    ids=["none", "number", "key", "named_tuple"],
)
def test_what_cannot_be_written(spec):
    with pytest.raises(TypeError, match="recorded"):
        nested_specs.to_json(spec)


@pytest.mark.parametrize(
    "content",
    [None, 3, {}, {"dict": 3}, {"array": {}}, {"array": {"shape": [1], "dtype": "text?"}}]
    + [{"tuple": [], "list": []}, {"set": []}],
)
def test_what_is_no_spec(content):
    with pytest.raises(ValueError, match="no array spec"):
        nested_specs.from_json(content)
