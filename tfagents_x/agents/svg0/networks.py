"""Networks of the SVG0 agent (`acme.agents.tf.svg0_prior.networks`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

import sonnet as snt
import tensorflow as tf

from tfagents_x import networks, specs, types
from tfagents_x.agents import continuous
from tfagents_x.agents.svg0.config import SVG0Config


class _Observation(snt.Module):
    """Some entries of an observation, or all, as one float32 vector [B, D]."""

    def __init__(self, keys: Optional[Sequence[str]]):
        super().__init__(name="observation")
        self._keys = keys
        self._concat = networks.ConcatObservation()

    def __call__(self, observation: types.NestedTensor) -> tf.Tensor:
        if self._keys is not None:
            observation = {key: observation[key] for key in self._keys}
        return self._concat(observation)


class _Scaled(snt.Module):
    """Multiplies by a constant."""

    def __init__(self, factor: float):
        super().__init__(name="scaled")
        self._factor = factor

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        return inputs * self._factor


def make_networks(spec: specs.EnvironmentSpec, config: SVG0Config) -> dict[str, snt.Module]:
    """Makes `policy` and `critic`, and with `use_prior` also `prior`.

    Policy and prior give a normal distribution whose mean lies in the range of the action
    space; the critic clips actions to it, as the environment does.

    Args:
      spec: its actions must be a `BoundedArray` of shape [A] with finite bounds.
      config: gives widths, scales, and the entries of the observation for each network.

    Returns:
      Modules without variables yet: from observations to a `tfd.MultivariateNormalDiag`, and
      `critic(observation, action) -> [B, 1]`.

    Raises:
      ValueError: the actions aren't continuous, bounded vectors, or the observation lacks a key.
    """
    continuous.check_actions("SVG0", spec.actions)
    result = {
        "policy": _make_policy(spec, config, "policy"),
        "critic": _make_critic(spec, config),
    }
    if config.use_prior:
        result["prior"] = _make_policy(spec, config, "prior")
    return result


def _make_policy(spec: specs.EnvironmentSpec, config: SVG0Config, name: str) -> snt.Module:
    head = networks.MultivariateNormalDiagHead(
        spec.actions.shape[0],
        init_scale=config.init_scale,
        min_scale=config.min_scale,
        tanh_mean=True,
    )
    layers = [
        _make_observation(spec, config, name),
        networks.LayerNormMLP(getattr(config, f"{name}_layer_sizes"), activate_final=True),
        head,
        continuous.ActionRange(spec.actions),
    ]
    return snt.Sequential(layers, name=name)


def _make_critic(spec: specs.EnvironmentSpec, config: SVG0Config) -> snt.Module:
    layers = [
        networks.LayerNormMLP(config.critic_layer_sizes, activate_final=True),
        networks.NearZeroInitializedLinear(1),
        _Scaled(config.value_scale),
    ]
    return networks.CriticMultiplexer(
        critic_network=snt.Sequential(layers),
        observation_network=_make_observation(spec, config, "critic"),
        action_network=networks.ClipToSpec(spec.actions),
    )


def _make_observation(spec: specs.EnvironmentSpec, config: SVG0Config, name: str) -> _Observation:
    keys = getattr(config, f"{name}_keys")
    if keys is not None:
        _check_keys(f"{name}_keys", keys, spec.observations)
    return _Observation(keys)


def _check_keys(name: str, keys: Sequence[str], observations: Any) -> None:
    if not isinstance(observations, Mapping):
        raise ValueError(
            f"{name} are {keys}, but the observations of this environment are no dictionary: "
            f"leave {name} out."
        )
    unknown = sorted(set(keys) - set(observations))
    if unknown or not keys:
        raise ValueError(
            f"{name} must be entries of the observation, {', '.join(sorted(observations))}, got "
            f"{', '.join(unknown) or 'none'}."
        )
