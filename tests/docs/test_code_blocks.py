"""Every Python block of the README and of docs/ runs as it is written."""

from __future__ import annotations

import pathlib
import re

import pytest

from tfagents_x import replay

ROOT = pathlib.Path(__file__).parents[2]
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_CODE = [file for file in FILES if "```python" in file.read_text()]
LINKS = re.compile(r"\]\((?!https?:)([^)#]+)\)")


@pytest.mark.parametrize("file", WITH_CODE, ids=lambda file: file.name)
def test_python_blocks_run_in_order(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", file.read_text(), flags=re.DOTALL)
    namespace: dict = {"__name__": "docs"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{file.name}, block {number + 1}", "exec"), namespace)
    for value in namespace.values():
        if isinstance(value, replay.Replay):
            value.close()


def test_there_is_code_to_run():
    assert {"README.md", "replay.md"} <= {file.name for file in WITH_CODE}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_links_lead_somewhere(file):
    missing = [t for t in LINKS.findall(file.read_text()) if not (file.parent / t).exists()]
    assert not missing
