"""What several parts need: nests, strategies, counting, loggers, checkpoints, snapshots.

The names of `acme.tf.utils` and of SVG0's utilities can be taken from here. They are
imported on first use, so that loggers and counters need no TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfagents_x.utils.modules import TransformationWrapper, to_sonnet_module
    from tfagents_x.utils.nest import (
        add_batch_dim,
        batch_concat,
        batch_to_sequence,
        create_variables,
        squeeze_batch_dim,
        tile_nested,
        tile_tensor,
        to_numpy,
        to_numpy_squeeze,
        zeros_like,
    )
    from tfagents_x.utils.pi_q import OnlineTargetPiQ
    from tfagents_x.utils.sequences import (
        batch_concat_selection,
        mask_out_restarting,
        static_rnn,
    )
    from tfagents_x.utils.snapshots import Snapshotter, make_snapshot

__all__ = [
    "OnlineTargetPiQ",
    "Snapshotter",
    "TransformationWrapper",
    "add_batch_dim",
    "batch_concat",
    "batch_concat_selection",
    "batch_to_sequence",
    "create_variables",
    "make_snapshot",
    "mask_out_restarting",
    "squeeze_batch_dim",
    "static_rnn",
    "tile_nested",
    "tile_tensor",
    "to_numpy",
    "to_numpy_squeeze",
    "to_sonnet_module",
    "zeros_like",
]

_NAMES = {
    "tfagents_x.utils.modules": ("TransformationWrapper", "to_sonnet_module"),
    "tfagents_x.utils.nest": (
        *("add_batch_dim", "batch_concat", "batch_to_sequence", "create_variables"),
        *("squeeze_batch_dim", "tile_nested", "tile_tensor", "to_numpy", "to_numpy_squeeze"),
        "zeros_like",
    ),
    "tfagents_x.utils.pi_q": ("OnlineTargetPiQ",),
    "tfagents_x.utils.sequences": (
        *("batch_concat_selection", "mask_out_restarting", "static_rnn"),
    ),
    "tfagents_x.utils.snapshots": ("Snapshotter", "make_snapshot"),
}
_SOURCES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Imports a name of `__all__` on its first use (PEP 562)."""
    if name not in _SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_SOURCES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_SOURCES})
