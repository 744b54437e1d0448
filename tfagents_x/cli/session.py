"""`train`, from the options to the closing line. Imports TensorFlow; the app imports it late."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any, Optional

import dm_env

from tfagents_x import datasets, environments, specs
from tfagents_x.agents import builder as builder_lib
from tfagents_x.agents import offline_training, online_training, playing, registry
from tfagents_x.agents import run_directory as run_directory_lib
from tfagents_x.agents import training as training_lib
from tfagents_x.cli import display, overrides, plots, recorded, signals, texts
from tfagents_x.replay import factory
from tfagents_x.utils import savers

DEFAULT_CHECKPOINT_SECONDS = 30.0

_NEEDED = (
    "A new run needs --agent and --env, as in: tfagents-x train --agent impala --env CartPole-v1. "
    "To go on with a run, give --resume --run DIR."
)


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """What was given on the command line; None for what wasn't.

    Attributes:
      agent, env, seed, replay, settings: see `RunSpec`; settings are texts `key=value`.
      steps: environment steps in all.
      run: run directory.
      resume: go on with the run that is there.
      checkpoint_seconds: between two checkpoints.
      dataset: folder of recorded episodes, for an agent that learns offline.
    """

    agent: Optional[str] = None
    env: Optional[str] = None
    steps: Optional[int] = None
    seed: Optional[int] = None
    run: Optional[str] = None
    resume: bool = False
    replay: Optional[str] = None
    checkpoint_seconds: float = DEFAULT_CHECKPOINT_SECONDS
    settings: tuple[str, ...] = ()
    dataset: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class _Plan:
    """A run that can begin."""

    spec: run_directory_lib.RunSpec
    directory: run_directory_lib.RunDirectory
    builder: builder_lib.Builder
    environment: dm_env.Environment
    steps: int
    data: Optional[datasets.Recorded] = None

    @property
    def title(self) -> str:
        return f"{self.spec.agent} on {self.spec.environment}, seed {self.spec.seed}"

    @property
    def training_class(self) -> type[training_lib.Training]:
        offline = isinstance(self.builder, builder_lib.OfflineBuilder)
        return offline_training.OfflineTraining if offline else online_training.OnlineTraining

    def make_training(self, **options: Any) -> training_lib.Training:
        options["seed"] = self.spec.seed
        if isinstance(self.builder, builder_lib.OfflineBuilder) and self.data is not None:
            return offline_training.OfflineTraining(
                self.builder,
                self.data.rows,
                self.directory,
                environment=self.environment,
                fingerprint=self.data.fingerprint,
                **options,
            )
        assert isinstance(self.builder, builder_lib.OnlineBuilder)
        return online_training.OnlineTraining(
            self.builder, self.environment, self.directory, replay=self.spec.replay, **options
        )


def train(options: TrainOptions, stopper: signals.Stopper) -> int:
    """Trains, shows how it goes, and draws the learning curve.

    Returns:
      The exit code: 0, or the stopper's if a signal stopped the training before its end.

    Raises:
      ValueError, TypeError, ImportError, OSError: a person must put something right.
    """
    with contextlib.ExitStack() as held:
        plan = _resumed_plan(options, held) if options.resume else _new_plan(options, held)
        return 0 if plan is None else _train(plan, options, stopper)


def _train(plan: _Plan, options: TrainOptions, stopper: signals.Stopper) -> int:
    try:
        summary = _run(plan, options, stopper)
    finally:
        plan.environment.close()
        _draw(plan)
    complete = stopper.received is None or summary.steps >= plan.steps
    builder = plan.builder
    if not summary.updates and isinstance(builder, builder_lib.OnlineBuilder):
        needed = builder.steps_to_first_batch
        print(texts.no_update(summary, builder.batch_size, needed), flush=True)
    last_line = texts.done if complete else texts.interrupted
    print(last_line(summary, plan.directory.path), flush=True)
    return 0 if complete else stopper.exit_code


def _run(plan: _Plan, options: TrainOptions, stopper: signals.Stopper) -> training_lib.Summary:
    title = f"{plan.title}: {plan.directory.path}"
    with display.make_display(title, plan.steps, plan.training_class.unit) as shown:
        with _undone_on_failure(plan, options):
            training = plan.make_training(
                checkpoint_seconds=options.checkpoint_seconds,
                observer=shown,
                resume=options.resume,
            )

        def stop() -> None:
            training.request_stop()
            # A signal may have come in the middle of another print.
            with contextlib.suppress(RuntimeError):
                shown.on_message("Stopping and saving ... (once more to stop at once)")

        stopper.call(stop)
        with contextlib.closing(training):
            return training.run(plan.steps)


def _draw(plan: _Plan) -> None:
    """Draws the learning curve, also of a run that failed; only says so if it can't."""
    directory = plan.directory
    if not directory.config.exists():
        return
    try:
        axis = plots.Axis()
        if isinstance(plan.builder, builder_lib.OfflineBuilder):
            key = plan.training_class.steps_key
            axis = plots.Axis(key, "updates", plan.builder.evaluation_episodes)
        plots.write_learning_curve(directory.episodes, directory.learning_curve, plan.title, axis)
    except (ImportError, OSError) as error:
        _warn(f"No learning curve drawn: {error}")


# A run that begins.


def _new_plan(options: TrainOptions, held: contextlib.ExitStack) -> _Plan:
    if options.agent is None:
        raise ValueError(_NEEDED)
    builder_class = registry.get_builder(options.agent)
    config = overrides.apply(builder_class.config_class(), options.settings)
    offline = issubclass(builder_class, builder_lib.OfflineBuilder)
    data = recorded.load(options.agent, options.dataset, options.replay) if offline else None
    name = _environment_name(options, data)
    environment = environments.make_environment(name)
    environment_spec = specs.make_environment_spec(environment)
    if data is not None:
        data.check_fits(name, environment_spec)
        config = builder_class.fit(config, data.rows)  # type: ignore[attr-defined]
    spec = run_directory_lib.RunSpec(
        agent=options.agent,
        environment=name,
        seed=options.seed or 0,
        replay="none" if offline else _backend(options.replay),
        config=dataclasses.asdict(config),
        dataset=None if data is None else data.folder,
    )
    steps = options.steps or builder_class.default_steps
    builder = builder_class(config, environment_spec)
    if options.run:
        directory = run_directory_lib.RunDirectory(pathlib.Path(options.run))
    else:
        directory = _new_directory(spec)
    held.enter_context(directory.locked(_warn))
    directory.create(spec, steps)
    return _Plan(spec, directory, builder, environment, steps, data)


def _environment_name(options: TrainOptions, data: Optional[datasets.Recorded]) -> str:
    if data is None and options.dataset is not None:
        raise ValueError(
            f"--dataset is for agents that learn offline; {options.agent} collects its own data "
            "in --env."
        )
    name = options.env or (None if data is None else data.environment)
    if name is None:
        if data is None:
            raise ValueError(_NEEDED)
        raise ValueError(
            f"The dataset in {data.folder} does not say which environment it is from: give --env "
            f"NAME, the one that {options.agent} is to act in."
        )
    return name


def _backend(replay: Optional[str]) -> str:
    if replay not in (None, "auto"):
        return str(replay)
    return "reverb" if factory.reverb_available() else "in_process"


def _new_directory(spec: run_directory_lib.RunSpec) -> run_directory_lib.RunDirectory:
    """Makes a directory below `runs/` whose name nobody else has taken."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", spec.environment).strip("-.") or "env"
    name = f"{spec.agent}-{safe}-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    for number in range(1, 100):
        path = pathlib.Path("runs", name if number == 1 else f"{name}-{number}")
        directory = run_directory_lib.RunDirectory(path)
        with contextlib.suppress(FileExistsError):
            directory.make(exist_ok=False)
            return directory
    raise ValueError(f"The run directories runs/{name}... are all taken. Give another --run.")


@contextlib.contextmanager
def _undone_on_failure(plan: _Plan, options: TrainOptions) -> Iterator[None]:
    """A new run that could not even begin leaves nothing, so that its name stays free."""
    try:
        yield
    except BaseException:
        if not options.resume:
            plan.directory.config.unlink()  # Then the end of the lock removes the rest.
        raise


# A run that goes on.


def _resumed_plan(options: TrainOptions, held: contextlib.ExitStack) -> Optional[_Plan]:
    """A plan, or None after saying that nothing is left to do."""
    if options.run is None:
        raise ValueError("--resume needs --run DIR, the directory of the run to go on with.")
    directory = run_directory_lib.RunDirectory(pathlib.Path(options.run))
    directory.read()  # Where there is no run, no lock is to be left.
    held.enter_context(directory.locked(_warn))
    spec = directory.open(_with_given(directory.read(), options))
    steps = options.steps or directory.read_steps()
    if steps is None:
        steps = registry.get_builder(spec.agent).default_steps
    done = _steps_done(directory, steps)
    if done >= steps and directory.policy.exists():
        unit = "step" if spec.dataset is None else "update"
        print(texts.nothing_left(done, steps, directory.path, unit), flush=True)
        return None
    _check_replay(spec, directory)
    data = None
    if spec.dataset is not None:
        data = recorded.load(spec.agent, options.dataset or spec.dataset)
    environment = environments.make_environment(spec.environment)
    environment_spec = specs.make_environment_spec(environment)
    builder = playing.make_builder(spec, environment_spec, directory.config)
    directory.write_steps(steps)
    return _Plan(spec, directory, builder, environment, steps, data)


def _steps_done(directory: run_directory_lib.RunDirectory, wanted: int) -> int:
    """Steps of the checkpoint to go on from; may be of a damaged one if fewer than `wanted`.

    So that checkpoints, which can be large, are verified once in the end.
    """
    if not directory.checkpoints.is_dir():
        return 0
    folder = savers.CheckpointFolder(directory.checkpoints)
    newest = max(map(folder.step_of, folder.all()), default=0)
    if newest < wanted:
        return newest
    intact = folder.latest()
    return 0 if intact is None else folder.step_of(intact)


def _check_replay(
    spec: run_directory_lib.RunSpec, directory: run_directory_lib.RunDirectory
) -> None:
    if spec.replay == "reverb" and not factory.reverb_available():
        raise ImportError(
            f"The run in {directory.path} has its experience in Reverb, which can't be imported "
            "here. Go on with it where pip install 'tfagents_x[reverb]' works (Linux x86-64, "
            "Python 3.9 to 3.11), or start a new run with --replay in_process."
        )


def _warn(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _with_given(
    stored: run_directory_lib.RunSpec, options: TrainOptions
) -> run_directory_lib.RunSpec:
    """The stored spec, changed by what was given: the difference is then reported."""
    given: dict[str, Any] = {
        "agent": options.agent,
        "environment": options.env,
        "seed": options.seed,
    }
    if options.replay not in (None, "auto"):
        given["replay"] = options.replay
    if options.settings and options.agent in (None, stored.agent):
        config_class = registry.get_builder(stored.agent).config_class
        settings = overrides.parse(config_class, options.settings)
        given["config"] = {**stored.config, **settings}
    changes = {name: value for name, value in given.items() if value is not None}
    return dataclasses.replace(stored, **changes)
