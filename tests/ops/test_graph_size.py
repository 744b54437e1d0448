"""Graphs do not grow with the sequence, and only by a round for each bit of a return's n."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tfagents_x.ops import nonlinear_bellman as nb
from tfagents_x.ops import retrace, returns

# Large, because TensorFlow writes small zeros as one node, larger as two.
B, A = 64, 5


def float_rows(num_rows, *trailing):
    return tf.TensorSpec([num_rows, B, *trailing], tf.float32)


def index_rows(num_rows):
    return tf.TensorSpec([num_rows, B], tf.int32)


def steps(num_steps):
    return {name: float_rows(num_steps) for name in ("r_t", "discount_t", "v_t")}


def dream(num_steps):
    return {name: float_rows(num_steps + 1) for name in ("rewards", "continues", "values")}


def ratios(num_steps):
    names = ("log_rhos", "discounts", "rewards", "q_values", "values")
    last = {"bootstrap_value": tf.TensorSpec([B], tf.float32)}
    return {**{name: float_rows(num_steps) for name in names}, **last}


def log_probs(num_steps):
    found = ratios(num_steps)
    log_rhos = found.pop("log_rhos")
    return {
        "behaviour_action_log_probs": log_rhos,
        "target_action_log_probs": log_rhos,
        **found,
    }


def discrete(num_steps):
    rows = num_steps + 1
    return {
        **{k: float_rows(rows, A) for k in ("qs", "targnet_qs", "target_policy_probs")},
        **{k: float_rows(rows) for k in ("rewards", "pcontinues", "behaviour_policy_probs")},
        "actions": index_rows(rows),
    }


def core(num_steps):
    return {
        **{k: float_rows(num_steps, A) for k in ("q_tm1", "target_policy_t", "targnet_q_t")},
        **{k: float_rows(num_steps) for k in ("r_t", "pcont_t", "behaviour_policy_t")},
        **{k: index_rows(num_steps) for k in ("a_tm1", "a_t")},
    }


def learning(num_steps):
    return {
        **{k: float_rows(num_steps, A) for k in ("q_tm1", "target_q_t")},
        **{k: float_rows(num_steps) for k in ("r_t", "discount_t")},
        **{k: index_rows(num_steps) for k in ("a_tm1", "a_t")},
    }


def sequences(num_steps):
    found = discrete(num_steps)
    del found["behaviour_policy_probs"]
    return {**found, **{k: float_rows(num_steps) for k in ("rewards", "pcontinues")}}


def lambda_retrace(fn):
    return lambda n, **inputs: fn(lambda_=0.9, **inputs)


def without_n(fn):
    return lambda n, **inputs: fn(**inputs)


# Function of n and tensors, and the specs of the tensors for T steps.
OPS = {
    "lambda_returns": (without_n(returns.lambda_returns), steps),
    "discounted_returns": (without_n(returns.discounted_returns), steps),
    "n_step_bootstrapped_returns": (returns.n_step_bootstrapped_returns, steps),
    "dreamer_lambda_returns": (without_n(returns.dreamer_lambda_returns), dream),
    "retrace_from_importance_weights": (
        lambda_retrace(retrace.retrace_from_importance_weights),
        ratios,
    ),
    "retrace_from_action_log_probs": (
        lambda_retrace(retrace.retrace_from_action_log_probs),
        log_probs,
    ),
    "retrace": (lambda_retrace(retrace.retrace), discrete),
    "retrace_core": (
        lambda_retrace(lambda **kw: retrace.retrace_core(**kw, stop_targnet_gradients=False)),
        core,
    ),
    "transformed_n_step_returns": (
        lambda **kw: nb.transformed_n_step_returns(nb.SIGNED_HYPERBOLIC_PAIR, **kw),
        steps,
    ),
    "transformed_n_step_q_learning": (
        lambda **kw: nb.transformed_n_step_q_learning(
            **kw, tx_pair=nb.SIGNED_LOGP1_PAIR, stop_target_gradients=False
        ),
        learning,
    ),
    "transformed_n_step_loss": (
        lambda n, **kw: nb.transformed_n_step_loss(
            **kw, bootstrap_n=n, stop_targnet_gradients=False
        ),
        sequences,
    ),
}


def num_nodes(fn, specs, n):
    """Nodes of the traced values and gradients, and of all functions they call."""
    names = list(specs)

    def gradients(*tensors):
        floats = [x for x in tensors if x.dtype.is_floating]
        with tf.GradientTape() as tape:
            tape.watch(floats)
            outputs = tf.nest.flatten(fn(n=n, **dict(zip(names, tensors))))
            total = tf.add_n([tf.reduce_sum(x) for x in outputs if x is not None])
        return total, [x for x in tape.gradient(total, floats) if x is not None]

    traced = tf.function(gradients, autograph=False).get_concrete_function(*specs.values())
    graph = traced.graph.as_graph_def()
    return len(graph.node) + sum(len(f.node_def) for f in graph.library.function)


@pytest.mark.parametrize("name", OPS)
def test_graph_size(name):
    fn, specs = OPS[name]
    short, long = num_nodes(fn, specs(60), n=5), num_nodes(fn, specs(1000), n=5)
    assert short == long < 2000
    # n-step returns have a round for each bit of n, not a step for each reward.
    assert num_nodes(fn, specs(1000), n=50) < 2 * long
