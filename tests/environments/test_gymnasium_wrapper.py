"""gymnasium environments behind the dm_env interface."""

from __future__ import annotations

import subprocess
import sys

import dm_env
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tests.environments.scripted import RecordingActor
from tfagents_x import environments, specs
from tfagents_x.utils import loggers


class PlayedEnv(gymnasium.Env):
    """Returns `outcomes`, tuples (reward, terminated, truncated), one each step."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float64)
    action_space = spaces.Discrete(2, start=1)

    def __init__(self, outcomes, observation=(0.25, 0.5)):
        self.outcomes = outcomes
        self.observation = observation
        self.actions = []
        self.closed = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.observation, {"at": "reset"}

    def step(self, action):
        self.actions.append(action)
        reward, terminated, truncated = self.outcomes[self.steps]
        self.steps += 1
        return self.observation, reward, terminated, truncated, {"at": self.steps}

    def close(self):
        self.closed = True


def play(*outcomes):
    environment = environments.GymnasiumWrapper(PlayedEnv(outcomes))
    return [environment.reset()] + [environment.step(0) for _ in outcomes]


@pytest.mark.parametrize(
    "terminated, truncated, discount",
    [(True, False, 0.0), (False, True, 1.0), (True, True, 0.0)],
)
def test_end_of_episode(terminated, truncated, discount):
    first, middle, last = play((1, False, False), (2, terminated, truncated))
    assert first.first() and first.reward is None and first.discount is None
    assert middle.mid() and middle.reward == 1.0 and middle.discount == 1.0
    assert last.last() and last.reward == 2.0 and last.discount == discount
    assert last.reward.dtype == np.float32 and last.discount.dtype == np.float32


def test_numpy_flags_and_rewards_of_any_number_type():
    for reward in (1, 1.0, True, np.float64(1), np.array([1.0]), np.int64(1)):
        last = play((reward, np.bool_(False), np.bool_(True)))[-1]
        assert last.reward == 1.0 and np.shape(last.reward) == ()
        assert last.last() and last.discount == 1.0


def test_reward_that_is_no_number_is_named_by_the_loop():
    loop = environments.EnvironmentLoop(
        environments.GymnasiumWrapper(PlayedEnv([("1", True, False)])),
        RecordingActor(),
        logger=loggers.NoOpLogger(),
    )
    with pytest.raises(ValueError, match="reward at step 1 of episode 0 must be one number"):
        loop.run_episode()


def test_specs_and_values():
    environment = environments.GymnasiumWrapper(PlayedEnv([(0, True, False)]))
    spec = specs.make_environment_spec(environment)
    assert spec.observations.dtype == np.float32 and spec.observations.name == "observation"
    assert spec.actions == specs.DiscreteArray(2, np.int32, "action")
    assert spec.rewards.dtype == np.float32 and spec.discounts.maximum == 1.0
    observation = environment.reset().observation
    spec.observations.validate(observation)
    assert observation.tolist() == [0.25, 0.5]
    timestep = environment.step(np.int32(1))
    spec.rewards.validate(timestep.reward)
    spec.discounts.validate(timestep.discount)
    assert environment.environment.actions == [2]  # 1 + start.
    assert environment.get_info() == {"at": 1}


def test_step_after_the_last_starts_anew():
    environment = environments.GymnasiumWrapper(PlayedEnv([(0, True, False)]))
    assert environment.step(0).first()  # Never reset so far.
    assert environment.step(0).last()
    assert environment.step(0).first()
    assert environment.environment.actions == [1]


def test_close_goes_through():
    environment = environments.GymnasiumWrapper(PlayedEnv([]))
    with environment:
        pass
    assert environment.environment.closed


def episode(environment, length=10):
    steps = [environment.reset()] + [environment.step(i % 2) for i in range(length)]
    return np.array([t.observation for t in steps])


def test_cartpole_is_reproducible_by_seed():
    environment = environments.make_environment("CartPole-v1", seed=5)
    assert isinstance(environment, dm_env.Environment)
    first, second = episode(environment), episode(environment)
    environment.seed_episode(5)
    np.testing.assert_array_equal(episode(environment), first)
    np.testing.assert_array_equal(episode(environment), second)  # Goes on from the seed.
    assert not np.array_equal(first, second)
    other = environments.make_environment("gymnasium:CartPole-v1", seed=6)
    assert not np.array_equal(episode(other), first)


def test_cartpole_in_the_loop():
    class Alternating(RecordingActor):
        def select_action(self, observation):
            assert observation.shape == (4,) and observation.dtype == np.float32
            return np.int32(len(self.timesteps) % 2)

    def run():
        actor, logger = Alternating(), loggers.InMemoryLogger()
        environment = environments.make_environment("CartPole-v1", max_episode_steps=12)
        loop = environments.EnvironmentLoop(environment, actor, logger=logger, episode_seed=0)
        loop.run(num_episodes=3)
        return actor, logger

    (actor, logger), (again, _) = run(), run()
    assert logger.values("episode_return") == logger.values("episode_length") == [12.0] * 3
    last = [t for t in actor.timesteps if t.last()]
    assert [t.discount for t in last] == [1.0] * 3  # A time limit is no failure.
    for a, b in zip(actor.timesteps, again.timesteps):
        np.testing.assert_array_equal(a.observation, b.observation)


def test_nested_environment_in_the_loop():
    class Nested(PlayedEnv):
        observation_space = spaces.Dict(
            {"x": spaces.Box(-1, 1, (2,), np.float64), "t": spaces.Tuple([spaces.Discrete(3)])}
        )
        action_space = spaces.MultiDiscrete([2, 3])

    class Actor(RecordingActor):
        def select_action(self, observation):
            return np.array([1, 2])

    env = Nested([(1.0, False, False), (1.0, True, False)], {"x": np.ones(2), "t": (2,)})
    actor = Actor()
    environment = environments.GymnasiumWrapper(env)
    environments.EnvironmentLoop(environment, actor, logger=loggers.NoOpLogger()).run_episode()
    assert actor.timesteps[2].observation["t"] == (2,)
    assert actor.timesteps[2].observation["x"].dtype == np.float32
    assert env.actions[0].tolist() == [1, 2]
    env.observation = {"x": np.array([0, np.nan]), "t": (2,)}
    with pytest.raises(ValueError, match=r"observation\['x'\] that is not finite"):
        environments.EnvironmentLoop(environment, actor).run_episode()


def test_observation_that_breaks_the_space_is_named():
    loop = environments.EnvironmentLoop(
        environments.GymnasiumWrapper(PlayedEnv([], observation=np.zeros(3))), RecordingActor()
    )
    with pytest.raises(ValueError, match=r"observation, first of episode 0, has shape \(3,\)"):
        loop.run_episode()


class OldEnv(PlayedEnv):
    """The interface of gym before 0.26."""

    old_reset = False

    def reset(self, *, seed=None, options=None):
        return np.zeros(2) if self.old_reset else (np.zeros(2), {})

    def step(self, action):
        return np.zeros(2), 0.0, True, {}


def test_old_gym_interface_is_explained():
    environment = environments.GymnasiumWrapper(OldEnv([]))
    environment.reset()
    with pytest.raises(ValueError, match=r"step\(\) must return a tuple of 5 .* got 4 values"):
        environment.step(0)
    environment.environment.old_reset = True
    with pytest.raises(ValueError, match=r"reset\(\) must return a tuple of 2 .* got ndarray"):
        environment.reset()


def test_something_else_is_refused():
    with pytest.raises(
        TypeError, match=r"wants a gymnasium.Env, got str without observation_space"
    ):
        environments.GymnasiumWrapper("CartPole-v1")
    vector = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    with pytest.raises(TypeError, match="single environment"):
        environments.GymnasiumWrapper(vector)


def test_import_needs_no_gymnasium():
    code = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "from tfagents_x import environments\n"
        "try: environments.make_environment('CartPole-v1')\n"
        "except ImportError as e: print(e)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'tfagents_x[gym]'" in out.stdout
