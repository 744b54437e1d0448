"""Every network as a SavedModel: the same outputs here, and in a process without the package.

`CASES` is the list of networks; a new one needs a line there. A module whose outputs are
drawn is marked so, and only the shapes and dtypes of its outputs are compared.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from typing import Any, Callable, NamedTuple

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import networks, specs, types, utils

# Loading a distribution needs its class imported, as TensorFlow tells while saving.
pytestmark = pytest.mark.filterwarnings("ignore:Encoding a StructuredValue")

BATCH_SIZE = 3
NUM_STEPS = 2  # of recurrent networks, so that the second sees a state that is not initial


class Case(NamedTuple):
    """A network and the specs of its arguments, without state.

    Attributes:
      make: makes the network.
      inputs: what `create_variables` gets.
      imports: statements that loading needs, for the classes of distributions in the outputs.
      random: whether two calls give different outputs.
    """

    make: Callable[[], snt.Module]
    inputs: list[Any]
    imports: str = ""
    random: bool = False


VECTOR = specs.Array((4,), np.float32)
ACTION = specs.BoundedArray((2,), np.float32, -1.0, 1.0)
WIDE_ACTION = specs.BoundedArray((2,), np.float32, -3.0, 5.0)
PIXELS = specs.Array((24, 24, 3), np.uint8)
ATARI = specs.Array((84, 84, 4), np.uint8)
NESTED = {"speed": specs.Array((), np.float32), "body": (VECTOR, VECTOR)}
OAR = types.OAR(PIXELS, specs.DiscreteArray(3), specs.Array((), np.float32))
ATARI_OAR = OAR._replace(observation=ATARI)
MASK = specs.BoundedArray((3,), np.float32, 1.0, 1.0)
OLT = types.OLT(VECTOR, MASK, specs.BoundedArray((1,), np.float32, 0.0, 0.0))

TFP = "import tensorflow_probability as tfp; tfp.distributions"
OWN = "import tfagents_x.networks"


def layers(*modules):
    return lambda: snt.Sequential([make() for make in modules])


def recurrent(*modules):
    return lambda: networks.DeepRNN([make() for make in modules])


def linear(size):
    return lambda: snt.Linear(size)


def gaussian(size, **kwargs):
    return lambda: networks.MultivariateNormalDiagHead(size, **kwargs)


def critic():
    return networks.CriticMultiplexer(snt.nets.MLP([8, 1]))


def value_distribution():
    return networks.CriticMultiplexer(
        snt.Sequential([snt.Linear(8), networks.DiscreteValuedHead(-1.0, 1.0, 5)])
    )


def recurrent_sampler():
    policy = recurrent(linear(4), lambda: networks.LSTM(3), gaussian(2))()
    return networks.RecurrentExpQWeightedPolicy(
        policy, networks.CriticDeepRNN([critic(), snt.LSTM(3), snt.Linear(1)]), 0.5, 4
    )


def sampler():
    return networks.ExpQWeightedPolicy(layers(linear(4), gaussian(2))(), critic(), 0.5, 4)


PLAIN = {
    "MLP": Case(lambda: snt.nets.MLP([8, 3]), [VECTOR]),
    "LayerNormMLP": Case(lambda: networks.LayerNormMLP([8, 3]), [NESTED]),
    "LayerNormAndResidualMLP": Case(lambda: networks.LayerNormAndResidualMLP(8, 2), [VECTOR]),
    "NearZeroInitializedLinear": Case(lambda: networks.NearZeroInitializedLinear(3), [VECTOR]),
    "DuellingMLP": Case(lambda: networks.DuellingMLP(3, [8]), [VECTOR]),
    "PolicyValueHead": Case(lambda: networks.PolicyValueHead(3), [VECTOR]),
    "Multihead": Case(lambda: networks.Multihead([snt.Linear(3), snt.Linear(3)]), [VECTOR]),
    "CriticMultiplexer": Case(critic, [NESTED, ACTION]),
    "ClipToSpec": Case(layers(linear(2), lambda: networks.ClipToSpec(ACTION)), [VECTOR]),
    "RescaleToSpec": Case(layers(linear(2), lambda: networks.RescaleToSpec(WIDE_ACTION)), [VECTOR]),
    "TanhToSpec": Case(layers(linear(2), lambda: networks.TanhToSpec(WIDE_ACTION)), [VECTOR]),
    "ConcatObservation": Case(layers(networks.ConcatObservation, linear(3)), [NESTED]),
    "DiscreteFilteredQNetwork": Case(
        lambda: networks.DiscreteFilteredQNetwork(snt.Linear(3), snt.Linear(3), 0.3), [VECTOR]
    ),
    "MaskedSequential": Case(lambda: networks.MaskedSequential([snt.Linear(3)]), [OLT]),
    "ResNetTorso": Case(lambda: networks.ResNetTorso([2], [1], [8]), [PIXELS]),
    "DrQTorso": Case(networks.DrQTorso, [PIXELS]),
    "AtariTorso": Case(networks.AtariTorso, [ATARI]),
    "DQNAtariNetwork": Case(lambda: networks.DQNAtariNetwork(3), [ATARI]),
    "OAREmbedding": Case(
        lambda: networks.OAREmbedding(networks.ResNetTorso([2], [1], [8]), 3), [OAR]
    ),
    "StochasticMeanHead": Case(
        layers(gaussian(2, use_tfd_independent=True), networks.StochasticMeanHead), [VECTOR]
    ),
    "StochasticModeHead": Case(layers(gaussian(2), networks.StochasticModeHead), [VECTOR]),
}
RANDOM = {
    "StochasticSamplingHead": Case(layers(gaussian(2), networks.StochasticSamplingHead), [VECTOR]),
    "ClippedGaussian": Case(layers(linear(2), lambda: networks.ClippedGaussian(0.3)), [VECTOR]),
    "NetworkWithMaskedEpsilonGreedy": Case(
        lambda: networks.NetworkWithMaskedEpsilonGreedy(
            snt.Sequential([lambda observation: observation["x"], snt.Linear(3)]), 0.5
        ),
        [{"x": VECTOR, "legal_actions_mask": MASK}],
    ),
    "ExpQWeightedPolicy": Case(sampler, [VECTOR]),
    "RecurrentExpQWeightedPolicy": Case(recurrent_sampler, [VECTOR]),
}
DISTRIBUTIONS = {
    "MultivariateNormalDiagHead": Case(gaussian(2), [VECTOR], TFP),
    "its independent normals": Case(gaussian(2, use_tfd_independent=True), [VECTOR], TFP),
    "UnivariateGaussianMixture": Case(
        lambda: networks.UnivariateGaussianMixture(2, 3), [VECTOR], TFP
    ),
    "MultivariateGaussianMixture": Case(
        lambda: networks.MultivariateGaussianMixture(2, 3), [VECTOR], TFP
    ),
    "EpsilonGreedy": Case(
        layers(linear(3), lambda: networks.EpsilonGreedy(0.5, -1e8)), [VECTOR], TFP
    ),
    "DiscreteValuedHead": Case(lambda: networks.DiscreteValuedHead(-1.0, 1.0, 5), [VECTOR], OWN),
    "critic with a distribution": Case(value_distribution, [NESTED, ACTION], OWN),
    "ApproximateMode": Case(
        layers(gaussian(2), networks.ApproximateMode, networks.StochasticModeHead), [VECTOR]
    ),
}
RECURRENT = {
    "snt.LSTM": Case(lambda: snt.LSTM(3), [VECTOR]),
    "LSTM": Case(lambda: networks.LSTM(3), [VECTOR]),
    "snt.DeepRNN": Case(
        lambda: snt.DeepRNN([snt.Linear(4), snt.LSTM(3), snt.GRU(3), snt.Linear(1)]), [VECTOR]
    ),
    "DeepRNN": Case(
        recurrent(networks.ConcatObservation, linear(4), lambda: networks.LSTM(3), linear(2)),
        [NESTED],
    ),
    "DeepRNN without core": Case(recurrent(linear(2)), [VECTOR]),
    "recurrent policy": Case(recurrent(linear(4), lambda: snt.LSTM(3), gaussian(2)), [VECTOR], TFP),
    "CriticDeepRNN": Case(
        lambda: networks.CriticDeepRNN([critic(), snt.LSTM(3), snt.Linear(1)]), [NESTED, ACTION]
    ),
    "R2D2AtariNetwork": Case(lambda: networks.R2D2AtariNetwork(3, snt.LSTM(4)), [ATARI_OAR]),
    "IMPALAAtariNetwork": Case(lambda: networks.IMPALAAtariNetwork(3), [ATARI_OAR]),
    "DeepIMPALAAtariNetwork": Case(lambda: networks.DeepIMPALAAtariNetwork(3), [OAR]),
}
CASES = {
    **PLAIN,
    **{name: case._replace(random=True) for name, case in RANDOM.items()},
    **DISTRIBUTIONS,
    **RECURRENT,
}


def random_batch(spec: Any, rng: np.random.Generator) -> np.ndarray:
    """Values that the spec allows, with a batch axis."""
    shape = (BATCH_SIZE, *spec.shape)
    if np.issubdtype(spec.dtype, np.integer):
        return rng.integers(0, getattr(spec, "num_values", 100), shape).astype(spec.dtype)
    low, high = getattr(spec, "minimum", -1.0), getattr(spec, "maximum", 1.0)
    return rng.uniform(low, high, shape).astype(spec.dtype)


# The second process gets the source of this and the next function: it has no way to import them.
def run(network, inputs, num_steps, recurrent):
    """Flat outputs of one call; of a recurrent network, of several, with the states between."""
    if not recurrent:
        return tf.nest.flatten(network(*inputs), expand_composites=True)
    outputs, state = [], network.initial_state(tf.shape(tf.nest.flatten(inputs)[0])[0])
    for _ in range(num_steps):
        output, state = network(*inputs, state)
        outputs += tf.nest.flatten((output, state), expand_composites=True)
    return outputs


def reload_all(folder, cases):
    for case in cases:
        exec(case["imports"])
        path = os.path.join(folder, case["name"])
        network = tf.saved_model.load(path)
        signature, _ = network.__call__.concrete_functions[0].structured_input_signature
        signature = signature[:-1] if case["recurrent"] else signature
        with np.load(f"{path}.npz") as data:
            inputs = tf.nest.pack_sequence_as(signature, [tf.constant(data[k]) for k in data.files])
        outputs = run(network, inputs, case["num_steps"], case["recurrent"])
        np.savez(f"{path}.out.npz", *outputs)
        if not case["imports"]:
            assert not {"tensorflow_probability", "sonnet", "tfagents_x"} & set(sys.modules)


SCRIPT = "\n".join(
    [
        "import json, os, sys",
        "import numpy as np",
        "import tensorflow as tf",
        inspect.getsource(run),
        inspect.getsource(reload_all),
        "reload_all(sys.argv[1], json.loads(sys.argv[2]))",
    ]
)


class Saved(NamedTuple):
    """A network that was saved: itself, where, with which inputs, and its outputs."""

    network: snt.Module
    path: str
    inputs: list[Any]
    outputs: list[Any]


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Callable[[str], Saved]:
    """Makes and saves each case once, when it is first asked for."""
    folder, done = tmp_path_factory.mktemp("networks"), {}

    def save(name: str) -> Saved:
        if name not in done:
            done[name] = _save(CASES[name], name, str(folder))
        return done[name]

    return save


def _save(case: Case, name: str, folder: str) -> Saved:
    network = case.make()
    utils.create_variables(network, case.inputs)
    snapshotter = utils.Snapshotter({name: network}, directory=folder)
    assert snapshotter.save()
    rng = np.random.default_rng(0)
    inputs = tree.map_structure(lambda s: tf.constant(random_batch(s, rng)), case.inputs)
    path = os.path.join(snapshotter.directory, name)
    np.savez(f"{path}.npz", *tree.flatten(inputs))
    outputs = run(network, inputs, NUM_STEPS, isinstance(network, snt.RNNCore))
    return Saved(network, path, inputs, outputs)


def assert_outputs(actual: list[Any], case: Case, expected: list[Any]) -> None:
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected):
        assert one.shape == other.shape and one.dtype == other.dtype
        if not case.random:
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_reloaded_here(name, saved):
    case, (network, path, inputs, outputs) = CASES[name], saved(name)
    restored, recurrent = tf.saved_model.load(path), isinstance(network, snt.RNNCore)
    assert_outputs(run(restored, inputs, NUM_STEPS, recurrent), case, outputs)
    assert len(restored.variables) == len(tf.Module.variables.fget(network))
    for one, other in zip(restored.variables, tf.Module.variables.fget(network)):
        np.testing.assert_array_equal(one, other)
    assert hasattr(restored, "initial_state") == recurrent
    states = [network.initial_state(BATCH_SIZE)] if recurrent else []
    given, wanted = restored(*inputs, *states), network(*inputs, *states)
    tree.assert_same_structure(given, wanted, check_types=False)


def test_reloaded_by_plain_tensorflow(saved):
    """In one process for all; those that need nothing but TensorFlow come first."""
    order = sorted(CASES, key=lambda name: ("", TFP, OWN).index(CASES[name].imports))
    everything = {name: saved(name) for name in order}
    cases = [
        {
            "name": name,
            "imports": CASES[name].imports,
            "recurrent": isinstance(everything[name].network, snt.RNNCore),
            "num_steps": NUM_STEPS,
        }
        for name in order
    ]
    folder = os.path.dirname(everything[order[0]].path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, folder, json.dumps(cases)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    for name in order:
        with np.load(os.path.join(folder, f"{name}.out.npz")) as data:
            outputs = [data[key] for key in data.files]
        expected = [x.numpy() for x in everything[name].outputs]
        assert_outputs(outputs, CASES[name], expected)
