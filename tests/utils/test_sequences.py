"""Stepping stateless cores at once, masks and selected observations, against Acme's numbers."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests import golden_cases
from tests.ops import modes
from tfagents_x.utils import sequences

F32 = np.float32


def cases(function):
    found = golden_cases.load("ops_tensor_utils", f"{function}__")
    return pytest.mark.parametrize("case", found, ids=golden_cases.ids)


# ---- mask_out_restarting ----


@modes.with_gradients(grad=["masked"])
def masked(tensor, start_of_episode):
    return {"masked": sequences.mask_out_restarting(tensor, start_of_episode)}


@modes.all_modes
@cases("mask_out_restarting")
def test_mask_out_restarting(case, mode):
    outputs, gradients = modes.run(mode, masked, case.under("in"))
    expected = case["out.masked"]
    if "quirk_non_finite" in case.name:  # Acme multiplies, and gets NaN where it masks.
        hidden = case["in.start_of_episode"]
        assert np.isnan(expected[hidden]).any()
        expected = np.where(hidden, F32(0), expected)
    np.testing.assert_array_equal(outputs["masked"], expected)
    np.testing.assert_array_equal(gradients["grad"]["tensor"], case["out.grad.tensor"])


def test_mask_keeps_dtype_and_takes_unknown_shapes():
    for dtype in (tf.bfloat16, tf.int32):
        out = sequences.mask_out_restarting(tf.ones([2, 1], dtype), [[True], [False]])
        assert out.dtype == dtype
        np.testing.assert_array_equal(tf.cast(out, tf.float32), [[0], [1]])
    fn = tf.function(sequences.mask_out_restarting)
    mask = tf.TensorSpec([None, None], tf.bool)
    concrete = fn.get_concrete_function(tf.TensorSpec([5, None]), mask)
    assert concrete.output_shapes.as_list() == [5, None]


ONES = np.ones([2, 3], F32)
BAD_MASKS = {
    "float": (ONES, ONES, TypeError, "start_of_episode is float32, but must be bool"),
    "integer": (ONES, ONES.astype(int), TypeError, "int64, but must be bool: use tf.cast"),
    "no tensor": (None, ONES > 0, TypeError, "tensor is a NoneType, but must be a tensor"),
    "no mask": (ONES, None, TypeError, "start_of_episode is a NoneType"),
    "rank": (ONES[0], ONES[0] > 0, ValueError, r"tensor has shape \(3,\), but must have \[T, B\]"),
    "shape": (ONES, ONES[:, :1] > 0, ValueError, r"shape \(2, 1\), but tensor \(2, 3\)"),
}


@pytest.mark.parametrize("name", BAD_MASKS)
def test_bad_masks(name):
    tensor, mask, error, message = BAD_MASKS[name]
    with pytest.raises(error, match=message):
        sequences.mask_out_restarting(tensor, mask)


# ---- batch_concat_selection ----


@modes.all_modes
@cases("batch_concat_selection")
def test_batch_concat_selection(case, mode):
    keys = [key.item() for key in case.leaves("in.concat_keys")]
    fn = modes.MODES[mode](lambda o: sequences.batch_concat_selection(o, keys or None))
    out = fn({name: tf.constant(x) for name, x in case.under("in.observation").items()})
    assert out.dtype == tf.float32
    np.testing.assert_array_equal(out, case["out.concatenated"])


OBSERVATION = {"speed": np.ones([2, 3], np.int32), "hit": np.array([True, False])}


def test_selection_details():
    out = sequences.batch_concat_selection(OBSERVATION, (), tf.bfloat16)
    assert out.dtype == tf.bfloat16  # an empty list stands for all names
    np.testing.assert_array_equal(tf.cast(out, F32), [[1, 1, 1, 1], [0, 1, 1, 1]])
    names = (name for name in ["speed"])
    assert sequences.batch_concat_selection(OBSERVATION, names).shape == (2, 3)


BAD_SELECTIONS = {
    "unknown": (OBSERVATION, ["sped"], KeyError, r"no 'sped', only \['hit', 'speed'\]"),
    "nested": ({"a": {"b": np.ones(2)}}, None, TypeError, "entry 'a' of the observation is a dict"),
    "texts": ({"a": np.array(["x"])}, None, TypeError, "entry 'a' of the observation is string"),
    "none": ({"a": None}, None, TypeError, "entry 'a' of the observation is a NoneType"),
    "string": (OBSERVATION, "speed", TypeError, r"must be a list: \['speed'\]"),
    "no mapping": (np.ones([2, 2]), None, TypeError, "observation_dict is a ndarray"),
}


@pytest.mark.parametrize("name", BAD_SELECTIONS)
def test_bad_selections(name):
    observation, keys, error, message = BAD_SELECTIONS[name]
    with pytest.raises(error, match=message):
        sequences.batch_concat_selection(observation, keys)


# ---- static_rnn ----


class Core:
    """Outputs with the batch in several places, or nowhere; counts its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, inputs):
        self.calls += 1
        x, y = inputs["x"], inputs["y"]
        first = tf.square(x) + y[:, tf.newaxis]
        return {
            "first": first,
            "second": tf.stack([first, -first, 2 * first, 0 * first]),
            "last": tf.transpose(first),
            "plain": (y,),
        }


def stepped(core, inputs, num_steps):
    """What Acme does."""
    steps = [core(tf.nest.map_structure(lambda x: x[t], inputs)) for t in range(num_steps)]  # noqa: B023
    return tf.nest.map_structure(lambda *ts: tf.stack(ts), *steps)


def sequence(num_steps, batch_size, width=2):
    rng = np.random.default_rng(num_steps)
    x = rng.normal(size=(num_steps, batch_size, width)).astype(F32)
    return {"x": tf.constant(x), "y": tf.constant(x[..., 0])}


@modes.all_modes
@pytest.mark.parametrize("num_steps", [1, 3, 4])
def test_static_rnn_gives_the_outputs_of_single_steps(num_steps, mode):
    inputs, core = sequence(4, 3), Core()
    fn = modes.MODES[mode](lambda inputs: sequences.static_rnn(core, inputs, num_steps))
    actual, expected = fn(inputs), stepped(Core(), inputs, num_steps)
    assert core.calls == (1 if num_steps == 1 else 2)  # one step for the shapes, then all
    tf.nest.assert_same_structure(actual, expected)
    for one, other in zip(tf.nest.flatten(actual), tf.nest.flatten(expected)):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_sizes_that_coincide():
    """With T * B = 8 = width, shapes alone would not tell the batch from the features."""
    inputs, core = sequence(4, 2, width=8), Core()
    actual, expected = sequences.static_rnn(core, inputs, 4), stepped(Core(), inputs, 4)
    assert core.calls == 2
    for one, other in zip(tf.nest.flatten(actual), tf.nest.flatten(expected)):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_gradients_of_static_rnn():
    inputs = sequence(3, 2)

    def gradients(unroll):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = unroll(Core(), inputs, 3)
            total = tf.add_n([tf.reduce_sum(tf.sin(x)) for x in tf.nest.flatten(outputs)])
        return tape.gradient(total, inputs)

    actual, expected = gradients(sequences.static_rnn), gradients(stepped)
    for name in inputs:
        np.testing.assert_allclose(actual[name], expected[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "core",
    [
        lambda x: tf.reduce_sum(x["x"], axis=0),
        lambda x: tf.reduce_mean(x["y"]),
        lambda x: tf.einsum("bd,cd->bc", x["x"], x["x"]),
        lambda x: tf.concat([x["x"], x["x"]], axis=0),
    ],
    ids=["no batch", "scalar", "pairs", "twice"],
)
def test_outputs_without_a_batch_axis_are_stepped(core):
    inputs = sequence(3, 2)
    expected = stepped(core, inputs, 3)
    np.testing.assert_allclose(sequences.static_rnn(core, inputs, 3), expected, rtol=1e-6)


def test_short_leaves_are_none_in_the_steps_they_lack():
    seen = []

    def core(inputs):
        seen.append(inputs["short"] is None)
        return inputs["x"] if inputs["short"] is None else inputs["x"] + inputs["short"]

    x = tf.ones([3, 2])
    out = sequences.static_rnn(core, {"x": x, "short": tf.ones([1, 2])}, 3)
    np.testing.assert_array_equal(out, [[2, 2], [1, 1], [1, 1]])
    assert seen == [False, True, True]


def test_leaves_with_other_batch_sizes_are_stepped():
    def core(inputs):
        return inputs["x"] * inputs["scale"]

    inputs = {"x": tf.ones([2, 3]), "scale": tf.constant([2.0, 3.0])}
    out = sequences.static_rnn(core, inputs, 2)
    np.testing.assert_array_equal(out, [[2, 2, 2], [3, 3, 3]])


def test_unknown_batch_size():
    core = Core()
    fn = tf.function(lambda x, y: sequences.static_rnn(core, {"x": x, "y": y}, 4)["second"])
    concrete = fn.get_concrete_function(tf.TensorSpec([4, None, 2]), tf.TensorSpec([4, None]))
    assert core.calls == 2 and concrete.output_shapes.as_list() == [4, 4, None, 2]
    inputs = sequence(4, 3)
    expected = stepped(Core(), inputs, 4)["second"]
    np.testing.assert_allclose(concrete(inputs["x"], inputs["y"]), expected, rtol=1e-6)


def test_batch_size_and_features_unknown():
    fn = tf.function(lambda x: sequences.static_rnn(tf.square, x, 2))
    concrete = fn.get_concrete_function(tf.TensorSpec([2, None, None]))
    np.testing.assert_array_equal(concrete(2 * tf.ones([2, 3, 1])), 4 * np.ones([2, 3, 1]))


@pytest.mark.parametrize(
    ("inputs", "unroll_length", "error", "message"),
    [
        (ONES, 0, ValueError, "unroll_length is 0, but must be at least 1"),
        (ONES, 9, ValueError, "unroll_length is 9, but the inputs have only 2 steps"),
        (ONES[:0], 2, ValueError, "unroll_length is 2, but the inputs have only 0 steps"),
        (ONES, 2.0, TypeError, "unroll_length is 2.0, but must be an int"),
        ({"x": F32(1)}, 1, ValueError, r"known T, but x has \(\)"),
        ({"x": None}, 1, TypeError, "x is a NoneType, but must be a tensor"),
    ],
)
def test_bad_static_rnn(inputs, unroll_length, error, message):
    with pytest.raises(error, match=message):
        sequences.static_rnn(tf.square, inputs, unroll_length)


def test_unknown_number_of_steps():
    fn = tf.function(lambda x: sequences.static_rnn(tf.square, x, 2))
    with pytest.raises(ValueError, match=r"known T, but the input has \(None, 3\)"):
        fn.get_concrete_function(tf.TensorSpec([None, 3]))


def test_outputs_must_be_tensors():
    with pytest.raises(TypeError, match="core's q is a object, but must be a tensor"):
        sequences.static_rnn(lambda x: {"q": object()}, ONES, 2)
