"""Set-up shared by all tests: a quiet TensorFlow with two logical CPU devices."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import pytest
import tensorflow as tf

# Replicas need devices of their own, and those can only be made before TensorFlow
# starts. The first of the two is where everything else runs.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration(), tf.config.LogicalDeviceConfiguration()],
)


@pytest.fixture
def seeded() -> None:
    """The same initial weights in every run: what rounding does to them is then the same, too."""
    tf.random.set_seed(0)
