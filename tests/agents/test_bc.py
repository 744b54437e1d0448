"""The BC agent's parts: config, networks, losses, policies, and how they train together."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tree

from tests.agents import bc_parts, svg0_parts
from tfagents_x import specs
from tfagents_x.agents import policies, training
from tfagents_x.agents.bc import BCConfig
from tfagents_x.utils import loggers

LOGP = {"discrete": bc_parts.make_builder, "continuous": bc_parts.make_sled_builder}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    sled = bc_parts.sled_rows(tmp_path_factory.mktemp("data"))
    return {"discrete": bc_parts.expert_rows(), "continuous": sled}


def make_learner(builder, networks, rows, seed=0):
    batches = bc_parts.batches(builder, rows, seed)
    return builder.make_learner(networks, batches, logger=loggers.NoOpLogger(), seed=seed)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(batch_size=0), "batch_size must be at least 1"),
        (dict(num_sgd_steps_per_step=0), "num_sgd_steps_per_step must be at least 1"),
        (dict(evaluation_period=0), "evaluation_period must be at least 1"),
        (dict(evaluation_episodes=0), "evaluation_episodes must be at least 1"),
        (dict(learning_rate=0.0), "learning_rate must be positive"),
        (dict(init_scale=float("inf")), "init_scale must be positive and finite"),
        (dict(min_scale=-0.1), "min_scale must be at least 0"),
        (dict(peerbc_zeta=-1.0), "peerbc_zeta must be at least 0"),
        (dict(rcal_alpha=float("nan")), "rcal_alpha must be at least 0"),
        (dict(rcal_discount=1.1), r"rcal_discount must be in \[0, 1\]"),
        (dict(hidden_sizes=()), "hidden_sizes must be one or more positive widths"),
        (dict(hidden_sizes=(8, 0)), "hidden_sizes must be one or more positive widths"),
    ],
)
def test_bad_settings(changes, message):
    with pytest.raises(ValueError, match=message):
        BCConfig(**changes)


@pytest.mark.parametrize("loss", ["mse", "peerbc"])
def test_losses_for_continuous_actions(loss):
    with pytest.raises(ValueError, match=f"{loss} is not for discrete actions.*logp or rcal"):
        bc_parts.make_builder(loss=loss)


def test_a_loss_for_discrete_actions():
    with pytest.raises(ValueError, match="rcal is not for continuous.*logp, mse or peerbc"):
        bc_parts.make_sled_builder(loss="rcal")


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (specs.BoundedArray((2, 2), np.float32, 0, 1), "one discrete action, or continuous"),
        (specs.BoundedArray((2,), np.int32, 0, 1), "one discrete action, or continuous"),
        (specs.BoundedArray((2,), np.float32, 0, np.inf), "finite"),
    ],
)
def test_actions_of_other_kinds(actions, message):
    builder = bc_parts.make_builder()
    builder.spec = builder.spec._replace(actions=actions)
    with pytest.raises(ValueError, match=message):
        builder.make_networks()


# Losses, from a network and a batch.


def first_loss(rows, make=bc_parts.make_builder, **changes):
    """The first metric, and what the network says of that batch before."""
    builder = make(**changes)
    networks = builder.make_networks()
    batch = next(bc_parts.batches(builder, rows))
    outputs = [networks["policy"](x) for x in (batch.observation, batch.next_observation)]
    metrics = make_learner(builder, networks, rows).step()
    assert set(metrics) == {"loss", "gradient_norm"}
    return float(metrics["loss"]), batch, outputs


def cross_entropy(logits, actions):
    return -np.mean(np.take_along_axis(tf.nn.log_softmax(logits).numpy(), actions[:, None], 1))


def test_the_cross_entropy(rows):
    loss, batch, (logits, _) = first_loss(rows["discrete"])
    assert logits.shape == (8, 2)
    assert loss == pytest.approx(cross_entropy(logits, batch.action), rel=1e-5)


def test_rcal(rows):
    alpha, discount = 0.3, 0.7
    loss, batch, outputs = first_loss(
        rows["discrete"], loss="rcal", rcal_alpha=alpha, rcal_discount=discount
    )
    values, following = (x.numpy() for x in outputs)
    chosen = np.take_along_axis(values, batch.action[:, None], 1)[:, 0]
    rewards = np.mean(np.abs(chosen - discount * following.max(-1)))
    assert loss == pytest.approx(cross_entropy(values, batch.action) + alpha * rewards, rel=1e-5)


def test_the_log_probability(rows):
    loss, batch, (output, _) = first_loss(rows["continuous"], bc_parts.make_sled_builder)
    assert loss == pytest.approx(-np.mean(output.log_prob(batch.action)), rel=1e-5)


def test_the_squared_distance(rows):
    # Nearly without noise, a sample is the mean.
    loss, batch, (output, _) = first_loss(
        rows["continuous"], bc_parts.make_sled_builder, loss="mse", init_scale=1e-6, min_scale=0.0
    )
    distance = np.mean((output.mean() - batch.action) ** 2)
    assert loss == pytest.approx(distance, rel=1e-3)


@pytest.mark.parametrize("base", ["logp", "mse"])
def test_peerbc_subtracts_from_its_base(rows, base):
    def loss(**changes):
        tf.random.set_seed(1)
        return first_loss(rows["continuous"], bc_parts.make_sled_builder, **changes)[0]

    plain = loss(loss=base, init_scale=1e-6, min_scale=0.01)
    peer = dict(loss="peerbc", peerbc_base_loss=base, init_scale=1e-6, min_scale=0.01)
    assert loss(**peer, peerbc_zeta=0.0) == pytest.approx(plain, rel=0.05)
    assert loss(**peer, peerbc_zeta=0.5) < 0.8 * abs(plain)


# Policies.


def test_the_policy_samples_and_an_evaluation_does_not(rows):
    builder = bc_parts.make_builder()
    networks = builder.make_networks()
    observation = tf.random.stateless_normal([500, 2], [0, 1])
    policy, best = (builder.make_policy(networks, evaluation=e) for e in (False, True))
    act = lambda policy, seed: policy(observation, (), tf.constant([seed, 0])).action.numpy()
    assert isinstance(policy, policies.CategoricalPolicy) and act(policy, 0).dtype == np.int32
    np.testing.assert_array_equal(act(policy, 1), act(policy, 1))
    assert np.any(act(policy, 1) != act(policy, 2))
    logits = networks["policy"](observation)
    np.testing.assert_array_equal(act(best, 1), np.argmax(logits, -1))
    frequency = np.mean([act(policy, seed) for seed in range(20)])
    assert frequency == pytest.approx(np.mean(tf.nn.softmax(logits)[:, 1]), abs=0.02)


def test_continuous_actions_stay_in_their_range():
    builder = bc_parts.make_sled_builder(init_scale=3.0)
    networks = builder.make_networks()
    policy = builder.make_policy(networks)
    sled = svg0_parts.Sled()
    sled.seed_episode(0)
    observation = tree.map_structure(lambda x: np.stack([x] * 300), sled.reset().observation)
    action = policy(observation, policy.initial_state(300), tf.constant([0, 1])).action.numpy()
    assert action.min() == -1.0 and action.max() == 3.0 and action.dtype == np.float32


# Training.


class Observer(training.Observer):
    def __init__(self, stop_at):
        self.losses, self._stop_at = [], stop_at

    def on_start(self, training):
        self._training = training

    def on_update(self, updates, metrics):
        self.losses.append(float(metrics["loss"]))
        if updates == self._stop_at:
            self._training.request_stop(60.0)


def run(path, rows, updates, resume=False, stop_at=None, **changes):
    observer = Observer(stop_at)
    train = bc_parts.make_training(path, rows, changes=changes, observer=observer, resume=resume)
    summary = train.run(updates)
    train.close()
    return observer.losses, summary, train.learner.save()


def test_it_learns_the_rule(tmp_path):
    rows = bc_parts.expert_rows(rewards=False)  # It needs none.
    settings = dict(learning_rate=0.05, batch_size=64, evaluation_period=120)
    losses, summary, _ = run(tmp_path / "run", rows, 120, **settings)
    assert summary.mean_return >= 4.5  # Of 5.
    assert np.mean(losses[-10:]) < 0.2 < 0.4 < losses[0]


def test_stopped_and_resumed_equals_uninterrupted(tmp_path):
    rows = bc_parts.expert_rows()
    whole, wanted, state = run(tmp_path / "whole", rows, 9, num_sgd_steps_per_step=2)
    first, stopped, _ = run(tmp_path / "parts", rows, 9, stop_at=5, num_sgd_steps_per_step=2)
    assert stopped.steps == 5
    second, summary, end = run(tmp_path / "parts", rows, 9, True, num_sgd_steps_per_step=2)
    assert first + second == whole and len(whole) == 9
    assert summary.mean_return == wanted.mean_return
    tree.map_structure(np.testing.assert_array_equal, end, state)


def test_several_updates_per_step(rows):
    builder = bc_parts.make_builder(num_sgd_steps_per_step=3)
    assert next(bc_parts.batches(builder, rows["discrete"])).action.shape == (24,)
    learner = make_learner(builder, builder.make_networks(), rows["discrete"])
    learner.step()
    assert learner.num_updates == 3


@pytest.mark.parametrize("kind", LOGP)
def test_networks_are_named_for_checkpoints(kind):
    assert set(LOGP[kind]().make_networks()) == {"policy"}
