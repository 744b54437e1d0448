"""Playing with what a run has learned."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest

from tests.cli import faulty
from tfagents_x import environments, specs
from tfagents_x.agents import evaluation, online_training, playing, run_directory
from tfagents_x.agents.impala import IMPALABuilder, IMPALAConfig

CONFIG = IMPALAConfig(
    batch_size=2, sequence_length=4, sequence_period=3, hidden_sizes=(4,), lstm_size=4
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Directory and variables of a run with two checkpoints."""
    environment = faulty.FaultyEnvironment()
    directory = run_directory.RunDirectory(tmp_path_factory.mktemp("run") / "run")
    directory.create(
        run_directory.RunSpec("impala", "faulty:", 0, "in_process", dataclasses.asdict(CONFIG))
    )
    builder = IMPALABuilder(CONFIG, specs.make_environment_spec(environment))
    run = online_training.OnlineTraining(builder, environment, directory, replay="in_process")
    run.run(60)
    run.close()
    return directory.path, run.learner.get_variables(["network"])[0]


@pytest.fixture
def run_copy(trained, tmp_path):
    return shutil.copytree(trained[0], tmp_path / "copy")


def _newest(run):
    return max((run / "checkpoints").iterdir(), key=lambda p: int(p.name.partition("-")[2]))


def test_the_networks_are_those_of_the_newest_checkpoint(trained):
    path, variables = trained
    spec = run_directory.RunDirectory(path).read()
    environment_spec = specs.make_environment_spec(faulty.FaultyEnvironment())
    networks = playing.make_builder(spec, environment_spec).make_networks()
    network = networks["network"]
    assert not all(np.array_equal(a, b) for a, b in zip(network.variables, variables))
    playing.restore_networks(networks, _newest(path))
    for restored, wanted in zip(network.variables, variables):
        np.testing.assert_array_equal(restored.numpy(), wanted)


def test_statistics_are_those_of_the_episodes(trained):
    seen = []
    result = evaluation.evaluate(trained[0], 7, on_episode=seen.append)
    assert result.checkpoint == _newest(trained[0])
    assert result.returns == tuple(r["episode_return"] for r in seen)
    assert result.lengths == tuple(r["episode_length"] for r in seen)
    assert len(seen) == 7
    statistics = result.statistics()["return"]
    assert statistics == pytest.approx(
        {
            "mean": np.mean(result.returns),
            "std": np.std(result.returns),
            "min": min(result.returns),
            "max": max(result.returns),
        }
    )


def test_the_seed_decides(trained):
    same, again, other = (evaluation.evaluate(trained[0], 5, seed=s) for s in (1, 1, 2))
    assert same == again
    assert same.lengths != other.lengths


def test_the_episodes_are_not_those_of_training(trained):
    lengths = np.genfromtxt(trained[0] / "metrics" / "episodes.csv", delimiter=",", names=True)
    result = evaluation.evaluate(trained[0], 5, seed=0)
    assert list(result.lengths) != list(lengths["episode_length"][:5])


def test_the_run_is_left_as_it_is(run_copy):
    before = {p: p.stat().st_mtime_ns for p in run_copy.rglob("*")}
    evaluation.evaluate(run_copy, 1)
    assert {p: p.stat().st_mtime_ns for p in run_copy.rglob("*")} == before


def test_a_damaged_checkpoint_is_passed_over_and_named(run_copy):
    newest = _newest(run_copy)
    data = next(newest.glob("learner.data*"))
    data.write_bytes(data.read_bytes()[:100])
    messages = []
    result = evaluation.evaluate(run_copy, 1, report=messages.append)
    assert result.checkpoint.name == "step-0"
    assert len(messages) == 1
    assert str(newest) in messages[0]


def test_no_intact_checkpoint(run_copy):
    shutil.rmtree(run_copy / "checkpoints")
    with pytest.raises(ValueError, match="There is no intact checkpoint in"):
        evaluation.evaluate(run_copy, 1)


def test_no_run(tmp_path):
    with pytest.raises(ValueError, match="There is no run in"):
        evaluation.evaluate(tmp_path / "nothing", 1)


def test_at_least_one_episode(trained):
    with pytest.raises(ValueError, match="num_episodes must be at least 1, got 0"):
        evaluation.evaluate(trained[0], 0)


def test_a_checkpoint_of_another_network(trained):
    spec = run_directory.RunDirectory(trained[0]).read()
    other = dataclasses.replace(spec, config={**spec.config, "lstm_size": 8})
    environment_spec = specs.make_environment_spec(environments.make_environment("faulty:"))
    networks = playing.make_builder(other, environment_spec).make_networks()
    match = "The network of this run can't be restored from .* config or the environment"
    with pytest.raises(ValueError, match=match):
        playing.restore_networks(networks, _newest(trained[0]))


def test_a_network_that_the_checkpoint_lacks(trained):
    spec = run_directory.RunDirectory(trained[0]).read()
    environment_spec = specs.make_environment_spec(environments.make_environment("faulty:"))
    network = playing.make_builder(spec, environment_spec).make_networks()["network"]
    with pytest.raises(ValueError, match="The critic of this run can't be restored from"):
        playing.restore_networks({"critic": network}, _newest(trained[0]))


def test_a_config_that_is_wrong_is_named_with_its_file(run_copy):
    file = run_copy / "config.json"
    file.write_text(file.read_text().replace('"batch_size": 2', '"batch_size": "4"'))
    with pytest.raises(ValueError) as caught:
        evaluation.evaluate(run_copy, 1)
    assert str(caught.value) == f"{file}: batch_size must be int, got '4'."


def test_when_all_checkpoints_are_damaged_it_goes_back_no_further(run_copy):
    for checkpoint in (run_copy / "checkpoints").iterdir():
        (checkpoint / "manifest.json").write_text("[]")
    messages = []
    with pytest.raises(ValueError, match="There is no intact checkpoint in"):
        evaluation.evaluate(run_copy, 1, report=messages.append)
    assert ["going back" in message for message in messages] == [True, False]


def test_other_processes_may_evaluate_a_run_that_trains(run_copy):
    with run_directory.RunDirectory(run_copy).locked():
        assert len(evaluation.evaluate(run_copy, 1).returns) == 1
