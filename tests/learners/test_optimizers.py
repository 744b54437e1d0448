"""LinearDecayAdam: its rates, in and out of graphs, and after a restore; the other Adam."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfagents_x.learners import optimizers
from tfagents_x.learners.optimizers import LinearDecayAdam, UncorrectedAdam


def make():
    variable = tf.Variable(0.0)
    # Without momentum and with equal gradients every step of Adam is the rate itself.
    return variable, LinearDecayAdam(1.0, 4, final_fraction=0.2, beta1=0.0, epsilon=1e-12)


def steps(variable, optimizer, count, compiled=True):
    apply = lambda: optimizer.apply([tf.constant(1.0)], [variable])
    apply = tf.function(apply) if compiled else apply
    rates = []
    for _ in range(count):
        before = variable.numpy()
        apply()
        rates.append(before - variable.numpy())
    return rates


@pytest.mark.parametrize("compiled", [False, True])
def test_falls_and_stays(compiled):
    rates = steps(*make(), 7, compiled)
    np.testing.assert_allclose(rates, [1.0, 0.8, 0.6, 0.4, 0.2, 0.2, 0.2], rtol=1e-4)


def test_goes_on_after_a_restore(tmp_path):
    variable, optimizer = make()
    steps(variable, optimizer, 2)
    tf.train.Checkpoint(optimizer=optimizer, v=variable).write(str(tmp_path / "c"))
    variable, optimizer = make()
    tf.train.Checkpoint(optimizer=optimizer, v=variable).read(str(tmp_path / "c"))
    np.testing.assert_allclose(steps(variable, optimizer, 2), [0.6, 0.4], rtol=1e-4)


def test_bad_numbers():
    with pytest.raises(ValueError, match="decay_updates >= 1"):
        LinearDecayAdam(1.0, 0)
    with pytest.raises(ValueError, match="final_fraction"):
        LinearDecayAdam(1.0, 1, final_fraction=2.0)


@pytest.mark.parametrize("fused", [False, True])
def test_epsilon_beside_the_uncorrected_root(fused):
    """By TensorFlow's kernel, and by Sonnet's own operations."""
    variable, epsilon = tf.Variable([1.0, 2.0]), 1e-3
    optimizer = UncorrectedAdam(0.1, epsilon=epsilon)
    w, m, v = variable.numpy(), np.zeros(2), np.zeros(2)
    for n, g in enumerate(np.float32([[0.5, -1e-3], [0.1, 2e-3], [-0.2, 1e-4]]), 1):
        apply = optimizers.apply if fused else lambda optimizer, *args: optimizer.apply(*args)
        apply(optimizer, [tf.constant(g)], [variable])
        m, v = m + 0.1 * (g - m), v + 0.001 * (g * g - v)
        rate = 0.1 * np.sqrt(1 - 0.999**n) / (1 - 0.9**n)
        w = w - rate * m / (np.sqrt(v) + epsilon)
        np.testing.assert_allclose(variable, w, rtol=1e-5)
