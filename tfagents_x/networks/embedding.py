"""Observation, last action and last reward as one vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import sonnet as snt
import tensorflow as tf

from tfagents_x import types
from tfagents_x.networks import checks
from tfagents_x.ops import checks as ops_checks


class OAREmbedding(snt.Module):
    """Concatenates `torso(observation)`, the one-hot action and tanh(reward).

    Acme's `OAREmbedding`, the input of recurrent Atari networks.
    """

    def __init__(self, torso: Callable[[Any], tf.Tensor], num_actions: int):
        """Takes the torso.

        Args:
          torso: module or function from observations to features [B, D].
          num_actions: number A of discrete actions.

        Raises:
          TypeError: `torso` can't be called.
          ValueError: `num_actions` is not positive.
        """
        super().__init__(name="oar_embedding")
        if not callable(torso):
            raise TypeError(f"torso must be a module or function, got a {type(torso).__name__}.")
        self._num_actions = checks.size("num_actions", num_actions)
        self._torso = torso

    def __call__(self, inputs: types.OAR) -> tf.Tensor:
        """Embeds a batch.

        Args:
          inputs: any named tuple with the fields of `types.OAR`: `observation` nest [B, ...],
            `action` [B] integer, `reward` [B] or [B, 1].

        Returns:
          [B, D + A + 1] of the features' dtype. An action outside of 0 ... A - 1 is all 0.

        Raises:
          TypeError: `inputs` lack a field, or the action is no integer.
          ValueError: the shapes don't fit.
        """
        observation, action, reward = _fields(inputs)
        features = checks.features("OAREmbedding (after its torso)", self._torso(observation))
        one_hot = tf.one_hot(action, self._num_actions, dtype=features.dtype)
        squashed = tf.nn.tanh(tf.cast(_column(reward, action), features.dtype))
        parts = {"features": features, "one-hot action": one_hot, "reward": squashed}
        _check_leading(parts)
        return tf.concat(list(parts.values()), axis=-1)


def _fields(inputs: Any) -> Sequence[Any]:
    """Observation, action (int32) and reward."""
    try:
        observation, action, reward = inputs.observation, inputs.action, inputs.reward
    except AttributeError:
        raise TypeError(
            f"OAREmbedding needs a types.OAR(observation, action, reward), got {type(inputs)}: "
            "let the environment put the last action and reward into its observations."
        ) from None
    action = ops_checks.tensor("the action of OAREmbedding", action)
    if not action.dtype.is_integer:
        raise TypeError(
            f"OAREmbedding needs the index of a discrete action, got {action.dtype.name}: "
            "pass int32 of shape [B]."
        )
    return observation, tf.cast(action, tf.int32), _numbers(reward)


def _numbers(reward: Any) -> tf.Tensor:
    reward = ops_checks.tensor("the reward of OAREmbedding", reward)
    if not (reward.dtype.is_floating or reward.dtype.is_integer):
        raise TypeError(f"The reward of OAREmbedding is {reward.dtype.name}: pass floats.")
    return reward


def _column(reward: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """[B] -> [B, 1]; [B, 1] stays."""
    if reward.shape.rank == action.shape.rank:
        reward = tf.expand_dims(reward, axis=-1)
    if reward.shape.rank != action.shape.rank + 1 or reward.shape[-1] != 1:
        raise ValueError(
            f"OAREmbedding needs one reward for each action, got rewards of shape {reward.shape} "
            f"for actions of shape {action.shape}: pass actions [B], and rewards [B] or [B, 1]."
        )
    return reward


def _check_leading(parts: dict[str, tf.Tensor]) -> None:
    leading = [tensor.shape[:-1] for tensor in parts.values()]
    if not all(shape.is_compatible_with(leading[0]) for shape in leading):
        raise ValueError(
            "OAREmbedding needs features, actions and rewards of the same batch, got "
            f"{ ({name: tuple(tensor.shape) for name, tensor in parts.items()}) }."
        )
