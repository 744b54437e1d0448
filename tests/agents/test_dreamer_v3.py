"""The DreamerV3 agent's parts: config, policy, what replay becomes, and how they train together."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tree

from tests.agents import dreamer_parts
from tfagents_x import specs, types
from tfagents_x.agents import training
from tfagents_x.agents.dreamer_v3 import DreamerV3Config
from tfagents_x.agents.dreamer_v3.builder import as_batch


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(batch_size=0), "batch_size must be at least 1"),
        (dict(batch_length=1), "batch_length must be at least 2"),
        (dict(horizon=0), "horizon must be at least 1"),
        (dict(training_ratio=0.0), "training_ratio must be positive"),
        (dict(gamma=0.0), "gamma must be positive"),
        (dict(gae_lambda=1.1), r"gae_lambda must be in \[0, 1\]"),
        (dict(actor_lr=float("nan")), "actor_lr must be positive and finite"),
        (dict(entropy_scale=-1.0), "entropy_scale must be at least 0"),
        (dict(min_replay_size=2, max_replay_size=1), "min_replay_size must be at most"),
    ],
)
def test_bad_settings(changes, message):
    with pytest.raises(ValueError, match=message):
        DreamerV3Config(**changes)


def test_a_size_that_does_not_exist():
    with pytest.raises(ValueError, match="nano, micro, mini, XXS, XS, S, M, L, XL, got 'huge'"):
        dreamer_parts.make_builder(model_size="huge").make_networks()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (dict(actions=specs.BoundedArray((2, 2), np.float32, 0, 1)), ValueError, "DreamerV3 needs"),
        (dict(actions=specs.BoundedArray((1,), np.float32, 0, np.inf)), ValueError, "finite"),
        (dict(observations=specs.Array((7, 7, 3), np.uint8)), ValueError, "multiples of 16"),
        (dict(observations={"x": specs.Array((2,), np.float32)}), TypeError, "one array"),
    ],
)
def test_spaces_that_it_cannot_handle(changes, error, message):
    builder = dreamer_parts.make_builder()
    builder.spec = builder.spec._replace(**changes)
    with pytest.raises(error, match=message):
        builder.make_networks()


def steps(start, discount):
    """One sequence; observation, action and reward of row t tell t."""
    t = np.arange(len(start), dtype=np.float32)
    leaves = (t[:, np.newaxis], t.astype(np.int32), 10 * t, discount, start)
    return types.Step(*(np.asarray(x)[np.newaxis] for x in leaves))


def test_rows_of_replay_become_rows_of_the_learner():
    # Rows 0 to 2 are the end of an episode, of which 2 holds the last observation.
    start = np.array([False, False, False, True, False, False])
    discount = np.array([1, 0, 0, 1, 1, 1], np.float32)
    batch = tree.map_structure(lambda x: x[0], as_batch(steps(start, discount)))
    np.testing.assert_array_equal(batch.obs[:, 0], [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(batch.actions, [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(batch.rewards, [0, 10, 0, 30, 40])
    np.testing.assert_array_equal(batch.is_first, [1, 0, 1, 0, 0])
    np.testing.assert_array_equal(batch.is_last, [0, 1, 0, 0, 0])
    np.testing.assert_array_equal(batch.is_terminated, [0, 1, 0, 0, 0])


def test_a_time_limit_does_not_terminate():
    start = np.array([False, False, True, False])
    batch = as_batch(steps(start, np.array([1, 0, 1, 1], np.float32)))
    assert not np.any(batch.is_terminated) and batch.is_last[0, 0]


@pytest.fixture(scope="module", params=list(dreamer_parts.ENVIRONMENTS))
def parts(request):
    builder = dreamer_parts.make_builder(request.param)
    return builder, builder.make_networks()


OBSERVATIONS = np.random.default_rng(0).normal(size=[300, 2]).astype(np.float32)


def act(parts, seed, evaluation=False):
    builder, networks = parts
    policy = builder.make_policy(networks, evaluation)
    return policy(OBSERVATIONS, policy.initial_state(300), tf.constant([seed, 0]))


def test_actions_follow_the_seed_and_fit_the_environment(parts):
    spec = parts[0].spec.actions
    first, same, other = (act(parts, seed).action.numpy() for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert np.any(first != other) and first.dtype == spec.dtype
    for action in first:
        spec.validate(action)


def test_the_environment_gets_what_the_model_did_in_its_bounds():
    builder = dreamer_parts.make_builder("continuous")
    output = act((builder, builder.make_networks()), 1)
    recorded = output.recorded.numpy()
    assert recorded.min() < -1 and recorded.max() > 1
    np.testing.assert_allclose(output.action, 1 + 2 * np.clip(recorded, -1, 1), atol=1e-6)


def test_the_state_goes_on_after_the_first_step(parts):
    builder, networks = parts
    policy = builder.make_policy(networks)
    state, is_first = policy.initial_state(300)
    assert np.all(is_first)
    later = act(parts, 1).state
    assert not np.any(later[1])
    assert np.any(later[0].h != state.h) and np.any(later[0].action != 0)
    begin = lambda state: policy(OBSERVATIONS, state, tf.constant([3, 0])).state[0].h
    # What was before an episode doesn't matter to it.
    np.testing.assert_array_equal(begin((later[0], is_first)), begin((state, is_first)))
    assert np.any(begin(later) != begin((later[0], is_first)))


class Observer(training.Observer):
    def __init__(self, stop_at=None):
        self.losses, self.returns, self._stop_at = [], [], stop_at

    def on_start(self, training):
        self._training = training

    def on_step(self, steps):
        if steps == self._stop_at:
            self._training.request_stop(60.0)

    def on_update(self, updates, metrics):
        self.losses.append(float(metrics["total_loss"]))

    def on_episode(self, result):
        self.returns.append(result["episode_return"])


def run(path, num_steps=60, kind="discrete", **options):
    observer = options.setdefault("observer", Observer())
    train = dreamer_parts.make_training(path, kind, **options)
    train.run(num_steps)
    train.close()
    return observer, train.learner.save()


def test_stopped_and_resumed_equals_uninterrupted(tmp_path):
    whole, state = run(tmp_path / "whole")
    first, _ = run(tmp_path / "parts", observer=Observer(30))
    second, end = run(tmp_path / "parts", resume=True)
    assert 0 < len(first.losses) < len(whole.losses)
    assert first.losses + second.losses == whole.losses
    assert first.returns + second.returns == whole.returns
    tree.map_structure(np.testing.assert_array_equal, end, state)


def test_continuous_actions_train_and_the_policy_is_exported(tmp_path):
    observer, _ = run(tmp_path / "run", 40, "continuous")
    # 2 replayed steps for each step; a batch is 10.
    assert len(observer.losses) >= 3 and np.all(np.isfinite(observer.losses))
    loaded = tf.saved_model.load(str(tmp_path / "run/policy"))
    result = loaded.act(OBSERVATIONS, loaded.initial_state(300), tf.constant([0, 0]))
    assert result["action"].shape == (300, 1)
