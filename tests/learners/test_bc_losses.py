"""The losses of behaviour cloning as functions, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp

from tests import golden_cases
from tests.learners.golden_bc import (
    BY_NAME,
    CONTINUOUS,
    DISCRETE,
    GoldenNetwork,
    batches,
    config,
    golden_loss,
    make,
    tensors,
)
from tfagents_x import types
from tfagents_x.learners import bc_losses

tfd = tfp.distributions


@pytest.mark.parametrize("jit", [False, True])
def test_permutations_are_uniform_and_each_row_has_its_own(jit):
    rows = tf.tile([[0, 1, 2]], [6000, 1])
    permute = tf.function(bc_losses.permute_within_rows, jit_compile=jit)
    permuted = permute(rows, tf.constant([1, 2])).numpy()
    assert np.array_equal(np.sort(permuted, 1), rows)
    _, counts = np.unique(permuted, axis=0, return_counts=True)
    assert len(counts) == 6 and np.sum((counts - 1000.0) ** 2 / 1000.0) < 20.5  # p = 0.001
    assert not np.array_equal(permuted, permute(rows, tf.constant([1, 3])))
    # Whole vectors change places along the first axis of an action.
    pairs = tf.reshape(tf.range(24), [2, 3, 4])
    assert np.array_equal(np.sort(permute(pairs, tf.constant([1, 2])), 1), pairs)


def test_losses_are_functions_of_network_and_numpy_transitions():
    for name in ("mse_gaussian_mode", "rcal_categorical", "rcal_bins", "peerbc_invariant"):
        case = BY_NAME[name]
        value = golden_loss(config(case))(GoldenNetwork(case), batches(case)[0])
        golden_cases.assert_close(value, case["out.step1.metrics.loss"], rtol=1e-4, atol=2e-6)


def test_mse_samples_a_distribution_with_the_seed():
    output = tfd.MultivariateNormalDiag(tf.zeros([8, 3]), tf.ones([8, 3]))
    data, seed = batches(CONTINUOUS)[0], tf.constant([4, 5])
    loss = lambda **seeds: float(bc_losses.mse()(lambda _: output, data, **seeds))
    want = np.mean((output.sample(seed=seed) - data.action) ** 2)
    np.testing.assert_allclose(loss(seed=seed), want, rtol=1e-5)
    assert loss() != loss()


def test_rcal_gives_one_of_equal_values_the_gradient():
    """Of a head that begins with zeros all values are equal; the source takes the first."""
    logits = tf.Variable(tf.zeros([1, 3]))
    transitions = types.Transition(tf.zeros([1, 1]), tf.constant([2]), 0.0, 0.0, tf.ones([1, 1]))
    network = lambda x: logits + x
    with tf.GradientTape() as tape:
        loss = bc_losses.rcal(lambda *_: tf.constant(0.0), 0.5, 1.0)(network, transitions)
    np.testing.assert_allclose(tape.gradient(loss, logits), [[0.5, 0.0, -1.0]])


def test_one_action_dimension_leaves_peerbc_a_multiple():
    network = lambda x: tfd.MultivariateNormalDiag(x[:, :1], tf.ones([8, 1]))
    data = tensors(CONTINUOUS)
    data = data._replace(action=data.action[:, :1])
    want = 0.7 * bc_losses.logp()(network, data)
    np.testing.assert_allclose(
        bc_losses.peerbc(bc_losses.logp(), 0.3)(network, data), want, rtol=1e-5
    )


LOSSES = bc_losses
BAD_LOSSES = {
    "logp": (lambda: LOSSES.logp("x"), r"logp_fn must be a function of \(output, action\)"),
    "logp_bins": (lambda: LOSSES.logp(num_bins=0), "num_bins must be at least 1"),
    "mse": (lambda: LOSSES.mse(lambda x: x), r"sample_fn must be a function of \(output, seed\)"),
    "peerbc": (lambda: LOSSES.peerbc(0.1, 0.1), "base_loss_fn must be a function of"),
    "zeta": (lambda: LOSSES.peerbc(LOSSES.logp(), "x"), "zeta must be a number"),
    "discount": (lambda: LOSSES.rcal(LOSSES.logp(), 1.1, 0.1), "discount must be between"),
    "alpha": (lambda: LOSSES.rcal(LOSSES.logp(), 0.9, None), "alpha must be a number"),
    "rcal_bins": (lambda: LOSSES.rcal(LOSSES.logp(), 0.9, 0.1, 1.5), "num_bins must be an int"),
}


@pytest.mark.parametrize("name", BAD_LOSSES)
def test_bad_arguments_of_losses_are_explained(name):
    build, message = BAD_LOSSES[name]
    with pytest.raises((ValueError, TypeError), match=message):
        build()


ACTIONS = CONTINUOUS["in.action"][0]
normal = lambda x: tfd.MultivariateNormalDiag(x, tf.ones([8, 3]))
logits = lambda x: tf.zeros([8, 4]) + x[:, :1]
peerbc, rcal = bc_losses.peerbc, bc_losses.rcal
integers = np.zeros([8], np.int32)
MISMATCHES = {
    "logits": (bc_losses.logp(), logits, ACTIONS, "counts as logits.*float32.*mse"),
    "normal": (bc_losses.logp(), normal, integers, "distribution over float32.*actions are int32"),
    "categorical": (
        *(bc_losses.logp(), lambda x: tfd.Categorical(logits(x)), ACTIONS),
        "distribution over int32.*actions are float32",
    ),
    "shape": (bc_losses.logp(), normal, ACTIONS[:, :2], r"shape \(3,\), those of the data \(2,\)"),
    "collection": (
        *(bc_losses.logp(), lambda x: tfd.Normal(x, 1.0), ACTIONS),
        "collection of distributions of single numbers",
    ),
    "column": (bc_losses.logp(), logits, integers[:, None], r"\[B, A\] for actions \[B\]"),
    "vectors": (bc_losses.logp(), lambda x: x[:, 0], integers, r"\[B, A\] for actions \[B\]"),
    "output": (bc_losses.logp(), lambda x: (x, x), integers, "logits or a tfp distribution"),
    "bins": (bc_losses.logp(num_bins=3), logits, integers, r"num_bins = 3.*\[B, D \* 3\]"),
    "nested": (bc_losses.logp(), logits, {"a": integers}, "actions that are one tensor"),
    "mse": (bc_losses.mse(), lambda x: x, integers, "mse is for continuous actions.*int32"),
    "mse_shape": (bc_losses.mse(), lambda x: x[:, :1], ACTIONS, r"\(8, 1\), those of the data"),
    "mse_output": (bc_losses.mse(), lambda x: [x], ACTIONS, "actions or a tfp distribution"),
    "mse_sample": (
        *(bc_losses.mse(), lambda x: tfd.Independent(tfd.Poisson(x**2), 1), ACTIONS),
        "have no gradient",
    ),
    "peerbc": (peerbc(bc_losses.logp(), 0.1), logits, integers, r"dimensions of each action, \[B"),
    "peerbc_base": (
        *(peerbc(lambda *_: (tf.constant(0.0), {}), 0.1), normal, ACTIONS),
        r"base_loss_fn must return a float scalar, got \(",
    ),
    "rcal": (rcal(bc_losses.logp(), 0.9, 0.1), normal, ACTIONS, "rcal needs.*returns logits"),
    "rcal_base": (
        *(rcal(lambda n, x: n(x.observation), 0.9, 0.1), logits, integers),
        r"base_loss_fn must return a scalar, got shape \(8, 4\)",
    ),
    "core": (bc_losses.logp(), snt.LSTM(4), integers, "recurrent core.*policy_improvement_modes"),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_mismatches_are_explained(name):
    loss_fn, network, action, message = MISMATCHES[name]
    data = batches(CONTINUOUS)[0]._replace(action=action)
    learner, _ = make(DISCRETE, iter([data]), loss_fn=loss_fn)
    learner._network = network
    with pytest.raises((ValueError, TypeError), match=message):
        learner.step()
