"""What several parts need: nests, strategies, counting, loggers, checkpoints."""
