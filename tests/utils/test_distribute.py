"""Strategies: what is accepted, where variables live, how batches are cut."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from tests import strategies
from tfagents_x.utils import distribute


@pytest.fixture
def strategy():
    return strategies.mirrored()


def test_get_strategy(strategy):
    assert distribute.get_strategy(strategy) is strategy
    assert not distribute.is_distributed(distribute.get_strategy())
    assert not distribute.is_distributed(tf.distribute.OneDeviceStrategy("CPU:0"))
    with strategy.scope():
        assert distribute.get_strategy() is strategy
        assert distribute.is_distributed(distribute.get_strategy())
    with pytest.raises(TypeError, match="tf.distribute.Strategy.*'gpu'"):
        distribute.get_strategy("gpu")


def test_parameter_servers_are_refused():
    class ParameterServer(tf.distribute.experimental.ParameterServerStrategy):
        def __init__(self):
            pass

    with pytest.raises(ValueError, match="asynchronously.*Use MirroredStrategy"):
        distribute.get_strategy(ParameterServer())


def test_scope_makes_replica_local_variables(strategy):
    with distribute.scope(strategy):
        variable = tf.Variable(1.0)
    assert variable.synchronization == tf.VariableSynchronization.ON_READ
    assert variable.aggregation == tf.VariableAggregation.ONLY_FIRST_REPLICA
    with distribute.scope(None):
        plain = tf.Variable(1.0)
    assert plain.synchronization != tf.VariableSynchronization.ON_READ


@pytest.mark.parametrize("plain", [False, True], ids=["ours", "plain_scope"])
def test_local_variables_can_be_assigned_in_a_replica(strategy, plain):
    with strategy.scope() if plain else distribute.scope(strategy):
        variable = tf.Variable(1.0)

    @tf.function
    def update():
        context = tf.distribute.get_replica_context()
        distribute.local(variable).assign_add(
            tf.cast(context.replica_id_in_sync_group, tf.float32) + 1.0
        )

    strategy.run(update)
    assert [float(v) for v in strategy.experimental_local_results(variable)] == [2.0, 3.0]


def test_sonnet_accepts_what_it_is_told(strategy, monkeypatch):
    known = (tf.distribute.OneDeviceStrategy, snt.distribute.Replicator)
    monkeypatch.setattr(distribute.optimizer_utils, "_SUPPORTED_STRATEGIES", known)
    with distribute.scope(strategy):
        optimizer, variable = snt.optimizers.SGD(1.0), tf.Variable(1.0)
    apply = lambda: distribute.apply_gradients(optimizer, [tf.constant(1.0)], [variable])
    with pytest.raises(ValueError, match="not compatible"):
        strategy.run(tf.function(apply))
    distribute.accept_in_sonnet(strategy)
    strategy.run(tf.function(apply))
    assert variable.numpy() == 0.0


def test_distribute_batch(strategy):
    batch = {"x": np.arange(6).reshape(6, 1), "y": np.arange(6)}
    parts = distribute.distribute_batch(batch, strategy)
    first, second = strategy.experimental_local_results(parts["y"])
    np.testing.assert_array_equal(first, [0, 1, 2])
    np.testing.assert_array_equal(second, [3, 4, 5])
    whole = distribute.distribute_batch(batch, distribute.get_strategy())
    np.testing.assert_array_equal(whole["x"], batch["x"])
    with pytest.raises(ValueError, match="5.*evenly.*2 replicas"):
        distribute.distribute_batch({"y": np.arange(5)}, strategy)


def test_all_reduce_keeps_missing_gradients(strategy):
    @tf.function
    def mean():
        replica = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
        return distribute.all_reduce_mean({"a": [replica, None], "b": 2 * replica})["b"]

    results = strategy.experimental_local_results(strategy.run(mean))
    assert [float(r) for r in results] == [1.0, 1.0]


@pytest.mark.parametrize("values", [(-3.0, -2.0), (5.0, -7.0), (float("inf"), 1.0)])
def test_all_reduce_max(strategy, values):
    def largest():
        context = tf.distribute.get_replica_context()
        own = tf.gather(tf.constant(values), context.replica_id_in_sync_group)
        return distribute.all_reduce_max(own)

    results = strategy.experimental_local_results(strategy.run(tf.function(largest)))
    assert [float(x) for x in results] == [max(values)] * 2
    assert float(distribute.all_reduce_max(tf.constant(values[0]))) == values[0]


def test_all_gather():
    values = [[1.0, 2.0], [3.0, np.nan]]
    strategy = strategies.mirrored()

    def gather():
        index = tf.distribute.get_replica_context().replica_id_in_sync_group
        return distribute.all_gather(tf.gather(tf.constant(values), index))

    run = tf.function(lambda: strategy.run(gather))
    for result in strategy.experimental_local_results(run()):
        np.testing.assert_array_equal(result, values)
    np.testing.assert_array_equal(distribute.all_gather(tf.constant(values[0])), values[:1])
