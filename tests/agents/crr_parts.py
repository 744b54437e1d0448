"""A tiny CRR agent, and episodes of the sled to learn from."""

from __future__ import annotations

import numpy as np

from tests.agents import svg0_parts
from tfagents_x import datasets, specs
from tfagents_x.agents import collection, offline_training, run_directory
from tfagents_x.agents.crr import CRRBuilder, CRRConfig

TINY = dict(
    batch_size=4,
    sequence_length=4,
    sequence_period=3,
    policy_layer_sizes=(8,),
    critic_layer_sizes=(8,),
    lstm_size=4,
    num_atoms=5,
    evaluation_period=4,
    evaluation_episodes=2,
)


def record(folder, episodes=5, environment=None, name="sled:"):
    """Episodes of random actions, recorded as `collect` does."""
    environment, rng = environment or svg0_parts.Sled(), np.random.default_rng(0)
    spec = specs.make_environment_spec(environment)
    low, high = spec.actions.minimum, spec.actions.maximum + (spec.actions.dtype.kind == "i")
    writer = datasets.EpisodeWriter(folder, datasets.Manifest(name, spec))
    recorder = collection.Recorder(writer)
    for number in range(episodes):
        environment.seed_episode(number)
        timestep = environment.reset()
        recorder.observe_first(environment, timestep)
        while not timestep.last():
            action = rng.uniform(low, high, spec.actions.shape).astype(spec.actions.dtype)
            timestep = environment.step(action)
            recorder.observe(environment, timestep, action)
    writer.close()
    return datasets.load(folder)


def make_builder(rows, **changes):
    config = CRRBuilder.fit(CRRConfig(**{**TINY, **changes}), rows)
    return CRRBuilder(config, specs.make_environment_spec(svg0_parts.Sled()))


def make_training(path, rows, environment="sled", fingerprint="a", changes=(), **options):
    path.mkdir(exist_ok=True)
    return offline_training.OfflineTraining(
        make_builder(rows, **dict(changes)),
        rows,
        run_directory.RunDirectory(path),
        environment=svg0_parts.Sled() if environment == "sled" else environment,
        fingerprint=fingerprint,
        **options,
    )
