"""Adders: from timesteps of an environment to items of replay."""

from tfagents_x.replay.adders.base import Adder, ReplayAdder
from tfagents_x.replay.adders.sequence import EndBehavior, SequenceAdder
from tfagents_x.replay.adders.transition import NStepTransitionAdder

__all__ = ["Adder", "EndBehavior", "NStepTransitionAdder", "ReplayAdder", "SequenceAdder"]
