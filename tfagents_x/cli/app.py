"""The command line: `tfagents-x train | eval | collect | config`.

Imports no TensorFlow before a command needs it, so that `--help` is quick.
"""

# No `from __future__ import annotations` here: on Python 3.9 typer would see texts instead of
# the annotations, and no option.

import enum
from collections.abc import Sequence
from typing import Annotated, Optional

import typer

import tfagents_x
from tfagents_x.cli import failures, quiet, signals

_MAX_SEED = 2**31 - 1

app = typer.Typer(
    name="tfagents-x",
    help="Reinforcement-learning agents for TensorFlow 2 and Sonnet.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_DEBUG_HELP = "On errors, show the traceback; let TensorFlow log."
Debug = Annotated[bool, typer.Option("--debug", help=_DEBUG_HELP)]


_POLICY_HELP = "Which of the agent's policies acts; crr also has cwp, weighted by the critic."
Policy = Annotated[str, typer.Option("--policy", metavar="NAME", help=_POLICY_HELP)]


class ReplayChoice(str, enum.Enum):
    """Where the agent's experience waits for the learner."""

    auto = "auto"
    reverb = "reverb"
    in_process = "in_process"


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs a command and exits with its code.

    Args:
      arguments: as after the program's name; by default those of the process.
    """
    app(args=None if arguments is None else list(arguments), prog_name="tfagents-x")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tfagents-x {tfagents_x.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Reinforcement-learning agents for TensorFlow 2 and Sonnet."""


@app.command()
def train(
    agent: Annotated[
        Optional[str],
        typer.Option(
            metavar="NAME", help="Which agent: bc, crr, dreamer_v3, impala, r2d2 or svg0."
        ),
    ] = None,
    env: Annotated[
        Optional[str],
        typer.Option(
            metavar="NAME",
            help="Which environment, like CartPole-v1 of gymnasium, dm_control:cartpole-swingup "
            "or oar:atari:Pong; only:0,2:CartPole-v1 shows these entries of the observation. With "
            "--dataset, by default the one recorded there.",
        ),
    ] = None,
    dataset: Annotated[
        Optional[str],
        typer.Option(
            metavar="DATA",
            help="Folder of recorded episodes to learn from, for the agents bc and crr: what "
            "collect made, an RLDS dataset or a minari one.",
        ),
    ] = None,
    steps: Annotated[
        Optional[int],
        typer.Option(
            min=1,
            metavar="N",
            help="Environment steps in all (with --dataset, updates), those before --resume "
            "included. Default: the agent's; with --resume the run's.",
        ),
    ] = None,
    seed: Annotated[
        Optional[int],
        typer.Option(
            min=0,
            max=_MAX_SEED,
            metavar="N",
            help="Seed of networks, episodes and actions. Default: 0.",
        ),
    ] = None,
    run: Annotated[
        Optional[str],
        typer.Option(
            metavar="DIR",
            help="Directory for the run's files. Default: runs/AGENT-ENV-DATE-TIME.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with the run in --run DIR from its last checkpoint, with its settings.",
        ),
    ] = False,
    replay: Annotated[
        Optional[ReplayChoice],
        typer.Option(
            help="Where experience is kept. Default: auto, which is reverb if it is installed."
        ),
    ] = None,
    checkpoint_seconds: Annotated[
        float, typer.Option(min=0.0, metavar="X", help="Seconds between two checkpoints.")
    ] = 30.0,
    settings: Annotated[
        Optional[list[str]],
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a setting of the agent; can be given many times. "
            "'tfagents-x config AGENT' lists all of them.",
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Train an agent.

    Ctrl-C saves and stops; --resume --run DIR goes on from there.
    """
    with failures.reported(debug), signals.Stopper() as stopper:
        with quiet.importing(debug):
            from tfagents_x.cli import session
        options = session.TrainOptions(
            agent=agent,
            env=env,
            steps=steps,
            seed=seed,
            run=run,
            resume=resume,
            replay=replay and replay.value,
            checkpoint_seconds=checkpoint_seconds,
            settings=tuple(settings or ()),
            dataset=dataset,
        )
        code = session.train(options, stopper)
    raise typer.Exit(code)


@app.command("eval")
def evaluate(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Directory of a run.")],
    episodes: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many episodes to play.")
    ] = 20,
    seed: Annotated[
        int,
        typer.Option(
            min=0,
            max=_MAX_SEED,
            metavar="N",
            help="Seed of the episodes; they are never those of training.",
        ),
    ] = 0,
    sample: Annotated[
        bool,
        typer.Option("--sample/--greedy", help="Sample actions as in training, or take the best."),
    ] = False,
    policy: Policy = "policy",
    debug: Debug = False,
) -> None:
    """Play episodes with what a run has learned."""
    with failures.reported(debug), signals.Stopper():
        with quiet.importing(debug):
            from tfagents_x.cli import evaluate as command
        command.evaluate(run, episodes, seed, greedy=not sample, policy=policy)


@app.command()
def collect(
    run: Annotated[str, typer.Option(metavar="RUN", help="Directory of a run, whose policy acts.")],
    steps: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many steps to record; episodes are whole.")
    ],
    out: Annotated[str, typer.Option(metavar="DATA", help="Folder for the dataset.")],
    append: Annotated[
        bool, typer.Option("--append", help="Add to the dataset that is there.")
    ] = False,
    seed: Annotated[
        int,
        typer.Option(min=0, max=_MAX_SEED, metavar="N", help="Seed of the episodes and actions."),
    ] = 0,
    sample: Annotated[
        bool,
        typer.Option("--sample/--greedy", help="Sample actions as in training, or take the best."),
    ] = True,
    policy: Policy = "policy",
    debug: Debug = False,
) -> None:
    """Record episodes of a run's policy, for agents that learn offline.

    Ctrl-C keeps the episodes that have ended.
    """
    with failures.reported(debug), signals.Stopper() as stopper:
        with quiet.importing(debug):
            from tfagents_x.cli import collect as command
        code = command.collect(
            run, steps, out, stopper, policy=policy, greedy=not sample, seed=seed, append=append
        )
    raise typer.Exit(code)


@app.command()
def config(
    agent: Annotated[
        str,
        typer.Argument(
            metavar="AGENT", help="Which agent: bc, crr, dreamer_v3, impala, r2d2 or svg0."
        ),
    ],
    debug: Debug = False,
) -> None:
    """List the settings of an agent, for train --set KEY=VALUE."""
    with failures.reported(debug), signals.Stopper():
        with quiet.importing(debug):
            from tfagents_x.agents import registry
            from tfagents_x.cli import settings

            config_class = registry.get_builder(agent).config_class
        settings.show(config_class, agent)
