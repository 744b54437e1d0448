"""`collect`: records what a run's policy does."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from rich import console as rich_console

from tfagents_x.agents import collection
from tfagents_x.cli import signals, texts


def collect(
    run: str,
    num_steps: int,
    out: str,
    stopper: signals.Stopper,
    *,
    policy: str,
    greedy: bool,
    seed: int,
    append: bool,
) -> int:
    """Records and says what was recorded; see `tfagents_x.agents.collection.collect`.

    Returns:
      The exit code: 0, or the stopper's if a signal ended it early.

    Raises:
      ValueError: no such run, no intact checkpoint, or `out` can't be written.
    """
    stopper.call(lambda: None)
    console = rich_console.Console(highlight=False)
    returns: list[float] = []
    steps = 0
    with console.status("recording ...") as status:

        def on_episode(result: Mapping[str, Any]) -> None:
            nonlocal steps
            returns.append(result["episode_return"])
            steps += result["episode_length"]
            status.update(f"recording: {steps:,} of {num_steps:,} steps")

        manifest = collection.collect(
            run,
            num_steps,
            out,
            policy=policy,
            greedy=greedy,
            seed=seed,
            append=append,
            report=lambda message: print(message, file=sys.stderr, flush=True),
            on_episode=on_episode,
            stopping=lambda: stopper.received is not None,
        )
    mean = texts.number(float(np.mean(returns))) if returns else "-"
    word = "Recorded" if stopper.received is None else "Interrupted; recorded"
    print(
        f"{word} {texts.count(len(returns), 'episode')}, {texts.count(steps, 'step')}, mean return "
        f"{mean}. {out} holds {texts.count(manifest.episodes, 'episode')}, "
        f"{texts.count(manifest.steps, 'step')}.",
        flush=True,
    )
    return stopper.exit_code
