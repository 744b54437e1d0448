"""Pure tensor functions: returns, losses, projections. No variables, no modules."""

from tfagents_x.ops import (
    categorical,
    clipping,
    nonlinear_bellman,
    policy_gradient,
    priorities,
    retrace,
    returns,
    symlog,
    transforms,
    vtrace,
)

__all__ = [
    "categorical",
    "clipping",
    "nonlinear_bellman",
    "policy_gradient",
    "priorities",
    "retrace",
    "returns",
    "symlog",
    "transforms",
    "vtrace",
]
