"""The IMPALA agent's parts: config, network, replay, and errors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.agents import impala_parts
from tfagents_x import specs
from tfagents_x.agents import registry
from tfagents_x.agents.impala import IMPALABuilder, IMPALAConfig
from tfagents_x.utils import nest


def test_registry_names_the_nearest():
    assert registry.get_builder("impala") is IMPALABuilder
    with pytest.raises(ValueError, match="Unknown agent 'impalla'.*'impala'"):
        registry.get_builder("impalla")


@pytest.mark.parametrize(
    "bad",
    [
        {"batch_size": 0},
        {"sequence_length": 1},
        {"sequence_period": 0},
        {"max_queue_size": 0},
        {"learning_rate": 0.0},
        {"lstm_size": -1},
        {"hidden_sizes": (8, 0)},
        {"head_sizes": (0,)},
        {"learning_rate": float("inf")},
        {"learning_rate": float("nan")},
        {"learning_rate_decay_updates": 0},
        {"learning_rate_final_fraction": 1.5},
        {"discount": 2.0},
        {"adam_beta1": 1.0},
        {"adam_beta2": -1.0},
        {"adam_epsilon": float("nan")},
        {"entropy_cost": float("nan")},
        {"baseline_cost": -1.0},
        {"max_gradient_norm": -1.0},
        {"max_abs_reward": 0.0},
        {"max_abs_reward": float("nan")},
        {"value_scale": 0.0},
    ],
)
def test_bad_configs_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        IMPALAConfig(**bad)


def test_continuous_actions_are_refused():
    spec = impala_parts.make_builder().spec
    spec = spec._replace(actions=specs.BoundedArray((1,), np.float32, -1.0, 1.0))
    with pytest.raises(ValueError, match="discrete action.*BoundedArray"):
        IMPALABuilder(IMPALAConfig(), spec).make_networks()


def test_a_config_of_another_agent_is_refused():
    with pytest.raises(TypeError, match="IMPALAConfig.*dict"):
        IMPALABuilder({}, impala_parts.make_builder().spec)


@pytest.mark.parametrize(("lstm_size", "variables"), [(4, 9), (0, 6)])
def test_network_with_and_without_core(lstm_size, variables):
    builder = impala_parts.make_builder(lstm_size=lstm_size)
    network = builder.make_networks()["network"]
    assert len(nest.variables_of(network)) == variables
    assert len(network.initial_state(1)) == (1 if lstm_size else 0)


def test_a_queue_smaller_than_a_batch_is_refused(tmp_path):
    with pytest.raises(ValueError, match="batch"):
        impala_parts.make_training(tmp_path / "run", max_queue_size=1)
