"""A tiny IMPALA agent on CartPole, for the tests of what all agents share."""

from __future__ import annotations

from tfagents_x import environments, specs
from tfagents_x.agents import online_training, run_directory
from tfagents_x.agents.impala import IMPALABuilder, IMPALAConfig

TINY = dict(
    batch_size=2,
    sequence_length=5,
    sequence_period=4,
    hidden_sizes=(8,),
    head_sizes=(),
    lstm_size=4,
)


def make_environment():
    return environments.make_environment("CartPole-v1")


def make_builder(environment=None, **changes):
    environment = environment or make_environment()
    config = IMPALAConfig(**{**TINY, **changes})
    return IMPALABuilder(config, specs.make_environment_spec(environment))


def make_training(
    path, environment=None, observer=None, resume=False, seed=0, checkpoint_seconds=30.0, **changes
):
    environment = environment or make_environment()
    path.mkdir(exist_ok=True)
    return online_training.OnlineTraining(
        make_builder(environment, **changes),
        environment,
        run_directory.RunDirectory(path),
        seed=seed,
        replay="in_process",
        observer=observer,
        resume=resume,
        checkpoint_seconds=checkpoint_seconds,
    )
