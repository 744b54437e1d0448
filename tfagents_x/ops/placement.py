"""Where the ops that are being built will run, for the few that have a form for each."""

from __future__ import annotations

import tensorflow as tf

try:  # TensorFlow has no public name for it.
    from tensorflow.python.ops import control_flow_util as _util
except ImportError:  # pragma: no cover
    _util = None


def on_cpu_kernels() -> bool:
    """Whether they will run as TensorFlow's own kernels on a CPU: no XLA, no accelerator."""
    in_xla = getattr(_util, "GraphOrParentsInXlaContext", None)
    if in_xla is None or (not tf.executing_eagerly() and in_xla(tf.compat.v1.get_default_graph())):
        return False
    return not any(tf.config.list_logical_devices(kind) for kind in ("GPU", "TPU"))
