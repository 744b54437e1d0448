"""minari datasets, written with minari and read into rows."""

from __future__ import annotations

import shutil
import sys

import numpy as np
import pytest
import tree

pytest.importorskip("minari")
pytest.importorskip("h5py")
pytest.importorskip("PIL")

import gymnasium
import h5py
from gymnasium import spaces

from tests.datasets import minari_parts
from tests.datasets.minari_parts import EpisodeBuffer
from tfagents_x import datasets, environments, specs

pytestmark = pytest.mark.usefixtures("ends")

OBSERVATIONS = spaces.Dict(
    {
        "place": spaces.Box(-np.inf, np.inf, (2,), np.float64),
        "pair": spaces.Tuple([spaces.Discrete(1000, start=5), spaces.MultiDiscrete([9, 1000])]),
        "pixel": spaces.Box(0, 255, (32, 40, 3), np.uint8),
    }
)
ACTIONS = spaces.Box(-0.1, 0.1, (1,), np.float64)


def episode(number, steps, terminated=False):
    """Every leaf tells the episode's number and the step; one observation more than steps."""
    value = 100.0 * number + np.arange(steps + 1)
    index = value.astype(np.int64)
    end = np.arange(steps) == steps - 1
    return EpisodeBuffer(
        observations={
            "place": np.stack([value, -value], 1),
            "pair": (5 + index, np.stack([index * 0 + 8, index], 1)),
            "pixel": np.tile(
                8 * np.arange(steps + 1, dtype=np.uint8)[:, None, None, None], (32, 40, 3)
            ),
        },
        actions=1e-4 * value[:-1, None],
        rewards=value[:-1].copy(),
        terminations=end & terminated,
        truncations=end & (not terminated),
        infos={},
    )


EPISODES = [episode(0, 3, terminated=True), episode(1, 2)]


@pytest.fixture
def write(tmp_path):
    """Writes a dataset and returns its folder."""

    def call(episodes=EPISODES, observations=OBSERVATIONS, actions=ACTIONS, **named):
        folder = tmp_path / "minari" / "world" / "some-v0"
        return minari_parts.write(folder, episodes, observations, actions, **named)

    return call


def test_rows_are_those_that_were_written(write):
    recorded = datasets.load_any(write())
    rows = recorded.rows
    np.testing.assert_array_equal(rows.start_of_episode, [1, 0, 0, 0, 1, 0, 0])
    value = np.array([0, 1, 2, 3, 100, 101, 102], np.float32)
    followed = np.array([1, 1, 1, 0, 1, 1, 0], np.float32)
    np.testing.assert_array_equal(rows.observation["place"], np.stack([value, -value], 1))
    first, second = rows.observation["pair"]
    np.testing.assert_array_equal(first, value)  # Counted from 0, not from `start`.
    np.testing.assert_array_equal(second, np.stack([0 * value + 8, value], 1))
    # minari keeps images as JPEG.
    np.testing.assert_allclose(rows.observation["pixel"][:, 1, 2, 0], 8 * (value % 100), atol=2)
    np.testing.assert_allclose(rows.action[:, 0], 1e-4 * value * followed, rtol=1e-6)
    np.testing.assert_array_equal(rows.reward, value * followed)
    np.testing.assert_array_equal(rows.discount, [1, 1, 0, 0, 1, 1, 0])
    assert recorded.has_rewards and recorded.environment is None


def test_spec_is_that_of_the_wrapped_environment(write):
    recorded = datasets.load_any(write())
    spec, rows = recorded.spec, recorded.rows
    assert spec.observations["pair"][0].num_values == 1000
    assert spec.observations["pixel"].shape == (32, 40, 3)
    assert spec.actions.dtype == np.float32 and spec.actions.minimum > np.float64(-0.1) - 1e-12
    for leaf, leaf_spec in zip(
        tree.flatten((rows.observation, rows.action)),
        tree.flatten((spec.observations, spec.actions)),
    ):
        assert leaf.dtype == leaf_spec.dtype and leaf.shape[1:] == leaf_spec.shape
    batch = next(datasets.Transitions(rows, 5))
    following = batch.next_observation["place"][:, 0] - batch.observation["place"][:, 0]
    np.testing.assert_array_equal(following, np.ones(5))


def test_discrete_actions_are_counted_from_zero(write):
    episodes = [minari_parts.episode(0, 4, terminated=True), minari_parts.episode(1, 2)]
    recorded = datasets.load_any(write(episodes, minari_parts.OBSERVATION, minari_parts.ACTION))
    assert isinstance(recorded.spec.actions, specs.DiscreteArray)
    assert recorded.spec.actions.num_values == 3 and recorded.rows.action.dtype == np.int32
    np.testing.assert_array_equal(recorded.rows.action, [0, 1, 2, 0, 0, 0, 1, 0])
    np.testing.assert_array_equal(recorded.rows.observation["kind"], [0, 1, 2, 3, 4, 0, 1, 2])


def cartpole(steps, last_action):
    actions = np.zeros([steps], np.int64)
    actions[-1] = last_action
    ends = np.arange(steps) == steps - 1
    return EpisodeBuffer(
        observations=np.ones([steps + 1, 4], np.float32),
        actions=actions,
        rewards=np.ones([steps]),
        terminations=ends,
        truncations=np.zeros([steps], bool),
        infos={},
    )


def test_environment_is_named_and_fits(write):
    cart = gymnasium.make("CartPole-v1")
    folder = write(
        [cartpole(4, 1)], cart.observation_space, cart.action_space, environment="CartPole-v1"
    )
    recorded = datasets.load_any(folder)
    assert recorded.environment == "CartPole-v1"
    spec = specs.make_environment_spec(environments.make_environment("CartPole-v1"))
    recorded.check_fits("CartPole-v1", spec)
    assert recorded.spec.actions == spec.actions
    np.testing.assert_array_equal(recorded.rows.action, [0, 0, 0, 1, 0])
    other = spec._replace(actions=specs.DiscreteArray(1))
    with pytest.raises(ValueError, match="are from 0 to 1, but those of Less from 0 to 0: give"):
        recorded.check_fits("Less", other)
    other = spec._replace(observations=specs.Array((3,), np.float32))
    with pytest.raises(ValueError, match=r"float32\[4\], but those of X are float32\[3\]: .*CartP"):
        recorded.check_fits("X", other)


CARTS = {
    "arguments": lambda: gymnasium.make("CartPole-v1", sutton_barto_reward=True),
    "wrapped": lambda: gymnasium.wrappers.ClipReward(gymnasium.make("CartPole-v1"), 0.0, 1.0),
}


@pytest.mark.parametrize("case", CARTS)
def test_environment_made_with_more_than_a_name_has_none(write, case):
    cart = CARTS[case]()
    folder = write(
        [cartpole(4, 1)], cart.observation_space, cart.action_space, environment=cart.spec
    )
    assert datasets.load_any(folder).environment is None


def test_moved_or_changed(write, tmp_path):
    folder = write()
    first = datasets.load_any(folder)
    shutil.copytree(folder, tmp_path / "moved")
    assert datasets.load_any(tmp_path / "moved").fingerprint == first.fingerprint
    shutil.rmtree(folder)
    assert datasets.load_any(write(EPISODES[:1])).fingerprint != first.fingerprint


def test_indices_that_do_not_fit_in_32_bits(write):
    big = spaces.Dict({"place": spaces.Discrete(2**40)})
    value = np.array([2**39, 1], np.int64)
    one = EpisodeBuffer(
        observations={"place": value},
        actions=np.zeros([1, 1]),
        rewards=np.ones([1]),
        terminations=np.array([True]),
        truncations=np.array([False]),
        infos={},
    )
    rows = datasets.load_any(write([one], observations=big)).rows
    np.testing.assert_array_equal(rows.observation["place"], value)


def changed(**changes):
    given = {name: getattr(EPISODES[0], name) for name in ("observations", "actions", "rewards")}
    ends = {name: getattr(EPISODES[0], name) for name in ("terminations", "truncations")}
    return EpisodeBuffer(**{**given, **ends, "infos": {}, **changes})


BAD = {
    "nan": (changed(rewards=np.array([0.0, np.nan, 1.0])), "Episode 0: reward .* is not finite"),
    "large": (changed(actions=np.full([3, 1], 1e300)), "Episode 0: action .* is not finite"),
    "length": (changed(actions=np.zeros([5, 1])), "leaves .* of one length"),
    "shape": (changed(actions=np.zeros([3, 2])), r"action must be float32 of shape \[N \+ 1, 1\]"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_read(write, case):
    bad, message = BAD[case]
    folder = write([bad])
    with pytest.raises(ValueError, match=f"{folder} can't be read: .*{message}"):
        datasets.load_any(folder)


def test_text_has_no_spec(write):
    texts = spaces.Dict({"order": spaces.Text(8)})
    one = changed(observations={"order": ["a", "b", "c", "d"]})
    with pytest.raises(TypeError, match=r"observation\['order'\]: a gymnasium space of type Text"):
        datasets.load_any(write([one], observations=texts))


def _cut(folder):
    file = folder / "data" / "main_data.hdf5"
    file.write_bytes(file.read_bytes()[:-100])


def _without_an_episode(folder):
    with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
        del file["episode_1"]


DAMAGE = {
    "metadata": (lambda f: (f / "data" / "metadata.json").write_text("{"), "can't open"),
    "no_metadata": (lambda f: (f / "data" / "metadata.json").unlink(), "can't open"),
    "no_data": (lambda f: (f / "data" / "main_data.hdf5").unlink(), "can't open"),
    "cut": (_cut, "can't be read"),
    "episode": (_without_an_episode, "can't be read: KeyError"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage(write, case):
    damage, message = DAMAGE[case]
    folder = write()
    damage(folder)
    with pytest.raises(ValueError, match=message):
        datasets.load_any(folder)


def test_another_version(write):
    folder = write(version="99.0")
    with pytest.raises(ValueError, match="can't open .*generated by Minari 99.0"):
        datasets.load_any(folder)


def test_no_episodes(write):
    folder = write([])
    with pytest.raises(ValueError, match="There is no episode of one step or more"):
        datasets.load_any(folder)


def test_the_folders_around(write):
    folder = write()
    for near in (folder / "data", folder.parent, folder.parent.parent):
        with pytest.raises(
            ValueError, match=f"no dataset in {near} .*But there is one in {folder}"
        ):
            datasets.load_any(near)


def test_without_minari(write, monkeypatch):
    folder = write()
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(ImportError, match=r"pip install 'tfagents_x\[minari\]'"):
        datasets.load_any(folder)
