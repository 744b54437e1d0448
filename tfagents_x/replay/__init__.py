"""Replay: tables, two stores behind one interface, and the adders that fill them.

Importing this imports neither Reverb nor TensorFlow.
"""

from tfagents_x.replay.adders import (
    Adder,
    EndBehavior,
    NStepTransitionAdder,
    SequenceAdder,
)
from tfagents_x.replay.base import Replay
from tfagents_x.replay.errors import ReplayClosed, ReplayFull, ReplayStarved, ReplayTimeout
from tfagents_x.replay.factory import make_replay, reverb_available
from tfagents_x.replay.rows import Signature, sequence_signature, transition_signature
from tfagents_x.replay.tables import (
    DEFAULT_TABLE,
    Table,
    check_feasible,
    prioritized,
    queue,
    uniform,
)
from tfagents_x.replay.writer import Writer

__all__ = [
    "DEFAULT_TABLE",
    "Adder",
    "EndBehavior",
    "NStepTransitionAdder",
    "Replay",
    "ReplayClosed",
    "ReplayFull",
    "ReplayStarved",
    "ReplayTimeout",
    "SequenceAdder",
    "Signature",
    "Table",
    "Writer",
    "check_feasible",
    "make_replay",
    "prioritized",
    "queue",
    "reverb_available",
    "sequence_signature",
    "transition_signature",
    "uniform",
]
