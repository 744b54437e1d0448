"""Small specs, rows and episodes for the replay tests."""

from __future__ import annotations

import dm_env
import numpy as np
from dm_env import specs as dm_specs

from tfagents_x import specs, types
from tfagents_x.replay import rows

SPEC = specs.EnvironmentSpec(
    observations={
        "pixels": dm_specs.Array((2, 2), np.uint8, name="pixels"),
        "position": dm_specs.Array((1,), np.float32, name="position"),
    },
    actions=dm_specs.DiscreteArray(5, dtype=np.int32),
    rewards=dm_specs.Array((), np.float64, name="reward"),
    discounts=dm_specs.BoundedArray((), np.float64, 0.0, 1.0, name="discount"),
)
EXTRAS = {"logits": dm_specs.Array((2,), np.float32, name="logits")}


def sequences(length=None):
    return rows.sequence_signature(SPEC, EXTRAS, length)


def transitions():
    return rows.transition_signature(SPEC, EXTRAS)


def observation(value):
    return {
        "pixels": np.full((2, 2), value, np.uint8),
        "position": np.array([value], np.float32),
    }


def extras(value):
    return {"logits": np.full(2, value / 64, np.float32)}


def step(value, start=False):
    """A row whose every leaf can be told from `value`."""
    return types.Step(observation(value), value % 5, value / 8, 1.0, start, extras(value))


def put(replay, table, values, priority=1.0, length=1):
    """Writes items of `length` rows that end at each of `values`."""
    writer = replay.writer(length)
    for value in values:
        for i in range(length):
            writer.append(step(value - length + 1 + i))
        writer.create_item(table, length, priority)
        writer.flush(timeout=0)
    writer.close()


def first_values(data):
    """The value that each sampled item's first row was made from."""
    position = data.observation["position"]
    return position.reshape(position.shape[0], -1)[:, 0].astype(int).tolist()


def run_episode(adder, values, end="termination", first_reward=1.0):
    """An episode that sees `values`; acting at the i-th gives reward `first_reward + i`.

    The action at observation `v` is `v % 5`, the extras are `extras(v)`.
    """
    adder.add_first(dm_env.restart(observation(values[0])))
    for i, (value, following) in enumerate(zip(values, values[1:])):
        make = dm_env.transition
        if i == len(values) - 2:
            make = {"termination": dm_env.termination, "truncation": dm_env.truncation}[end]
        timestep = make(reward=first_reward + i, observation=observation(following))
        adder.add(value % 5, timestep, extras(value))
