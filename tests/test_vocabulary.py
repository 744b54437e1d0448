"""The shared vocabulary, and who may import what."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys

import dm_env
import numpy as np
import pytest

from tfagents_x import core, replay, specs, types

PACKAGE = pathlib.Path(__file__).parents[1] / "tfagents_x"

# Imports run downward only: a layer may import those of smaller rank, and itself.
RANKS = {
    "types": 0,
    "specs": 0,
    "core": 1,
    "utils": 2,
    "ops": 2,
    "networks": 3,
    "environments": 4,
    "replay": 4,
    "datasets": 4,
    "learners": 4,
    "agents": 5,
    "cli": 6,
    "__main__": 7,
}
# Siblings of one rank don't know each other, but for these.
ALSO = {("specs", "types"), ("core", "specs"), ("datasets", "environments")}


def test_acme_field_names_and_order():
    assert types.Transition._fields == (
        *("observation", "action", "reward", "discount", "next_observation", "extras"),
    )
    assert types.Step._fields == (
        *("observation", "action", "reward", "discount", "start_of_episode", "extras"),
    )
    assert types.Step(1, 2, 3, 4, 5).extras == ()


def test_samples_have_the_fields_of_reverb():
    fields = ("key", "probability", "table_size", "priority", "times_sampled")
    assert types.SampleInfo._fields == fields
    assert types.ReplaySample._fields == ("info", "data")
    if replay.reverb_available():
        import reverb

        assert types.SampleInfo._fields == reverb.SampleInfo._fields
        assert types.ReplaySample._fields == reverb.ReplaySample._fields


class Environment(dm_env.Environment):
    def reset(self):
        return dm_env.restart(np.zeros(2))

    def step(self, action):
        return dm_env.termination(1.0, np.zeros(2))

    def observation_spec(self):
        return specs.Array((2,), np.float64)

    def action_spec(self):
        return specs.DiscreteArray(3)


def test_make_environment_spec():
    spec = specs.make_environment_spec(Environment())
    assert spec.observations.shape == (2,) and spec.actions.num_values == 3
    assert spec.rewards.shape == () and spec.discounts.maximum == 1.0


def test_learners_run_as_often_as_told():
    class Learner(core.Learner):
        steps = 0

        def step(self):
            self.steps += 1
            if self.steps == 5:
                raise StopIteration
            return {}

        def get_variables(self, names):
            return []

        def save(self):
            return {}

        def restore(self, state):
            pass

    learner = Learner()
    learner.run(3)
    assert learner.steps == 3
    with pytest.raises(StopIteration):
        learner.run()


def layer_of(module: str) -> str:
    return module.split(".")[1]


def imports_of(file: pathlib.Path) -> set[str]:
    """Layers that a module imports from, late imports included."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names if a.name.startswith("tfagents_x.")}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tfagents_x"):
            top = node.module == "tfagents_x"
            found |= {f"{node.module}.{a.name}" for a in node.names} if top else {node.module}
    return {layer_of(name) for name in found}


@pytest.mark.parametrize("layer", RANKS)
def test_imports_run_downward(layer):
    files = (PACKAGE / layer).rglob("*.py")
    files = [PACKAGE / f"{layer}.py"] if (PACKAGE / f"{layer}.py").exists() else list(files)
    assert files
    for file in files:
        for other in imports_of(file) - {layer}:
            down = RANKS[other] < RANKS[layer] or (layer, other) in ALSO
            assert down, f"{file.relative_to(PACKAGE)} imports from {other}"


def test_every_layer_is_ranked():
    found = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert found - {"__init__"} == set(RANKS)


def test_optional_packages_are_imported_late():
    """What TensorFlow and its companions bring in themselves doesn't count."""
    code = (
        "import sys, tensorflow, tensorflow_probability, sonnet\n"
        "tensorflow_probability.distributions\n"
        "before = set(sys.modules)\n"
        "import tfagents_x, tfagents_x.learners.impala\n"
        "import tfagents_x.agents.impala, tfagents_x.agents.r2d2, tfagents_x.agents.svg0\n"
        "import tfagents_x.environments, tfagents_x.replay, tfagents_x.cli.app\n"
        "late = {'reverb', 'gymnasium', 'dm_control', 'ale_py', 'PIL', 'matplotlib', 'minari'}\n"
        "late.add('tensorflow_datasets')\n"
        "print(sorted(late & (set(sys.modules) - before)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert result.stdout.strip() == "[]"


def test_keras_is_not_used():
    for file in PACKAGE.rglob("*.py"):
        assert "keras" not in file.read_text(), file
