"""Atari preprocessing on a scripted screen everywhere, and real games where ale_py is installed."""

from __future__ import annotations

import importlib.util
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tfagents_x import environments
from tfagents_x.environments import atari, checks

installed = pytest.mark.skipif(
    importlib.util.find_spec("ale_py") is None, reason="ale_py is not installed"
)
preprocessing = pytest.importorskip(
    "tfagents_x.environments.atari_preprocessing", reason="Pillow is not installed"
)


class Screen(gymnasium.Env):
    """Frame n is red 10 n in even, green 10 n in odd frames; 3 lives, one lost at each of `losses`.

    Reward n at frame n. The game is over at frame `end`.
    """

    action_space = spaces.Discrete(3)

    def __init__(self, size=(6, 4), losses=(), end=1000):
        self.observation_space = spaces.Box(0, 255, (*size, 3), np.uint8)
        self._losses, self._end = losses, end
        self.actions = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.n, self.lives = 0, 3
        return self._frame(), {"lives": self.lives}

    def step(self, action):
        self.actions.append(action)
        self.n += 1
        self.lives -= self.n in self._losses
        return self._frame(), float(self.n), self.n == self._end, False, {"lives": self.lives}

    def _frame(self):
        frame = np.zeros(self.observation_space.shape, np.uint8)
        frame[..., self.n % 2] = 10 * self.n
        return frame


def make(screen, **options):
    return preprocessing.preprocess(screen, **{"scale_dims": (6, 4), **options})


def grey(red=0, green=0):
    return int(0.299 * red + 0.587 * green)


def test_repeats_pools_and_stacks():
    screen = Screen()
    env = make(screen)
    first, _ = env.reset()
    assert first.shape == (6, 4, 4) and first.dtype == np.uint8 and not first.any()
    second, reward, terminated, truncated, _ = env.step(2)
    assert screen.actions == [2] * 4 and reward == 1 + 2 + 3 + 4
    assert not terminated and not truncated
    # Frames 3 (green) and 4 (red), each pixel and colour at its maximum.
    np.testing.assert_array_equal(second[0, 0], [0, 0, 0, grey(40, 30)])
    third, *_ = env.step(1)
    np.testing.assert_array_equal(third[3, 2], [0, 0, grey(40, 30), grey(80, 70)])
    assert not second[..., 2].any()  # Stacks are copies.
    again, _ = env.reset()
    assert not again.any()


def test_numbers_of_acme():
    """Grey is cut off, not rounded, and Pillow's bilinear filter looks at all pixels."""
    from PIL import Image

    screen = Screen(size=(210, 160))
    rng = np.random.default_rng(0)
    frame = rng.integers(0, 256, (210, 160, 3)).astype(np.uint8)
    screen._frame = lambda: frame
    env = preprocessing.preprocess(screen)
    observation, _ = env.reset()
    assert observation.shape == env.observation_space.shape == (84, 84, 4)
    weighed = np.tensordot(frame, [0.299, 0.587, 1 - (0.299 + 0.587)], (-1, 0)).astype(np.uint8)
    wanted = np.array(Image.fromarray(weighed).resize((84, 84), Image.BILINEAR), np.uint8)
    np.testing.assert_array_equal(observation[..., -1], wanted)
    # Not square: (height, width) is told apart from (width, height).
    assert preprocessing.preprocess(screen, scale_dims=(20, 10)).reset()[0].shape == (20, 10, 4)


def test_the_end_stops_the_repeats():
    screen = Screen(end=6)
    env = make(screen)
    env.reset()
    env.step(0)
    observation, reward, terminated, truncated, _ = env.step(0)
    assert terminated and not truncated and reward == 5 + 6 and len(screen.actions) == 6
    assert observation[0, 0, -1] == grey(60, 50)


def test_one_frame_is_pooled_where_there_is_no_other():
    env = make(Screen(end=5))
    env.reset()
    env.step(0)
    assert env.step(0)[0][0, 0, -1] == grey(green=50)


def test_long_episodes_are_truncated():
    screen = Screen()
    env = make(screen, max_episode_len=6)
    for _ in range(2):
        env.reset()
        assert env.step(0)[2:4] == (False, False)
        _, reward, terminated, truncated, _ = env.step(0)
        assert truncated and not terminated and reward == 5 + 6
    # A game that is over at its last frame is over.
    env = make(Screen(end=4), max_episode_len=4)
    env.reset()
    assert env.step(0)[2]


def test_rewards_are_clipped_after_they_are_summed():
    env = make(Screen(), max_abs_reward=7.5)
    env.reset()
    assert env.step(0)[1] == 7.5


@pytest.mark.parametrize("wrapper", [environments.GymnasiumWrapper, atari.LifeLossWrapper])
def test_a_lost_life(wrapper):
    soft = wrapper is atari.LifeLossWrapper
    environment = wrapper(make(Screen(losses=(2, 10, 13), end=13)))
    environment.reset()
    discounts = [environment.step(0) for _ in range(4)]
    # The last life ends the game: a real end.
    wanted = [0, 1, 0, 0] if soft else [1, 1, 1, 0]
    assert [t.discount for t in discounts] == wanted
    assert [t.last() for t in discounts] == [False, False, False, True]
    assert environment.step(0).first()
    assert environment.step(0).discount == (0 if soft else 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooled_frames": 5}, "pooled_frames must be between 1 and action_repeats = 4, got 5"),
        ({"pooled_frames": 0}, "pooled_frames"),
        ({"max_episode_len": 0}, "max_episode_len must be at least 1"),
        ({"scale_dims": (84, 0)}, "scale_dims must be"),
        ({"num_stacked_frames": 0}, "num_stacked_frames must be at least 1"),
        ({"max_abs_reward": 0.0}, "max_abs_reward must be positive"),
    ],
)
def test_bad_numbers(options, message):
    with pytest.raises(ValueError, match=message):
        make(Screen(), **options)


@pytest.mark.parametrize(
    "space", [spaces.Box(0, 255, (6, 4), np.uint8), spaces.Box(0, 1, (6, 4, 3), np.float32)]
)
def test_other_observations(space):
    screen = Screen()
    screen.observation_space = space
    with pytest.raises(ValueError, match=r"must be uint8 images \[H, W, 3\]"):
        make(screen)


def test_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(ImportError, match=r"pip install 'tfagents_x\[atari\]'"):
        environments.make_environment("atari:Pong")


# Real games.


def _episode(seed, name="atari:Pong", steps=40, **options):
    environment = environments.make_environment(name, seed=seed, **options)
    seen = [environment.reset()] + [environment.step(i % 3) for i in range(steps)]
    environment.close()
    return np.stack([timestep.observation for timestep in seen])


@installed
def test_observations_fit_their_spec():
    environment = environments.make_environment("atari:Pong", seed=1)
    spec = environment.observation_spec()
    assert spec.shape == (84, 84, 4) and spec.dtype == np.uint8
    assert environment.action_spec().num_values == 6
    for timestep in (environment.reset(), environment.step(3)):
        checks.check_observation(timestep.observation, spec, 0)
    environment.close()
    full = environments.make_environment("atari:Pong", full_action_space=True)
    assert full.action_spec().num_values == 18
    full.close()


@installed
def test_episodes_depend_on_their_seed_alone():
    first, again, other = _episode(1), _episode(1), _episode(2)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    # Four frames go by between two observations.
    assert np.any(first[1:, ..., -1] != first[:-1, ..., -1])


@installed
def test_without_sticky_actions_the_game_repeats():
    first, other = (_episode(seed, sticky_actions=False) for seed in (1, 2))
    np.testing.assert_array_equal(first, other)


@installed
def test_lives_of_a_real_game():
    environment = environments.make_environment(
        "atari:Breakout", seed=0, zero_discount_on_life_loss=True
    )
    environment.reset()
    timesteps = [environment.step(1) for _ in range(60)]  # Serves, and never moves.
    environment.close()
    lost = [t for t in timesteps if t.discount == 0 and t.mid()]
    assert lost


@installed
@pytest.mark.parametrize("name", ["Pog", "pong", "ALE/Pong-v5"])
def test_unknown_games_get_the_nearest(name):
    with pytest.raises(ValueError, match=f"no Atari game '{name}'.*Nearest: .*Pong"):
        environments.make_environment(f"atari:{name}")


@installed
def test_no_game_is_near():
    with pytest.raises(ValueError, match="No game is near it"):
        environments.make_environment("atari:zzzzqqqq")
