"""Snapshots: when and where they are written, what they hold, and how inputs are found out."""

from __future__ import annotations

import os

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from tests import strategies
from tfagents_x import specs
from tfagents_x.utils import distribute, modules, nest, snapshots

VECTOR = specs.Array((4,), np.float32)
ROWS = tf.constant(np.random.default_rng(0).normal(size=[3, 4]).astype(np.float32))


def linear():
    module = snt.Linear(2)
    nest.create_variables(module, [VECTOR])
    return module


def exported(module, path):
    tf.saved_model.save(snapshots.make_snapshot(module), str(path))
    return tf.saved_model.load(str(path))


def assert_close(actual, expected):
    actual, expected = (tf.nest.flatten(x, expand_composites=True) for x in (actual, expected))
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


# ---- When and where ----


@pytest.fixture
def saver(tmp_path):
    return snapshots.Snapshotter({"net": linear()}, directory=str(tmp_path))


def test_saves_when_it_is_time_or_told_to(saver, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(snapshots.time, "monotonic", lambda: now)
    assert saver.save()
    now += 30 * 60 - 1
    assert not saver.save()
    assert saver.save(force=True)
    now += 30 * 60
    assert saver.save() and not saver.save()


def test_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    default = snapshots.Snapshotter({"net": linear()})
    assert default.directory == snapshots.Snapshotter(None).directory and default.save()
    (process,) = os.listdir(tmp_path / "tfagents_x")
    assert default.directory == str(tmp_path / "tfagents_x" / process / "snapshots")
    assert os.listdir(default.directory) == ["net"]
    named = snapshots.Snapshotter({}, directory="~/mine")
    assert named.directory == str(tmp_path / "mine" / "snapshots")
    assert not named.save(force=True) and not (tmp_path / "mine").exists()


def test_a_snapshot_replaces_the_one_before(tmp_path):
    module = linear()
    saver = snapshots.Snapshotter({"net": module}, directory=str(tmp_path), time_delta_minutes=0)
    for factor in (1.0, 2.0):
        module.b.assign([factor, factor])
        assert saver.save()
        restored = tf.saved_model.load(os.path.join(saver.directory, "net"))
        assert_close(restored(ROWS), module(ROWS))
    assert os.listdir(saver.directory) == ["net"]


def loaded_bias(saver):
    return tf.saved_model.load(os.path.join(saver.directory, "net")).variables[0].numpy()


def test_dying_while_writing_leaves_the_one_before(saver, monkeypatch):
    saver.save()
    good = loaded_bias(saver)

    def half(snapshot, path):
        os.makedirs(path)
        with open(os.path.join(path, "saved_model.pb"), "wb") as file:
            file.write(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(snapshots.tf.saved_model, "save", half)
        with pytest.raises(KeyboardInterrupt):
            saver.save(force=True)
    np.testing.assert_array_equal(loaded_bias(saver), good)
    assert saver.save(force=True)
    assert os.listdir(saver.directory) == ["net"]


@pytest.mark.parametrize("step", [1, 2], ids=["before", "between"])
def test_dying_while_the_new_one_is_put_in_place(step, saver, monkeypatch):
    saver.save()
    good, calls = loaded_bias(saver), []
    rename = snapshots.pathlib.Path.rename

    def dying(path, target):
        calls.append(path)
        if len(calls) == step:
            raise KeyboardInterrupt
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(snapshots.pathlib.Path, "rename", dying)
        with pytest.raises(KeyboardInterrupt):
            saver.save(force=True)
    folder = os.path.dirname(saver.directory)
    again = snapshots.Snapshotter({"net": linear()}, directory=folder)
    np.testing.assert_array_equal(loaded_bias(again), good)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"time_delta_minutes": -1}, "time_delta_minutes must be 0 or more, got -1"),
        ({"time_delta_minutes": np.nan}, "got nan"),
        ({"directory": "gs://bucket"}, "'gs://bucket', but must be a local folder"),
        ({"objects_to_save": {"a/b": linear}}, "'a/b' can't be the name"),
        ({"objects_to_save": {".a": linear}}, "'.a' can't be the name"),
        ({"objects_to_save": {"": linear}}, "'' can't be the name"),
    ],
)
def test_bad_arguments(arguments, message, tmp_path):
    objects = {k: make() for k, make in arguments.pop("objects_to_save", {}).items()}
    with pytest.raises(ValueError, match=message):
        snapshots.Snapshotter(objects, **{"directory": str(tmp_path), **arguments})
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("minutes", [None, "a"])
def test_minutes_are_a_number(minutes, tmp_path):
    with pytest.raises(TypeError, match="time_delta_minutes must be a number, got"):
        snapshots.Snapshotter({}, directory=str(tmp_path), time_delta_minutes=minutes)


# ---- What is in them ----


def test_variables_and_gradients(tmp_path):
    module = linear()
    module.offset = tf.Variable([1.0, 2.0], trainable=False)
    restored = exported(module, tmp_path / "net")
    assert len(restored.variables) == 3 and len(restored.trainable_variables) == 2

    def gradients(network):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(network(ROWS)))
        return tape.gradient(loss, list(network.trainable_variables))

    assert_close(list(restored.variables), list(module.variables))
    assert_close(gradients(restored), gradients(module))


def test_a_snapshot_can_be_called_before_it_is_saved():
    module = linear()
    snapshot = snapshots.make_snapshot(module)
    assert_close(snapshot(ROWS), module(ROWS))
    assert tuple(snapshot.variables) == module.variables
    assert not hasattr(snapshot, "initial_state")


@pytest.mark.filterwarnings("ignore:Encoding a StructuredValue")
def test_nests_of_distributions(tmp_path):
    def heads(x):
        return {"policy": tfp.distributions.Normal(x, 1.0), "both": (x, [tf.square(x)])}

    module = snt.Sequential([linear(), heads])
    restored, expected = exported(module, tmp_path / "net")(ROWS), module(ROWS)
    assert_close(restored["policy"].log_prob(0.5), expected["policy"].log_prob(0.5))
    assert_close(restored["both"], expected["both"])


def local_class():
    class Local(tfp.distributions.Normal):
        """A new class in every call, always of the same name."""

    return Local


def test_distributions_whose_class_can_not_be_named(tmp_path):
    older, _ = local_class(), local_class()
    module = snt.Sequential([linear(), lambda x: older(x, 1.0)])
    saver = snapshots.Snapshotter({"policy": module}, directory=str(tmp_path))
    with pytest.raises(ValueError, match="What 'policy' returns can't be written.*Local.*once; or"):
        saver.save()


class Stateful(snt.Module):
    """Holds more than variables: a table, and a random generator."""

    def __init__(self):
        super().__init__()
        rows = tf.lookup.KeyValueTensorInitializer([0, 1], [5.0, 7.0])
        self._table = tf.lookup.StaticHashTable(rows, 0.0)
        self._generator = tf.random.Generator.from_seed(1)
        self._linear = snt.Linear(2)

    def __call__(self, x):
        noise = self._generator.uniform([], 0.0, 1e-6)
        return self._linear(x) + self._table.lookup(tf.zeros([2], tf.int32)) + noise


def test_tables_and_random_generators(tmp_path):
    module = Stateful()
    nest.create_variables(module, [VECTOR])
    restored = exported(module, tmp_path / "net")
    np.testing.assert_allclose(restored(ROWS), module(ROWS), rtol=1e-4, atol=1e-5)


def test_modules_without_variables(tmp_path):
    module = modules.to_sonnet_module(lambda x: x * 2)
    nest.create_variables(module, [VECTOR])
    restored = exported(module, tmp_path / "net")
    assert_close(restored(ROWS), 2 * ROWS)
    assert list(restored.variables) == []


def test_variables_of_replicas(tmp_path):
    strategy = strategies.mirrored()
    with distribute.scope(strategy):
        module = linear()
    restored = exported(module, tmp_path / "net")
    assert_close(restored(ROWS), module(ROWS))


# ---- What the inputs look like ----


class Critic(snt.Module):
    def __init__(self):
        super().__init__()
        self._linear = snt.Linear(3)

    def __call__(self, observation, action):
        return self._linear(nest.batch_concat([observation, action]))


class CriticCore(snt.LSTM):
    """Takes two inputs and its state."""

    def __call__(self, observation, action, prev_state):
        return super().__call__(nest.batch_concat([observation, action]), prev_state)


class Unpack(snt.Module):
    def __init__(self, module):
        super().__init__()
        self._module = module

    def __call__(self, inputs):
        return self._module(*inputs)


class UnpackCore(snt.RNNCore):
    def __init__(self, module):
        super().__init__()
        self._module = module

    def __call__(self, inputs, prev_state):
        return self._module(*inputs, prev_state)

    def initial_state(self, batch_size):
        return self._module.initial_state(batch_size)


class TwoInputs(snt.DeepRNN):
    def __call__(self, inputs, action, prev_state):
        return super().__call__((inputs, action), prev_state)


OBSERVATION = {"b": (VECTOR,), "a": specs.Array((), np.float32)}
CRITIC_INPUTS = [OBSERVATION, specs.Array((2,), np.float32)]


def first(kind, inputs):
    layer = kind()
    nest.create_variables(layer, inputs)
    return layer


WRAPPED = {
    "linear in sequential": lambda: snt.Sequential([linear(), tf.nn.relu]),
    "sequential in sequential": lambda: snt.Sequential([snt.Sequential([linear()]), tf.nn.relu]),
    "linear in deep": lambda: snt.DeepRNN([linear(), snt.LSTM(3)]),
    "no state": lambda: snt.DeepRNN([linear()]),
    "core in deep": lambda: snt.DeepRNN([first(lambda: snt.LSTM(3), [VECTOR]), tf.nn.relu]),
    "core before another": lambda: snt.DeepRNN([first(lambda: snt.GRU(3), [VECTOR]), snt.LSTM(2)]),
    "critic in sequential": lambda: snt.Sequential([first(Critic, CRITIC_INPUTS), tf.nn.relu]),
    "critic": lambda: TwoInputs([Unpack(first(Critic, CRITIC_INPUTS)), snt.LSTM(2)]),
    "critic core": lambda: TwoInputs(
        [UnpackCore(first(lambda: CriticCore(3), CRITIC_INPUTS)), snt.LSTM(2)]
    ),
    "packed critic": lambda: snt.DeepRNN([Unpack(first(Critic, CRITIC_INPUTS)), snt.LSTM(2)]),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_inputs_of_what_was_wrapped_later(name):
    """The same as if the variables had been made for the whole."""
    module = WRAPPED[name]()
    inputs = CRITIC_INPUTS if "critic" in name else [VECTOR]
    inputs = [tuple(inputs)] if "packed" in name else inputs
    found = snapshots._signature(module)
    nest.create_variables(module, inputs)
    assert found == module._input_signature
    snapshots.make_snapshot(module)


def test_wrapped_critic_core_with_its_state(tmp_path):
    module = WRAPPED["critic core"]()
    rng = np.random.default_rng(1)
    inputs = tree.map_structure(
        lambda s: tf.constant(rng.normal(size=(3, *s.shape)).astype(np.float32)), CRITIC_INPUTS
    )
    restored = exported(module, tmp_path / "net")
    state, expected_state = restored.initial_state(3), module.initial_state(3)
    for _ in range(2):
        output, state = restored(*inputs, state)
        expected, expected_state = module(*inputs, expected_state)
        assert_close((output, state), (expected, expected_state))


def test_a_signature_that_a_module_keeps_itself(tmp_path):
    """Assigned as an attribute, Sonnet wraps it; such a dictionary TensorFlow can't trace."""
    module = Critic()
    nest.create_variables(module, CRITIC_INPUTS)
    module._input_signature = tuple(module._input_signature)
    assert type(module._input_signature) is not tuple
    zeros = nest.add_batch_dim(nest.zeros_like(CRITIC_INPUTS))
    assert_close(exported(module, tmp_path / "net")(*zeros), module(*zeros))


class FourInputs(Unpack):
    def __call__(self, a, b, c, d):
        return self._module(a, b)


UNKNOWN = {
    "plain": lambda: snt.Linear(1),
    "function first": lambda: snt.Sequential([tf.nn.relu, linear()]),
    "nothing": lambda: snt.Sequential([]),
    "other arguments": lambda: FourInputs(first(Critic, CRITIC_INPUTS)),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_inputs(name):
    with pytest.raises(ValueError, match=r"not known: call tfagents_x.utils.create_variables"):
        snapshots.make_snapshot(UNKNOWN[name]())


@pytest.mark.parametrize("given", [lambda x: x, tf.Module(), None])
def test_no_module(given):
    with pytest.raises(TypeError, match="Only a Sonnet module that can be called"):
        snapshots.make_snapshot(given)
