"""Agents by name, imported only when they are asked for."""

from __future__ import annotations

import difflib
import importlib

from tfagents_x.agents import builder

_BUILDERS = {
    "bc": "tfagents_x.agents.bc.builder:BCBuilder",
    "crr": "tfagents_x.agents.crr.builder:CRRBuilder",
    "dreamer_v3": "tfagents_x.agents.dreamer_v3.builder:DreamerV3Builder",
    "impala": "tfagents_x.agents.impala.builder:IMPALABuilder",
    "r2d2": "tfagents_x.agents.r2d2.builder:R2D2Builder",
    "svg0": "tfagents_x.agents.svg0.builder:SVG0Builder",
}


def names() -> list[str]:
    """All agents, alphabetically."""
    return sorted(_BUILDERS)


def get_builder(name: str) -> type[builder.Builder]:
    """The builder class of an agent.

    Raises:
      ValueError: there is no such agent; the message names the nearest.
    """
    if name not in _BUILDERS:
        near = difflib.get_close_matches(name, _BUILDERS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"Unknown agent {name!r}.{hint} There are: {', '.join(names())}.")
    module, _, attribute = _BUILDERS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
