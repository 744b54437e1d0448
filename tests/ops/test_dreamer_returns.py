"""Value targets of DreamerV3 against RLlib."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest

from tests import golden_cases
from tests.ops import modes
from tfagents_x.ops import returns

F32 = np.float32


def dream(num_rows=7):
    rng = np.random.default_rng(num_rows)
    shape = (num_rows, 3)
    return {
        "rewards": rng.normal(size=shape).astype(F32),
        "continues": (rng.uniform(size=shape) > 0.2).astype(F32),
        "values": rng.normal(size=shape).astype(F32),
    }


@functools.cache
def dreamer(gamma, gae_lambda):
    @modes.with_gradients(grad=["product"])
    def fn(cotangent, **inputs):
        targets = returns.dreamer_lambda_returns(**inputs, gamma=gamma, gae_lambda=gae_lambda)
        return {"targets": targets, "product": targets * cotangent}

    return fn


@modes.all_modes
@pytest.mark.parametrize(
    "case", golden_cases.load("learner_dreamerv3", "value_targets"), ids=golden_cases.ids
)
def test_dreamer_lambda_returns(case, mode):
    config = json.loads(str(case["config"]))
    inputs = case.under("in")
    outputs, gradients = modes.run(mode, dreamer(config["gamma"], config["gae_lambda"]), inputs)
    golden_cases.assert_close(outputs["targets"], case["out.targets"], rtol=1e-5, atol=1e-5)
    expected = case.under("out.grad.targets")
    assert set(expected) == set(inputs) - {"cotangent"}
    for name, value in expected.items():
        golden_cases.assert_close(gradients["grad"][name], value, rtol=1e-4, atol=1e-6)


def dreamer_written_out(rewards, continues, values, gamma, gae_lambda):
    target, rows = values[-1], []
    for t in range(len(rewards) - 2, -1, -1):
        mixed = (1 - gae_lambda) * values[t + 1] + gae_lambda * target
        target = rewards[t + 1] + gamma * continues[t + 1] * mixed
        rows.insert(0, target)
    return np.stack(rows)


@pytest.mark.parametrize("num_rows", [2, 3, 16])
def test_dreamer_recursion(num_rows):
    expected = dreamer_written_out(**dream(num_rows), gamma=0.9, gae_lambda=0.8)
    actual = returns.dreamer_lambda_returns(*dream(num_rows).values(), 0.9, 0.8)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_dreamer_defaults_are_those_of_rllib():
    expected = dreamer_written_out(**dream(), gamma=0.997, gae_lambda=0.95)
    actual = returns.dreamer_lambda_returns(**dream())
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


BAD_DREAMS = {
    "one row": (
        dict.fromkeys(("rewards", "continues", "values"), np.ones((1, 3), F32)),
        ValueError,
        r"have shape \(1, 3\), but need at least 2 rows",
    ),
    "shape": ({"values": np.ones((6, 3), F32)}, ValueError, r"values has shape \(6, 3\)"),
    "flags": ({"continues": np.ones((7, 3), bool)}, TypeError, "continues is bool"),
    "gamma": ({"gamma": 1.1}, ValueError, "gamma is 1.1, but must be from 0 to 1"),
    "lambda": ({"gae_lambda": -1.0}, ValueError, "gae_lambda is -1, but must be from 0 to 1"),
    "text": ({"gamma": "x"}, TypeError, "gamma is 'x', but must be a number"),
    "intrinsic": (
        {"intrinsic_rewards": np.ones((7, 3), F32)},
        ValueError,
        r"intrinsic_rewards has shape \(7, 3\), but must have \(6, 3\)",
    ),
}


@pytest.mark.parametrize("name", BAD_DREAMS)
def test_bad_dream(name):
    changes, error, message = BAD_DREAMS[name]
    with pytest.raises(error, match=message):
        returns.dreamer_lambda_returns(**{**dream(), **changes})
