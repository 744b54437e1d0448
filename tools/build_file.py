"""Writes BUILD, the Bazel targets of every module, test and tool, from the tree.

`python tools/build_file.py` (or `make build-file`) rewrites the file, `--check` only says
whether it is up to date. Targets are named as Python names the module
(`//:tfagents_x.ops.vtrace`), and their deps are the imports found in its source.
"""

from __future__ import annotations

import argparse
import ast
import pathlib
import sys
from collections.abc import Iterator
from typing import NamedTuple

PACKAGE = "tfagents_x"
FOLDERS = (PACKAGE, "tests", "tools", "benchmarks", "examples")
RUNNER = "tests/run_pytest.py"
# Files that a module reads and does not import.
DATA = {
    "tests.golden_cases": ["tests/golden/**"],
    "tests.packaging": ["*", ".ci/*", *(f"{folder}/**/*.py" for folder in FOLDERS)],
}
HEADER = '''\
"""Bazel targets of tfagents_x: a library for each module, a test for each test file.

Written by tools/build_file.py: run `make build-file` after adding or removing a file or
an import. A target has the name under which Python imports the module.

Third-party packages are not in `deps`: they come from the Python that Bazel's toolchain
points at, into which `pip install '.[all,dev]'` has put them. Tests run under pytest
(tests/run_pytest.py); those marked slow are tagged so: `--test_tag_filters=-slow`.

The rules are Bazel's own up to Bazel 8, so nothing is downloaded for them. Bazel 9 has none:
there, add `bazel_dep(name = "rules_python", version = ...)` to a MODULE.bazel, and here
`load("@rules_python//python:defs.bzl", "py_binary", "py_library", "py_test")`.
"""

package(default_visibility = ["//visibility:public"])

exports_files(["LICENSE"])
'''


class Module(NamedTuple):
    """A Python file: its dotted name, its path below the root, and its parsed source."""

    name: str
    path: str
    tree: ast.Module

    @property
    def is_test(self) -> bool:
        """Whether pytest collects it."""
        return self.path.startswith("tests/") and self.path.rpartition("/")[2].startswith("test_")

    @property
    def package(self) -> str:
        """The package in which its relative imports start."""
        return self.name if self.path.endswith("/__init__.py") else self.name.rpartition(".")[0]


def modules(root: pathlib.Path) -> dict[str, Module]:
    """Every module below `root`, by name. Raises SyntaxError where one cannot be parsed."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
            found[name] = Module(name, path.relative_to(root).as_posix(), tree)
    return found


def _for_types_only(node: ast.AST) -> bool:
    """Whether `node` is an `if TYPE_CHECKING:` block, which never runs."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def _running_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below `node` that can run, those inside functions (late imports) included."""
    for child in ast.iter_child_nodes(node):
        if _for_types_only(child):
            continue
        yield child
        yield from _running_nodes(child)


def _import_from(node: ast.ImportFrom, package: str) -> Iterator[str]:
    """The dotted names that `from x import y` may mean: `x` and `x.y`."""
    base = node.module or ""
    if node.level:
        ancestors = package.split(".")
        above = ancestors[: len(ancestors) - node.level + 1]
        base = ".".join(above + ([base] if base else []))
    yield base
    for alias in node.names:
        yield f"{base}.{alias.name}"


def _mentioned(module: Module) -> Iterator[str]:
    """Dotted names that `module` imports, or names in a string to be imported late."""
    for node in _running_nodes(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from _import_from(node, module.package)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # "tfagents_x.agents.impala" or "tfagents_x.agents.impala:Config" in a registry.
            name = node.value.partition(":")[0]
            if name.startswith(f"{PACKAGE}."):
                yield name
            elif name == PACKAGE and module.is_test:  # python -m tfagents_x
                yield f"{PACKAGE}.__main__"


def _with_parents(name: str) -> Iterator[str]:
    """`a.b.c` gives `a`, `a.b`, `a.b.c`: importing the last runs them all."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        yield ".".join(parts[:end])


def imports(module: Module, known: dict[str, Module]) -> set[str]:
    """Names of the modules in `known` that `module` imports.

    A package's `__init__.py` counts as imported with any module of that package, save for
    modules inside the package itself: it may import those, and Bazel takes no circles.
    Whoever imports them from outside brings the `__init__.py` along.

    Args:
      module: the importing module.
      known: all modules by name.

    Returns:
      Names of modules, without `module`'s own.
    """
    own_packages = set(_with_parents(module.name))
    found: set[str] = set()
    for name in _mentioned(module):
        if name.split(".")[0] not in FOLDERS:  # tests/ is on the path too
            name = f"tests.{name}"
        found.update(n for n in _with_parents(name) if n in known and n not in own_packages)
        if name in known and name in own_packages and name != module.name:
            found.update(_taken_from_package(module, known[name], known))
    return found


def _taken_from_package(module: Module, package: Module, known: dict[str, Module]) -> set[str]:
    """The module's own package, where `from package import x` needs what it defines itself."""
    for node in _running_nodes(module.tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        base, *names = _import_from(node, module.package)
        if base == package.name and not all(name in known for name in names):
            return {package.name}
    return set()


def _conftests(module: Module, known: dict[str, Module]) -> set[str]:
    """The conftest files that pytest loads for a test."""
    names = (f"{parent}.conftest" for parent in _with_parents(module.name.rpartition(".")[0]))
    return {name for name in names if name in known}


def dependencies(known: dict[str, Module]) -> dict[str, set[str]]:
    """The deps of every module's target. Raises ValueError where they go in a circle."""
    deps = {name: imports(module, known) for name, module in known.items()}
    for name, module in known.items():
        if module.is_test:
            deps[name] |= _conftests(module, known)
    _refuse_circles(deps)
    return deps


def _refuse_circles(deps: dict[str, set[str]]) -> None:
    done: set[str] = set()

    def visit(name: str, trail: list[str]) -> None:
        if name in trail:
            circle = " -> ".join(trail[trail.index(name) :] + [name])
            raise ValueError(
                f"modules import each other: {circle}; move what they share below both"
            )
        if name in done:
            return
        for dep in sorted(deps[name]):
            visit(dep, trail + [name])
        done.add(name)

    for name in sorted(deps):
        visit(name, [])


def _list(values: list[str]) -> str:
    if len(values) <= 1:
        return "[" + "".join(f'"{v}"' for v in values) + "]"
    return "[\n" + "".join(f'        "{v}",\n' for v in values) + "    ]"


def _rule(kind: str, **attributes: str) -> str:
    lines = "".join(f"    {key} = {value},\n" for key, value in attributes.items() if value)
    return f"\n{kind}(\n{lines})\n"


def _data(name: str) -> str:
    """The `glob` of the files that a module reads, or nothing."""
    for prefix, patterns in DATA.items():
        if name == prefix or name.startswith(f"{prefix}."):
            return f"glob({_list(patterns)}, allow_empty = True)"
    return ""


def _is_slow(module: Module) -> bool:
    """Whether a test in it is marked `pytest.mark.slow`."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == "slow"
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "mark"
        for node in ast.walk(module.tree)
    )


def _test(module: Module, deps: str) -> str:
    slow = _is_slow(module)
    return _rule(
        "py_test",
        name=f'"{module.name}"',
        size='"enormous"' if slow else '"large"',
        srcs=_list(sorted([module.path, RUNNER])),
        args=_list([module.path]),
        data=_data(module.name),
        main=f'"{RUNNER}"',
        # Bazel must not make up __init__.py files: the real ones come with `deps`.
        legacy_create_init="0",
        tags=_list(["slow"]) if slow else "",
        deps=deps,
    )


def _target(module: Module, deps: set[str]) -> str:
    labels = _list([f":{name}" for name in sorted(deps)]) if deps else ""
    if module.is_test:
        return _test(module, labels)
    return _rule(
        "py_library",
        name=f'"{module.name}"',
        srcs=_list([module.path]),
        data=_data(module.name),
        deps=labels,
    )


def build_text(root: pathlib.Path) -> str:
    """The text of BUILD for the tree below `root`."""
    known = modules(root)
    deps = dependencies(known)
    text = HEADER + "".join(_target(known[name], deps[name]) for name in sorted(known))
    if f"{PACKAGE}.__main__" in known:
        main = f"{PACKAGE}.__main__"
        text += _rule(
            "py_binary",
            name='"tfagents-x"',
            srcs=_list([known[main].path]),
            main=f'"{known[main].path}"',
            deps=_list([f":{PACKAGE}", f":{main}"]),
        )
    return text


def main(arguments: list[str] | None = None) -> int:
    """Writes or checks BUILD, and returns the exit status."""
    parser = argparse.ArgumentParser(description="Writes BUILD from the tree.")
    parser.add_argument("--check", action="store_true", help="only say whether it is up to date")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[1])
    options = parser.parse_args(arguments)
    path, text = options.root / "BUILD", build_text(options.root)
    if not options.check:
        path.write_text(text, encoding="utf-8")
        return 0
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        print("BUILD does not match the tree; run: make build-file", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
