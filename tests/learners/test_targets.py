"""Targets that follow, and what can't be copied."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfagents_x.learners import targets


def test_moving_average():
    online, target = tf.Variable([1.0, 2.0]), tf.Variable([0.0, 4.0])
    average = targets.MovingAverage([online], [target], 0.75)
    count = tf.Variable(0)
    average.before_update(count)
    np.testing.assert_array_equal(target, [0.0, 4.0])
    average.after_update(count)
    np.testing.assert_allclose(target, [0.25, 3.5])


def test_bad_moving_average():
    online, target = tf.Variable(1.0), tf.Variable(2.0)
    with pytest.raises(ValueError, match=r"decay must be in \[0, 1\], got 1.5"):
        targets.MovingAverage([online], [target], 1.5)
    with pytest.raises(ValueError, match="must have the same variables"):
        targets.MovingAverage([online], [tf.Variable([1.0])], 0.5)
    with pytest.raises(ValueError, match="both the online and the target"):
        targets.MovingAverage([online], [online], 0.5)
