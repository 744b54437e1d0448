"""What every network must do, whatever it computes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Callable

import numpy as np
import tensorflow as tf
import tree

from tfagents_x.utils import nest


def floats(*shape: int, seed: int = 0) -> tf.Tensor:
    """Standard normal numbers."""
    return tf.constant(np.random.default_rng(seed).normal(size=shape), tf.float32)


def images(*shape: int, seed: int = 0) -> tf.Tensor:
    """Random uint8 pixels."""
    return tf.constant(np.random.default_rng(seed).integers(0, 256, shape), tf.uint8)


def assert_close(actual: Any, expected: Any, tolerance: float = 1e-5) -> None:
    """Same structure, dtypes and static shapes, and the same numbers."""
    tree.assert_same_structure(actual, expected)
    for a, e in zip(tree.flatten(actual), tree.flatten(expected)):
        assert a.dtype == e.dtype
        np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance)


def assert_works(network: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """Checks a network of tensors on `inputs`, whose leaves have a batch axis; returns the output.

    * the numbers of eager mode in a graph of known and of unknown batch size, and in XLA;
    * the batch axis is the only one that the graph of unknown batch size doesn't know;
    * every trainable variable has a finite gradient;
    * no two variables start with the same draw.
    """
    expected = network(*inputs)
    signature = tree.map_structure(lambda x: tf.TensorSpec([None, *x.shape[1:]], x.dtype), inputs)
    unknown = tf.function(network, input_signature=signature, autograph=False)
    known = tf.function(network, autograph=False)
    compiled = tf.function(network, autograph=False, jit_compile=True)
    for call in (known, unknown, compiled):
        assert_close(call(*inputs), expected)
    traced = unknown.get_concrete_function().structured_outputs
    for graph, eager in zip(tree.flatten(traced), tree.flatten(expected)):
        assert graph.shape.as_list() == [None, *eager.shape[1:]]
    assert_gradients(network, inputs)
    assert_distinct_draws(nest.variables_of(network))
    return expected


def assert_gradients(network: Callable[..., Any], inputs: Sequence[Any]) -> None:
    """Every trainable variable gets a gradient, and a finite one."""
    with tf.GradientTape() as tape:
        outputs = tree.flatten(network(*inputs))
        loss = tf.add_n([tf.reduce_sum(tf.sin(output)) for output in outputs])
    variables = [v for v in nest.variables_of(network) if v.trainable]
    for variable, gradient in zip(variables, tape.gradient(loss, variables)):
        assert gradient is not None, variable.name
        assert np.all(np.isfinite(gradient)), variable.name


def assert_distinct_draws(variables: Sequence[tf.Variable]) -> None:
    """No two variables begin with the same random numbers, be it at another scale."""
    drawn = [v.numpy().ravel() for v in variables if np.unique(v.numpy()).size >= 8]
    for a, b in itertools.combinations(drawn, 2):
        size = min(a.size, b.size)
        assert abs(np.corrcoef(a[:size], b[:size])[0, 1]) < 0.99


def shapes(network: tf.Module) -> list[tuple[int, ...]]:
    """Of the variables, in the order in which weights are handed over."""
    return [tuple(v.shape) for v in nest.variables_of(network)]
