"""The tiny recurrent network of the learner golden files, and their batches."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import sonnet as snt
import tensorflow as tf

from tests.golden_cases import Case
from tfagents_x import specs, types


class PolicyValue(snt.Module):
    """Two linear heads on the core's output: logits [B, A] and value [B]."""

    def __init__(self, num_actions: int):
        super().__init__()
        self.policy = snt.Linear(num_actions)
        self.value = snt.Linear(1)

    def __call__(self, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return self.policy(x), tf.squeeze(self.value(x), -1)


class GoldenNetwork:
    """`snt.DeepRNN([core, head])` whose variables carry the golden notes' short names."""

    def __init__(self, weights: dict[str, np.ndarray]):
        hidden, actions = weights["Wl"].shape
        core, head = snt.VanillaRNN(hidden), PolicyValue(actions)
        self.network = snt.DeepRNN([core, head])
        batch = tf.zeros([1, weights["Wx"].shape[0]])
        self.network(batch, self.network.initial_state(1))
        (bias,) = [v for v in core.variables if v.shape.rank == 1]
        self.variables = {
            "Wx": core.input_to_hidden,
            "Wh": core.hidden_to_hidden,
            "b": bias,
            "Wl": head.policy.w,
            "bl": head.policy.b,
            "Wv": head.value.w,
            "bv": head.value.b,
        }
        for name, variable in self.variables.items():
            variable.assign(weights[name])

    def name_of(self, variable: tf.Variable) -> str:
        """The golden name of one of the network's variables."""
        return next(k for k, v in self.variables.items() if v is variable)


def config(case: Case) -> dict[str, Any]:
    """The case's hyper-parameters."""
    return json.loads(str(case["config"]))


def environment_spec(case: Case) -> specs.EnvironmentSpec:
    """Specs of the environment that the case's data would come from."""
    features = case["in.observation"].shape[-1]
    return specs.EnvironmentSpec(
        observations=specs.Array((features,), np.float32),
        actions=specs.DiscreteArray(case["in.logits"].shape[-1]),
        rewards=specs.Array((), np.float32),
        discounts=specs.BoundedArray((), np.float32, 0.0, 1.0),
    )


def batches(case: Case) -> list[types.ReplaySample]:
    """The case's batches, one for each update."""
    info = case.under("in.info")
    return [
        types.ReplaySample(
            info=types.SampleInfo(**{k: v[i] for k, v in info.items()}),
            data=types.Step(
                observation=case["in.observation"][i],
                action=case["in.action"][i],
                reward=case["in.reward"][i],
                discount=case["in.discount"][i],
                start_of_episode=case["in.start_of_episode"][i],
                extras={
                    "core_state": (case["in.core_state"][i],),
                    "logits": case["in.logits"][i],
                },
            ),
        )
        for i in range(len(case["in.observation"]))
    ]
