"""Policies as functions of observation, state and seed; the exported policy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tree

from tests.agents import impala_parts
from tfagents_x import specs
from tfagents_x.agents import policies

OBSERVATIONS = np.random.default_rng(0).normal(size=[3, 4]).astype(np.float32)


@pytest.fixture(scope="module")
def parts():
    builder = impala_parts.make_builder()
    return builder, builder.make_networks()


def act(policy, seed=(0, 0)):
    return policy(tf.constant(OBSERVATIONS), policy.initial_state(3), tf.constant(seed))


def test_extras_are_what_the_learner_wants(parts):
    builder, networks = parts
    policy = builder.make_policy(networks)
    output = act(policy)
    network = networks["network"]
    (logits, _), state = network(tf.constant(OBSERVATIONS), network.initial_state(3))
    np.testing.assert_allclose(output.extras["logits"], logits)
    tree.map_structure(np.testing.assert_allclose, output.state, state)
    before = output.extras["core_state"]
    tree.map_structure(np.testing.assert_allclose, before, network.initial_state(3))


def test_samples_depend_on_the_seed_only(parts):
    builder, networks = parts
    policy = builder.make_policy(networks)
    many = [act(policy, (5, i)).action.numpy().tolist() for i in range(30)]
    again = [act(policy, (5, i)).action.numpy().tolist() for i in range(30)]
    assert many == again and len({tuple(a) for a in many}) > 1


def test_samples_follow_the_logits(parts):
    builder, networks = parts
    policy = builder.make_policy(networks)
    probability = tf.nn.softmax(act(policy).extras["logits"])[:, 1]
    actions = [act(policy, (1, i)).action.numpy() for i in range(400)]
    np.testing.assert_allclose(np.mean(actions, axis=0), probability, atol=0.1)


def test_greedy_takes_the_mode(parts):
    builder, networks = parts
    output = act(builder.make_policy(networks, evaluation=True))
    np.testing.assert_array_equal(output.action, np.argmax(output.extras["logits"], -1))


def test_exported_policy_needs_only_tensorflow(parts, tmp_path):
    builder, networks = parts
    policy = builder.make_policy(networks, evaluation=True)
    policies.ExportedPolicy(policy, builder.spec.observations).export(tmp_path)
    loaded = tf.saved_model.load(str(tmp_path))
    seed = tf.constant([0, 0])
    for batch in (3, 1):
        state = loaded.initial_state(batch)
        result = loaded.act(tf.constant(OBSERVATIONS[:batch]), state, seed)
        expected = act(policy)
        np.testing.assert_array_equal(result["action"], expected.action[:batch])
        loaded.act(tf.constant(OBSERVATIONS[:batch]), result["state"], seed)


def test_exported_policy_of_nested_observations(tmp_path):
    spec = specs.EnvironmentSpec(
        {"a": specs.Array((2,), np.float32), "b": specs.Array((1, 2), np.uint8)},
        specs.DiscreteArray(3),
        specs.Array((), np.float32),
        specs.BoundedArray((), np.float32, 0.0, 1.0),
    )
    from tfagents_x.agents.impala import IMPALABuilder, IMPALAConfig

    builder = IMPALABuilder(IMPALAConfig(**impala_parts.TINY), spec)
    policy = builder.make_policy(builder.make_networks())
    policies.ExportedPolicy(policy, spec.observations).export(tmp_path)
    loaded = tf.saved_model.load(str(tmp_path))
    observation = {"a": tf.zeros([2, 2]), "b": tf.zeros([2, 1, 2], tf.uint8)}
    result = loaded.act(observation, loaded.initial_state(2), tf.constant([0, 0]))
    assert result["action"].shape == (2,)
