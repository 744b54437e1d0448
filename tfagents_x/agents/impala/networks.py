"""Networks of the IMPALA agent."""

from __future__ import annotations

import sonnet as snt
import tensorflow as tf

from tfagents_x import specs
from tfagents_x.agents.impala.config import IMPALAConfig
from tfagents_x.networks import observations, policy_value


def make_network(spec: specs.EnvironmentSpec, config: IMPALAConfig) -> snt.DeepRNN:
    """Layers, LSTM, and a policy-value head, for observations of any structure.

    Args:
      spec: its action spec must be a `DiscreteArray`.
      config: gives the widths.

    Returns:
      A recurrent core from observations to `(logits [B, A], value [B])`, without variables yet.

    Raises:
      ValueError: the action space isn't discrete.
    """
    if not isinstance(spec.actions, specs.DiscreteArray):
        raise ValueError(
            f"IMPALA needs one discrete action, but this environment's is {spec.actions!r}. "
            "Choose an environment with a Discrete action space."
        )
    layers: list = [observations.ConcatObservation()]
    for size in config.hidden_sizes:
        layers += [snt.Linear(size), tf.nn.relu]
    if config.lstm_size:
        layers.append(snt.LSTM(config.lstm_size))
    layers.append(
        policy_value.PolicyValueHead(spec.actions.num_values, config.head_sizes, config.value_scale)
    )
    return snt.DeepRNN(layers)
