"""Reads the golden files in `tests/golden/` (numbers computed by the original libraries)."""

from __future__ import annotations

import functools
import pathlib
from typing import Any

import numpy as np

_FOLDER = pathlib.Path(__file__).parent / "golden"


class Case(dict):
    """One golden case: `case["in.rewards"]`, `case["out.vs"]`, ..."""

    name: str

    def leaves(self, prefix: str) -> list[np.ndarray]:
        """The arrays `prefix.0`, `prefix.1`, ... in order."""
        found = []
        while f"{prefix}.{len(found)}" in self:
            found.append(self[f"{prefix}.{len(found)}"])
        return found

    def under(self, prefix: str) -> dict[str, np.ndarray]:
        """All arrays whose key starts with `prefix.`, keyed by the rest."""
        return {k[len(prefix) + 1 :]: v for k, v in self.items() if k.startswith(prefix + ".")}

    def optional(self, key: str) -> Any:
        """The array, or None where the file has no such key."""
        return self.get(key)


@functools.cache
def _load(file: str) -> dict[str, np.ndarray]:
    with np.load(_FOLDER / f"{file}.npz", allow_pickle=False) as data:
        return dict(data)


def load(file: str, prefix: str = "") -> list[Case]:
    """All cases of `tests/golden/<file>.npz` whose name starts with `prefix`.

    A key is `<case>.<in|out|...>.<rest>`; the case name itself may hold dots
    (`acme_tf.base`), so it ends at the first part that is a section name.
    """
    sections = {"in", "out", "config", "weights"}
    cases: dict[str, Case] = {}
    for key, value in _load(file).items():
        parts = key.split(".")
        cut = next(i for i, part in enumerate(parts) if part in sections)
        name = ".".join(parts[:cut])
        if name.startswith(prefix):
            case = cases.setdefault(name, Case())
            case.name = name
            case[".".join(parts[cut:])] = value
    assert cases, f"no case of {file} starts with {prefix!r}"
    return list(cases.values())


def ids(case: Case) -> str:
    """Test id of a case."""
    return case.name


def assert_close(
    actual: Any, expected: Any, rtol: float, atol: float, scaled: bool = False
) -> None:
    """`np.testing.assert_allclose`, with `atol` scaled by max(1, largest magnitude) if `scaled`."""
    expected = np.asarray(expected)
    if scaled:
        finite = np.abs(expected[np.isfinite(expected)])
        atol = atol * max(1.0, float(finite.max(initial=0.0)))
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=rtol, atol=atol)
