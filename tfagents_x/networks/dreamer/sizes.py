"""The sizes that DreamerV3 comes in: those of the paper's appendix B and RLlib's smaller ones."""

from __future__ import annotations

import dataclasses
from typing import Union

from tfagents_x.networks import checks


@dataclasses.dataclass(frozen=True)
class ModelSize:
    """How large the networks are.

    Attributes:
      units: width of all hidden layers.
      gru_units: width of the recurrent state.
      categoricals: K, the number of categoricals of the latent state.
      classes: C, the classes of each.
      layers: hidden layers of encoder, decoder, heads, actor and critic.
      cnn_multiplier: channels of the first convolution.
    """

    units: int
    gru_units: int
    categoricals: int
    classes: int
    layers: int
    cnn_multiplier: int

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            checks.size(field.name, getattr(self, field.name))


MODEL_SIZES = {
    "nano": ModelSize(16, 16, 4, 4, 1, 2),
    "micro": ModelSize(32, 32, 8, 8, 1, 4),
    "mini": ModelSize(64, 64, 16, 16, 1, 8),
    "XXS": ModelSize(128, 128, 32, 32, 1, 16),
    "XS": ModelSize(256, 256, 32, 32, 1, 24),
    "S": ModelSize(512, 512, 32, 32, 2, 32),
    "M": ModelSize(640, 1024, 32, 32, 3, 48),
    "L": ModelSize(768, 2048, 32, 32, 4, 64),
    "XL": ModelSize(1024, 4096, 32, 32, 5, 96),
}


def model_size(size: Union[str, ModelSize]) -> ModelSize:
    """A size by its name, or one's own.

    Raises:
      TypeError: it is neither a text nor a `ModelSize`.
      ValueError: there is no size of that name.
    """
    if isinstance(size, ModelSize):
        return size
    if not isinstance(size, str):
        raise TypeError(f"model_size must be a name or a ModelSize, got {size!r}.")
    if size not in MODEL_SIZES:
        raise ValueError(f"model_size must be one of {', '.join(MODEL_SIZES)}, got {size!r}.")
    return MODEL_SIZES[size]
