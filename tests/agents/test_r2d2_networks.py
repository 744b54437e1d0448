"""The R2D2 agent's config and networks."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tree

from tests.agents import r2d2_parts
from tfagents_x import environments, networks, specs, types
from tfagents_x.agents import registry
from tfagents_x.agents.r2d2 import R2D2Builder, R2D2Config
from tfagents_x.utils import nest


def test_registry():
    assert registry.get_builder("r2d2") is R2D2Builder


@pytest.mark.parametrize(
    "bad",
    [
        {"batch_size": 0},
        {"burn_in_length": -1},
        {"trace_length": 0},
        {"sequence_period": 0},
        {"end_of_episode": "truncate"},
        {"min_replay_size": 0},
        {"max_replay_size": 0},
        {"min_replay_size": 11, "max_replay_size": 10},
        {"updates_per_step": 0.0},
        {"discount": 1.1},
        {"n_step": 0},
        {"target_update_period": 0},
        {"learning_rate": 0.0},
        {"learning_rate_decay_updates": 0},
        {"learning_rate_final_fraction": 1.1},
        {"adam_epsilon": float("nan")},
        {"max_gradient_norm": 0.0},
        {"max_abs_reward": -1.0},
        {"priority_exponent": -0.1},
        {"importance_sampling_exponent": float("inf")},
        {"max_priority_weight": 1.5},
        {"epsilon": 1.5},
        {"evaluation_epsilon": -0.1},
        {"hidden_sizes": (8, 0)},
        {"lstm_size": -1},
        {"head_sizes": (0,)},
    ],
)
def test_bad_configs_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        R2D2Config(**bad)


def test_sequences_are_as_long_as_acmes():
    assert R2D2Config(burn_in_length=2, trace_length=4).sequence_length == 7


@pytest.mark.parametrize(
    "spec", [specs.BoundedArray((2,), np.float32, -1, 1), specs.BoundedArray((2,), np.int32, 0, 1)]
)
def test_actions_that_are_not_discrete_are_refused(spec):
    builder = r2d2_parts.make_builder()
    builder.spec = builder.spec._replace(actions=spec)
    with pytest.raises(ValueError, match="R2D2 needs one discrete action"):
        builder.make_networks()


def test_images_without_action_and_reward_are_refused():
    builder = r2d2_parts.make_builder(r2d2_parts.Pixels())
    with pytest.raises(ValueError, match="--env oar:atari:Pong"):
        builder.make_networks()


def variables(builder):
    return {n: nest.variables_of(network) for n, network in builder.make_networks().items()}


@pytest.mark.parametrize("changes", [{}, {"lstm_size": 0}, {"hidden_sizes": (), "head_sizes": ()}])
def test_the_target_starts_as_the_network(changes):
    made = variables(r2d2_parts.make_builder(**changes))
    assert set(made) == {"network", "target_network"}
    ids = {id(v) for group in made.values() for v in group}
    assert len(ids) == 2 * len(made["network"]) == 2 * len(made["target_network"])
    for mine, theirs in zip(*made.values()):
        np.testing.assert_array_equal(mine, theirs)


def test_the_lstm_remembers_and_the_feed_forward_network_does_not():
    for size in (4, 0):
        network = r2d2_parts.make_builder(lstm_size=size).make_networks()["network"]
        x = tf.constant(np.float32([[0.1, 0.2], [-0.3, 0.4], [1.0, -0.5]]))
        values, state = network(x, network.initial_state(3))
        later, _ = network(x, state)
        assert values.shape == [3, 2]
        assert np.array_equal(values, later) == (size == 0)


@pytest.mark.parametrize("shown", ["only:0,2", "oar:only:0,2"])
def test_observations_are_scaled_by_their_bounds(shown):
    builder = r2d2_parts.make_builder(environments.make_environment(f"{shown}:CartPole-v1"))
    scaled = builder.make_networks()["network"]
    bounds = specs.BoundedArray((2,), np.float32, [-np.inf, 3.0], [1.0, 3.4e38])
    spec = builder.spec.observations
    is_oar = isinstance(spec, types.OAR)
    builder.spec = builder.spec._replace(
        observations=spec._replace(observation=bounds) if is_oar else bounds
    )
    plain = builder.make_networks()["network"]
    for mine, theirs in zip(plain.variables, scaled.variables):
        mine.assign(theirs)

    def values(network, x):
        x = tf.constant([x])
        inputs = types.OAR(x, tf.constant([1]), tf.constant([1.0])) if is_oar else x
        return network(inputs, network.initial_state(1))[0]

    # Position and angle are within +- 4.8 and +- 24 degrees; the other bounds are none.
    wanted = values(plain, [-0.5, 0.25])
    np.testing.assert_allclose(values(scaled, [-2.4, np.radians(6.0)]), wanted, rtol=1e-4)


def test_the_network_for_images():
    builder = r2d2_parts.make_builder(r2d2_parts.oar(r2d2_parts.Pixels()), lstm_size=16)
    network = builder.make_networks()["network"]
    found = [m for m in network.submodules if isinstance(m, networks.R2D2AtariNetwork)]
    assert len(found) == 1
    image = np.random.default_rng(0).integers(0, 256, (2, 36, 36, 4)).astype(np.uint8)
    inputs = types.OAR(tf.constant(image), tf.constant([1, 2]), tf.constant([0.0, 1.0]))
    values, state = network(inputs, network.initial_state(2))
    assert values.shape == [2, 3] and {x.shape[-1] for x in tree.flatten(state)} == {16}
    # Pixels are scaled to [0, 1].
    scaled = inputs._replace(observation=tf.cast(image, tf.float32) / 255)
    wanted, _ = found[0](scaled, found[0].initial_state(2))
    np.testing.assert_allclose(values, wanted, rtol=1e-6)


def test_the_last_action_and_reward_matter_to_other_observations_too():
    builder = r2d2_parts.make_builder(environments.make_environment("oar:only:0,2:CartPole-v1"))
    network = builder.make_networks()["network"]

    def values(action, reward):
        inputs = types.OAR(tf.ones([1, 2]), tf.constant([action]), tf.constant([reward]))
        return network(inputs, network.initial_state(1))[0].numpy()

    assert np.any(values(0, 0.0) != values(1, 0.0)) and np.any(values(0, 0.0) != values(0, 1.0))
