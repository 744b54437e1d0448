"""Feed-forward torsos and layers for continuous control."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Optional

import sonnet as snt
import tensorflow as tf

from tfagents_x import types
from tfagents_x.networks import checks, initializers
from tfagents_x.utils import nest

Activation = Callable[[tf.Tensor], tf.Tensor]

# Sonnet initializers without a seed draw anew each time, so all layers may share this one.
uniform_initializer = initializers.uniform()


class NearZeroInitializedLinear(snt.Linear):
    """A linear layer that starts close to 0, for outputs that should begin at a known place.

    Weights are truncated normal with a variance of `scale` over the number of inputs,
    biases 0 (Acme's `NearZeroInitializedLinear`).
    """

    def __init__(self, output_size: int, scale: float = 1e-4):
        """Makes the layer; its variables come with the first call, on [..., B, D].

        Args:
          output_size: number of outputs.
          scale: variance of the weights times the number of inputs.

        Raises:
          TypeError: `output_size` is no integer, or `scale` no number.
          ValueError: `output_size` or `scale` is not positive.
        """
        w_init = snt.initializers.VarianceScaling(checks.positive("scale", scale))
        super().__init__(checks.size("output_size", output_size), w_init=w_init)


class LayerNormMLP(snt.Module):
    """A multi-layer perceptron whose first layer is normalised and squashed by tanh.

    Linear, LayerNorm and tanh, then the other layers with `activation` between them
    (Acme's `LayerNormMLP`). The last layer is linear, unless `activate_final`; with a
    single entry in `layer_sizes` it is the tanh of the first.
    """

    def __init__(
        self,
        layer_sizes: Sequence[int],
        w_init: Optional[snt.initializers.Initializer] = uniform_initializer,
        activation: Activation = tf.nn.elu,
        activate_final: bool = False,
    ):
        """Makes the layers; their variables come with the first call.

        Args:
          layer_sizes: width of every layer, the first included.
          w_init: initializer of the linear layers' weights, None for Sonnet's default. If it
            has a seed, layer i gets the seed plus i, so that no two layers start equal.
          activation: between the layers after the first.
          activate_final: whether the last layer is followed by `activation`.

        Raises:
          TypeError: `activation` or `w_init` can't be called, or a size is no integer.
          ValueError: `layer_sizes` is empty or has an entry that is not positive.
        """
        super().__init__(name="feedforward_mlp_torso")
        layer_sizes = checks.sizes("layer_sizes", layer_sizes, count=1)
        w_inits = initializers.distinct(checks.initializer("w_init", w_init), len(layer_sizes))
        checks.function("activation", activation)
        self._network = snt.Sequential(
            [
                snt.Linear(layer_sizes[0], w_init=w_inits[0]),
                snt.LayerNorm(axis=slice(1, None), create_scale=True, create_offset=True),
                tf.nn.tanh,
                _mlp(layer_sizes[1:], w_inits[1:], activation, activate_final),
            ]
        )

    def __call__(self, observations: types.NestedTensor) -> tf.Tensor:
        """Flattens and concatenates the leaves, and applies the layers.

        Args:
          observations: nest of tensors [B, ...] of one floating-point dtype.

        Returns:
          [B, layer_sizes[-1]] of that dtype.

        Raises:
          TypeError: the leaves are not floating-point, or of several dtypes.
        """
        return self._network(checks.features("LayerNormMLP", nest.batch_concat(observations)))


class ResidualLayernormWrapper(snt.Module):
    """`LayerNorm(layer(x) + x)`, normalised over the last axis."""

    def __init__(self, layer: Callable[[tf.Tensor], tf.Tensor]):
        """Wraps a layer.

        Args:
          layer: from [..., D] to [..., D].

        Raises:
          TypeError: `layer` can't be called.
        """
        super().__init__(name="ResidualLayernormWrapper")
        self._layer = checks.function("layer", layer)
        self._layer_norm = snt.LayerNorm(axis=-1, create_scale=True, create_offset=True)

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        """[..., D] -> [..., D].

        Raises:
          ValueError: the layer's output has another shape than its input.
        """
        outputs = self._layer(inputs)
        if not outputs.shape.is_compatible_with(inputs.shape):
            raise ValueError(
                f"A residual layer must keep the shape of its inputs, but it made {outputs.shape} "
                f"of {inputs.shape}: give its last layer as many outputs as there are inputs."
            )
        return self._layer_norm(outputs + inputs)


class LayerNormAndResidualMLP(snt.Module):
    """A linear layer, then blocks of two layers with a residual connection and layer norm.

    Each block is `LayerNorm(x + Linear(relu(Linear(x))))` (Acme's `LayerNormAndResidualMLP`).
    """

    def __init__(self, hidden_size: int, num_blocks: int):
        """Makes the layers; their variables come with the first call.

        Args:
          hidden_size: width of every layer.
          num_blocks: number of residual blocks; with 0 there is only the first layer.

        Raises:
          ValueError: `hidden_size` is not positive or `num_blocks` negative.
        """
        super().__init__(name="LayerNormAndResidualMLP")
        width = checks.size("hidden_size", hidden_size)
        layers: list = [snt.nets.MLP([width], w_init=uniform_initializer)]
        for _ in range(checks.size("num_blocks", num_blocks, at_least=0)):
            mlp = snt.nets.MLP([width, width], w_init=uniform_initializer)
            layers.append(ResidualLayernormWrapper(mlp))
        self._module = snt.Sequential(layers)

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        """[..., B, D] -> [..., B, hidden_size].

        Raises:
          TypeError: `inputs` are not floating-point.
          ValueError: `inputs` have fewer than two axes.
        """
        return self._module(checks.features("LayerNormAndResidualMLP", inputs))


def _mlp(
    sizes: Sequence[int], w_inits: Sequence[Any], activation: Activation, activate_final: bool
) -> snt.nets.MLP:
    """A `snt.nets.MLP` whose layers have an initializer each."""
    mlp = snt.nets.MLP(sizes, activation=activation, activate_final=activate_final)
    for layer, w_init in zip(mlp._layers, w_inits):
        layer.w_init = w_init
    return mlp
