"""Recording a run's policy."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tree

from tests.agents import svg0_parts
from tests.datasets import recordings
from tfagents_x import datasets, specs
from tfagents_x.agents import collection, playing, run_directory
from tfagents_x.agents.svg0 import SVG0Config


class Sleds:
    """What the registry would make, one for each call."""

    def __init__(self):
        self.made = []

    def __call__(self, name):
        self.made.append(svg0_parts.Sled())
        return self.made[-1]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    directory = run_directory.RunDirectory(tmp_path_factory.mktemp("run") / "run")
    config = dataclasses.asdict(SVG0Config(**svg0_parts.TINY))
    directory.create(run_directory.RunSpec("svg0", "sled:", 0, "in_process", config))
    run = svg0_parts.make_training(directory.path)
    run.run(40)
    run.close()
    return directory.path


@pytest.fixture
def sleds(monkeypatch):
    made = Sleds()
    monkeypatch.setattr(playing.environments, "make_environment", made)
    return made


def test_what_was_done_is_recorded(trained, tmp_path, sleds):
    results = []
    manifest = collection.collect(trained, 25, tmp_path, on_episode=results.append)
    assert (manifest.episodes, manifest.steps) == (3, 30)
    assert manifest.returns == pytest.approx([r["episode_return"] for r in results], rel=1e-6)
    (part,) = manifest.parts
    assert part.source["actions"] == "sampled" and part.source["agent"] == "svg0"
    assert part.source["checkpoint"] == "step-40"
    rows = datasets.load(tmp_path)
    np.testing.assert_array_equal(np.flatnonzero(rows.start_of_episode), [0, 11, 22])
    last = np.arange(33) % 11 == 10
    # The actions are those that the environment got, clipped to its bounds.
    np.testing.assert_array_equal(rows.action[~last], np.stack(sleds.made[0].actions))
    assert not np.any(rows.action[last]) and not np.any(rows.reward[last])
    # Cut off, not terminated: the discount of the last transition is 1.
    np.testing.assert_array_equal(rows.discount, (~last).astype(np.float32))
    np.testing.assert_allclose(
        rows.reward[~last], -np.abs(rows.observation["place"][1:][~last[:-1]])
    )


def test_terminated_episodes_end_with_discount_zero(tmp_path):
    class Ends(svg0_parts.Sled):
        def step(self, action):
            timestep = super().step(action)
            return timestep._replace(discount=np.float64(0.0)) if timestep.last() else timestep

    sled = Ends()
    manifest = datasets.Manifest("sled:", specs.make_environment_spec(sled))
    writer = datasets.EpisodeWriter(tmp_path, manifest)
    recorder = collection.Recorder(writer)
    timestep = sled.reset()
    recorder.observe_first(sled, timestep)
    while not timestep.last():
        timestep = sled.step(np.zeros(2, np.float32))
        recorder.observe(sled, timestep, np.zeros(2, np.float32))
    writer.close()
    assert datasets.load(tmp_path).discount.tolist() == [1.0] * 9 + [0.0, 0.0]


def test_equal_seeds_record_equal_episodes(trained, tmp_path, sleds):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        collection.collect(trained, 20, tmp_path / name, seed=seed)
    a, b, c = (datasets.load(tmp_path / name) for name in "abc")
    tree.map_structure(np.testing.assert_array_equal, a, b)
    assert not np.array_equal(a.action, c.action)


def test_appended_episodes_are_others(trained, tmp_path, sleds):
    collection.collect(trained, 20, tmp_path / "parts")
    manifest = collection.collect(trained, 20, tmp_path / "parts", append=True)
    assert manifest.episodes == 4 and len(manifest.parts) == 2
    collection.collect(trained, 40, tmp_path / "whole")
    parts, whole = (datasets.load(tmp_path / name) for name in ("parts", "whole"))
    tree.map_structure(np.testing.assert_array_equal, parts, whole)


def test_greedy_actions_differ_from_sampled_ones(trained, tmp_path, sleds):
    collection.collect(trained, 10, tmp_path / "greedy", greedy=True)
    collection.collect(trained, 10, tmp_path / "sampled")
    greedy, sampled = (datasets.load(tmp_path / name) for name in ("greedy", "sampled"))
    np.testing.assert_array_equal(greedy.observation["place"][0], sampled.observation["place"][0])
    assert not np.array_equal(greedy.action, sampled.action)


def test_stopping_keeps_what_has_ended(trained, tmp_path, sleds):
    calls = []
    stopping = lambda: len(calls) >= 25 or calls.append(0)
    manifest = collection.collect(trained, 100, tmp_path, stopping=stopping)
    assert manifest.episodes == 2
    assert len(datasets.load(tmp_path).reward) == 22


def test_what_ended_before_a_failure_is_kept(trained, tmp_path, monkeypatch):
    class Fails(svg0_parts.Sled):
        def step(self, action):
            timestep = super().step(action)
            if len(self.actions) == 25:
                return timestep._replace(reward=np.float32(np.nan))
            return timestep

    monkeypatch.setattr(playing.environments, "make_environment", lambda name: Fails())
    with pytest.raises(ValueError, match="reward"):
        collection.collect(trained, 100, tmp_path)
    assert len(datasets.load(tmp_path).reward) == 22


def test_a_dataset_is_not_written_over(trained, tmp_path, sleds):
    collection.collect(trained, 10, tmp_path)
    with pytest.raises(ValueError, match="holds a dataset already.*--append"):
        collection.collect(trained, 10, tmp_path)
    assert len(sleds.made) == 1  # It was found out before anything was loaded.


def test_another_environment_is_not_appended(trained, tmp_path, sleds):
    recordings.EMPTY.write(tmp_path)
    with pytest.raises(ValueError, match="is of nowhere:, whose observations"):
        collection.collect(trained, 10, tmp_path, append=True)


def test_bad_arguments(trained, tmp_path, sleds):
    with pytest.raises(ValueError, match="num_steps must be at least 1"):
        collection.collect(trained, 0, tmp_path)
    with pytest.raises(ValueError, match="no policy 'cwp'; it has: policy"):
        collection.collect(trained, 10, tmp_path, policy="cwp")
    with pytest.raises(ValueError, match="There is no run"):
        collection.collect(tmp_path / "nothing", 10, tmp_path / "data")
    assert not (tmp_path / "data").exists()
