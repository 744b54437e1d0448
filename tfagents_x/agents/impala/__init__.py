"""IMPALA: see the README beside this file."""

from tfagents_x.agents.impala.builder import IMPALABuilder
from tfagents_x.agents.impala.config import IMPALAConfig
from tfagents_x.agents.impala.networks import make_network

__all__ = ["IMPALABuilder", "IMPALAConfig", "make_network"]
