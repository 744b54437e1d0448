"""R2D2: see the README beside this file."""

from tfagents_x.agents.r2d2.builder import R2D2Builder
from tfagents_x.agents.r2d2.config import R2D2Config
from tfagents_x.agents.r2d2.networks import make_network

__all__ = ["R2D2Builder", "R2D2Config", "make_network"]
