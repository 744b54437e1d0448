"""The LSTM's own loop: every length around that of its blocks, and nothing traced in vain."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x.networks import lstm, recurrence

pytestmark = pytest.mark.usefixtures("seeded")

B, D, H = 2, 3, 4


def by_hand(core, inputs, state, resets):
    outputs = []
    for t in range(inputs.shape[0]):
        if resets is not None:
            state = recurrence.reset(core, state, resets[t])
        output, state = core(inputs[t], state)
        outputs.append((output, state))
    return tree.map_structure(lambda *x: tf.stack(x), *outputs)


def values_and_gradients(unroll, core, inputs, state, resets):
    with tf.GradientTape() as tape:
        tape.watch((inputs, state))
        results = unroll(core, inputs, state, resets)
        leaves = tree.flatten(results)
        total = tf.add_n([(i + 1.0) * tf.reduce_sum(x * x) for i, x in enumerate(leaves)])
    gradients = tape.gradient(total, [*core.trainable_variables, inputs, *state])
    return leaves, gradients


@pytest.mark.parametrize("with_resets", [False, True], ids=["", "resets"])
@pytest.mark.parametrize("length", [1, 2, 4, 5, 6, 10, 11])
def test_every_length(length, with_resets):
    core, rng = snt.LSTM(H), np.random.default_rng(length)
    inputs = tf.constant(rng.normal(size=[length, B, D]), tf.float32)
    state = snt.LSTMState(*(tf.constant(rng.normal(size=[B, H]), tf.float32) for _ in range(2)))
    resets = tf.constant(rng.uniform(size=[length, B]) < 0.4) if with_resets else None
    core(inputs[0], state)
    found = values_and_gradients(lstm.unroll, core, inputs, state, resets)
    wanted = values_and_gradients(by_hand, core, inputs, state, resets)
    for a, b in zip(tree.flatten(found), tree.flatten(wanted)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-6)


def test_no_gradient_of_the_loop_is_traced():
    core = snt.LSTM(H)
    core(tf.zeros([B, D]), core.initial_state(B))

    @tf.function(autograph=False)
    def gradients(inputs):
        # Persistent, as where several losses share what they are computed from.
        with tf.GradientTape(persistent=True) as tape:
            outputs, _ = lstm.unroll(core, inputs, core.initial_state(B))
            loss = tf.reduce_sum(outputs)
        return tape.gradient(loss, core.trainable_variables)

    graph = gradients.get_concrete_function(tf.zeros([12, B, D])).graph
    loops = [f.signature.name for f in graph.as_graph_def().library.function]
    bodies = [name for name in loops if "body" in name]
    assert len(bodies) == 2, loops  # One forward, one back.
    assert not [name for name in loops if "grad" in name], loops
