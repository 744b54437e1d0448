"""PolicyActor: what it records, its randomness, one call per step."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import tree

from tests.agents import impala_parts
from tfagents_x.environments import loop
from tfagents_x.utils import loggers


class Recorder:
    """An adder that keeps what it is given."""

    def __init__(self):
        self.rows = []

    def add_first(self, timestep):
        self.rows.append(("first", timestep.observation))

    def add(self, action, next_timestep, extras=()):
        self.rows.append((action, tree.map_structure(np.copy, extras)))


def run(seed=0, episodes=2):
    builder = impala_parts.make_builder()
    tf.random.set_seed(1)
    networks = builder.make_networks()
    recorder = Recorder()
    actor = builder.make_actor(builder.make_policy(networks), recorder)
    environment = impala_parts.make_environment()
    loop.EnvironmentLoop(environment, actor, logger=loggers.NoOpLogger(), episode_seed=seed).run(
        num_episodes=episodes
    )
    return networks["network"], recorder.rows


def test_records_the_state_before_each_step():
    network, rows = run(episodes=1)
    (kind, observation), steps = rows[0], rows[1:]
    assert kind == "first"
    zero = network.initial_state(1)
    tree.map_structure(
        lambda a, b: np.testing.assert_array_equal(a, b[0]), steps[0][1]["core_state"], zero
    )
    (logits, _), state = network(tf.constant(observation[None]), zero)
    np.testing.assert_allclose(steps[0][1]["logits"], logits[0], rtol=1e-5)
    tree.map_structure(
        lambda a, b: np.testing.assert_allclose(a, b[0], rtol=1e-5),
        steps[1][1]["core_state"],
        state,
    )


def test_each_episode_starts_from_the_initial_state():
    _, rows = run(episodes=2)
    starts = [i for i, row in enumerate(rows) if isinstance(row[0], str)]
    assert len(starts) == 2
    for start in starts:
        for leaf in tree.flatten(rows[start + 1][1]["core_state"]):
            assert not np.any(leaf)


def test_runs_with_equal_seeds_are_equal():
    rows = [run(seed)[1] for seed in (0, 0, 1)]
    actions = [[int(a) for a, _ in r if not isinstance(a, str)] for r in rows]
    assert actions[0] == actions[1] != actions[2]


def test_actions_fit_the_environment():
    _, rows = run(episodes=1)
    action = rows[1][0]
    assert action.shape == () and action.dtype == np.int32


def test_acts_with_current_weights():
    builder = impala_parts.make_builder()
    networks = builder.make_networks()
    actor = builder.make_actor(builder.make_policy(networks, evaluation=True))
    environment = impala_parts.make_environment()
    actor.observe_first(environment.reset())
    (bias,) = [v for v in networks["network"].trainable_variables if v.shape == (2,)]
    for best in (0, 1, 0):
        bias.assign(1e3 * np.eye(2, dtype=np.float32)[best])
        assert actor.select_action(np.zeros(4, np.float32)) == best
