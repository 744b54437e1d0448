"""Layers that end a network: from a distribution to its sample, mean or mode.

Draws are TensorFlow's: `tf.random.set_seed` makes those of a program repeatable.
"""

from __future__ import annotations

from typing import Any, Callable

import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp


class StochasticSamplingHead(snt.Module):
    """One sample for each element of the batch (Acme's `StochasticSamplingHead`)."""

    def __call__(self, distribution: tfp.distributions.Distribution) -> tf.Tensor:
        """Distribution -> sample, [batch..., event...].

        Raises:
          TypeError: the input is no distribution.
        """
        return _method(self, distribution, "sample")()


class StochasticMeanHead(snt.Module):
    """The mean (Acme's `StochasticMeanHead`)."""

    def __call__(self, distribution: tfp.distributions.Distribution) -> tf.Tensor:
        """Distribution -> mean, [batch..., event...].

        Raises:
          TypeError: the input is no distribution.
          NotImplementedError: TFP knows no mean of it.
        """
        return _method(self, distribution, "mean")()


class StochasticModeHead(snt.Module):
    """The mode (Acme's `StochasticModeHead`).

    Of a `DiscreteValuedDistribution` that is the position of an atom, not its value.
    """

    def __call__(self, distribution: tfp.distributions.Distribution) -> tf.Tensor:
        """Distribution -> mode, [batch..., event...].

        Raises:
          TypeError: the input is no distribution.
          NotImplementedError: TFP knows no mode of it.
        """
        try:
            return _method(self, distribution, "mode")()
        except NotImplementedError as error:
            raise NotImplementedError(
                f"The mode of a {type(distribution).__name__} is not known ({error}). If it is a "
                f"transformed distribution, put networks.ApproximateMode() before this layer."
            ) from error


def _method(head: snt.Module, distribution: Any, name: str) -> Callable[[], tf.Tensor]:
    """The method `name` of a distribution, which need not be one of TFP's."""
    # Arrays have a `mean` as well.
    if not all(callable(getattr(distribution, method, None)) for method in (name, "sample")):
        raise TypeError(
            f"{type(head).__name__} got a {type(distribution).__name__}, but needs a "
            f"distribution: let the layer before it be a head that returns one, for instance "
            f"networks.MultivariateNormalDiagHead(num_dimensions)."
        )
    return getattr(distribution, name)
