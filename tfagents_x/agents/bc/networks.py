"""The network of the BC agent."""

from __future__ import annotations

import sonnet as snt

from tfagents_x import networks, specs
from tfagents_x.agents import continuous
from tfagents_x.agents.bc.config import BCConfig


def is_discrete(spec: specs.EnvironmentSpec) -> bool:
    """Whether there is one discrete action."""
    return isinstance(spec.actions, specs.DiscreteArray)


def make_network(spec: specs.EnvironmentSpec, config: BCConfig) -> snt.Module:
    """Layers and a head, for observations of any structure (`acme.agents.jax.bc`, agent_test).

    Args:
      spec: its actions must be a `DiscreteArray`, or a `BoundedArray` of shape [A] with finite
        bounds.
      config: gives widths and scales.

    Returns:
      A module without variables yet, from observations to logits [B, actions], or to a
      `tfd.MultivariateNormalDiag` whose mean lies in the range of the actions.

    Raises:
      ValueError: the actions are neither.
    """
    if is_discrete(spec):
        mlp = snt.nets.MLP([*config.hidden_sizes, spec.actions.num_values])
        return snt.Sequential([networks.ConcatObservation(), mlp], name="policy")
    continuous.check_actions("BC", spec.actions, or_discrete=True)
    head = networks.MultivariateNormalDiagHead(
        spec.actions.shape[0],
        init_scale=config.init_scale,
        min_scale=config.min_scale,
        tanh_mean=True,
    )
    layers = [
        networks.ConcatObservation(),
        networks.LayerNormMLP(config.hidden_sizes, activate_final=True),
        head,
        continuous.ActionRange(spec.actions),
    ]
    return snt.Sequential(layers, name="policy")
