"""Networks of the CRR agent."""

from __future__ import annotations

import sonnet as snt

from tfagents_x import networks, specs
from tfagents_x.agents import continuous
from tfagents_x.agents.crr.config import CRRConfig


def make_networks(spec: specs.EnvironmentSpec, config: CRRConfig) -> dict[str, snt.RNNCore]:
    """Makes `policy` and `critic`: layers, an LSTM, and a head.

    Args:
      spec: its actions must be a `BoundedArray` of shape [A] with finite bounds.
      config: gives widths, scales, and the support of the critic, which must be set.

    Returns:
      Cores without variables yet: from observations to a `tfd.MultivariateNormalDiag` whose mean
      lies in the range of the actions, and from observation and action (clipped to that range)
      to a `DiscreteValuedDistribution`.

    Raises:
      ValueError: the actions aren't continuous, bounded vectors, or the support isn't set.
    """
    continuous.check_actions("CRR", spec.actions)
    if config.value_min is None or config.value_max is None:
        raise ValueError(
            "value_min and value_max must be set before networks are made: give both, or let "
            "CRRBuilder.fit take them from the data."
        )
    return {"policy": _make_policy(spec, config), "critic": _make_critic(spec, config)}


def _make_policy(spec: specs.EnvironmentSpec, config: CRRConfig) -> snt.RNNCore:
    head = networks.MultivariateNormalDiagHead(
        spec.actions.shape[0],
        init_scale=config.init_scale,
        min_scale=config.min_scale,
        tanh_mean=True,
    )
    layers = [
        networks.ConcatObservation(),
        networks.LayerNormMLP(config.policy_layer_sizes, activate_final=True),
        snt.LSTM(config.lstm_size),
        head,
        continuous.ActionRange(spec.actions),
    ]
    return networks.DeepRNN(layers, name="policy")


def _make_critic(spec: specs.EnvironmentSpec, config: CRRConfig) -> snt.RNNCore:
    first = networks.CriticMultiplexer(
        critic_network=networks.LayerNormMLP(config.critic_layer_sizes, activate_final=True),
        observation_network=networks.ConcatObservation(),
        action_network=networks.ClipToSpec(spec.actions),
    )
    head = networks.DiscreteValuedHead(config.value_min, config.value_max, config.num_atoms)
    return networks.CriticDeepRNN([first, snt.LSTM(config.lstm_size), head], name="critic")
