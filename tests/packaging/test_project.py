"""pyproject.toml, Makefile, licence and gate: what a clean install gets, and what it is told."""

from __future__ import annotations

import ast
import hashlib
import os
import pathlib
import stat
import subprocess
import sys
import sysconfig

import pytest
from packaging.requirements import Requirement

from tools import build_file, check_python

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = pathlib.Path(__file__).parents[2]
LINUX = {"sys_platform": "linux", "platform_machine": "x86_64", "python_version": "3.11"}
# Distributions whose import has another name.
IMPORT_NAMES = {
    "absl-py": "absl",
    "ale-py": "ale_py",
    "dm-env": "dm_env",
    "dm-reverb": "reverb",
    "dm-sonnet": "sonnet",
    "dm-tree": "tree",
    "pillow": "PIL",
    "tensorflow-datasets": "tensorflow_datasets",
    "tensorflow-probability": "tensorflow_probability",
}


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def required(lines: list[str], **changes: str) -> dict[str, Requirement]:
    """The requirements that hold on Linux x86-64 with Python 3.11, or with `changes` to that."""
    requirements = [Requirement(line) for line in lines]
    here = {**LINUX, **changes, "extra": ""}
    return {r.name: r for r in requirements if r.marker is None or r.marker.evaluate(here)}


def allows(lines: list[str], name: str, version: str, **changes: str) -> bool:
    return version in required(lines, **changes)[name].specifier


def test_base_takes_every_supported_tensorflow(project):
    base = project["dependencies"]
    assert all(allows(base, "tensorflow", f"2.{minor}.0") for minor in range(15, 22))
    assert not allows(base, "tensorflow", "2.14.1") and not allows(base, "tensorflow", "2.22.0")
    # It alone requires no TensorFlow, so a resolver could put it beside any.
    assert not allows(base, "tf-keras", "2.15.0")


@pytest.mark.parametrize("extra", ["reverb", "all"])
def test_reverb_pins_what_it_was_built_for(project, extra):
    lines = project["optional-dependencies"][extra]
    assert allows(lines, "dm-reverb", "0.14.0") and not allows(lines, "dm-reverb", "0.15.0")
    assert allows(lines, "tensorflow", "2.15.1") and not allows(lines, "tensorflow", "2.16.0")
    name = "tensorflow-probability"
    assert allows(lines, name, "0.23.0") and not allows(lines, name, "0.24.0")


@pytest.mark.parametrize(
    "change",
    [
        {"python_version": "3.12"},
        {"python_version": "3.13"},
        {"sys_platform": "darwin"},
        {"platform_machine": "aarch64"},
        {"sys_platform": "win32", "platform_machine": "AMD64"},
    ],
)
def test_all_leaves_reverb_out_where_it_has_no_wheel(project, change):
    extras = project["optional-dependencies"]
    assert set(required(extras["all"], **change)) <= {
        *("gymnasium", "matplotlib", "dm-control", "mujoco", "ale-py", "pillow", "minari", "h5py"),
    }
    # Asked for by name it must not be left out in silence.
    assert "dm-reverb" in required(extras["reverb"], **change)


def test_dm_control_comes_with_the_physics_that_it_runs_on(project):
    extras = project["optional-dependencies"]
    for lines in (extras["dm_control"], extras["all"]):
        assert allows(lines, "mujoco", "3.17.0", python_version="3.12")
        assert not allows(lines, "mujoco", "4.0.0", python_version="3.12")
    # It has no wheels there; asked for by name it must not be left out in silence.
    for version in ("3.9", "3.10", "3.13"):
        assert not {"dm-control", "mujoco"} & set(required(extras["all"], python_version=version))
        assert "dm-control" in required(extras["dm_control"], python_version=version)


def test_atari_comes_with_all_where_it_has_wheels(project):
    extras = project["optional-dependencies"]
    arm = {"platform_machine": "aarch64", "python_version": "3.9"}
    assert "ale-py" in required(extras["all"], python_version="3.9")
    assert "ale-py" in required(extras["all"], **{**arm, "python_version": "3.12"})
    assert "ale-py" not in required(extras["all"], **arm)
    assert "ale-py" in required(extras["atari"], **arm)


@pytest.mark.parametrize("extra", ["rlds", "dev"])
def test_rlds_comes_with_metadata_for_every_tensorflow(project, extra):
    lines = project["optional-dependencies"][extra]
    assert "tensorflow-datasets" in required(lines)
    assert allows(lines, "tensorflow-metadata", "1.17.3")
    assert not allows(lines, "tensorflow-metadata", "1.18.0")


def test_rlds_is_installed_for_one_version_of_python_only(project):
    extras = project["optional-dependencies"]
    large = {"tensorflow-datasets", "tensorflow-metadata"}
    for version in ("3.9", "3.10", "3.12", "3.13"):
        assert not large & set(required(extras["dev"], python_version=version))
        assert large <= set(required(extras["rlds"], python_version=version))
    assert not large & set(required(extras["all"]))


def test_all_is_the_sum_of_the_extras(project):
    extras = project["optional-dependencies"]
    names = ("gym", "dm_control", "atari", "minari", "plots", "reverb")
    parts = [line for name in names for line in extras[name]]
    bare = {str(Requirement(line.partition(";")[0])) for line in extras["all"]}
    assert bare - {"minari<0.5.4"} == {str(Requirement(line)) for line in parts}


def test_all_has_a_minari_for_the_numpy_of_tensorflow(project):
    extras = project["optional-dependencies"]
    found = {
        version: [
            Requirement(line).specifier
            for line in extras["all"]
            if line.startswith("minari") and required([line], python_version=version)
        ]
        for version in ("3.11", "3.12")
    }
    assert not all("0.5.4" in specifier for specifier in found["3.11"])
    assert all("0.5.3" in specifier for specifier in found["3.11"])
    assert all("0.5.4" in specifier for specifier in found["3.12"])


def is_standard(name: str) -> bool:
    """Whether an import is of Python's own library, 3.9 included."""
    # The names of all platforms, from 3.10 on; msvcrt is Windows' own.
    if name in (*sys.builtin_module_names, *getattr(sys, "stdlib_module_names", ("msvcrt",))):
        return True
    library = pathlib.Path(sysconfig.get_paths()["stdlib"])
    folders = (library, library / "lib-dynload")
    return any(p.name.split(".")[0] == name for f in folders for p in f.glob(f"{name}*"))


def imported_from_outside() -> dict[str, str]:
    """Top-level names that the package imports, and a file that does."""
    found = {}
    for module in build_file.modules(ROOT).values():
        if not module.path.startswith("tfagents_x/"):
            continue
        for node in ast.walk(module.tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            found.update({name.split(".")[0]: module.path for name in names})
    return found


def test_every_import_is_declared(project):
    extras = project["optional-dependencies"].values()
    lines = project["dependencies"] + [line for extra in extras for line in extra]
    names = {Requirement(line).name for line in lines}
    declared = {IMPORT_NAMES.get(name, name) for name in names} | {"tfagents_x"}
    found = imported_from_outside()
    assert "numpy" in found
    undeclared = {n: f for n, f in found.items() if n not in declared and not is_standard(n)}
    assert not undeclared, "imports that pyproject.toml does not declare"


def test_version_is_a_literal_and_script_exists(project):
    """So that setuptools reads the one without TensorFlow, and the other starts."""
    tree = build_file.modules(ROOT)["tfagents_x"].tree
    assigned = [n for n in tree.body if isinstance(n, ast.Assign)]
    versions = [n.value for n in assigned if n.targets[0].id == "__version__"]
    assert isinstance(ast.literal_eval(versions[0]), str)
    module, function = project["scripts"]["tfagents-x"].split(":")
    body = build_file.modules(ROOT)[module].tree.body
    assert function in {getattr(n, "name", None) for n in body}


def test_licence_is_the_whole_apache_2(project):
    assert project["license"] == "Apache-2.0"
    digest = hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest()
    assert digest == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
    assert all((ROOT / name).is_file() for name in project["license-files"])


GOOD = ("CPython", (3, 11), "Linux", "x86_64", True)


@pytest.mark.parametrize(
    "change, words",
    [
        ({}, None),
        ({1: (3, 13), 2: "Darwin", 3: "arm64"}, None),
        ({1: (3, 9)}, None),
        ({1: (3, 8)}, "needs CPython 3.9 to 3.13, and this is CPython 3.8; choose another"),
        ({1: (3, 14)}, "this is CPython 3.14"),
        ({1: (2, 7)}, "this is CPython 2.7"),
        ({0: "PyPy"}, "this is PyPy 3.11"),
        ({1: (3, 9), 2: "Darwin"}, "3.9 is supported with Reverb only"),
        ({4: False}, "apt install python3.11-venv"),
    ],
)
def test_python_is_judged(change, words):
    found = check_python.complaint(*(change.get(i, value) for i, value in enumerate(GOOD)))
    assert found is None if words is None else words in found


def make(*arguments: str) -> subprocess.CompletedProcess:
    # A `make test` around this one hands its own variables down otherwise.
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    return subprocess.run(["make", *arguments], cwd=ROOT, capture_output=True, text=True, env=env)


def test_make_alone_lists_the_targets():
    out = make().stdout
    for target in ("train", "test", "test-slow", "lint", "format", "bench", "venv", "clean"):
        assert f"\n  {target} " in out


def test_make_refuses_an_unusable_python(tmp_path):
    missing = make("train", f"VENV={tmp_path}/venv", "PYTHON=no-such-python")
    assert missing.returncode == 2 and "cannot run no-such-python" in missing.stderr
    old = tmp_path / "python"
    # Runs the check as another interpreter would.
    old.write_text(
        f"#!{sys.executable}\nimport sys, platform\nif sys.argv[1] == '--version': sys.exit(0)\n"
        "platform.python_implementation = lambda: 'PyPy'\nsys.argv.pop(0)\n"
        "exec(compile(open(sys.argv[0]).read(), sys.argv[0], 'exec'))\n"
    )
    old.chmod(0o755)
    refused = make("test", f"VENV={tmp_path}/venv", f"PYTHON={old}")
    assert refused.returncode == 2 and "needs CPython 3.9 to 3.13" in refused.stderr
    assert not (tmp_path / "venv").exists()


def test_make_installs_again_when_pyproject_changed(tmp_path):
    for stamp in (".stamp-venv", ".stamp-all"):
        (tmp_path / stamp).touch()
    command = "tfagents-x train --agent impala --env CartPole-v1 --seed 3"
    arguments = ("-n", "train", f"VENV={tmp_path}", "ARGS=--seed 3")
    fresh = make(*arguments).stdout
    assert command in fresh and "pip" not in fresh
    os.utime(tmp_path / ".stamp-all", (0, 0))
    assert "install -e '.[all]'" in make(*arguments).stdout


def test_gate_runs_the_commands_of_the_readme():
    gate = ROOT / ".ci" / "run"
    assert gate.stat().st_mode & stat.S_IXUSR
    assert subprocess.run(["bash", "-n", str(gate)]).returncode == 0
    lines = gate.read_text(encoding="utf-8").splitlines()
    assert "set -euo pipefail" in lines
    assert {"make lint", "make test"} <= set(lines)
    assert any(line.startswith("make test VENV=.venv-tf221 ") for line in lines)
