"""Datasets of other libraries on the command line."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from tests.cli import faulty

assert faulty  # Registers the environment.

BC = ("train", "--agent", "bc", "--dataset", "data", "--run", "bc", "--steps", 3)
TINY = ("--set", "batch_size=4", "--set", "hidden_sizes=4", "--set", "evaluation_episodes=1")


@pytest.fixture
def rlds(tmp_path):
    """Two episodes like those of `faulty:`, with numbers of 64 bits and without rewards."""
    public_api = pytest.importorskip("tensorflow_datasets.public_api")
    from tests.datasets import rlds_parts

    features = {
        "observation": public_api.features.Tensor(shape=(2,), dtype=np.float64),
        "action": np.int64,
        **{name: np.bool_ for name in ("is_first", "is_last", "is_terminal")},
    }
    episodes = [rlds_parts.episode(number, 6, terminal=True) for number in range(2)]
    for steps in episodes:
        for t, step in enumerate(steps):
            step.update(observation=np.array([t - 2.5, 1.0]), action=int(t > 2))
    rlds_parts.write(tmp_path, episodes, features).rename(tmp_path / "data")


@pytest.fixture
def minari(tmp_path):
    gymnasium = pytest.importorskip("gymnasium")
    pytest.importorskip("minari")
    from tests.datasets import minari_parts

    rng = np.random.default_rng(0)
    episode = minari_parts.EpisodeBuffer(
        observations=rng.normal(size=[11, 4]).astype(np.float32),
        actions=rng.integers(2, size=10),
        rewards=np.ones(10),
        terminations=np.arange(10) == 9,
        truncations=np.zeros(10, bool),
    )
    spaces = gymnasium.make("CartPole-v1")
    minari_parts.write(
        tmp_path / "data",
        [episode],
        spaces.observation_space,
        spaces.action_space,
        environment="CartPole-v1",
    )


def test_rlds(command, tmp_path, rlds):
    outcome = command(*BC, *TINY, "--env", "faulty:")
    assert outcome.code == 0, outcome.err
    outcome = command("train", "--resume", "--run", "bc", "--steps", 4)
    assert outcome.code == 0 and "Resumed from bc/checkpoints/step-3" in outcome.out
    assert command("eval", "bc", "--episodes", 1).code == 0


def test_rlds_names_no_environment(command, tmp_path, rlds):
    outcome = command(*BC, *TINY)
    assert outcome.code == 2 and "--env" in outcome.err
    (line,) = outcome.err.splitlines()
    assert line.startswith("Error: ") and not (tmp_path / "bc").exists()


def test_no_rewards(command, tmp_path, rlds):
    outcome = command("train", "--agent", "crr", "--dataset", "data", "--env", "faulty:continuous")
    assert outcome.code == 2
    (line,) = outcome.err.splitlines()
    assert line.startswith("Error: crr learns from rewards, and there are none in ")
    assert line.endswith("The agent bc needs none.")


def test_minari_names_its_environment(command, tmp_path, minari):
    outcome = command(*BC, *TINY)
    assert outcome.code == 0, outcome.err
    config = json.loads((tmp_path / "bc/config.json").read_text())
    assert config["environment"] == "CartPole-v1" and config["dataset"] == str(tmp_path / "data")


def test_a_damaged_one(command, tmp_path, minari):
    (tmp_path / "data/data/main_data.hdf5").write_text("nothing")
    outcome = command(*BC, *TINY)
    assert outcome.code == 2
    assert outcome.err.startswith("Error: data can't be read") and not (tmp_path / "bc").exists()


def test_without_the_package(command, tmp_path, minari, monkeypatch):
    monkeypatch.setitem(sys.modules, "minari", None)
    outcome = command(*BC, *TINY)
    assert "pip install 'tfagents_x[minari]'" in outcome.err and "Traceback" not in outcome.err
    assert outcome.code == 2
