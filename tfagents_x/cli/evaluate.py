"""`eval`: plays episodes and prints what came out."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from rich import console as rich_console
from rich import table

from tfagents_x.agents import evaluation
from tfagents_x.cli import texts


def evaluate(run: str, num_episodes: int, seed: int, greedy: bool, policy: str) -> None:
    """Plays and prints; see `tfagents_x.agents.evaluation.evaluate`.

    Raises:
      ValueError: no such run or policy, no intact checkpoint, or the environment misbehaves.
    """
    console = rich_console.Console(highlight=False)
    with console.status("playing ...") as status:
        played = []

        def on_episode(result: Mapping[str, Any]) -> None:
            played.append(result["episode_return"])
            status.update(f"playing: {len(played)} of {texts.count(num_episodes, 'episode')}")

        outcome = evaluation.evaluate(
            run,
            num_episodes,
            seed=seed,
            policy=policy,
            greedy=greedy,
            report=lambda message: print(message, file=sys.stderr, flush=True),
            on_episode=on_episode,
        )
    actions = f"{'best' if greedy else 'sampled'} actions"
    acting = actions if policy == "policy" else f"policy {policy}"
    episodes = texts.count(num_episodes, "episode")
    print(f"{episodes} with {acting}, from {outcome.checkpoint}")
    console.print(_make_table(outcome))


def _make_table(outcome: evaluation.Evaluation) -> table.Table:
    result = table.Table(header_style="bold")
    result.add_column("")
    for name in ("mean", "std", "min", "max"):
        result.add_column(name, justify="right")
    for label, statistics in outcome.statistics().items():
        result.add_row(label, *(texts.number(value, 2) for value in statistics.values()))
    return result
