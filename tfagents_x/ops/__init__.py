"""Pure tensor functions: returns, losses, projections. No variables, no modules."""

from tfagents_x.ops import policy_gradient, vtrace

__all__ = ["policy_gradient", "vtrace"]
