"""The dataset that `train --dataset` names."""

from __future__ import annotations

from typing import Optional

from tfagents_x import datasets
from tfagents_x.agents import builder, registry


def load(agent: str, folder: Optional[str], replay: Optional[str] = None) -> datasets.Recorded:
    """Loads a dataset.

    Args:
      agent: that is to learn from it.
      folder: as given; see `datasets.load_any`.
      replay: as given; an offline agent has none.

    Raises:
      ValueError: no folder was given, or there is no complete dataset in it, or it lacks what
        the agent needs.
      ImportError, TypeError: see `datasets.load_any`.
    """
    if folder is None:
        raise ValueError(
            f"{agent} learns from recorded episodes: give --dataset DATA, as in: tfagents-x train "
            f"--agent {agent} --dataset DATA. Record them with: tfagents-x collect --run RUN "
            "--steps N --out DATA"
        )
    if replay not in (None, "auto"):
        raise ValueError(
            f"{agent} learns from recorded episodes and has no replay: leave --replay."
        )
    data = datasets.load_any(folder)
    builder_class = registry.get_builder(agent)
    assert issubclass(builder_class, builder.OfflineBuilder)
    if builder_class.needs_rewards and not data.has_rewards:
        raise ValueError(
            f"{agent} learns from rewards, and there are none in {data.folder}. The agent bc "
            "needs none."
        )
    return data
