"""The environment loop: what it calls, counts, logs, seeds and refuses."""

from __future__ import annotations

import numpy as np
import pytest

from tests.environments.scripted import RecordingActor, ScriptedEnvironment
from tfagents_x import environments
from tfagents_x.environments import seeding
from tfagents_x.utils import counting, loggers


def make_loop(environment=None, actor=None, **kwargs):
    kwargs.setdefault("logger", loggers.NoOpLogger())
    return environments.EnvironmentLoop(
        environment or ScriptedEnvironment(), actor or RecordingActor(), **kwargs
    )


def test_episode_calls_the_actor_in_order():
    actor, seen = RecordingActor(), []
    loop = make_loop(actor=actor, on_step=lambda t: seen.append((len(actor.calls), t)))
    loop.run_episode()
    step = ["select_action", "observe", "update"]
    assert actor.calls == ["observe_first", *step, *step, *step]
    # The hook comes last in each step, with what the actor has just recorded.
    assert [calls for calls, _ in seen] == [4, 7, 10]
    assert [t for _, t in seen] == actor.timesteps[1:]
    assert actor.actions == [1, 1, 1]
    assert actor.timesteps[0].first() and actor.timesteps[-1].last()


def test_result_of_an_episode():
    result = make_loop(counter=counting.Counter(prefix="actor")).run_episode()
    assert result["episode_length"] == 3
    assert result["episode_return"] == 6.0 and isinstance(result["episode_return"], float)
    assert result["actor_episodes"] == 1 and result["actor_steps"] == 3
    assert result["steps_per_second"] > 0
    assert result["env_step_duration_sec"] > 0 and result["select_action_duration_sec"] > 0


def test_return_does_not_lose_small_rewards():
    # In float32, 2**24 + 1 is 2**24.
    rewards = [np.float32(2**24)] + [np.float32(1)] * 4
    assert make_loop(ScriptedEnvironment(rewards)).run_episode()["episode_return"] == 2**24 + 4


def test_no_update_when_it_should_not():
    actor = RecordingActor()
    make_loop(actor=actor, should_update=False).run_episode()
    assert "update" not in actor.calls and "observe" in actor.calls


def test_run_stops_at_either_limit_with_whole_episodes_and_logs_each():
    logger = loggers.InMemoryLogger()
    loop = make_loop(logger=logger)
    assert loop.run(num_episodes=2) == 6
    assert loop.run(num_steps=4) == 6
    assert loop.run(num_steps=0) == 0 and loop.run(num_episodes=0) == 0
    assert logger.values("episodes") == [1, 2, 3, 4]
    assert logger.values("steps") == [3, 6, 9, 12]
    assert all(v > 0 for v in logger.values("episode_duration"))


@pytest.mark.parametrize(
    "limits, message",
    [
        ({"num_episodes": 1, "num_steps": 1}, "not both"),
        ({"num_episodes": -1}, "num_episodes must be None or an int of 0 or more"),
        ({"num_steps": 2.5}, "num_steps must be"),
    ],
)
def test_bad_limits_are_refused(limits, message):
    with pytest.raises(ValueError, match=message):
        make_loop().run(**limits)


def test_observers_see_all_and_add_metrics():
    class Observer(environments.EnvironmentObserver):
        def observe_first(self, env, timestep):
            self.seen = [timestep.step_type]

        def observe(self, env, timestep, action):
            self.seen.append((timestep.reward, int(action)))

        def get_metrics(self):
            return {"seen": len(self.seen)}

    observer = Observer()
    assert make_loop(observers=[observer]).run_episode()["seen"] == 4
    assert observer.seen[1:] == [(1.0, 1), (2.0, 1), (3.0, 1)]


def test_default_logger_prints_the_label(capsys):
    loop = environments.EnvironmentLoop(ScriptedEnvironment(), RecordingActor(), label="acting")
    loop.run(num_episodes=1)
    line = capsys.readouterr().out
    assert line.startswith("[acting] ") and "episode_return = 6" in line and "steps = 3" in line


def observations(loop_kwargs, num_episodes):
    actor = RecordingActor()
    make_loop(actor=actor, **loop_kwargs).run(num_episodes=num_episodes)
    return np.array([t.observation["x"] for t in actor.timesteps])


def test_resumed_run_meets_the_same_episodes_as_an_uninterrupted_one():
    whole = observations({"episode_seed": 3}, 4)
    counter = counting.Counter()
    first = observations({"episode_seed": 3, "counter": counter}, 2)
    resumed = counting.Counter()
    resumed.restore(counter.save())
    second = observations({"episode_seed": 3, "counter": resumed}, 2)
    np.testing.assert_array_equal(whole, np.concatenate([first, second]))
    assert len(np.unique(whole)) == whole.size  # Each episode is another one.
    assert not np.array_equal(whole, observations({"episode_seed": 4}, 4))


def test_counter_that_is_restored_after_the_loop_was_made_counts():
    # The child asked its parent just before the parent was restored.
    parent = counting.Counter()
    child = counting.Counter(parent, prefix="actor", time_delta=1000.0)
    environment = ScriptedEnvironment()
    loop = make_loop(environment, counter=child, episode_seed=3)
    child.get_counts()
    parent.restore({"counts": {"actor_episodes": 5}, "cache": {}})
    loop.run_episode()
    assert environment.seeds == [seeding.derive_episode_seed(3, 5)]


def test_broken_off_episode_is_not_counted():
    def interrupt(timestep):
        raise KeyboardInterrupt

    counter = counting.Counter()
    with pytest.raises(KeyboardInterrupt):
        make_loop(counter=counter, on_step=interrupt).run_episode()
    assert counter.get_counts() == {}


def test_actor_that_can_be_seeded_is_with_a_seed_of_its_own():
    class SeededActor(RecordingActor):
        seeds = ()

        def seed_episode(self, seed):
            assert self.calls.count("observe_first") == len(self.seeds)
            self.seeds += (seed,)

    actor, environment = SeededActor(), ScriptedEnvironment()
    make_loop(environment, actor, episode_seed=0).run(num_episodes=2)
    assert len({*actor.seeds, *environment.seeds}) == 4
    unseeded = SeededActor()
    make_loop(actor=unseeded).run_episode()
    assert unseeded.seeds == ()


def test_seed_for_an_environment_that_takes_none_is_refused_at_once():
    class Unseedable(ScriptedEnvironment):
        seed_episode = None

    with pytest.raises(ValueError, match="Unseedable has no method seed_episode"):
        make_loop(Unseedable(), episode_seed=1)
    with pytest.raises(ValueError, match="base_seed must be an int"):
        make_loop(episode_seed=-1)


def spoil(step, **fields):
    """An edit that replaces `fields` in the timestep after `step` actions."""

    def edit(timestep):
        return timestep._replace(**fields) if timestep.observation["n"] == step else timestep

    return edit


def x_and_n(x, n):
    return {"x": np.array(x, np.float32), "n": np.int32(n)}


@pytest.mark.parametrize(
    "edit, message",
    [
        (spoil(2, reward=np.nan), r"reward that is not finite \(nan\) at step 2 of episode 1 "),
        (spoil(2, reward=-np.inf), r"reward that is not finite \(-inf\) at step 2"),
        (spoil(2, discount=np.nan), r"discount that is not finite \(nan\) at step 2"),
        (
            spoil(2, observation=x_and_n([1, np.nan], 2)),
            r"observation\['x'\] that is not finite \(nan, 1 of 2 elements\) at step 2 of episode",
        ),
        (
            spoil(0, observation=x_and_n([np.inf, np.nan], 0)),
            r"observation\['x'\] that is not finite \(inf, 2 of 2.*\) at step 0 of episode 1",
        ),
        (spoil(1, reward=None), "reward at step 1 of episode 1 must be one number, got None"),
        (spoil(1, reward=np.ones(2)), "reward at step 1 of episode 1 must be one number"),
        (spoil(0, observation=x_and_n([1, 2, 3], 0)), r"observation\['x'\].*shape \(3,\)"),
        (
            spoil(0, observation={"x": np.ones(2), "n": np.int32(0)}),
            r"observation\['x'\], first of episode 1, .*float64.*says .*dtype float32",
        ),
        (
            spoil(0, observation={"y": np.ones(2), "n": 0}),
            r"other leaves.*\n  observation: observation\['n'\], observation\['y'\]\n  spec: .*'x'",
        ),
    ],
)
def test_bad_value_is_named_with_step_episode_and_leaf(edit, message):
    counter = counting.Counter()
    counter.increment(episodes=1)
    actor = RecordingActor()
    with pytest.raises(ValueError, match=message):
        make_loop(ScriptedEnvironment(edit=edit), actor, counter=counter).run_episode()
    assert all(t.reward is None or np.all(np.isfinite(t.reward)) for t in actor.timesteps)
