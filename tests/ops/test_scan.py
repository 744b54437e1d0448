"""The backward scan against the recursion written out, and the size of its graph."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.ops import modes
from tfagents_x.ops import scan, vtrace


def data(num_steps, *trailing, dtype=np.float32):
    rng = np.random.default_rng(num_steps)
    shape = (num_steps, *trailing)
    deltas, decays = rng.normal(size=shape), rng.uniform(-1, 1, size=shape)
    decays[rng.uniform(size=shape) < 0.2] = 0.0
    final = rng.normal(size=trailing)
    return {"deltas": deltas.astype(dtype), "decays": decays.astype(dtype), "final": final}


def written_out(deltas, decays, final):
    result, acc = [], final
    for delta, decay in zip(deltas[::-1], decays[::-1]):
        acc = delta + decay * acc
        result.insert(0, acc)
    return np.stack(result)


@modes.all_modes
@pytest.mark.parametrize("num_steps", [1, 2, 3, 4, 7, 8, 100])
def test_values(num_steps, mode):
    inputs = data(num_steps, 3, 2)
    inputs["final"] = inputs["final"].astype(np.float32)
    expected = written_out(**inputs)
    actual = modes.run(mode, scan.backward_scan, inputs)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_without_final_value():
    inputs = data(6)
    inputs["final"] = np.float32(0.0)
    expected = written_out(**inputs)
    actual = scan.backward_scan(inputs["deltas"], inputs["decays"])
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


def unrolled(deltas, decays, final):
    rows, acc = [], final
    for t in reversed(range(deltas.shape[0])):
        acc = deltas[t] + decays[t] * acc
        rows.insert(0, acc)
    return tf.stack(rows)


@modes.all_modes
@pytest.mark.parametrize("num_steps", [1, 2, 7])
def test_gradients(num_steps, mode):
    inputs = data(num_steps, 3, dtype=np.float64)
    weights = np.random.default_rng(7).normal(size=(num_steps, 3))

    def gradients(fn, mode):
        def weighted(**kw):
            return {"sum": weights * tf.square(fn(**kw))}

        return modes.run(mode, modes.with_gradients(grad=["sum"])(weighted), inputs)[1]["grad"]

    actual, expected = gradients(scan.backward_scan, mode), gradients(unrolled, "eager")
    for name in inputs:
        np.testing.assert_allclose(actual[name], expected[name], rtol=1e-9, atol=1e-12)


@modes.all_modes
def test_second_derivatives(mode):
    inputs = data(6, 2, dtype=np.float64)

    def hessian_sum(fn, mode):
        def wrapped(deltas, decays, final):
            with tf.GradientTape() as outer:
                outer.watch([deltas, decays, final])
                with tf.GradientTape() as inner:
                    inner.watch(decays)
                    total = tf.reduce_sum(tf.square(fn(deltas, decays, final)))
                slope = tf.reduce_sum(tf.square(inner.gradient(total, decays)))
            return outer.gradient(slope, [deltas, decays, final])

        return modes.run(mode, wrapped, inputs)

    actual, expected = hessian_sum(scan.backward_scan, mode), hessian_sum(unrolled, "eager")
    for one, other in zip(actual, expected):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_long_sequences_keep_their_precision():
    inputs = data(5000, 2)
    exact = written_out(**{name: value.astype(np.float64) for name, value in inputs.items()})
    inputs["final"] = inputs["final"].astype(np.float32)
    np.testing.assert_allclose(scan.backward_scan(**inputs), exact, rtol=1e-5, atol=1e-5)


def test_broken_steps_stay_in_their_past():
    """A NaN may spoil what depends on it, but no other step and no other batch row."""
    inputs = data(9, 2)
    inputs["deltas"][4, 0] = np.nan
    actual = scan.backward_scan(inputs["deltas"], inputs["decays"]).numpy()
    assert np.isnan(actual[4, 0])
    assert np.isfinite(actual[5:, 0]).all() and np.isfinite(actual[:, 1]).all()


def num_nodes(fn, num_steps):
    """Nodes of the traced graph, and of all functions in it.

    The batch is large because TensorFlow writes small zeros as one node, larger as two.
    """
    shapes = [tf.TensorSpec([num_steps, 64], tf.float32)] * 4 + [tf.TensorSpec([64], tf.float32)]
    graph = tf.function(fn).get_concrete_function(*shapes).graph.as_graph_def()
    return len(graph.node) + sum(len(f.node_def) for f in graph.library.function)


def td_gradients(v_tm1, v_t, r_t, discount_t, final):
    del final
    arguments = [v_tm1, v_t, r_t, discount_t]
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        result = vtrace.td_error_and_advantage(*arguments, r_t, stop_target_gradients=False)
        total = tf.add_n([tf.reduce_sum(x) for x in result])
    return tape.gradient(total, arguments)


@pytest.mark.parametrize("fn", [vtrace.from_importance_weights, td_gradients])
def test_graph_does_not_grow_with_time(fn):
    sizes = {num_steps: num_nodes(fn, num_steps) for num_steps in (20, 1000)}
    assert sizes[20] == sizes[1000] < 1000


def test_final_of_wrong_shape():
    inputs = data(4, 2)
    with pytest.raises(ValueError, match=r"final has shape \(3,\), but must have \(2,\)"):
        scan.backward_scan(inputs["deltas"], inputs["decays"], np.zeros(3, np.float32))


def test_decays_of_wrong_shape():
    with pytest.raises(ValueError, match=r"decays has shape \(4, 1\)"):
        scan.backward_scan(np.zeros((4, 2), np.float32), np.zeros((4, 1), np.float32))
