"""Rearranging nests, against Acme's numbers, and creating variables from specs."""

from __future__ import annotations

import functools
from collections import namedtuple

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from tests import golden_cases
from tests.ops import modes
from tfagents_x import specs
from tfagents_x.utils import modules, nest

F32 = np.float32


def cases(function):
    found = golden_cases.load("ops_tensor_utils", f"{function}__")
    return pytest.mark.parametrize("case", found, ids=golden_cases.ids)


def rebuilt(flat, name):
    """The nest whose leaves are `flat["name.path"]`; numbers in paths are tuple positions."""
    if name in flat:
        return flat[name]
    keys = [key[len(name) + 1 :] for key in flat if key.startswith(f"{name}.")]
    below = {key: flat[f"{name}.{key}"] for key in keys}
    parts = {head: rebuilt(below, head) for head in dict.fromkeys(k.split(".")[0] for k in keys)}
    return tuple(parts.values()) if all(map(str.isdigit, parts)) else parts


def assert_same(actual, case, name):
    expected = rebuilt(case.under("out"), name)
    tree.assert_same_structure(actual, expected)
    for one, other in zip(tree.flatten(actual), tree.flatten(expected)):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


# ---- Golden values ----


@functools.cache
def tile(multiple):
    return lambda **inputs: nest.tile_nested(rebuilt(inputs, "inputs"), multiple)


@modes.all_modes
@cases("tile_nested")
def test_tile_nested(case, mode):
    inputs = case.under("in")
    multiple = inputs.pop("multiple").item()
    assert_same(modes.run(mode, tile(multiple), inputs), case, "tiled")


def swapped(**inputs):
    return nest.batch_to_sequence(rebuilt(inputs, "data"))


@modes.all_modes
@cases("batch_to_sequence")
def test_batch_to_sequence_golden(case, mode):
    assert_same(modes.run(mode, swapped, case.under("in")), case, "data")


def concatenated(**inputs):
    return nest.batch_concat(rebuilt(inputs, "inputs"))


@modes.all_modes
@cases("batch_concat")
def test_batch_concat(case, mode):
    assert_same(modes.run(mode, concatenated, case.under("in")), case, "concatenated")


# ---- Rearranging ----


def test_batch_to_sequence():
    data = {"a": np.arange(24).reshape(2, 3, 4), "b": (np.zeros([2, 3], bool),)}
    out = nest.batch_to_sequence(data)
    np.testing.assert_array_equal(out["a"], data["a"].swapaxes(0, 1))
    assert out["b"][0].shape == (3, 2) and out["b"][0].dtype == tf.bool
    with pytest.raises(ValueError, match=r"b/0 has shape \(2,\)"):
        nest.batch_to_sequence({"b": (np.zeros([2]),)})


def test_batch_concat_of_unknown_and_empty_batches():
    fn = tf.function(lambda a, b: nest.batch_concat((a, b)))
    specs_ = [tf.TensorSpec([None, 2, 3], F32), tf.TensorSpec([None], F32)]
    concrete = fn.get_concrete_function(*specs_)
    assert concrete.output_shapes.as_list() == [None, 7]
    assert concrete(tf.zeros([0, 2, 3]), tf.zeros([0])).shape == (0, 7)
    assert concrete(tf.zeros([4, 2, 3]), tf.zeros([4])).shape == (4, 7)


def test_batch_concat_of_unknown_inner_size():
    fn = tf.function(lambda a: nest.batch_concat(a))
    concrete = fn.get_concrete_function(tf.TensorSpec([None, None, 3], tf.bfloat16))
    assert concrete(tf.zeros([2, 4, 3], tf.bfloat16)).shape == (2, 12)


BAD_CONCAT = {
    "dtypes": ({"a": np.ones([2, 1], int), "b": np.ones(2)}, TypeError, "b is float64, but a is"),
    "no axis": ({"a": (np.ones(2), np.float64(1))}, ValueError, r"a/1 has shape \(\)"),
    "sizes": ([np.ones([2, 1]), np.ones([3, 1])], ValueError, r"same batch size.*\(3, 1\)"),
    "empty": ({}, ValueError, "at least one tensor"),
    "none": ({"a": np.ones(2), "b": None}, TypeError, "b is a NoneType, but must be a tensor"),
}


@pytest.mark.parametrize("name", BAD_CONCAT)
def test_bad_batch_concat(name):
    inputs, error, message = BAD_CONCAT[name]
    with pytest.raises(error, match=message):
        nest.batch_concat(inputs)


def test_tile_tensor_passes_gradients_and_takes_unknown_shapes():
    x = tf.constant([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = nest.tile_tensor(x, 3)
    assert y.shape == (3, 1, 2)
    np.testing.assert_array_equal(tape.gradient(y, x), [[3, 3]])
    fn = tf.function(lambda x, n: (nest.tile_tensor(x, 4), nest.tile_tensor(x, n)))
    concrete = fn.get_concrete_function(tf.TensorSpec([None, 2]), tf.TensorSpec([], tf.int32))
    assert concrete.output_shapes[0].as_list() == [4, None, 2]
    assert concrete(tf.zeros([5, 2]), tf.constant(6))[1].shape == (6, 5, 2)


@pytest.mark.parametrize(
    ("multiple", "error", "message"),
    [
        (0, ValueError, "multiple is 0, but must be at least 1"),
        (tf.constant(-1), ValueError, "multiple is -1"),
        (2.5, TypeError, "multiple is 2.5, but must be an int"),
        (None, TypeError, "multiple is a NoneType"),
    ],
)
def test_bad_multiple(multiple, error, message):
    with pytest.raises(error, match=message):
        nest.tile_nested({"a": tf.zeros(2)}, multiple)


def test_squeezing():
    data = {"a": np.ones([1, 2]), "b": (tf.zeros([1]),)}
    out = nest.squeeze_batch_dim(data)
    assert out["a"].shape == (2,) and out["b"][0].shape == ()
    array = nest.to_numpy_squeeze({"a": tf.ones([2, 1])}, axis=1)["a"]
    assert isinstance(array, np.ndarray) and array.shape == (2,)
    assert nest.to_numpy_squeeze(tf.ones([1, 2])).shape == (2,)


@pytest.mark.parametrize("shape", [(), (2,), (0, 1)])
def test_only_an_axis_of_one_can_be_squeezed(shape):
    with pytest.raises(ValueError, match=r"a/0 has shape \(.*, but axis 0 must be 1"):
        nest.squeeze_batch_dim({"a": [np.ones(shape)]})
    with pytest.raises(ValueError, match="axis 2 must be 1"):
        nest.to_numpy_squeeze(np.ones([1, 1]), axis=2)


def test_zeros_like():
    like = (specs.Array((2,), np.int32), [np.ones([3], bool)], tf.TensorSpec([], tf.bfloat16))
    zeros = nest.zeros_like(like)
    assert zeros[0].dtype == tf.int32 and zeros[0].shape == (2,)
    assert zeros[1][0].dtype == tf.bool and not zeros[1][0].numpy().any()
    assert zeros[2].dtype == tf.bfloat16 and zeros[2] == 0


@pytest.mark.parametrize(
    ("leaf", "error", "message"),
    [
        (1.0, TypeError, "x is a float, but must have a shape"),
        (tf.TensorSpec([None, 2]), ValueError, r"x has shape \(None, 2\)"),
        (tf.TensorSpec(None), ValueError, "every dimension must be known"),
    ],
)
def test_bad_zeros_like(leaf, error, message):
    with pytest.raises(error, match=message):
        nest.zeros_like({"x": leaf})


def test_specs_to_arrays_and_tensors():
    spec = {"x": specs.Array((2,), np.float32), "y": specs.DiscreteArray(3)}
    zeros = nest.zeros_like_spec(spec, [4])
    assert zeros["x"].shape == (4, 2) and zeros["y"].dtype == np.int32
    tensors = nest.tensor_specs(spec, [None])
    assert tensors["x"] == tf.TensorSpec([None, 2], tf.float32, "x")
    assert nest.tensor_specs(specs.Array((), bool)).name == "input"


# ---- create_variables ----

VECTOR = specs.Array((4,), F32)


def batch_of(*shape):
    return tf.TensorSpec([None, *shape], tf.float32)


def test_create_variables():
    core = snt.DeepRNN([snt.Linear(3), snt.LSTM(2)])
    assert nest.variables_of(core) == ()
    output, (state,) = nest.create_variables(core, [VECTOR])
    assert len(nest.variables_of(core)) == 5
    assert output == tf.TensorSpec([2]) and state.cell == tf.TensorSpec([2])
    assert core._input_signature == [batch_of(4), (snt.LSTMState(batch_of(2), batch_of(2)),)]
    linear = snt.Linear(1)
    assert nest.create_variables(linear, (VECTOR,)) == tf.TensorSpec([1])
    assert linear.w.shape == (4, 1)


class Critic(snt.Module):
    def __call__(self, observation, action):
        x = nest.batch_concat([tf.cast(observation["pixels"], F32), observation["speed"], action])
        return {"q": snt.Linear(1)(x)[:, 0], "policy": tfp.distributions.Normal(x, 1.0)}


def test_create_variables_of_two_nested_inputs():
    critic = Critic()
    observation = {"speed": tf.TensorSpec([], F32), "pixels": specs.Array((2, 2), np.uint8)}
    output = nest.create_variables(critic, [observation, specs.BoundedArray((3,), F32, -1, 1)])
    assert output == {"q": tf.TensorSpec([]), "policy": None}
    inputs = {"speed": batch_of(), "pixels": tf.TensorSpec([None, 2, 2], tf.uint8)}
    assert critic._input_signature == [inputs, batch_of(3)]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (tf.reduce_sum, tf.TensorSpec([])),
        (lambda x: None, None),
        (lambda x: (nest.tile_tensor(x, 3), x), (None, tf.TensorSpec([4]))),
    ],
)
def test_output_specs(function, expected):
    assert nest.create_variables(modules.to_sonnet_module(function), [VECTOR]) == expected


class Counting(snt.RNNCore):
    """Its state has a part that is common to the batch."""

    def __call__(self, inputs, state):
        return inputs, {"steps": state["steps"] + 1, "last": inputs}

    def initial_state(self, batch_size):
        return {"steps": tf.constant(0), "last": tf.zeros([batch_size, 4])}


def test_state_without_batch_axis():
    core = Counting()
    nest.create_variables(core, [VECTOR])
    assert core._input_signature[1] == {"steps": tf.TensorSpec([], tf.int32), "last": batch_of(4)}


def test_signature_is_no_part_of_checkpoints(tmp_path):
    linear = snt.Linear(1)
    nest.create_variables(linear, [VECTOR])
    path = tf.train.Checkpoint(linear=linear).save(tmp_path / "ckpt")
    names = [name for name, _ in tf.train.list_variables(path)]
    assert len(names) == 4 and not any("signature" in name for name in names)
    assert "_input_signature" not in linear._trackable_children()


@pytest.mark.parametrize("given", [VECTOR, {"x": VECTOR}, namedtuple("Inputs", "x")(VECTOR)])
def test_input_spec_must_be_a_list(given):
    with pytest.raises(TypeError, match=r"must be a list.*create_variables\(network, \[spec\]\)"):
        nest.create_variables(snt.Linear(1), given)


def test_unknown_dimension_in_input_spec():
    with pytest.raises(ValueError, match=r"0/x has shape \(None,\)"):
        nest.create_variables(snt.Linear(1), [{"x": tf.TensorSpec([None])}])


# ---- Dtypes ----


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (np.float64, tf.float32),
        (np.int64, tf.int32),
        (np.uint64, tf.uint32),
        (np.uint8, tf.uint8),
        (np.float16, tf.float16),
        (bool, tf.bool),
    ],
)
def test_narrow(given, wanted):
    assert nest.narrow(np.zeros([2], given)).dtype == wanted


def test_add_batch_dim_and_to_numpy():
    out = nest.add_batch_dim({"a": np.zeros([2]), "b": 1.0})
    assert out["a"].shape == (1, 2) and out["b"].shape == (1,)
    assert isinstance(nest.to_numpy(out)["a"], np.ndarray)


@pytest.mark.parametrize("leaf", [None, object(), [[1], [2, 3]]], ids=["none", "object", "jagged"])
@pytest.mark.parametrize(
    "function",
    [
        nest.add_batch_dim,
        nest.squeeze_batch_dim,
        nest.batch_to_sequence,
        lambda data: nest.tile_nested(data, 2),
    ],
    ids=["add", "squeeze", "transpose", "tile"],
)
def test_leaves_that_are_no_tensors(function, leaf):
    leaf = np.array(leaf, object) if isinstance(leaf, list) else leaf
    with pytest.raises(TypeError, match="a/b is a .*, but must be a tensor, an array or a number"):
        function({"a": {"b": leaf}})
    with pytest.raises(TypeError, match="tensor is a "):
        nest.tile_tensor(leaf, 2)


class TwoInputs(snt.RNNCore):
    def __call__(self, observation, action, prev_state):
        return observation + action, prev_state

    def initial_state(self, batch_size, **kwargs):
        return tf.zeros([batch_size, 1])


@pytest.mark.parametrize(
    ("network", "count", "message"),
    [
        (TwoInputs(), 1, "has 1 specs, .* its initial state: .*prev_state.*create_variables"),
        (TwoInputs(), 3, "has 3 specs, .*positional arguments"),
        (snt.Sequential([lambda x, y: x + y]), 1, "has 1 specs.* one spec for each argument"),
    ],
)
def test_number_of_specs(network, count, message):
    with pytest.raises(TypeError, match=message):
        nest.create_variables(network, [VECTOR] * count)


def test_other_type_errors_of_a_network_pass():
    def refuse(x):
        raise TypeError("no such thing")

    with pytest.raises(TypeError, match="^no such thing$"):
        nest.create_variables(snt.Sequential([refuse]), [VECTOR])
