"""Networks of the R2D2 agent."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import networks, specs, types
from tfagents_x.agents.r2d2.config import R2D2Config

# No bound is that far away; where there is none, gymnasium may say 3.4e38.
_UNBOUNDED = 1e6


def make_network(spec: specs.EnvironmentSpec, config: R2D2Config) -> snt.DeepRNN:
    """Layers, LSTM and a duelling head; for images, the network of the paper.

    Args:
      spec: its actions must be a `DiscreteArray`. Observations may have any structure. In a
        `types.OAR`, the last action is fed as one-hot, and uint8 images get a
        `networks.R2D2AtariNetwork`, scaled to [0, 1].
      config: gives the widths.

    Returns:
      A recurrent core from observations to action values [B, A], without variables yet.

    Raises:
      ValueError: the action space isn't discrete, or images come without action and reward.
    """
    if not isinstance(spec.actions, specs.DiscreteArray):
        raise ValueError(
            f"R2D2 needs one discrete action, but this environment's is {spec.actions!r}. "
            "Choose an environment with a Discrete action space."
        )
    num_actions, observations = spec.actions.num_values, spec.observations
    if _is_image(observations):
        raise ValueError(
            "R2D2's network for images also takes the last action and reward. Let the environment "
            "show them: on the command line, put oar: before its name, as in --env oar:atari:Pong."
        )
    cores = [snt.LSTM(config.lstm_size)] if config.lstm_size else []
    if isinstance(observations, types.OAR) and _is_image(observations.observation):
        core = snt.DeepRNN([*cores, tf.identity])
        return snt.DeepRNN([_scale, networks.R2D2AtariNetwork(num_actions, core)])
    is_oar = isinstance(observations, types.OAR)
    torso = _make_torso(observations.observation if is_oar else observations, config)
    if is_oar:
        torso = networks.OAREmbedding(torso, num_actions)
    return snt.DeepRNN([torso, *cores, networks.DuellingMLP(num_actions, config.head_sizes)])


def _is_image(spec: Any) -> bool:
    return isinstance(spec, specs.Array) and spec.dtype == np.uint8 and len(spec.shape) == 3


def _scale(inputs: types.OAR) -> types.OAR:
    return inputs._replace(observation=tf.cast(inputs.observation, tf.float32) / 255.0)


def _make_torso(spec: types.NestedSpec, config: R2D2Config) -> snt.Module:
    layers: list = [_to_unit(spec), networks.ConcatObservation()]
    for size in config.hidden_sizes:
        layers += [snt.Linear(size), tf.nn.relu]
    return snt.Sequential(layers)


def _to_unit(spec: types.NestedSpec) -> Callable[[types.NestedTensor], types.NestedTensor]:
    """Scales floats with finite bounds to [-1, 1]; leaves what else there is as it is.

    What must be remembered is often a small difference: CartPole's pole falls at an angle of 0.2,
    and moves by some thousandths in a step.
    """
    return lambda observation: tree.map_structure(_leaf_to_unit, observation, spec)


def _leaf_to_unit(value: tf.Tensor, spec: specs.Array) -> tf.Tensor:
    if not (isinstance(spec, specs.BoundedArray) and np.issubdtype(spec.dtype, np.floating)):
        return value
    bounds = (np.clip(x, -_UNBOUNDED, _UNBOUNDED) for x in (spec.minimum, spec.maximum))
    low, high = (np.broadcast_to(x, spec.shape).astype(np.float64) for x in bounds)
    bounded = (low < high) & (low > -_UNBOUNDED) & (high < _UNBOUNDED)
    middle = np.where(bounded, (low + high) / 2, 0.0).astype(spec.dtype)
    half = np.where(bounded, (high - low) / 2, 1.0).astype(spec.dtype)
    return (value - middle) / half
