"""Small recorded episodes."""

from __future__ import annotations

import numpy as np

from tfagents_x import datasets, specs, types

SPEC = specs.EnvironmentSpec(
    observations={"place": specs.Array((2,), np.float32), "pixel": specs.Array((), np.uint8)},
    actions=specs.BoundedArray((1,), np.float32, -1.0, 1.0),
    rewards=specs.Array((), np.float64),
    discounts=specs.BoundedArray((), np.float64, 0.0, 1.0),
)
EMPTY = datasets.Manifest("nowhere:", SPEC)


def episode(number, steps):
    """Every leaf tells the episode's number and the row."""
    rows = np.arange(steps + 1)
    value = (100 * number + rows).astype(np.float32)
    followed = (rows < steps).astype(np.float32)
    return types.Step(
        observation={"place": np.stack([value, -value], 1), "pixel": rows.astype(np.uint8)},
        action=(0.001 * value * followed)[:, None],
        reward=value * followed,
        discount=followed,
        start_of_episode=rows == 0,
    )


def write(folder, lengths=(3, 1, 4), manifest=EMPTY, first=0, **kwargs):
    writer = datasets.EpisodeWriter(folder, manifest, **kwargs)
    for number, steps in enumerate(lengths, first):
        writer.write(episode(number, steps))
    writer.close()
    return writer.manifest
