"""The code in docs/replay.md runs as written."""

from __future__ import annotations

import pathlib
import re

DOCS = pathlib.Path(__file__).parents[2] / "docs" / "replay.md"


def test_the_code_blocks_run_in_order():
    blocks = re.findall(r"^```python\n(.*?)^```", DOCS.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 8
    namespace: dict = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{DOCS.name}, block {number}", "exec"), namespace)
