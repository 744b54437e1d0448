"""The SVG0 agent's parts: config, networks, policy, replay, and how they train together."""

from __future__ import annotations

import csv
import dataclasses
import importlib.util

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from tests.agents import svg0_parts
from tfagents_x import environments, specs
from tfagents_x.agents import evaluation, playing, registry, run_directory
from tfagents_x.agents.svg0 import SVG0Builder, SVG0Config
from tfagents_x.environments import loop
from tfagents_x.replay import factory
from tfagents_x.utils import loggers, nest

ALL = {"policy", "critic", "target_policy", "target_critic"}
PRIORS = {"prior", "target_prior"}


def observations(batch=5, seed=0):
    rng = np.random.default_rng(seed)
    make = lambda *shape: tf.constant(rng.normal(size=[batch, *shape]), tf.float32)
    return {"place": make(), "velocity": make(2)}


def test_registry():
    assert registry.get_builder("svg0") is SVG0Builder
    assert registry.names() == ["bc", "crr", "dreamer_v3", "impala", "r2d2", "svg0"]


@pytest.mark.parametrize(
    "bad",
    [
        {"batch_size": 0},
        {"sequence_length": 0},
        {"sequence_period": 0},
        {"min_replay_size": 0},
        {"max_replay_size": 0},
        {"max_replay_size": 10, "min_replay_size": 11},
        {"updates_per_step": 0.0},
        {"updates_per_step": float("nan")},
        {"discount": 1.5},
        {"lambda_": -0.1},
        {"num_action_samples": 0},
        {"target_update_period": 0},
        {"policy_learning_rate": 0.0},
        {"critic_learning_rate": float("inf")},
        {"prior_learning_rate": -1.0},
        {"max_gradient_norm": 0.0},
        {"distillation_cost": -1.0},
        {"entropy_regularizer_cost": float("nan")},
        {"policy_layer_sizes": ()},
        {"critic_layer_sizes": (8, 0)},
        {"prior_layer_sizes": (0,)},
        {"value_scale": 0.0},
        {"init_scale": 0.0},
        {"min_scale": -0.1},
        {"prior_keys": ("place",)},
    ],
)
def test_bad_configs_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        SVG0Config(**bad)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (specs.DiscreteArray(3), "SVG0 needs continuous actions.*DiscreteArray"),
        (specs.Array((2,), np.float32), "SVG0 needs continuous actions"),
        (specs.BoundedArray((2, 2), np.float32, -1, 1), "one vector"),
        (specs.BoundedArray((2,), np.int32, -1, 1), "SVG0 needs continuous actions"),
        (specs.BoundedArray((2,), np.float32, -np.inf, 1), "finite bounds"),
    ],
)
def test_actions_that_do_not_fit_are_refused(spec, message):
    builder = svg0_parts.make_builder()
    builder.spec = builder.spec._replace(actions=spec)
    with pytest.raises(ValueError, match=message):
        builder.make_networks()


@pytest.mark.parametrize("name", ["policy_keys", "critic_keys", "prior_keys"])
def test_keys_that_the_observation_lacks_are_named(name):
    builder = svg0_parts.make_builder(use_prior=True, **{name: ("place", "speed")})
    with pytest.raises(ValueError, match=f"{name} must be .*place, velocity, got speed"):
        builder.make_networks()


def test_keys_need_a_dictionary_and_at_least_one():
    builder = svg0_parts.make_builder(policy_keys=("place",))
    builder.spec = builder.spec._replace(observations=specs.Array((3,), np.float32))
    with pytest.raises(ValueError, match="policy_keys.*no dictionary"):
        builder.make_networks()
    with pytest.raises(ValueError, match="policy_keys .*, got none"):
        svg0_parts.make_builder(policy_keys=()).make_networks()


@pytest.mark.parametrize("changes", [{}, svg0_parts.WITH_PRIOR])
def test_targets_start_as_their_online_networks(changes):
    networks = svg0_parts.make_builder(**changes).make_networks()
    assert set(networks) == ALL | (PRIORS if changes else set())
    variables = {name: nest.variables_of(network) for name, network in networks.items()}
    ids = [id(v) for group in variables.values() for v in group]
    assert len(set(ids)) == len(ids)
    for name in set(networks) - {n for n in networks if n.startswith("target")}:
        pairs = zip(variables[name], variables[f"target_{name}"])
        assert all(np.array_equal(a, b) for a, b in pairs)


def test_distributions_lie_in_the_range_of_the_actions():
    networks = svg0_parts.make_builder(init_scale=0.7, min_scale=0.1).make_networks()
    policy = networks["policy"]
    distribution = policy(observations())
    assert isinstance(distribution, tfp.distributions.MultivariateNormalDiag)
    np.testing.assert_allclose(distribution.mean(), np.ones([5, 2]), atol=0.1)
    np.testing.assert_allclose(distribution.stddev(), np.full([5, 2], 2 * 0.8), rtol=0.1)
    # However large the features: means within [-1, 3].
    for variable in policy.trainable_variables:
        variable.assign(1e3 * tf.ones_like(variable))
    assert np.all(np.abs(policy(observations()).mean() - 1.0) <= 2.0)


def test_the_critic_sees_clipped_actions_and_is_scaled():
    networks = svg0_parts.make_builder(value_scale=1.0).make_networks()
    scaled = svg0_parts.make_builder(value_scale=7.0).make_networks()["critic"]
    critic, o = networks["critic"], observations()
    at, beyond = critic(o, tf.fill([5, 2], 3.0)), critic(o, tf.fill([5, 2], 30.0))
    assert at.shape == [5, 1] and np.any(at != critic(o, tf.fill([5, 2], 2.0)))
    np.testing.assert_array_equal(at, beyond)
    for mine, theirs in zip(scaled.variables, critic.variables):
        mine.assign(theirs)
    np.testing.assert_allclose(scaled(o, tf.fill([5, 2], 3.0)), 7.0 * at, rtol=1e-5)


def test_each_network_sees_its_own_keys():
    networks = svg0_parts.make_builder(
        use_prior=True, policy_keys=("place",), critic_keys=("velocity",), prior_keys=("velocity",)
    ).make_networks()
    o, actions = observations(), tf.zeros([5, 2])
    other = {**observations(), "velocity": o["velocity"] + 1.0}
    for variable in (v for n in networks.values() for v in n.trainable_variables):
        variable.assign_add(0.1 * tf.ones_like(variable))  # Heads start near zero.
    same = lambda a, b: bool(np.allclose(a, b, atol=1e-6))
    assert same(networks["policy"](o).mean(), networks["policy"](other).mean())
    assert not same(networks["prior"](o).mean(), networks["prior"](other).mean())
    assert not same(networks["critic"](o, actions), networks["critic"](other, actions))


@pytest.fixture(scope="module")
def parts():
    builder = svg0_parts.make_builder(init_scale=2.0)
    return builder, builder.make_networks()


def act(policy, seed=(0, 0), batch=400):
    return policy(observations(batch), (), tf.constant(seed))


def test_samples_depend_on_the_seed_only_and_follow_the_distribution(parts):
    builder, networks = parts
    policy = builder.make_policy(networks)
    first, again, other = (act(policy, s).recorded.numpy() for s in ((1, 2), (1, 2), (1, 3)))
    np.testing.assert_array_equal(first, again)
    assert np.mean(first == other) < 0.01
    distribution = networks["policy"](observations(400))
    normal = (first - distribution.mean()) / distribution.stddev()
    np.testing.assert_allclose([np.mean(normal), np.std(normal)], [0, 1], atol=0.1)


def test_actions_are_clipped_but_recorded_as_drawn(parts):
    builder, networks = parts
    output = act(builder.make_policy(networks))
    sample = output.recorded.numpy()
    assert np.any(sample < -1) and np.any(sample > 3)
    np.testing.assert_array_equal(output.action, np.clip(sample, -1, 3))
    log_prob = networks["policy"](observations(400)).log_prob(sample)
    np.testing.assert_allclose(output.extras["log_prob"], log_prob, rtol=1e-5)


def test_evaluation_takes_the_mean(parts):
    builder, networks = parts
    output = act(builder.make_policy(networks, evaluation=True))
    mean = networks["policy"](observations(400)).mean()
    np.testing.assert_array_equal(output.action, np.clip(mean, -1, 3))


def test_what_goes_to_the_environment_and_what_to_replay(parts):
    """The replay's `log_prob` is that of the replay's action under the policy that acted."""
    builder, networks = parts
    environment, rows = svg0_parts.Sled(), []

    class Recorder:
        def add_first(self, timestep):
            self.observation = timestep.observation

        def add(self, action, next_timestep, extras=()):
            rows.append((self.observation, action, float(extras["log_prob"])))
            self.observation = next_timestep.observation

    actor = builder.make_actor(builder.make_policy(networks), Recorder())
    no_logger = loggers.NoOpLogger()
    loop.EnvironmentLoop(environment, actor, logger=no_logger, episode_seed=0).run(num_episodes=3)
    recorded = np.stack([action for _, action, _ in rows])
    assert np.any(np.abs(recorded - 1) > 2)
    np.testing.assert_array_equal(environment.actions, np.clip(recorded, -1, 3))
    for observation, action, log_prob in rows:
        distribution = networks["policy"](nest.add_batch_dim(observation))
        np.testing.assert_allclose(distribution.log_prob(action)[0], log_prob, rtol=1e-4)


@pytest.mark.parametrize(("updates_per_step", "period"), [(1.0, 1), (0.25, 1), (2.0, 1), (0.5, 3)])
def test_updates_keep_to_their_rate(tmp_path, updates_per_step, period):
    changes = dict(updates_per_step=updates_per_step, sequence_period=period)
    run = svg0_parts.make_training(tmp_path / "run", **changes)
    summary = run.run(100)
    run.close()
    fill = run._builder.steps_to_first_batch
    # Each episode's last observation makes a row too, so 11 rows every 10 steps.
    wanted = updates_per_step * (100 * 1.1 - fill)
    burst = 2 * (updates_per_step * period + 1) + 2
    assert abs(summary.updates - wanted) <= burst + updates_per_step * period
    assert summary.steps == 100


def test_sequences_run_on_over_the_end_of_an_episode():
    builder = svg0_parts.make_builder(updates_per_step=4.0)
    networks = builder.make_networks()
    replay = factory.make_replay(
        builder.make_tables(), builder.signature(networks), backend="in_process"
    )
    environment, sampled = svg0_parts.Sled(), []
    batches = replay.iterator(builder.table.name, builder.batch_size, timeout=0)

    def on_step(timestep):
        while replay.can_sample(builder.table.name, builder.batch_size):
            sampled.append(next(batches).data)

    actor = builder.make_actor(builder.make_policy(networks), builder.make_adder(replay))
    loop.EnvironmentLoop(
        environment, actor, logger=loggers.NoOpLogger(), episode_seed=0, on_step=on_step
    ).run(num_episodes=4)
    replay.close()
    data = tree.map_structure(lambda *x: np.concatenate(x), *sampled)
    assert data.reward.shape == (len(sampled) * 2, 4)
    first = data.start_of_episode
    assert first[:, 1:].any() and not first.all(1).any()
    # The row before an episode's first one holds the last observation and nothing else.
    before = np.nonzero(first[:, 1:])
    assert not data.extras["log_prob"][before].any() and not data.action[before].any()
    assert not data.discount[before].any()
    inside = ~first[:, 1:] & (data.discount[:, :-1] == 1)
    assert np.all(data.extras["log_prob"][:, :-1][inside] != 0)


def _row(path):
    with open(path) as file:
        return list(csv.DictReader(file))[-1]


@pytest.mark.parametrize("changes", [{}, svg0_parts.WITH_PRIOR])
def test_a_run_resumed_and_evaluated(tmp_path, changes):
    path = tmp_path / "run"
    run = svg0_parts.make_training(path, **changes)
    first = run.run(60)
    run.close()
    variables = run.learner.get_variables(["policy"])[0]
    resumed = svg0_parts.make_training(path, resume=True, **changes)
    for mine, theirs in zip(resumed.learner.get_variables(["policy"])[0], variables):
        np.testing.assert_array_equal(mine, theirs)
    second = resumed.run(100)
    resumed.close()
    assert second.updates > first.updates > 20 and second.steps == 100
    metrics = {"critic_loss", "policy_loss"} | ({"prior_loss"} if changes else set())
    assert metrics <= set(_row(path / "metrics/learner.csv"))
    loaded = tf.saved_model.load(str(path / "policy"))
    result = loaded.act(observations(3), loaded.initial_state(3), tf.constant([0, 0]))
    assert result["action"].shape == (3, 2)
    exported = tf.train.list_variables(str(path / "policy/variables/variables"))
    assert sum("policy" in name for name, _ in exported) == len(variables)
    assert not any("critic" in name or "prior" in name for name, _ in exported)


def test_the_seed_decides_also_after_resuming(tmp_path):
    def run(name, seed, steps=100, resume=False):
        training = svg0_parts.make_training(tmp_path / name, seed=seed, resume=resume)
        training.run(steps)
        training.close()
        return list(training._returns), training.learner.save()

    whole, other = run("whole", 3), run("other", 4)
    run("parts", 3, steps=40)
    resumed = run("parts", 3, resume=True)
    assert whole[0] == resumed[0] != other[0]
    tree.map_structure(np.testing.assert_array_equal, whole[1], resumed[1])


def test_evaluation_reads_only_the_policy(tmp_path, monkeypatch):
    directory = run_directory.RunDirectory(tmp_path / "run")
    config = SVG0Config(**svg0_parts.TINY, **svg0_parts.WITH_PRIOR)
    directory.create(
        run_directory.RunSpec("svg0", "sled:", 0, "in_process", dataclasses.asdict(config))
    )
    run = svg0_parts.make_training(directory.path, **svg0_parts.WITH_PRIOR)
    run.run(60)
    run.close()
    environment = svg0_parts.Sled()
    monkeypatch.setattr(playing.environments, "make_environment", lambda name: environment)
    restored = []
    restore = playing.restore_networks
    monkeypatch.setattr(
        playing,
        "restore_networks",
        lambda networks, checkpoint: (restored.append(networks), restore(networks, checkpoint)),
    )
    result = evaluation.evaluate(directory.path, 2)
    (networks,) = restored
    assert set(networks) == {"policy"}
    trained = run.learner.get_variables(["policy"])[0]
    for mine, theirs in zip(networks["policy"].variables, trained):
        np.testing.assert_array_equal(mine, theirs)
    assert result.lengths == (10, 10) and np.all(np.abs(np.stack(environment.actions) - 1) <= 2)
    assert evaluation.evaluate(directory.path, 2).returns == result.returns


@pytest.mark.skipif(
    importlib.util.find_spec("dm_control") is None, reason="dm_control has no wheels here"
)
def test_on_dm_control_with_a_prior_that_sees_less(tmp_path):
    environment = environments.make_environment(
        "dm_control:cartpole-swingup", task_kwargs={"time_limit": 2.5}
    )
    run = svg0_parts.make_training(
        tmp_path / "run",
        environment,
        use_prior=True,
        prior_keys=("position",),
        updates_per_step=0.2,
    )
    before = run.learner.get_variables(["policy", "prior"])
    summary = run.run(1500)
    run.close()
    assert summary.steps == 1500 and summary.episodes == 6 and summary.updates > 290
    for old, new in zip(before, run.learner.get_variables(["policy", "prior"])):
        assert all(not np.array_equal(a, b) for a, b in zip(old, new))
        assert all(np.isfinite(x).all() for x in new)
    # 3 numbers of position; the policy sees 2 of velocity as well.
    inputs = lambda name: {w.shape[0] for w in run._networks[name].variables if w.shape.rank == 2}
    assert inputs("prior") == {3, 8} and inputs("policy") == {5, 8}
    loss = float(_row(tmp_path / "run/metrics/learner.csv")["prior_loss"])
    assert np.isfinite(loss)
