"""Agents: everything around a learner that makes it act, and one loop that trains them all."""
