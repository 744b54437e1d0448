"""Makes the replay that this platform can have."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Optional

from tfagents_x.replay import base, in_process, manifest, rows
from tfagents_x.replay import tables as tables_lib

BACKENDS = ("auto", "reverb", "in_process")


@functools.cache
def _reverb_problem() -> Optional[str]:
    """Why Reverb cannot be imported, None if it can."""
    try:
        import reverb  # noqa: F401
    except ImportError as error:
        return _explain(error)
    return None


def _explain(error: ImportError) -> str:
    wanted = (
        "pip install 'tfagents_x[reverb]' installs it with the TensorFlow it needs "
        "(Linux x86-64, Python 3.9 to 3.11). Everywhere else use backend='in_process' "
        "(on the command line --replay in_process)."
    )
    if "undefined symbol" in str(error):
        return (
            "Reverb is installed beside a TensorFlow it was not built for: it needs "
            f"TensorFlow 2.15, newer ones have other symbols ({error}). {wanted}"
        )
    return f"Reverb cannot be imported ({error}). {wanted}"


def reverb_available() -> bool:
    """Whether Reverb can be imported here."""
    return _reverb_problem() is None


def make_replay(
    tables: Sequence[tables_lib.Table],
    signature: rows.Signature,
    backend: str = "auto",
    seed: int = 0,
    restore_from: Optional[str] = None,
) -> base.Replay:
    """Makes a store in this process.

    Args:
      tables: configuration of the tables.
      signature: type of the items, from `sequence_signature` or `transition_signature`.
      backend: 'reverb', 'in_process', or 'auto': the one that wrote `restore_from`, else
        Reverb where it can be imported and the in-process store elsewhere.
      seed: of the in-process store's selectors (Reverb's take none).
      restore_from: directory written by `Replay.save`. A store is restored when it is
        made, because a Reverb server can load nothing later.

    Raises:
      ValueError: unknown backend, bad tables, a damaged checkpoint or one of another
        configuration.
      ImportError: Reverb is asked for and cannot be imported; says what to install.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend is {backend!r}, must be one of {', '.join(BACKENDS)}")
    if backend == "auto":
        backend = _choose(restore_from)
    if backend == "in_process":
        return in_process.InProcessReplay(tables, signature, seed, restore_from)
    problem = _reverb_problem()
    if problem is not None:
        raise ImportError(problem)
    from tfagents_x.replay import reverb_replay

    return reverb_replay.ReverbReplay(tables, signature, restore_from)


def _choose(restore_from: Optional[str]) -> str:
    if restore_from is not None:
        return manifest.backend_of(restore_from)
    return "reverb" if reverb_available() else "in_process"
