"""`replay.json`: says which store wrote a saved replay, and of which configuration."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any, Optional

from tfagents_x.replay import rows
from tfagents_x.replay import tables as tables_lib

FILE = "replay.json"
_VERSION = 1


def prepare(directory: str) -> None:
    """Makes `directory`.

    Raises:
      ValueError: it holds a saved replay already.
    """
    os.makedirs(directory, exist_ok=True)
    if os.path.exists(os.path.join(directory, FILE)):
        raise ValueError(f"{directory} holds a saved replay already: choose another directory")


def write(
    directory: str,
    backend: str,
    tables: Sequence[tables_lib.Table],
    signature: rows.Signature,
    row_format: rows.RowFormat,
    extra: Optional[list] = None,
) -> None:
    """Writes the manifest, as the last file of a save: it marks the save as complete."""
    content = {
        "version": _VERSION,
        "backend": backend,
        **_describe(tables, signature, row_format),
        "extra": extra,
    }
    path = os.path.join(directory, FILE)
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
    os.replace(path + ".tmp", path)


def backend_of(directory: str) -> str:
    """Returns which store wrote `directory`: 'reverb' or 'in_process'.

    Raises:
      ValueError: there is no complete save.
    """
    return _load(directory)["backend"]


def read(
    directory: str,
    backend: str,
    tables: Sequence[tables_lib.Table],
    signature: rows.Signature,
    row_format: rows.RowFormat,
) -> Any:
    """Checks that `directory` was written by `backend` for this configuration. Returns `extra`.

    Raises:
      ValueError: no complete save, another store's, or another configuration's.
    """
    content = _load(directory)
    if content["backend"] != backend:
        raise ValueError(
            f"the replay in {directory} was saved by backend={content['backend']!r} and cannot "
            f"be restored by backend={backend!r}"
        )
    for name, wanted in _describe(tables, signature, row_format).items():
        if content[name] != wanted:
            raise ValueError(
                f"the replay in {directory} was saved with other {name}.\n"
                f"  saved: {content[name]}\n  now:   {wanted}"
            )
    return content["extra"]


def _load(directory: str) -> dict:
    path = os.path.join(directory, FILE)
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except FileNotFoundError:
        raise ValueError(f"{directory} holds no complete saved replay: {FILE} is missing") from None
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}): restore from an older save") from error
    if not isinstance(content, dict) or content.get("version") != _VERSION:
        raise ValueError(f"{path} is not a replay manifest of version {_VERSION}")
    return content


def _describe(
    tables: Sequence[tables_lib.Table], signature: rows.Signature, row_format: rows.RowFormat
) -> dict:
    leaves: list[list] = [
        [name, list(shape), dtype.str]
        for name, shape, dtype in zip(row_format.names, row_format.shapes, row_format.dtypes)
    ]
    # Through JSON and back, so that tuples compare as the lists they become there.
    return json.loads(
        json.dumps(
            {
                "tables": [dataclasses.asdict(table) for table in tables],
                "leaves": leaves,
                "items": {
                    "sequence_length": signature.sequence_length,
                    "transitions": signature.transitions,
                },
            }
        )
    )
