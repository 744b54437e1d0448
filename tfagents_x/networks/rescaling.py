"""Layers that bring outputs into the bounds of an action spec."""

from __future__ import annotations

from typing import Any, Optional, Union

import numpy as np
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp

from tfagents_x import specs
from tfagents_x.networks import checks

tfb = tfp.bijectors


class _ToSpec(snt.Module):
    """What the three layers share: the spec's bounds, checked."""

    def __init__(self, spec: specs.BoundedArray, name: Optional[str] = None):
        """Reads the bounds.

        Args:
          spec: of continuous actions, with finite bounds.
          name: of the module; by default made of its class.

        Raises:
          TypeError: `spec` is not a `BoundedArray`, or one of discrete actions.
          ValueError: a bound is infinite or NaN.
        """
        super().__init__(name=name)
        self._shape = _check(spec, type(self).__name__).shape
        self._min = np.broadcast_to(spec.minimum, spec.shape)
        self._max = np.broadcast_to(spec.maximum, spec.shape)

    def _inputs(self, inputs: Any) -> tf.Tensor:
        tensor = checks.floats(type(self).__name__, inputs)
        self._check_shape(tensor.shape)
        return tensor

    def _check_shape(self, shape: tf.TensorShape) -> None:
        """A shape that is merely broadcast would act on the wrong axis without a word."""
        count = len(self._shape)
        if shape.rank is None or count == 0:
            return
        wanted = ", ".join(map(str, self._shape))
        if shape.rank < count or not shape[shape.rank - count :].is_compatible_with(self._shape):
            raise ValueError(
                f"{type(self).__name__} was made for actions of shape {self._shape}, but its "
                f"inputs have shape {shape}: they must be [..., {wanted}]."
            )


class _AffineToSpec(_ToSpec):
    """Adds the linear map from [-1, 1] to the bounds."""

    def __init__(self, spec: specs.BoundedArray, name: Optional[str] = None):
        """Reads the bounds, as above.

        Args:
          spec: of continuous actions, with finite bounds.
          name: of the module; by default made of its class.

        Raises:
          TypeError: `spec` is not a `BoundedArray`, or one of discrete actions.
          ValueError: a bound, or maximum minus minimum, is infinite or NaN.
        """
        super().__init__(spec, name)
        with np.errstate(over="ignore"):
            self._scale = self._max - self._min
        if not np.all(np.isfinite(self._scale)):
            raise ValueError(
                f"{type(self).__name__} needs a finite range, but from {self._min} to {self._max} "
                f"is more than {self._scale.dtype} can hold: give the spec real bounds."
            )

    def _from_unit(self, inputs: tf.Tensor) -> tf.Tensor:
        scale, offset = tf.cast(self._scale, inputs.dtype), tf.cast(self._min, inputs.dtype)
        return 0.5 * (inputs + 1.0) * scale + offset


class ClipToSpec(_ToSpec):
    """Clips to the bounds of a spec (Acme's `ClipToSpec`)."""

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        """[..., *spec.shape] of a float dtype -> the same, within the bounds.

        Raises:
          TypeError: `inputs` are not floating-point.
          ValueError: their last axes don't have the spec's shape.
        """
        inputs = self._inputs(inputs)
        low, high = tf.cast(self._min, inputs.dtype), tf.cast(self._max, inputs.dtype)
        return tf.clip_by_value(inputs, low, high)


class RescaleToSpec(_AffineToSpec):
    """Maps [-1, 1] linearly to the bounds of a spec (Acme's `RescaleToSpec`).

    Inputs outside of [-1, 1] are mapped outside of the bounds.
    """

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        """[..., *spec.shape] of a float dtype -> the same, rescaled.

        Raises:
          TypeError: `inputs` are not floating-point.
          ValueError: their last axes don't have the spec's shape.
        """
        return self._from_unit(self._inputs(inputs))


class TanhToSpec(_AffineToSpec):
    """Squashes real numbers into the bounds of a spec with tanh (Acme's `TanhToSpec`)."""

    def __call__(
        self, inputs: Union[tf.Tensor, tfp.distributions.Distribution]
    ) -> Union[tf.Tensor, tfp.distributions.Distribution]:
        """Squashes a tensor, or the samples of a distribution.

        Args:
          inputs: [..., *spec.shape] of a float dtype, or a distribution over such.

        Returns:
          The same within the bounds; of a distribution the transformed one, whose `log_prob`
          takes the squashing into account. It is not finite for an action exactly on a bound,
          where tanh can't be inverted: clip stored actions a little inside.

        Raises:
          TypeError: `inputs` are not floating-point.
          ValueError: their last axes don't have the spec's shape, or a distribution should be
            squeezed between two equal bounds, where it has no density.
        """
        if isinstance(inputs, tfp.distributions.Distribution):
            return self._transformed(inputs)
        return self._from_unit(tf.tanh(self._inputs(inputs)))

    def _transformed(
        self, distribution: tfp.distributions.Distribution
    ) -> tfp.distributions.Distribution:
        self._check_shape(distribution.batch_shape.concatenate(distribution.event_shape))
        if np.any(self._scale == 0):
            raise ValueError(
                "TanhToSpec can't transform a distribution where minimum and maximum are equal "
                f"({self._min} and {self._max}): it would have no density. Leave these entries "
                "of the action out of the distribution."
            )
        scale = tf.cast(0.5 * self._scale, distribution.dtype)
        offset = tf.cast(self._min + 0.5 * self._scale, distribution.dtype)
        squashed = tfb.Scale(scale)(tfb.Tanh()(distribution))
        return tfb.Shift(offset)(squashed)


def _check(spec: Any, layer: str) -> specs.BoundedArray:
    if not isinstance(spec, specs.BoundedArray):
        raise TypeError(
            f"{layer} needs the bounds of a specs.BoundedArray, got {spec!r}, which has none: "
            "use BoundedArray(shape, dtype, minimum, maximum)."
        )
    if isinstance(spec, specs.DiscreteArray):
        raise TypeError(
            f"{layer} is for continuous actions, got {spec!r}: choose a discrete action from "
            "logits or action values instead."
        )
    if not np.all(np.isfinite(spec.minimum)) or not np.all(np.isfinite(spec.maximum)):
        raise ValueError(
            f"{layer} needs finite bounds, got minimum {spec.minimum} and maximum {spec.maximum}: "
            "give the spec real bounds, or leave this layer out."
        )
    return spec
