"""DreamerV3 as a benchmark case, at size XS with vector observations.

There is no reference row: the source needs a minute and more for its first step, 5 core-seconds
an update and 10 GB.
"""

from __future__ import annotations

import itertools
from typing import Any, Callable

import numpy as np

from tfagents_x import specs
from tfagents_x.learners.dreamer_v3 import DreamerV3Learner
from tfagents_x.networks import dreamer
from tfagents_x.utils import loggers

Step = Callable[[], Any]
FEATURES, ACTIONS, HORIZON = 24, 6, 15
SIZE = dreamer.MODEL_SIZES["XS"]


def make(batch: int, length: int, discrete: bool) -> Step:
    """Our learner, fed with the same batch again and again."""
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.normal(size=(batch, length, *shape)).astype(np.float32)
    flags = np.zeros((batch, length), bool)
    actions: Any = specs.DiscreteArray(ACTIONS) if discrete else specs.Array((ACTIONS,), np.float32)
    model = dreamer.DreamerModel(specs.Array((FEATURES,), np.float32), actions, SIZE)
    chosen = rng.integers(ACTIONS, size=(batch, length)).astype(np.int32)
    data = {
        "obs": normal(FEATURES),
        "actions": chosen if discrete else np.tanh(normal(ACTIONS)),
        "rewards": normal(),
        "is_first": flags | (np.arange(length) == 0),
        "is_last": flags,
        "is_terminated": flags,
    }
    learner = DreamerV3Learner(model, itertools.repeat(data), logger=loggers.NoOpLogger(), seed=0)
    return lambda: {k: v.numpy() for k, v in learner.step().items()}


def flops(batch: int, length: int, discrete: bool) -> float:
    """Products of one update that can't be done without."""
    units, width, latent = SIZE.units, SIZE.gru_units, SIZE.categoricals * SIZE.classes
    state, rows = width + latent, batch * length
    head = lambda outputs: units * (state + outputs)
    heads = {"decoder": head(FEATURES), "reward": head(255), "continue": head(1)}
    prior = units * (width + latent)
    step = (latent + ACTIONS) * units + 6 * units * width + prior  # Pre-GRU, GRU, prior
    model = units * (FEATURES + units) + step + prior + sum(heads.values())
    actor = head(ACTIONS) * (1 if discrete else 2)
    dreamed = step + heads["reward"] + heads["continue"] + 2 * head(255)
    # The critic's and the actor's weights, and for continuous actions also the way back.
    learnt = dreamed + head(255) + 2 * actor
    learnt += 0 if discrete else step + heads["reward"] + head(255)
    return 2.0 * rows * (3 * model + HORIZON * learnt)
