"""Recorded episodes on disk: how they are written, read, and cut into batches.

`docs/datasets.md` describes the files, which plain `tf.data` reads, and those of other
libraries that are read too.
"""

from tfagents_x.datasets.episodes import EpisodeWriter, load, read
from tfagents_x.datasets.manifest import Manifest
from tfagents_x.datasets.recorded import Recorded, load_any
from tfagents_x.datasets.sampling import Batches, Sequences, Transitions

__all__ = [
    "Batches",
    "EpisodeWriter",
    "Manifest",
    "Recorded",
    "Sequences",
    "Transitions",
    "load",
    "load_any",
    "read",
]
