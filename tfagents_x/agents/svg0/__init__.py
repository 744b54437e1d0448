"""SVG0: see the README beside this file."""

from tfagents_x.agents.svg0.builder import SVG0Builder
from tfagents_x.agents.svg0.config import SVG0Config
from tfagents_x.agents.svg0.networks import make_networks

__all__ = ["SVG0Builder", "SVG0Config", "make_networks"]
