"""Sonnet modules, and running recurrent ones over sequences."""
