"""The networks of DreamerV3."""

from tfagents_x.networks.dreamer.latents import ModeSampler, Sampler
from tfagents_x.networks.dreamer.model import ActingState, DreamerModel
from tfagents_x.networks.dreamer.sizes import MODEL_SIZES, ModelSize

__all__ = ["MODEL_SIZES", "ActingState", "DreamerModel", "ModeSampler", "ModelSize", "Sampler"]
