"""Epsilon-greedy policies and masks over legal actions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from tests.networks import builds
from tfagents_x import types
from tfagents_x.networks.legal_actions import EpsilonGreedy, MaskedSequential, epsilon_greedy

# ---- epsilon_greedy ----

# Action values, mask, and the probabilities for an epsilon of 0.3.
ROWS = [
    ([1.0, 3.0, 2.0], [1, 1, 1], [0.1, 0.8, 0.1]),
    ([3.0, 3.0, 2.0], [1, 1, 1], [0.45, 0.45, 0.1]),
    ([1.0, 3.0, 2.0], [1, 1, 0], [0.15, 0.85, 0.0]),
    # The best action is illegal.
    ([1.0, 3.0, 2.0], [1, 0, 1], [0.15, 0.0, 0.85]),
    # All legal values are negative, zero, or minus infinity.
    ([-1.0, 3.0, -2.0], [1, 0, 1], [0.85, 0.0, 0.15]),
    ([0.0, 3.0, 0.0], [1, 0, 1], [0.5, 0.0, 0.5]),
    ([-np.inf, 3.0, -np.inf], [1, 0, 1], [0.5, 0.0, 0.5]),
    ([-3e38, 3.0, -3.2e38], [1, 0, 1], [0.85, 0.0, 0.15]),
    ([1.0, 3.0, 2.0], [0, 1, 0], [0.0, 1.0, 0.0]),
    # Nothing is legal, so everything is.
    ([1.0, 3.0, 2.0], [0, 0, 0], [0.1, 0.8, 0.1]),
]
VALUES, MASK, PROBS = (np.array(column, np.float32) for column in zip(*ROWS))


@pytest.mark.parametrize("jit_compile", [None, False, True], ids=["eager", "graph", "xla"])
def test_probabilities(jit_compile):
    call = lambda values, mask: epsilon_greedy(values, 0.3, mask).probs_parameter()
    if jit_compile is not None:
        signature = [tf.TensorSpec([None, 3])] * 2
        call = tf.function(call, signature, autograph=False, jit_compile=jit_compile)
    np.testing.assert_allclose(call(tf.constant(VALUES), tf.constant(MASK)), PROBS, atol=1e-6)


def test_without_a_mask_all_are_legal():
    probs = epsilon_greedy(VALUES, 0.3).probs_parameter()
    all_legal = epsilon_greedy(VALUES, 0.3, np.ones_like(MASK)).probs_parameter()
    np.testing.assert_array_equal(probs, all_legal)


@pytest.mark.parametrize("dtype", [tf.bool, tf.int32, tf.uint8])
def test_masks_of_other_dtypes(dtype):
    probs = epsilon_greedy(VALUES, 0.3, tf.cast(MASK, dtype)).probs_parameter()
    np.testing.assert_allclose(probs, PROBS, atol=1e-6)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64])
def test_values_of_other_dtypes(dtype):
    probs = epsilon_greedy(tf.cast(VALUES[:6], dtype), 0.3, MASK[:6]).probs_parameter()
    assert probs.dtype == dtype
    np.testing.assert_allclose(tf.cast(probs, tf.float32), PROBS[:6], atol=0.01)


def test_leading_axes():
    values, mask = VALUES.reshape([2, 5, 3]), MASK.reshape([2, 5, 3])
    policy = epsilon_greedy(values, 0.3, mask)
    assert policy.batch_shape == [2, 5]
    np.testing.assert_allclose(policy.probs_parameter(), PROBS.reshape([2, 5, 3]), atol=1e-6)
    assert epsilon_greedy(VALUES[0], 0.3).batch_shape == []


def test_samples():
    policy = epsilon_greedy(VALUES, 0.3, MASK)
    tf.random.set_seed(0)
    samples = tf.function(lambda: policy.sample(20_000), autograph=False)()
    assert samples.dtype == tf.int32
    frequencies = np.stack([np.mean(samples == a, axis=0) for a in range(3)], 1)
    np.testing.assert_allclose(frequencies, PROBS, atol=0.015)
    assert np.all(frequencies[PROBS == 0] == 0)


@pytest.mark.parametrize("epsilon", [-0.1, 1.1, np.nan])
def test_epsilon_must_be_a_probability(epsilon):
    with pytest.raises(ValueError, match="epsilon is .* must be from 0 to 1"):
        epsilon_greedy(VALUES, epsilon)
    with pytest.raises(ValueError, match="epsilon is .* must be from 0 to 1"):
        EpsilonGreedy(epsilon, -1e8)


@pytest.mark.parametrize("threshold", [None, "a"])
def test_threshold_must_be_a_number(threshold):
    with pytest.raises(TypeError, match="threshold must be a number, got"):
        EpsilonGreedy(0.1, threshold)


@pytest.mark.parametrize("epsilon", [None, "a"])
def test_epsilon_must_be_a_number(epsilon):
    with pytest.raises(TypeError, match="epsilon is .* must be a number"):
        EpsilonGreedy(epsilon, 0.0)
    with pytest.raises(TypeError, match="epsilon is .* must be a number"):
        tf.function(lambda: epsilon_greedy(VALUES, epsilon).sample())()


def test_epsilon_greedy_errors():
    with pytest.raises(TypeError, match="epsilon_greedy needs floating-point inputs, got int32"):
        epsilon_greedy(tf.zeros([2, 3], tf.int32), 0.1)
    with pytest.raises(ValueError, match="epsilon has shape"):
        epsilon_greedy(VALUES, np.zeros([10, 1], np.float32))
    with pytest.raises(ValueError, match=r"legal actions have shape \(10, 2\)"):
        epsilon_greedy(VALUES, 0.1, MASK[:, :2])


# ---- EpsilonGreedy ----


def test_threshold_decides_what_is_legal():
    policy = EpsilonGreedy(0.3, threshold=-1e8)
    values = np.where(MASK == 1, VALUES, -1e9).astype(np.float32)
    finite = (np.abs(VALUES).max(1) < 100) & MASK.any(1)
    np.testing.assert_allclose(policy(values).probs_parameter()[finite], PROBS[finite], atol=1e-6)
    assert policy([[1.0, -1e8, 0.0]]).probs_parameter()[0, 1] == 0


def test_best_value_of_zero():
    """Acme's split the greedy part over all actions here, illegal ones included."""
    probs = EpsilonGreedy(0.0, threshold=-1e8)([[0.0, -1e9, -3.0]]).probs_parameter()
    np.testing.assert_array_equal(probs, [[1, 0, 0]])


def test_epsilon_is_a_variable():
    policy = EpsilonGreedy(1, -1e8)
    assert [(v.dtype, v.trainable) for v in policy.variables] == [(tf.float32, False)]
    call = tf.function(lambda x: policy(x).probs_parameter(), autograph=False)
    np.testing.assert_allclose(call(VALUES[:1]), [[1 / 3] * 3], rtol=1e-6)
    policy.variables[0].assign(0.0)
    np.testing.assert_allclose(call(VALUES[:1]), [[0, 1, 0]])


def test_epsilon_of_a_schedule():
    epsilon = tf.Variable(0.0, trainable=False)
    policy = EpsilonGreedy(epsilon, -1e8)
    epsilon.assign(1.0)
    np.testing.assert_allclose(policy(VALUES[:1]).probs_parameter(), [[1 / 3] * 3], rtol=1e-6)


def test_epsilon_greedy_module_in_half_precision():
    assert EpsilonGreedy(0.3, -1e4)(tf.zeros([2, 3], tf.bfloat16)).batch_shape == [2]


# ---- MaskedSequential ----

INPUTS = types.OLT(
    observation=builds.floats(4, 3),
    legal_actions=tf.constant([[1.0, 0], [1, 1], [0, 1], [0, 0]]),
    terminal=tf.constant([[0.0], [0], [1], [0]]),
)


def test_mask():
    layer = snt.Linear(2)
    network = MaskedSequential([layer, tf.nn.relu])
    outputs = builds.assert_works(network, [INPUTS])
    values = tf.nn.relu(layer(INPUTS.observation)).numpy()
    expected = [[values[0, 0], -1e9], values[1], [0, 0], [-1e9, -1e9]]
    np.testing.assert_allclose(outputs, expected, rtol=1e-6)


def test_flags_of_other_shapes_and_dtypes():
    layer = lambda x: x[:, :2]
    expected = MaskedSequential([layer])(INPUTS)
    flags = INPUTS._replace(terminal=INPUTS.terminal[:, 0])
    np.testing.assert_array_equal(MaskedSequential([layer])(flags), expected)
    booleans = INPUTS._replace(
        legal_actions=INPUTS.legal_actions == 1, terminal=INPUTS.terminal == 1
    )
    np.testing.assert_array_equal(MaskedSequential([layer])(booleans), expected)


def test_other_named_tuples_and_no_layers():
    class Other(NamedTuple):
        observation: Any
        legal_actions: Any
        terminal: Any

    inputs = Other(INPUTS.observation[:, :2], INPUTS.legal_actions, INPUTS.terminal)
    assert MaskedSequential()(inputs).shape == [4, 2]


def test_penalty_is_finite_in_half_precision():
    for dtype in (tf.float16, tf.bfloat16):
        outputs = MaskedSequential([lambda x, d=dtype: tf.cast(x[:, :2], d)])(INPUTS)
        assert outputs.dtype == dtype
        assert np.all(np.isfinite(tf.cast(outputs, tf.float32)))
        assert outputs[0, 1] < -6e4


def test_masked_sequential_errors():
    network = MaskedSequential([lambda x: x[:, :2]])
    with pytest.raises(TypeError, match=r"layers\[1\] must be a module or function, got 3"):
        MaskedSequential([len, 3])
    with pytest.raises(TypeError, match="layers must be a sequence of modules and functions"):
        MaskedSequential(3)
    with pytest.raises(TypeError, match="the mask of legal actions is a NoneType"):
        network(INPUTS._replace(legal_actions=None))
    with pytest.raises(TypeError, match="terminal is a NoneType"):
        network(INPUTS._replace(terminal=None))
    with pytest.raises(TypeError, match=r"needs a types.OLT\(observation, legal_actions, terminal"):
        network(INPUTS.observation)
    with pytest.raises(ValueError, match=r"legal actions have shape \(4, 2\).* \(4, 3\)"):
        MaskedSequential()(INPUTS)
    with pytest.raises(ValueError, match="terminal has shape"):
        network(INPUTS._replace(terminal=tf.zeros([4, 2])))
    with pytest.raises(ValueError, match="terminal has shape"):
        network(INPUTS._replace(terminal=tf.zeros([2])))
    with pytest.raises(TypeError, match="after its layers.* needs floating-point inputs"):
        MaskedSequential([lambda x: tf.cast(x[:, :2], tf.int32)])(INPUTS)


def test_fields_are_those_of_acme():
    assert types.OLT._fields == ("observation", "legal_actions", "terminal")
