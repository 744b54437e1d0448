"""tfagents_x: reinforcement-learning learners for TensorFlow 2 and Sonnet."""

__version__ = "0.1.0"
