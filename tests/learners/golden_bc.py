"""The network, losses and batches of the golden file of behaviour cloning."""

from __future__ import annotations

import json

import numpy as np
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from tests import golden_cases
from tfagents_x import specs, types, utils
from tfagents_x.learners import bc_losses
from tfagents_x.learners.bc import BCLearner
from tfagents_x.utils import distribute, loggers

tfd = tfp.distributions
CASES = golden_cases.load("learner_bc")
BY_NAME = {case.name: case for case in CASES}
STEPS = 3


def config(case):
    return json.loads(str(case["config"]))


class GoldenNetwork(snt.Module):
    """The notes' network with the case's weights, ending in the policy of the case."""

    def __init__(self, case):
        super().__init__()
        settings, weights = config(case), case.under("weights.online")
        sizes = weights["W1"].shape[1], weights["W2"].shape[1]
        self.mlp = snt.nets.MLP(sizes, activation=tf.tanh)
        self.policy, self.stddev = settings["policy"], settings.get("stddev")
        utils.create_variables(self, [specs.Array((3,), np.float32)])
        first, second = self.mlp.submodules
        self.named = {"W1": first.w, "b1": first.b, "W2": second.w, "b2": second.b}
        for name, variable in self.named.items():
            variable.assign(weights[name])

    def __call__(self, observation):
        output = self.mlp(observation)
        if self.policy == "gaussian":
            return tfd.MultivariateNormalDiag(output, self.stddev * tf.ones_like(output))
        if self.policy == "gaussian_scale":
            mean, scale = tf.split(output, 2, axis=-1)
            return tfd.MultivariateNormalDiag(mean, tf.nn.softplus(scale) + 1e-3)
        return output


def with_aux(network, transitions):
    """The notes' auxiliary metrics."""
    logits = network(transitions.observation)
    right = tf.equal(tf.argmax(logits, -1, tf.int32), transitions.action)
    log_prob = bc_losses.log_prob(logits, transitions.action)
    return -tf.reduce_mean(log_prob), {
        "accuracy": tf.reduce_mean(tf.cast(right, tf.float32)),
        "max_logit": tf.reduce_max(logits),
        "log_prob": log_prob,
    }


def mode_of(output, seed):
    del seed
    return output.mode() if isinstance(output, tfd.Distribution) else output


def golden_loss(settings):
    """The case's loss function; None for Acme TF, whose is our default."""
    bins = settings.get("num_bins")
    kind = settings.get("loss")
    bases = {
        "logp": bc_losses.logp(num_bins=bins),
        "mse": bc_losses.mse(mode_of),
        "logp+aux": with_aux,
    }
    if kind in (None, *bases):
        return bases.get(kind)
    kind, inner = kind[:-1].split("(")
    if kind == "peerbc":
        return bc_losses.peerbc(bases[inner], settings["zeta"])
    return bc_losses.rcal(bases[inner], settings["discount"], settings["alpha"], bins)


def make(case, dataset, strategy=None, **kwargs):
    """The case's network, and the learner on it."""
    settings = config(case)
    adam = settings["adam"]
    with distribute.scope(strategy):
        network = GoldenNetwork(case)
        optimizer = snt.optimizers.Adam(adam["learning_rate"], adam["b1"], adam["b2"], adam["eps"])
    settings = {
        "loss_fn": golden_loss(settings),
        "loss_has_aux": settings.get("loss_has_aux", False),
        "num_sgd_steps_per_step": settings.get("num_sgd_steps_per_step", 1),
        "optimizer": optimizer,
        "checkpoint": False,
        "logger": loggers.NoOpLogger(),
        "accelerator_strategy": strategy,
        **kwargs,
    }
    return BCLearner(network, adam["learning_rate"], dataset, **settings), network


def batches(case):
    fields = types.Transition._fields[:5]
    return [
        types.Transition(**{name: case[f"in.{name}"][k] for name in fields}) for k in range(STEPS)
    ]


def tensors(case, rows=slice(None)):
    return tree.map_structure(lambda x: tf.convert_to_tensor(x[rows]), batches(case)[0])


CONTINUOUS, DISCRETE = BY_NAME["logp_gaussian_scale"], BY_NAME["logp_categorical"]


def check_updates(case, learner, network, only=None):
    for k in range(1, STEPS + 1):
        result = learner.step()
        wanted = case.under(f"out.step{k}.metrics")
        assert set(result) == set(wanted)
        for name in only or wanted:
            golden_cases.assert_close(result[name], wanted[name], rtol=1e-4, atol=2e-6)
        for name, weights in case.under(f"out.step{k}.online").items():
            golden_cases.assert_close(network.named[name], weights, rtol=1e-4, atol=2e-6)
