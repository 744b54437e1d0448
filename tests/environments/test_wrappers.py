"""Environments that show some entries of an observation, or the last action and reward with it."""

from __future__ import annotations

import dm_env
import numpy as np
import pytest
import tree

from tests.environments.scripted import ScriptedEnvironment
from tfagents_x import environments, specs, types
from tfagents_x.environments import checks


class Vector(dm_env.Environment):
    """Observations are [t, t + 10, t + 20]; two steps an episode."""

    def __init__(self, spec=None):
        bounds = ([0.0, 10.0, 20.0], 100.0)
        self._spec = spec or specs.BoundedArray((3,), np.float32, *bounds, name="seen")
        self.closed = False

    def seed_episode(self, seed):
        self.seed = seed

    def reset(self):
        self.steps = 0
        return dm_env.restart(self._observation())

    def step(self, action):
        if self.steps == 2:
            return self.reset()
        self.steps += 1
        end = dm_env.truncation if self.steps == 2 else dm_env.transition
        return end(np.float32(self.steps), self._observation(), np.float32(1.0))

    def _observation(self):
        return np.arange(0, 30, 10, np.float32) + np.float32(self.steps)

    def observation_spec(self):
        return self._spec

    def action_spec(self):
        return specs.DiscreteArray(2)

    def close(self):
        self.closed = True


def fits(environment, timestep):
    checks.check_observation(timestep.observation, environment.observation_spec(), 0)
    return True


@pytest.mark.parametrize("entries", [(2, 0), ("2", " 0")])
def test_entries_of_a_vector(entries):
    inside = Vector()
    environment = environments.ObservationEntriesWrapper(inside, entries)
    spec = environment.observation_spec()
    assert isinstance(spec, specs.BoundedArray) and spec.name == "seen"
    np.testing.assert_array_equal(spec.minimum, [20, 0])
    np.testing.assert_array_equal(spec.maximum, [100, 100])
    first, second = environment.reset(), environment.step(1)
    assert first.first() and fits(environment, first) and fits(environment, second)
    np.testing.assert_array_equal(first.observation, [20, 0])
    np.testing.assert_array_equal(second.observation, [21, 1])
    last = environment.step(0)
    assert last.last() and last.reward == 2.0 and last.discount == 1.0
    assert specs.make_environment_spec(environment).actions.num_values == 2
    environment.seed_episode(7)
    environment.close()
    assert inside.seed == 7 and inside.closed and environment.environment is inside


def test_entries_of_a_vector_without_bounds():
    inside = Vector(specs.Array((3,), np.float32, "seen"))
    spec = environments.ObservationEntriesWrapper(inside, [1]).observation_spec()
    assert type(spec) is specs.Array and spec.shape == (1,) and spec.dtype == np.float32


def test_entries_of_a_dictionary():
    environment = environments.ObservationEntriesWrapper(ScriptedEnvironment(), ["n"])
    assert set(environment.observation_spec()) == {"n"}
    timestep = environment.reset()
    assert timestep.observation == {"n": 0} and fits(environment, timestep)
    assert environment.step(0).observation == {"n": 1}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([3], "vector of 3: its entries are 0 to 2, got '3'"),
        ([-1], "got '-1'"),
        (["x"], "got 'x'"),
        ([], "each of them once, got none"),
        ([1, "1"], "each of them once, got 1, 1"),
    ],
)
def test_entries_that_a_vector_lacks(entries, message):
    with pytest.raises(ValueError, match=message):
        environments.ObservationEntriesWrapper(Vector(), entries)


def test_entries_that_a_dictionary_lacks():
    with pytest.raises(ValueError, match=r"no entry 'nn'. Did you mean 'n'\? There are: x, n"):
        environments.ObservationEntriesWrapper(ScriptedEnvironment(), ["nn"])


@pytest.mark.parametrize(
    "spec",
    [specs.Array((2, 2), np.float32), specs.Array((), np.float32), (specs.Array((2,), int),)],
)
def test_entries_of_something_else(spec):
    with pytest.raises(ValueError, match="one vector or a dictionary; here they are a"):
        environments.ObservationEntriesWrapper(Vector(spec), [0])


def test_action_and_reward_before_each_observation():
    environment = environments.ObservationActionRewardWrapper(Vector())
    spec = environment.observation_spec()
    assert isinstance(spec, types.OAR) and spec.action.num_values == 2
    action = np.array(1, np.int64)
    first, second = environment.reset(), environment.step(action)
    action[...] = 0
    oar = first.observation
    assert isinstance(oar, types.OAR) and (oar.action, oar.reward) == (0, 0)
    assert (second.observation.action, second.observation.reward) == (1, 1)
    assert second.observation.action.dtype == spec.action.dtype
    np.testing.assert_array_equal(second.observation.observation, [1, 11, 21])
    assert environment.step(1).observation.reward == 2
    again = environment.step(1)
    assert again.first() and (again.observation.action, again.observation.reward) == (0, 0)


def test_action_and_reward_fit_their_spec():
    environment = environments.make_environment("oar:CartPole-v1", seed=3)
    assert fits(environment, environment.reset()) and fits(environment, environment.step(1))


def test_environments_without_seeds_stay_so():
    inside = Vector()
    inside.seed_episode = None
    with pytest.raises(ValueError, match="Vector has no method seed_episode"):
        environments.ObservationActionRewardWrapper(inside).seed_episode(0)


def test_names_of_entries():
    environment = environments.make_environment("only:0,2:CartPole-v1", seed=5)
    whole = environments.make_environment("CartPole-v1", seed=5)
    np.testing.assert_array_equal(
        environment.reset().observation, whole.reset().observation[[0, 2]]
    )
    np.testing.assert_array_equal(
        environment.step(1).observation, whole.step(1).observation[[0, 2]]
    )


def test_schemes_add_up():
    environment = environments.make_environment("oar:only:2:gymnasium:CartPole-v1", seed=5)
    observation = environment.reset().observation
    assert isinstance(observation, types.OAR) and observation.observation.shape == (1,)
    assert [x.shape for x in tree.flatten(environment.observation_spec())] == [(1,), (), ()]


@pytest.mark.parametrize("name", ["only:CartPole-v1", "only:0,2:", "only:", "only::CartPole-v1"])
def test_names_without_entries_or_environment(name):
    with pytest.raises(ValueError, match="as in 'only:0,2:CartPole-v1', got 'only:"):
        environments.make_environment(name)


def test_bad_entries_are_reported_with_the_name():
    with pytest.raises(ValueError, match="only:0,7:CartPole-v1: The observation is a vector of 4"):
        environments.make_environment("only:0,7:CartPole-v1")
    with pytest.raises(ValueError, match="Nearest registered ids: .*CartPole-v1"):
        environments.make_environment("only:0,2:CartPol-v1")
