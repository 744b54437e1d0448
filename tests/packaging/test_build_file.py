"""BUILD has every module and test, right paths, and the deps that the sources import."""

from __future__ import annotations

import ast
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest

from tools import build_file

ROOT = pathlib.Path(__file__).parents[2]
RULES = ("py_library", "py_test", "py_binary")


def read_targets(text: str) -> dict[str, dict]:
    """The py_* targets of a BUILD file by name: their rule, and attributes that are literals."""
    targets = {}
    for call in (node.value for node in ast.parse(text).body if isinstance(node, ast.Expr)):
        if isinstance(call, ast.Call) and call.func.id in RULES:
            plain = [k for k in call.keywords if not isinstance(k.value, ast.Call)]
            target = {k.arg: ast.literal_eval(k.value) for k in plain}
            assert target["name"] not in targets, f"two targets are called {target['name']}"
            targets[target["name"]] = {"rule": call.func.id, "deps": [], **target}
    return targets


@pytest.fixture(scope="module")
def targets() -> dict[str, dict]:
    return read_targets((ROOT / "BUILD").read_text(encoding="utf-8"))


def write_tree(root: pathlib.Path, files: dict[str, str]) -> pathlib.Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return root


def deps_of(root: pathlib.Path, name: str) -> set[str]:
    return build_file.dependencies(build_file.modules(root))[name]


def test_build_matches_the_tree():
    text = (ROOT / "BUILD").read_text(encoding="utf-8")
    assert text == build_file.build_text(ROOT), "BUILD is out of date; run: make build-file"


def test_every_module_is_a_library(targets):
    listed = {s for t in targets.values() if t["rule"] == "py_library" for s in t["srcs"]}
    modules = {p.relative_to(ROOT).as_posix() for p in (ROOT / "tfagents_x").rglob("*.py")}
    assert modules and modules <= listed, f"missing in BUILD: {sorted(modules - listed)}"


def test_every_test_file_is_a_test(targets):
    listed = {s for t in targets.values() if t["rule"] == "py_test" for s in t["args"]}
    tests = {p.relative_to(ROOT).as_posix() for p in (ROOT / "tests").rglob("test_*.py")}
    assert tests and tests == listed, f"BUILD and tests/ differ in: {sorted(tests ^ listed)}"


def test_paths_and_labels_exist(targets):
    for name, target in targets.items():
        for path in target["srcs"]:
            assert (ROOT / path).is_file(), f"{name}: no file {path}"
        for label in target["deps"]:
            assert label[1:] in targets, f"{name}: no target {label}"


def test_deps_bring_all_that_an_import_runs(targets):
    """Python itself says what a module imports: it gets only the files that Bazel would give."""

    def files(name: str, seen: set[str]) -> set[str]:
        if name not in seen:
            seen.add(name)
            for label in targets[name]["deps"]:
                files(label[1:], seen)
        return seen

    # `types`, `specs` and their like import no TensorFlow, so this takes no time.
    for name in ("tfagents_x.types", "tfagents_x.core", "tools.build_file"):
        code = f"import sys, {name}; print(*sys.modules)"
        out = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        ours = {m for m in out.split() if m.split(".")[0] in build_file.FOLDERS}
        packages = {".".join(name.split(".")[:i]) for i in range(1, name.count(".") + 1)}
        assert ours - packages <= files(name, set())


def test_bazel_agrees(targets, tmp_path):
    """Bazel reads the file, where it is installed; elsewhere its labels are read from the file."""
    bazel = shutil.which("bazel")
    if bazel and "TEST_SRCDIR" not in os.environ:  # not from inside `bazel test`
        out = subprocess.run(
            # --batch leaves no server behind.
            [bazel, "--batch", f"--output_user_root={tmp_path}", "query", "kind('py_.*', //:*)"],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        shutil.rmtree(tmp_path, ignore_errors=True)
        assert out.returncode == 0, out.stderr
        labels = {line[3:] for line in out.stdout.splitlines() if line.startswith("//:")}
    else:
        labels = {name for name, target in targets.items() if target["rule"] in RULES}
    assert labels == set(build_file.modules(ROOT)) | (labels & {"tfagents-x"})


def test_check_says_what_to_run(tmp_path, capsys):
    root = write_tree(tmp_path, {"tfagents_x/__init__.py": ""})
    assert build_file.main(["--root", str(root)]) == 0
    assert build_file.main(["--root", str(root), "--check"]) == 0
    write_tree(root, {"tfagents_x/new.py": ""})
    assert build_file.main(["--root", str(root), "--check"]) == 1
    assert "make build-file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line, wanted",
    [
        ("import tfagents_x.b.c", {"tfagents_x.b", "tfagents_x.b.c"}),
        ("from tfagents_x.b import c", {"tfagents_x.b", "tfagents_x.b.c"}),
        ("from tfagents_x.b.c import f", {"tfagents_x.b", "tfagents_x.b.c"}),
        ("from tfagents_x.b import NAME", {"tfagents_x.b"}),
        ("from tfagents_x import b", {"tfagents_x.b"}),
        ("from .b import c", {"tfagents_x.b", "tfagents_x.b.c"}),
        ("from . import b", {"tfagents_x.b"}),
        ("from tfagents_x import VERSION", {"tfagents_x"}),
        ("def f():\n    from tfagents_x.b import c", {"tfagents_x.b", "tfagents_x.b.c"}),
        ("WHERE = 'tfagents_x.b.c:Builder'", {"tfagents_x.b", "tfagents_x.b.c"}),
        ("if TYPE_CHECKING:\n    import tfagents_x.b", set()),
        ("import tensorflow as tf", set()),
    ],
)
def test_imports_found(tmp_path, line, wanted):
    files = {f"tfagents_x/{n}.py": "" for n in ("__init__", "b/__init__", "b/c")}
    root = write_tree(tmp_path, {**files, "tfagents_x/a.py": line})
    assert deps_of(root, "tfagents_x.a") == wanted


def test_package_may_import_its_own_modules(tmp_path):
    root = write_tree(
        tmp_path,
        {
            "tfagents_x/__init__.py": "",
            "tfagents_x/b/__init__.py": "from tfagents_x.b import c, d",
            "tfagents_x/b/c.py": "from tfagents_x.b import d",
            "tfagents_x/b/d.py": "",
        },
    )
    assert deps_of(root, "tfagents_x.b") == {"tfagents_x", "tfagents_x.b.c", "tfagents_x.b.d"} - {
        "tfagents_x"
    }
    assert deps_of(root, "tfagents_x.b.c") == {"tfagents_x.b.d"}


def test_circle_is_refused(tmp_path):
    files = {
        "tfagents_x/__init__.py": "",
        "tfagents_x/a.py": "import tfagents_x.b",
        "tfagents_x/b.py": "import tfagents_x.a",
    }
    with pytest.raises(ValueError, match=r"tfagents_x\.a -> tfagents_x\.b -> tfagents_x\.a; move"):
        build_file.build_text(write_tree(tmp_path, files))


def test_tests_get_conftest_runner_and_slow_tag(tmp_path):
    files = {
        "tfagents_x/__init__.py": "",
        "tfagents_x/__main__.py": "",
        "tests/conftest.py": "",
        "tests/golden_cases.py": "",
        "tests/cli/test_run.py": """
            import golden_cases
            COMMAND = ["-m", "tfagents_x"]
            @pytest.mark.slow
            def test_it(): pass
            """,
        "tests/cli/test_quick.py": "slow = 1",
    }
    targets = read_targets(build_file.build_text(write_tree(tmp_path, files)))
    slow, quick = targets["tests.cli.test_run"], targets["tests.cli.test_quick"]
    assert slow["tags"] == ["slow"] and "tags" not in quick
    assert slow["main"] == "tests/run_pytest.py" and slow["main"] in slow["srcs"]
    assert slow["args"] == ["tests/cli/test_run.py"]
    assert set(slow["deps"]) == {
        ":tests.conftest",
        ":tests.golden_cases",
        ":tfagents_x",
        ":tfagents_x.__main__",
    }
    assert targets["tfagents-x"]["rule"] == "py_binary"
