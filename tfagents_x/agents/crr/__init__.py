"""Offline recurrent CRR: see the README beside this file."""

from tfagents_x.agents.crr.builder import CRRBuilder
from tfagents_x.agents.crr.config import CRRConfig
from tfagents_x.agents.crr.networks import make_networks

__all__ = ["CRRBuilder", "CRRConfig", "make_networks"]
