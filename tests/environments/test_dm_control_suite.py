"""Tasks of the dm_control suite: of a stand-in everywhere, and of the real one where it installs.

`all` has it for Python 3.11 and 3.12 on Linux x86-64.
"""

from __future__ import annotations

import collections
import importlib.util
import sys
import types

import dm_env
import numpy as np
import pytest
import tree

from tfagents_x import environments, specs
from tfagents_x.environments import checks

installed = pytest.mark.skipif(
    importlib.util.find_spec("dm_control") is None, reason="dm_control has no wheels here"
)


class Suite:
    """Looks like an environment of the suite: float64, ordered dictionaries, `task.random`."""

    def __init__(self, **task_kwargs):
        self.task = types.SimpleNamespace(random=np.random.RandomState(task_kwargs.get("random")))
        self.actions = []
        self._state = np.zeros(2)

    def reset(self):
        self._state[:] = self.task.random.uniform(size=2)
        return dm_env.restart(self._observation())

    def step(self, action):
        assert action.dtype == np.float64
        self.actions.append(action)
        self._state += 1
        end = dm_env.truncation if len(self.actions) % 3 == 0 else dm_env.transition
        return end(np.float64(0.1), self._observation(), 1.0)

    def _observation(self):
        return collections.OrderedDict(z=self._state, a=np.int32(3), height=0.1)

    def observation_spec(self):
        return collections.OrderedDict(
            z=specs.Array((2,), np.float64, "z"),
            a=specs.Array((), np.int32, "a"),
            height=specs.BoundedArray((), np.float64, 0.0, 2.0, "height"),
        )

    def action_spec(self):
        return specs.BoundedArray((1,), np.float64, -0.1, 0.1)

    def close(self):
        self.closed = True


@pytest.fixture
def loaded(monkeypatch):
    """The stand-in as `dm_control.suite`; what was loaded."""
    calls = []

    def load(domain, task, task_kwargs, **options):
        calls.append((domain, task, task_kwargs, options))
        return Suite(**task_kwargs)

    suite = types.ModuleType("dm_control.suite")
    suite.ALL_TASKS = (("ball_in_cup", "catch"), ("cartpole", "swingup_sparse"))
    suite.load = load
    monkeypatch.setitem(sys.modules, "dm_control", types.ModuleType("dm_control"))
    monkeypatch.setitem(sys.modules, "dm_control.suite", suite)
    return calls


def test_names(loaded):
    environments.make_environment("dm_control:ball_in_cup-catch", task_kwargs={"random": 5})
    environments.make_environment("dm_control:cartpole-swingup_sparse", environment_kwargs={})
    assert loaded == [
        ("ball_in_cup", "catch", {"random": 5}, {}),
        ("cartpole", "swingup_sparse", {"random": 0}, {"environment_kwargs": {}}),
    ]


@pytest.mark.parametrize("name", ["cartpole", "cartpole-swingup", "Cartpole-Swingup_sparse", ""])
def test_unknown_tasks_get_the_nearest(loaded, name):
    with pytest.raises(ValueError, match=r"has no task .* DOMAIN-TASK") as caught:
        environments.make_environment(f"dm_control:{name}")
    assert ("Nearest: cartpole-swingup_sparse" in str(caught.value)) == bool(name)


def test_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "dm_control.suite", None)
    with pytest.raises(ImportError, match=r"pip install 'tfagents_x\[dm_control\]'"):
        environments.make_environment("dm_control:cartpole-swingup")


@pytest.mark.parametrize("env", [object(), types.SimpleNamespace(task=None)])
def test_other_environments_are_refused(env):
    with pytest.raises(TypeError, match="environment of dm_control.suite, .*make_environment"):
        environments.DMControlWrapper(env)


def test_specs_are_32_bit_and_plain():
    environment = environments.DMControlWrapper(Suite())
    spec = environment.observation_spec()
    assert type(spec) is dict
    assert {k: s.dtype for k, s in spec.items()} == {
        "z": np.float32,
        "a": np.int32,
        "height": np.float32,
    }
    assert spec["height"].maximum == 2.0
    action = environment.action_spec()
    assert action.dtype == np.float32
    # No float32 action within the bounds is outside of the task's.
    assert np.float64(action.maximum) <= 0.1 and np.float64(action.minimum) >= -0.1
    assert specs.make_environment_spec(environment).rewards.dtype == np.float32


def test_values_fit_the_specs_and_are_copies():
    suite = Suite()
    environment = environments.DMControlWrapper(suite)
    timestep = environment.reset()
    checks.check_observation(timestep.observation, environment.observation_spec(), 0)
    assert type(timestep.observation) is dict and timestep.reward is None
    before = tree.map_structure(np.copy, timestep.observation)
    following = environment.step(np.array([0.05], np.float32))
    tree.map_structure(np.testing.assert_array_equal, timestep.observation, before)
    assert following.reward.dtype == following.discount.dtype == np.float32
    environment.step(np.array([5.0], np.float32))  # The physics judges its own bounds.
    last = environment.step(np.zeros(1, np.float32))
    assert last.last() and last.discount == 1.0
    environment.close()
    assert suite.closed


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.zeros(2, np.float32), "action must have shape"),
        (np.array(["x"]), "action must have shape"),
        (np.array([np.nan]), "action is not finite"),
    ],
)
def test_bad_actions(action, message):
    environment = environments.DMControlWrapper(Suite())
    environment.reset()
    with pytest.raises(ValueError, match=message):
        environment.step(action)


# The real one.


def _episode(environment, seed, steps=20):
    environment.seed_episode(seed)
    rng, seen = np.random.default_rng(0), [environment.reset()]
    for _ in range(steps):
        seen.append(environment.step(rng.uniform(-1, 1, [1]).astype(np.float32)))
    return [(t.reward, t.discount, t.observation) for t in seen[1:]]


@installed
def test_episodes_depend_on_their_seed_alone(recwarn):
    environment = environments.make_environment("dm_control:cartpole-swingup")
    first = _episode(environment, 3)
    other = _episode(environment, 4)
    again = _episode(environments.make_environment("dm_control:cartpole-swingup"), 3)
    for a, b in (first, again), (first, _episode(environment, 3)):
        tree.map_structure(np.testing.assert_array_equal, a, b)
    assert not np.array_equal(first[0][2]["position"], other[0][2]["position"])
    assert not [w for w in recwarn.list if "GLFW" in w.category.__name__]


@installed
def test_every_kind_of_task_fits_its_specs():
    for name in ("ball_in_cup-catch", "cheetah-run", "reacher-easy", "walker-walk"):
        environment = environments.make_environment(f"dm_control:{name}", seed=1)
        spec = specs.make_environment_spec(environment)
        timestep = environment.reset()
        checks.check_observation(timestep.observation, spec.observations, 0)
        timestep = environment.step(np.zeros(spec.actions.shape, np.float32))
        checks.check_observation(timestep.observation, spec.observations, 0)
        checks.check_finite(timestep, 0, 1)
        assert environment.environment.task.random is not None


@installed
def test_the_time_limit_is_no_failure():
    environment = environments.make_environment(
        "dm_control:cartpole-swingup", task_kwargs={"time_limit": 0.05}
    )
    timestep = environment.reset()
    while not timestep.last():
        timestep = environment.step(np.zeros(1, np.float32))
    assert timestep.discount == 1.0
    assert environment.step(np.zeros(1, np.float32)).first()


@installed
def test_unknown_tasks_of_the_real_suite():
    with pytest.raises(ValueError, match="Nearest: cartpole-swingup"):
        environments.make_environment("dm_control:cartpol-swingup")
