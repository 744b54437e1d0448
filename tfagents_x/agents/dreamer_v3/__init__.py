"""DreamerV3: see the README beside this file."""

from tfagents_x.agents.dreamer_v3.builder import DreamerV3Builder
from tfagents_x.agents.dreamer_v3.config import DreamerV3Config
from tfagents_x.agents.dreamer_v3.policy import DreamerPolicy

__all__ = ["DreamerPolicy", "DreamerV3Builder", "DreamerV3Config"]
