"""The tiny recurrent Q-network of R2D2's golden file, and its batches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import sonnet as snt
import tensorflow as tf

from tests.golden_cases import Case
from tfagents_x import specs, types


class GoldenNetwork:
    """`snt.DeepRNN([core, head])` whose variables carry the golden notes' short names."""

    def __init__(self, weights: Mapping[str, np.ndarray]):
        hidden, actions = weights["Wq"].shape
        core, head = snt.VanillaRNN(hidden), snt.Linear(actions)
        self.module = snt.DeepRNN([core, head])
        self.module(tf.zeros([1, weights["Wx"].shape[0]]), self.module.initial_state(1))
        (bias,) = [v for v in core.variables if v.shape.rank == 1]
        self.variables = {
            "Wx": core.input_to_hidden,
            "Wh": core.hidden_to_hidden,
            "b": bias,
            "Wq": head.w,
            "bq": head.b,
        }
        for name, variable in self.variables.items():
            variable.assign(weights[name])

    def name_of(self, variable: tf.Variable) -> str:
        """The golden name of one of the network's variables."""
        return next(k for k, v in self.variables.items() if v is variable)


def config(case: Case) -> dict[str, Any]:
    """The case's hyper-parameters."""
    return json.loads(str(case["config"]))


def environment_spec(num_features: int = 3, num_actions: int = 4) -> specs.EnvironmentSpec:
    """Specs of the environment that the data would come from."""
    return specs.EnvironmentSpec(
        observations=specs.Array((num_features,), np.float32),
        actions=specs.DiscreteArray(num_actions),
        rewards=specs.Array((), np.float32),
        discounts=specs.BoundedArray((), np.float32, 0.0, 1.0),
    )


def batches(case: Case) -> list[types.ReplaySample]:
    """The case's batches, one for each update."""
    info = case.under("in.info")
    return [
        types.ReplaySample(
            info=types.SampleInfo(**{name: values[k] for name, values in info.items()}),
            data=types.Step(
                observation=case["in.observation"][k],
                action=case["in.action"][k],
                reward=case["in.reward"][k],
                discount=case["in.discount"][k],
                start_of_episode=case["in.start_of_episode"][k],
                extras={"core_state": (case["in.core_state"][k],)},
            ),
        )
        for k in range(len(case["in.observation"]))
    ]
