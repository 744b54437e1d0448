"""What BCLearner refuses: loss functions, arguments, networks, batches."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tree

from tests.learners.golden_bc import (
    BY_NAME,
    DISCRETE,
    GoldenNetwork,
    batches,
    make,
)
from tfagents_x import types
from tfagents_x.learners import bc_losses
from tfagents_x.learners.bc import BCLearner

BAD_RESULTS = {
    "pair": (lambda x: (x, {}), False, r"tuple of 2.*loss_has_aux=True"),
    "none": (lambda x: None, False, "float scalar, got None"),
    "number": (lambda x: 1.0, False, "float scalar, got 1.0"),
    "integer": (lambda x: tf.cast(x, tf.int32), False, "float scalar, got.*int32"),
    "vector": (lambda x: x * tf.ones([8]), False, r"scalar, got shape \(8,\).*reduce_mean"),
    "function": (lambda x: bc_losses.logp(), False, r"pass logp\(\), not logp"),
    "constant": (lambda x: tf.stop_gradient(x), False, "does not depend on the network's"),
    "bare": (lambda x: x, True, r"pair \(loss, metrics\)"),
    "triple": (lambda x: (x, {}, {}), True, r"pair \(loss, metrics\)"),
    "no_dict": (lambda x: (x, x), True, r"pair \(loss, metrics\), metrics a dictionary"),
    "aux_vector": (lambda x: (x * tf.ones([8]), {}), True, r"scalar, got shape \(8,\)"),
    "loss": (lambda x: (x, {"loss": x}), True, "under the name 'loss'.*the learner reports"),
    "norm": (lambda x: (x, {"gradient_norm": x}), True, "under the name 'gradient_norm'"),
    "key": (lambda x: (x, {1: x}), True, "under the name 1; it must be a text"),
    "nested": (lambda x: (x, {"a": {"b": x}}), True, "metric a must be one tensor of numbers"),
    "text": (lambda x: (x, {"a": "high"}), True, "metric a must be one tensor of numbers"),
    "empty": (lambda x: (x, {"a": None}), True, "metric a is a NoneType"),
}


@pytest.mark.parametrize("name", BAD_RESULTS)
def test_bad_results_of_loss_fn_are_explained(name):
    result, has_aux, message = BAD_RESULTS[name]
    loss_fn = lambda network, x: result(bc_losses.logp()(network, x))
    learner, _ = make(DISCRETE, iter(batches(DISCRETE)), loss_fn=loss_fn, loss_has_aux=has_aux)
    with pytest.raises((TypeError, ValueError), match=message):
        learner.step()


def acme_jax(apply_fn, params, key, transitions):
    """The signature of the source's losses."""


BAD_ARGUMENTS = {
    "factory": ({"loss_fn": bc_losses.logp}, "which makes losses: call it"),
    "loss_fn": ({"loss_fn": "mse"}, r"loss_fn must be a function of \(network, transitions\)"),
    "signature": ({"loss_fn": acme_jax}, r"\(network, transitions\), got one of \(apply_fn, par"),
    "optimizer": ({"optimizer": 1e-3}, "policy optimizer must be a Sonnet optimizer"),
    "several": ({"num_sgd_steps_per_step": 0}, "num_sgd_steps_per_step must be at least 1"),
    "rate": ({"optimizer": None, "learning_rate": -1.0}, "learning_rate must be between 0"),
    "seed": ({"seed": -1}, "seed must be at least 0"),
}


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_bad_arguments_are_explained(name):
    arguments, message = BAD_ARGUMENTS[name]
    arguments = {"checkpoint": False, "learning_rate": 1e-2, **arguments}
    with pytest.raises((ValueError, TypeError), match=message):
        BCLearner(GoldenNetwork(DISCRETE), dataset=iter([]), **arguments)


def test_networks_that_are_none_are_explained():
    with pytest.raises(TypeError, match="network must be a snt.Module"):
        BCLearner(lambda x: x, 1e-2, iter([]))
    with pytest.raises(ValueError, match="network has no variables yet.*create_variables"):
        BCLearner(snt.Linear(2), 1e-2, iter([]))


DATA = batches(DISCRETE)[0]
EMPTY = tree.map_structure(lambda x: x[:0], DATA)
SEQUENCES = types.Step(*[np.repeat(x[:, None], 2, 1) for x in DATA[:4]], DATA.reward > 0)
BAD_BATCHES = {
    "pair": (types.ReplaySample((), (DATA.observation, DATA.action)), "types.Transition.*tuple"),
    "short": (DATA._replace(action=DATA.action[:7]), r"observation has shape \(8, 3\).*\[7\]"),
    "scalar": (DATA._replace(action=np.int32(1)), r"an observation and an action, \[B"),
    "empty": (EMPTY, r"an observation and an action, \[B, ...\] with at least one row"),
    "missing": (DATA._replace(observation=None), r"an observation and an action, \[B"),
    "sequences": (SEQUENCES, r"\[B, T, ...\] = \(8, 2\)"),
    "outside": (DATA._replace(action=DATA.action + 4), "actions outside the action space"),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_bad_batches_are_explained(name):
    data, message = BAD_BATCHES[name]
    learner, _ = make(DISCRETE, iter([data]), loss_fn=None)
    with pytest.raises((ValueError, TypeError), match=message):
        learner.step()


def test_rcal_needs_the_next_observation():
    data = DATA._replace(next_observation=())
    learner, _ = make(BY_NAME["rcal_categorical"], iter([data]))
    with pytest.raises(ValueError, match="next_observation, which is empty"):
        learner.step()


def test_batches_that_cannot_be_cut_are_explained():
    learner, _ = make(DISCRETE, iter([DATA]), num_sgd_steps_per_step=3)
    with pytest.raises(ValueError, match="batch of 8 per replica.*num_sgd_steps_per_step = 3"):
        learner.step()
    signature = tree.map_structure(lambda x: tf.TensorSpec([None, *x.shape[1:]], x.dtype), DATA)
    with pytest.raises(ValueError, match="drop_remainder=True"):
        make(DISCRETE, iter([]), num_sgd_steps_per_step=2)[0]._update.get_concrete_function(
            signature
        )
