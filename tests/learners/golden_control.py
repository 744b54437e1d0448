"""The tiny networks of the continuous-control golden files, and their batches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from tests import strategies
from tests.golden_cases import Case, assert_close
from tfagents_x import networks, specs, types, utils

tfd = tfp.distributions


def config(case: Case) -> dict[str, Any]:
    """The case's hyper-parameters."""
    return json.loads(str(case["config"]))


def stored_noise(eps: np.ndarray) -> type[tfd.MultivariateNormalDiag]:
    """A normal distribution whose i-th sample is loc + scale * eps[i]."""

    class Normal(tfd.MultivariateNormalDiag):
        def _sample_n(self, n: int, seed: Any = None) -> tf.Tensor:
            rows = tf.reshape(eps[:n], [n, *[1] * self.batch_shape.rank, eps.shape[-1]])
            return self.loc + self.stddev() * rows

        # The parent is a transformed distribution, which samples its base instead.
        _call_sample_n = tfd.Distribution._call_sample_n

    return Normal


class GaussianHead(snt.Module):
    """The notes' policy head, with stored noise."""

    def __init__(self, num_dimensions: int, eps: np.ndarray):
        super().__init__()
        self.mean, self.scale = snt.Linear(num_dimensions), snt.Linear(num_dimensions)
        self.normal = stored_noise(eps)

    def __call__(self, x: tf.Tensor) -> tfd.Distribution:
        return self.normal(self.mean(x), tf.nn.softplus(self.scale(x)) + 0.1)


class Network:
    """A network whose variables carry the notes' names, in the notes' order.

    Attributes:
      module: what a learner gets.
      variables: by name.
    """

    def __init__(self, kind: str, case: Case, recurrent: bool):
        settings, weights = config(case), case.under(f"weights.{kind}")
        sizes, eps = settings["sizes"], case["in.eps"]
        self._order = [name for name, _ in settings["variables"][kind]]
        linear, lstm = snt.Linear(sizes["hidden"]), snt.LSTM(sizes["hidden"])
        inputs = [specs.Array((sizes["obs_dim"],), np.float32)]
        first: snt.Module = snt.Sequential([linear, tf.tanh])
        if kind.endswith("critic"):
            first = networks.CriticMultiplexer(first)
            inputs.append(specs.Array((sizes["action_dim"],), np.float32))
        parts = {"linear": linear}
        if not kind.endswith("critic"):
            head = GaussianHead(sizes["action_dim"], eps)
            parts.update(mean=head.mean, scale=head.scale)
        elif recurrent:
            head = networks.DiscreteValuedHead(sizes["vmin"], sizes["vmax"], sizes["num_atoms"])
            parts["head"] = head._distributional_layer
        else:
            head = parts["out"] = snt.Linear(1)
        if recurrent:
            stack = networks.CriticDeepRNN if kind.endswith("critic") else networks.DeepRNN
            self.module = stack([first, lstm, head])
        else:
            self.module = snt.Sequential([first, head])
        utils.create_variables(self.module, inputs)
        self.variables = {f"{k}.{n}": getattr(m, n) for k, m in parts.items() for n in ("w", "b")}
        if recurrent:
            names = {"w_i": "input_to_hidden", "w_h": "hidden_to_hidden", "b": "b"}
            self.variables.update({f"lstm.{k}": getattr(lstm, v) for k, v in names.items()})
        for name, variable in self.variables.items():
            variable.assign(weights[name])
        assert set(self._order) == set(self.variables)

    def flat(self, values: Sequence[Any] | None = None) -> np.ndarray:
        """The variables (or `values`, in the order of the module's) as the file stores them."""
        if values is None:
            values = self.module.trainable_variables
        by_id = {id(v): x for v, x in zip(self.module.trainable_variables, values)}
        return np.concatenate([np.ravel(by_id[id(self.variables[n])]) for n in self._order])


def optimizer(case: Case) -> snt.Optimizer:
    """A fresh optimizer of the case's kind."""
    settings = dict(config(case)["optimizer"])
    name = settings.pop("name")
    if name == "sgd":
        return snt.optimizers.SGD(settings["learning_rate"])
    numbers = {k: settings[k] for k in ("learning_rate", "beta1", "beta2", "epsilon")}
    return snt.optimizers.Adam(**numbers)


def batches(case: Case) -> list[types.ReplaySample]:
    """The case's batches, one for each update."""
    shape = case["in.reward"].shape
    starts = case.get("in.start_of_episode", np.zeros(shape, bool))
    log_prob = case.get("in.log_prob")
    return [
        types.ReplaySample(
            info=(),
            data=types.Step(
                observation=case["in.observation"][k],
                action=case["in.action"][k],
                reward=case["in.reward"][k],
                discount=case["in.discount"][k],
                start_of_episode=starts[k],
                extras={} if log_prob is None else {"log_prob": log_prob[k]},
            ),
        )
        for k in range(shape[0])
    ]


def tensors(case: Case, step: int = 0) -> types.Step:
    """One of the case's batches, as the learner's losses get it."""
    return tree.map_structure(tf.convert_to_tensor, batches(case)[step].data)


TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


def check_updates(case: Case, learner: Any, nets: dict[str, Network], metrics: set[str]) -> None:
    """Runs the case's updates and compares losses, weights and target copies."""
    learner._num_steps.assign(config(case)["initial_num_steps"])
    for k in range(1, config(case)["num_steps"] + 1):
        before = {name: net.flat() for name, net in nets.items()}
        result = learner.step()
        assert set(result) == metrics
        for name in metrics:
            assert_close(result[name], case[f"out.step{k}.{name}"], **TOLERANCE)
        for name, net in nets.items():
            expected = case.get(f"out.step{k}.vars.{name}")
            if expected is None:  # Only some cases store the targets, which follow a rule.
                copied = case[f"out.step{k}.target_updated"]
                expected = nets[name[len("target_") :]].flat() if copied else before[name]
            assert_close(net.flat(), expected, **TOLERANCE)


def check_gradients(case: Case, learner: Any, nets: dict[str, Network]) -> None:
    """Compares the first batch's gradients, before clipping."""
    learner._num_steps.assign(config(case)["initial_num_steps"])
    gradients, _ = learner._gradients(tensors(case))
    assert set(gradients) == {name for name in nets if not name.startswith("target_")}
    for name, values in gradients.items():
        expected = case[f"out.step1.grads.{name}"]
        assert_close(nets[name].flat(values), expected, rtol=1e-4, atol=1e-5, scaled=True)


def check_two_replicas(case: Case, make: Any, kind: type, metrics: set[str]) -> None:
    """Three updates on two replicas give what one device gives."""
    strategy = strategies.mirrored(kind)
    learner, nets = make(case, iter(batches(case)), strategy)
    check_updates(case, learner, nets, metrics)
    for net in nets.values():
        for variable in net.module.trainable_variables:
            first, second = strategy.experimental_local_results(variable)
            np.testing.assert_array_equal(first, second)


def check_graph_size(make_learner: Any, data: types.Step) -> None:
    """The traced update is as large for long sequences as for short ones."""
    short, long, longer = (_num_nodes(make_learner(), data, t) for t in (10, 80, 160))
    assert long == longer
    # TensorFlow writes zeros of up to 1,000 numbers as one constant, larger ones as an
    # operation with inputs.
    assert abs(long - short) < 10


def _num_nodes(learner: Any, data: types.Step, num_steps: int) -> int:
    """Nodes of the update for sequences of `num_steps`, functions included."""
    longer = tree.map_structure(lambda x: np.repeat(x[:, :1], num_steps, axis=1), data)
    tensors = tree.map_structure(tf.convert_to_tensor, longer)
    definition = learner._update.get_concrete_function(tensors).graph.as_graph_def()
    return len(definition.node) + sum(len(f.node_def) for f in definition.library.function)
