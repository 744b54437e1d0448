"""`quick` computes what the function computes, with current variables, and quickly."""

from __future__ import annotations

import time

import numpy as np
import tensorflow as tf

from tfagents_x.utils import compiled

SIGNATURE = [
    {"a": tf.TensorSpec([2], tf.float32), "b": (tf.TensorSpec([], tf.int32),)},
    tf.TensorSpec([2], tf.int32),
]


def make(scale, traces):
    def function(nest, seed):
        traces.append(1)
        noise = tf.random.stateless_uniform([2], seed)
        return {"sum": nest["a"] * scale + noise, "same": (nest["b"][0], nest["b"][0])}

    return function


def test_equals_the_function_and_follows_its_variables():
    scale, traces = tf.Variable(2.0), []
    function = make(scale, traces)
    call = compiled.quick(function, SIGNATURE)
    nest = {"a": np.array([1.0, 2.0], np.float32), "b": (np.int32(7),)}
    for value, seed in ((2.0, [0, 1]), (-3.0, [5, 6])):
        scale.assign(value)
        seed = np.array(seed, np.int32)
        expected, actual = function(nest, seed), call(nest, seed)
        np.testing.assert_allclose(actual["sum"], expected["sum"], rtol=1e-6)
        assert [int(x) for x in actual["same"]] == [7, 7]
    # One trace, and the two eager calls above.
    assert len(traces) == 3


def test_eager_tensors_go_in_as_they_come_out():
    call = compiled.quick(lambda x: x + 1, [tf.TensorSpec([3], tf.float32)])
    np.testing.assert_array_equal(call(call(np.zeros(3, np.float32))), [2, 2, 2])


def test_is_quicker_than_tf_function():
    scale, traces = tf.Variable(2.0), []
    function = make(scale, traces)
    nest = {"a": tf.zeros([2]), "b": (tf.constant(7),)}
    seed = tf.zeros([2], tf.int32)

    def seconds(call):
        call(nest, seed)
        best = np.inf
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(50):
                call(nest, seed)
            best = min(best, time.perf_counter() - start)
        return best

    plain = tf.function(function, input_signature=SIGNATURE)
    assert seconds(compiled.quick(function, SIGNATURE)) < seconds(plain)
