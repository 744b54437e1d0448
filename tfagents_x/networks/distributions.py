"""Distributions that the heads of `networks.distributional` return."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf
import tensorflow_probability as tfp

from tfagents_x.ops import checks


class _AtomsProperties(tfp.util.ParameterProperties):
    """Properties of a parameter that has no batch axes: the atoms.

    `event_ndims` is None, because TFP gives any other parameter as many axes as the batch
    has when it slices or broadcasts. Whoever asks for the number of an instance gets the
    truth: all axes belong to the event.
    """

    __slots__ = ()

    def instance_event_ndims(self, instance: Any, require_static: bool = False) -> int:
        del require_static
        return instance.values.shape.rank


class DiscreteValuedDistribution(tfp.distributions.Categorical):
    """A categorical distribution over real values (Acme's `DiscreteValuedDistribution`).

    The value distributions of Bellemare et al., 2017 (arXiv:1707.06887): fixed atoms, learnt
    probabilities. The atoms may have component axes D... in front of the last one, for one
    support per component; the batch comes before them, in the logits only.

    As in Acme, half of its methods speak of atoms' values and half of their positions
    (`index_of` and `value_of` lead from one to the other):

    * `mean`, `variance`, `stddev` and `sample` give values, of the dtype of the atoms;
    * `mode` gives a position, int32 (the first one of several), and `log_prob`, `prob` and
      `cdf` ask for one, 0 ... N - 1. Positions outside that range are an error on the CPU and
      NaN elsewhere, as in TensorFlow.

    The event shape is D..., but `log_prob`, `entropy` and divergences keep these axes: they
    are [batch..., D...]. Divergences compare position by position, whatever the atoms are.
    Probabilities are taken as they are by `mean`, `variance` and `entropy`, and normalised
    by `log_prob`.

    It is a composite tensor, so it passes through `tf.function`, `tf.while_loop` and
    `tf.nest` (with `expand_composites`), and can be the output of a SavedModel; whoever loads
    that must import this module first.

    Unlike in Acme, sampling works with component axes, and `log_prob` refuses floats, which
    were silently cut to integers there.
    """

    def __init__(
        self,
        values: Any,
        logits: Optional[Any] = None,
        probs: Optional[Any] = None,
        name: str = "DiscreteValuedDistribution",
    ):
        """Makes the distribution.

        Args:
          values: floats, [N] or [D..., N], the atoms. Arrays become tensors of the dtype of
            the logits, or float32.
          logits: floats, [batch..., D..., N], unnormalised log-probabilities.
          probs: floats, [batch..., D..., N], instead of `logits`.
          name: of the distribution.

        Raises:
          TypeError: an argument is not of a floating-point dtype, or the two dtypes differ.
          ValueError: both or none of `logits` and `probs` are given, the shapes don't fit,
            there is no atom, or probabilities that are known (not those of a graph) are
            negative.
        """
        if (logits is None) == (probs is None):
            given = "neither" if logits is None else "both"
            raise ValueError(
                f"DiscreteValuedDistribution got {given} of logits and probs, but needs exactly "
                f"one of them."
            )
        label, parameter = ("logits", logits) if probs is None else ("probs", probs)
        parameter, values = checks.float_tensors(**{label: parameter, "values": values})
        _require_atoms(label, parameter, values)
        if probs is not None:
            _require_not_negative(parameter)
        super().__init__(**{label: parameter}, name=name)
        self._values = values
        self._parameters = self._no_dependency(
            {"values": values, "logits": self._logits, "probs": self._probs, "name": name}
        )

    @property
    def values(self) -> tf.Tensor:
        """The atoms, [N] or [D..., N]."""
        return self._values

    def value_of(self, index: Any) -> tf.Tensor:
        """The atoms at positions `index`.

        Args:
          index: integers 0 ... N - 1, [..., D...].

        Returns:
          Floats, [..., D...].

        Raises:
          TypeError: `index` does not hold integers.
        """
        index = _positions(index)
        # Atom n of component c lies at c * N + n of the flat atoms.
        size = tf.shape(self._values)[-1]
        firsts = tf.reshape(
            tf.range(tf.size(self._values) // size) * size, tf.shape(self._values)[:-1]
        )
        return tf.gather(tf.reshape(self._values, [-1]), index + firsts)

    def index_of(self, value: Any) -> tf.Tensor:
        """The positions of the atoms nearest to `value`: of samples, the atoms drawn.

        `dist.log_prob(dist.index_of(dist.sample()))` is the log-probability of a sample.

        Args:
          value: floats of the dtype of the atoms, [..., D...].

        Returns:
          int32, [..., D...]: the first position of several equally near ones. Of NaN in a
          graph it is a position that means nothing.

        Raises:
          TypeError: `value` is not of the dtype of the atoms.
          ValueError: `value` is known (not a tensor of a graph) and has a NaN.
        """
        _, value = checks.float_tensors(values=self._values, value=value)
        known = tf.get_static_value(value)
        if known is not None and (known != known).any():  # also of bfloat16, unlike np.isnan
            raise ValueError("value has a NaN, which is near no atom: index_of needs numbers.")
        distance = tf.abs(value[..., tf.newaxis] - self._values)
        return tf.argmin(distance, axis=-1, output_type=tf.int32)

    def log_prob(self, value: Any, name: str = "log_prob", **kwargs: Any) -> tf.Tensor:
        """Log-probability of the atoms at positions `value`.

        Args:
          value: integers 0 ... N - 1, broadcast against [batch..., D...].
          name: of the operations.
          **kwargs: for TFP.

        Returns:
          Floats, [..., batch..., D...].

        Raises:
          TypeError: `value` does not hold integers.
        """
        return super().log_prob(_positions(value), name=name, **kwargs)

    def prob(self, value: Any, name: str = "prob", **kwargs: Any) -> tf.Tensor:
        """Probability of the atoms at positions `value`; see `log_prob`."""
        return super().prob(_positions(value), name=name, **kwargs)

    def cdf(self, value: Any, name: str = "cdf", **kwargs: Any) -> tf.Tensor:
        """Probability of the positions up to `value`; see `log_prob`."""
        return super().cdf(_positions(value), name=name, **kwargs)

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict[str, Any]:
        del dtype, num_classes

        def rank(dist: Any) -> int:
            return dist.values.shape.rank

        return {
            "values": _AtomsProperties(event_ndims=None),
            "logits": tfp.util.ParameterProperties(event_ndims=rank),
            "probs": tfp.util.ParameterProperties(event_ndims=rank, is_preferred=False),
        }

    def _sample_n(self, n: Any, seed: Any = None) -> tf.Tensor:
        # To this one component axes are batch axes like any other.
        positions = tfp.distributions.Categorical(logits=self._logits_parameter_no_checks())
        return self.value_of(positions.sample(n, seed=seed))

    def _mean(self) -> tf.Tensor:
        return tf.reduce_sum(self._probs_parameter_no_checks() * self._values, axis=-1)

    def _variance(self) -> tf.Tensor:
        deviation = self._values - self._mean()[..., tf.newaxis]
        squares = tf.square(deviation)
        return tf.reduce_sum(self._probs_parameter_no_checks() * squares, axis=-1)

    def _event_shape(self) -> tf.TensorShape:
        return self._values.shape[:-1]

    def _event_shape_tensor(self) -> tf.Tensor:
        return tf.shape(self._values)[:-1]


class ForwardedMode(tfp.distributions.TransformedDistribution):
    """A transformed distribution whose mode is the transformed mode of what it transforms.

    That is the true mode only if the bijector has a constant Jacobian; otherwise it is the
    usual approximation (see `ApproximateMode`). All else is as in TFP.
    """

    def __init__(
        self,
        distribution: tfp.distributions.Distribution,
        bijector: tfp.bijectors.Bijector,
        validate_args: bool = False,
        name: Optional[str] = None,
    ):
        """Makes the distribution; the arguments are those of `TransformedDistribution`."""
        parameters = dict(locals())
        super().__init__(
            distribution, bijector, validate_args=validate_args, parameters=parameters, name=name
        )

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict[str, Any]:
        # Inherited as they are; TFP warns about a subclass that does not say so.
        return super()._parameter_properties(dtype, num_classes=num_classes)

    def _mode(self, **kwargs: Any) -> tf.Tensor:
        distribution_kwargs, bijector_kwargs = self._kwargs_split_fn(kwargs)
        mode = self.distribution.mode(**distribution_kwargs)
        return self.bijector.forward(mode, **bijector_kwargs)


def _require_atoms(name: str, parameter: tf.Tensor, values: tf.Tensor) -> None:
    """Checks that `parameter` is [batch..., D..., N] where `values` is [D..., N]."""
    rank = values.shape.rank
    if not rank:
        raise ValueError(
            f"values has shape {values.shape}, but must have [N] or [D..., N]: one number for "
            f"each atom."
        )
    if values.shape[-1] == 0:
        raise ValueError(f"values has shape {values.shape}, but needs at least one atom.")
    shape = parameter.shape
    if shape.rank is None:
        return
    if shape.rank < rank or not shape[-rank:].is_compatible_with(values.shape):
        raise ValueError(
            f"{name} has shape {shape}, but must end in {values.shape}, the shape of values; "
            f"only batch axes may come before."
        )


def _require_not_negative(probs: tf.Tensor) -> None:
    known = tf.get_static_value(probs)
    if known is not None and (known < 0).any():
        raise ValueError(
            f"probs must not be negative, but the least is {known.min()}: pass unnormalised "
            f"log-probabilities as logits."
        )


def _positions(index: Any) -> tf.Tensor:
    """`index` as int32."""
    index = checks.tensor("the index of an atom", index)
    if not index.dtype.is_integer:
        raise TypeError(
            f"The index of an atom is {index.dtype.name}, but must be an integer: log_prob, prob "
            f"and cdf of a DiscreteValuedDistribution take positions 0 ... N - 1, not values. "
            f"Use dist.index_of(value) to find the positions of values."
        )
    return tf.cast(index, tf.int32)
