"""Behaviour cloning: see the README beside this file."""

from tfagents_x.agents.bc.builder import BCBuilder
from tfagents_x.agents.bc.config import BCConfig
from tfagents_x.agents.bc.networks import make_network

__all__ = ["BCBuilder", "BCConfig", "make_network"]
