"""Seeds that make every episode a function of its index alone.

A run that is resumed at episode k then sees the same episodes k, k + 1, ... as a
run that was never interrupted, without saving the state of any generator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ENVIRONMENT_STREAM = 0
ACTOR_STREAM = 1

_METHOD = "seed_episode"


def derive_episode_seed(base_seed: int, episode: int, stream: int = ENVIRONMENT_STREAM) -> int:
    """Returns the seed of episode number `episode` (from 0) of a run seeded `base_seed`.

    Args:
      base_seed: seed of the run, an int >= 0.
      episode: index of the episode in the run, an int >= 0.
      stream: which of the episode's independent seeds, an int >= 0.

    Returns:
      An int in [0, 2**31), the range that every environment accepts.

    Raises:
      ValueError: an argument is not an int, or negative.
    """
    names = ("base_seed", "episode", "stream")
    entropy = [_checked(n, v) for n, v in zip(names, (base_seed, episode, stream))]
    # As spawn_key, not as entropy: entropy words are joined, so a base seed that takes two
    # words could meet a smaller one followed by an episode index.
    sequence = np.random.SeedSequence(entropy[0], spawn_key=tuple(entropy[1:]))
    return int(sequence.generate_state(1, np.uint32)[0]) >> 1


def seed_next_episode(environment: Any, seed: int) -> None:
    """Makes the next `environment.reset()` start from `seed`.

    Raises:
      ValueError: `environment` has no `seed_episode(seed)` method.
    """
    require_seedable(environment)
    getattr(environment, _METHOD)(seed)


def require_seedable(environment: Any) -> None:
    """Raises a ValueError if `environment` has no `seed_episode(seed)` method."""
    if not is_seedable(environment):
        raise ValueError(
            f"A seed was given, but {type(environment).__name__} has no method "
            "seed_episode(seed) that seeds its next reset(). Add one to the environment (or its "
            "wrapper), or leave the seed None."
        )


def is_seedable(thing: Any) -> bool:
    """Returns whether `thing` has a method `seed_episode`."""
    return callable(getattr(thing, _METHOD, None))


def _checked(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise ValueError(f"{name} must be an int of 0 or more, got {value!r}.")
    return int(value)
