"""Learners: one module per algorithm, on the skeleton in `base`."""
