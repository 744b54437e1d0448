"""Clipping of gradients against RLlib's numbers, and where it differs on purpose."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests import golden_cases
from tests.ops import modes
from tfagents_x.ops import clipping

WAYS = ("global_norm", "norm", "value")
CASES = golden_cases.load("ops_symlog_twohot", "clip_gradients__")


@functools.cache
def clip_by(way):
    def clip(grad_clip=None, **gradients):
        return clipping.clip_gradients(gradients, grad_clip=grad_clip, grad_clip_by=way)

    return clip


@modes.all_modes
@pytest.mark.parametrize("case", CASES, ids=golden_cases.ids)
def test_golden(case, mode):
    gradients = case.under("in.gradients")
    limit = {} if "in.grad_clip" not in case else {"grad_clip": case["in.grad_clip"]}
    result = modes.run(mode, clip_by(case["in.grad_clip_by"].item()), {**gradients, **limit})
    expected = case.under("out.gradients")
    assert set(result.gradients) == set(expected) == set(gradients)
    for name, value in expected.items():
        golden_cases.assert_close(result.gradients[name], value, rtol=1e-5, atol=1e-5)
    joint = case.optional("out.global_norm")
    if joint is None:  # the reference tells it in one way only
        joint = np.sqrt(sum(np.sum(np.square(g, dtype=np.float64)) for g in gradients.values()))
    golden_cases.assert_close(result.global_norm, joint, rtol=1e-5, atol=1e-5)


@modes.all_modes
@pytest.mark.parametrize("way", WAYS)
def test_none_is_kept(way, mode):
    def clip(a, b):
        nest = [a, None, {"b": b, "c": None}]
        return clipping.clip_gradients(nest, grad_clip=1.0, grad_clip_by=way)

    inputs = {"a": np.float32([3, 4]), "b": np.float32(0)}
    (a, none, rest), norm = modes.run(mode, clip, inputs)
    assert none is None and rest["c"] is None
    np.testing.assert_allclose(a, [1, 1] if way == "value" else [0.6, 0.8], rtol=1e-6)
    np.testing.assert_array_equal(rest["b"], 0)
    np.testing.assert_allclose(norm, 5.0)


def test_the_callers_structure_is_left_alone():
    given = {"b": tf.constant([3.0, 4.0]), "a": None}
    before = dict(given)
    result = clipping.clip_gradients(given, grad_clip=1.0, grad_clip_by="global_norm")
    assert result.gradients is not given
    assert all(given[k] is before[k] for k in before) and list(given) == ["b", "a"]


@pytest.mark.parametrize("empty", [[], [None], {}])
def test_nothing_to_clip(empty):
    result = clipping.clip_gradients(empty, grad_clip=1.0, grad_clip_by="global_norm")
    assert result.gradients == empty and result.global_norm == 0


@modes.all_modes
def test_a_norm_that_is_not_finite_spoils_its_own_gradient_only(mode):
    inputs = {"a": np.float32([np.inf, 1]), "b": np.float32([np.nan, 1]), "c": np.float32([3, 4])}
    result = modes.run(mode, clip_by("norm"), {**inputs, "grad_clip": np.float32(1)})
    assert np.isnan(result.gradients["a"]).all() and np.isnan(result.gradients["b"]).all()
    np.testing.assert_allclose(result.gradients["c"], [0.6, 0.8], rtol=1e-6)
    assert not np.isfinite(result.global_norm)


@modes.all_modes
def test_nan_stays_visible_by_value(mode):
    inputs = {"a": np.float32([np.nan, np.inf, -np.inf]), "grad_clip": np.float32(1)}
    result = modes.run(mode, clip_by("value"), inputs)
    np.testing.assert_array_equal(result.gradients["a"], [np.nan, 1, -1])


@pytest.mark.parametrize("way", WAYS)
def test_half_precision(way):
    # The square of 300 overflows float16.
    nest = [tf.constant([300.0, 400.0], tf.float16), tf.constant([0.0])]
    (half, single), norm = clipping.clip_gradients(nest, grad_clip=5.0, grad_clip_by=way)
    assert half.dtype == tf.float16 and single.dtype == tf.float32
    np.testing.assert_allclose(half, [5, 5] if way == "value" else [3, 4], rtol=1e-3)
    assert norm.dtype == tf.float32
    np.testing.assert_allclose(norm, 500.0)


def test_rows_that_were_gathered_twice_count_as_their_sum():
    table = tf.Variable([[1.0], [2.0]])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, [1, 1]) * [[3.0], [1.0]])
    gradient = tape.gradient(loss, table)
    assert isinstance(gradient, tf.IndexedSlices)
    (clipped,), norm = clipping.clip_gradients([gradient], grad_clip=2.0, grad_clip_by="norm")
    np.testing.assert_allclose(clipped, [[0.0], [2.0]])
    np.testing.assert_allclose(norm, 4.0)


def test_the_limit_may_be_a_tensor():
    limit = tf.Variable(1.0)
    clip = tf.function(
        lambda g: clipping.clip_gradients(g, grad_clip=limit, grad_clip_by="norm").gradients
    )
    np.testing.assert_allclose(clip(tf.constant([3.0, 4.0])), [0.6, 0.8], rtol=1e-6)
    limit.assign(10.0)
    np.testing.assert_allclose(clip(tf.constant([3.0, 4.0])), [3.0, 4.0])


BAD = {
    "way": ({"grad_clip_by": "nrom"}, ValueError, "'nrom', but must be one of .*'global_norm'"),
    "zero": ({"grad_clip": 0.0}, ValueError, "grad_clip is 0.*None for no limit"),
    "negative": ({"grad_clip": -1.0}, ValueError, "grad_clip is -1"),
    "nan": ({"grad_clip": np.nan}, ValueError, "grad_clip is nan"),
    "vector": ({"grad_clip": [1.0, 2.0]}, ValueError, "grad_clip has shape"),
    "integer": ({"gradients": {"w": tf.constant([1])}}, TypeError, "gradient w is int32"),
    "text": ({"gradients": [["x"]]}, TypeError, "gradient 0/0 is string"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments(name):
    changes, error, message = BAD[name]
    arguments = {"gradients": [tf.ones(2)], "grad_clip": 1.0, **changes}
    with pytest.raises(error, match=message):
        clipping.clip_gradients(**arguments)


@pytest.mark.parametrize("way", ["global_norm", "norm", "value"])
@pytest.mark.parametrize(("size", "limit"), [(1.0, np.inf), (1e-30, 1e-38), (0.0, 1e-38)])
def test_extreme_limits_do_no_harm(way, size, limit):
    given = [tf.fill([3], size)]
    clipped = clipping.clip_gradients(given, grad_clip=limit, grad_clip_by=way).gradients
    assert np.isfinite(clipped[0]).all()
    if limit > size:
        np.testing.assert_array_equal(clipped[0], given[0])
