"""What agents see of Atari games, as gymnasium wrappers. Imports gymnasium and Pillow.

The numbers of Acme's `AtariWrapper`: Mnih et al., 2015, https://doi.org/10.1038/nature14236.
"""

from __future__ import annotations

import collections
from typing import Any, Optional

import gymnasium
import numpy as np
from PIL import Image

# Luma of ITU-R BT.601; the last one so that they sum to 1.
_GREY = np.array([0.299, 0.587, 1 - (0.299 + 0.587)])


def preprocess(
    env: gymnasium.Env,
    *,
    max_abs_reward: Optional[float] = None,
    scale_dims: tuple[int, int] = (84, 84),
    action_repeats: int = 4,
    pooled_frames: int = 2,
    num_stacked_frames: int = 4,
    max_episode_len: Optional[int] = None,
) -> gymnasium.Env:
    """Wraps an environment with RGB observations [H, W, 3] of uint8 in all of the below.

    Names and defaults are those of Acme's `AtariWrapper`.

    Args:
      env: acts one frame at a time; counts lives in `info['lives']`, if there are any.
      max_abs_reward: rewards, summed over the repeats, are clipped to +- this; None for none.
      scale_dims: height and width of the observations.
      action_repeats: see `ActionRepeat`.
      pooled_frames: see `ActionRepeat`.
      max_episode_len: see `ActionRepeat`.
      num_stacked_frames: see `StackedFrames`.

    Returns:
      An environment with observations [height, width, num_stacked_frames] of uint8.

    Raises:
      ValueError: a number is out of range, or the observations are no RGB images.
    """
    env = ActionRepeat(env, action_repeats, pooled_frames, max_episode_len)
    env = StackedFrames(GreyPixels(env, scale_dims), num_stacked_frames)
    if max_abs_reward is None:
        return env
    if not max_abs_reward > 0:
        raise ValueError(f"max_abs_reward must be positive, or None, got {max_abs_reward}.")
    return gymnasium.wrappers.ClipReward(env, -max_abs_reward, max_abs_reward)


class ActionRepeat(gymnasium.Wrapper):
    """Acts several times in a row; rewards are summed, the last frames pooled by their maximum.

    Old games draw some sprites in every other frame only. `info['life_lost']` says whether
    `info['lives']` fell on the way while the game went on.
    """

    def __init__(
        self,
        env: gymnasium.Env,
        action_repeats: int = 4,
        pooled_frames: int = 2,
        max_episode_len: Optional[int] = None,
    ):
        """Keeps the numbers.

        Args:
          env: as in `preprocess`.
          action_repeats: frames for each action; fewer where the episode ends.
          pooled_frames: how many of them are pooled.
          max_episode_len: frames after which an episode is truncated; None for no limit.

        Raises:
          ValueError: `pooled_frames` is not in 1 ... `action_repeats`, or no frame is allowed.
        """
        super().__init__(env)
        if not 1 <= pooled_frames <= action_repeats:
            raise ValueError(
                f"pooled_frames must be between 1 and action_repeats = {action_repeats}, got "
                f"{pooled_frames}."
            )
        if max_episode_len is not None and max_episode_len < 1:
            raise ValueError(f"max_episode_len must be at least 1, or None, got {max_episode_len}.")
        self._action_repeats = action_repeats
        self._pooled_frames = pooled_frames
        self._max_episode_len = max_episode_len
        self._num_frames = self._lives = 0

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Starts an episode."""
        observation, info = self.env.reset(**options)
        self._num_frames, self._lives = 0, info.get("lives", 0)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Acts up to `action_repeats` times."""
        frames: collections.deque = collections.deque(maxlen=self._pooled_frames)
        total, life_lost = 0.0, False
        for _ in range(self._action_repeats):
            frame, reward, terminated, truncated, info = self.env.step(action)
            self._num_frames += 1
            truncated = bool(truncated) or self._num_frames == self._max_episode_len
            frames.append(frame)
            total += float(reward)
            ended = bool(terminated) or truncated
            life_lost |= self._lost_life(info) and not ended
            if ended:
                break
        pooled = np.max(np.stack(frames), axis=0)
        return pooled, total, bool(terminated), truncated, {**info, "life_lost": life_lost}

    def _lost_life(self, info: dict[str, Any]) -> bool:
        before, self._lives = self._lives, info.get("lives", 0)
        return self._lives < before


class GreyPixels(gymnasium.ObservationWrapper):
    """RGB images [H, W, 3] as grey ones, scaled down: [height, width] of uint8."""

    def __init__(self, env: gymnasium.Env, scale_dims: tuple[int, int] = (84, 84)):
        """Keeps height and width.

        Raises:
          ValueError: a size is not positive, or the observations are no RGB images.
        """
        super().__init__(env)
        space = env.observation_space
        shape = space.shape or ()
        if space.dtype != np.uint8 or len(shape) != 3 or shape[-1] != 3:
            raise ValueError(f"Observations must be uint8 images [H, W, 3], got {space}.")
        if len(scale_dims) != 2 or min(scale_dims) < 1:
            raise ValueError(f"scale_dims must be a positive height and width, got {scale_dims}.")
        self._dims = tuple(scale_dims)
        self.observation_space = gymnasium.spaces.Box(0, 255, self._dims, np.uint8)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Weighs the colours, rounds down, and resizes bilinearly."""
        grey = np.tensordot(observation, _GREY, (-1, 0)).astype(np.uint8)
        if grey.shape == self._dims:
            return grey
        height, width = self._dims
        resized = Image.fromarray(grey).resize((width, height), Image.Resampling.BILINEAR)
        return np.asarray(resized, np.uint8)


class StackedFrames(gymnasium.ObservationWrapper):
    """The latest observations along a new last axis, black ones before an episode's first."""

    def __init__(self, env: gymnasium.Env, num_stacked_frames: int = 4):
        """Keeps the number.

        Raises:
          ValueError: it is not positive.
        """
        super().__init__(env)
        if num_stacked_frames < 1:
            raise ValueError(f"num_stacked_frames must be at least 1, got {num_stacked_frames}.")
        space = env.observation_space
        assert isinstance(space, gymnasium.spaces.Box)
        repeat = lambda bound: np.stack([bound] * num_stacked_frames, axis=-1)
        low, high = repeat(space.low), repeat(space.high)
        self.observation_space = gymnasium.spaces.Box(low, high, dtype=space.dtype.type)
        self._blank = np.zeros(space.shape, space.dtype)
        self._frames: collections.deque = collections.deque(maxlen=num_stacked_frames)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Starts an episode."""
        self._frames.extend([self._blank] * (self._frames.maxlen or 0))
        return super().reset(**options)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Adds one, and stacks them, the newest last."""
        self._frames.append(observation)
        return np.stack(self._frames, axis=-1)
