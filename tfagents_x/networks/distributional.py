"""Heads that turn features into distributions.

The layers of `networks.stochastic` take a sample, the mean or the mode of what they return.
All take features [B, D] or, with any axes in front, [T, B, D], and give these axes to the
batch of the distribution.
"""

from __future__ import annotations

import warnings
from typing import Any, Optional

import numpy as np
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp

from tfagents_x.networks import checks, distributions, initializers
from tfagents_x.ops import checks as ops_checks

tfd = tfp.distributions

_MIN_SCALE = 1e-4
_NEARLY_ZERO = snt.initializers.VarianceScaling(1e-4)
_ZEROS = snt.initializers.Zeros()


class DiscreteValuedHead(snt.Module):
    """A categorical distribution over fixed values (Acme's `DiscreteValuedHead`).

    Bellemare et al., 2017 (arXiv:1707.06887): `num_atoms` values from `vmin` to `vmax` in
    equal steps, their logits linear in the features.
    """

    def __init__(
        self,
        vmin: Any,
        vmax: Any,
        num_atoms: int,
        w_init: Optional[snt.initializers.Initializer] = None,
        b_init: Optional[snt.initializers.Initializer] = None,
    ):
        """Makes the layer; its variables come with the first call.

        Args:
          vmin: smallest value; a number, or an array for one support for each component.
          vmax: largest value; broadcast against `vmin`, to shape S....
          num_atoms: number N of values, at least 2.
          w_init: of the weights; None for Sonnet's default, and so `b_init`.
          b_init: of the biases.

        Raises:
          TypeError: `num_atoms` is no integer, `vmin` or `vmax` no number or array of such, or
            an initializer can't be called.
          ValueError: `num_atoms` is less than 2, `vmin` is not below `vmax`, or one of them
            is not finite, or known in a graph only.
        """
        super().__init__(name="DiscreteValuedHead")
        self._values = _atoms(vmin, vmax, checks.size("num_atoms", num_atoms, at_least=2))
        self._distributional_layer = snt.Linear(
            self._values.size,
            w_init=checks.initializer("w_init", w_init),
            b_init=checks.initializer("b_init", b_init),
        )

    def __call__(self, inputs: tf.Tensor) -> distributions.DiscreteValuedDistribution:
        """Features [B..., D] -> distribution of batch shape [B...] and event shape [S...].

        Raises:
          TypeError: `inputs` are not floating-point.
          ValueError: `inputs` have fewer than two axes, or an unknown number.
        """
        inputs = _features(self, inputs)
        logits = _apply(self._distributional_layer, inputs, self._values.shape)
        values = tf.constant(self._values.astype(logits.dtype.as_numpy_dtype))
        return distributions.DiscreteValuedDistribution(values=values, logits=logits)


class MultivariateNormalDiagHead(snt.Module):
    """A normal distribution without correlations (Acme's `MultivariateNormalDiagHead`).

    With the weights that it starts with, the mean is about 0 and the standard deviation
    about `init_scale`, whatever the features are.
    """

    def __init__(
        self,
        num_dimensions: int,
        init_scale: float = 0.3,
        min_scale: float = 1e-6,
        tanh_mean: bool = False,
        fixed_scale: bool = False,
        use_tfd_independent: bool = False,
        w_init: Optional[Any] = _NEARLY_ZERO,
        b_init: Optional[Any] = _ZEROS,
    ):
        """Makes the layers; their variables come with the first call.

        Args:
          num_dimensions: number A of dimensions.
          init_scale: standard deviation at first.
          min_scale: smallest standard deviation, added to it.
          tanh_mean: whether the mean goes through a tanh.
          fixed_scale: whether the standard deviation stays `init_scale`, exactly.
          use_tfd_independent: whether the result is a `tfd.Independent` of normals instead of
            a `tfd.MultivariateNormalDiag`: the same distribution, but divergences and the
            parameters of the normals are within reach.
          w_init: of the weights. Each layer gets a seed of its own if this has one, so mean
            and scale never start with equal weights (in Acme they do). None for Sonnet's
            default.
          b_init: of the biases, likewise.

        Raises:
          TypeError: `num_dimensions` is no integer, a scale no number, or an initializer can't
            be called.
          ValueError: `num_dimensions` or `init_scale` is not positive, or `min_scale` negative.
        """
        super().__init__(name="MultivariateNormalDiagHead")
        size = checks.size("num_dimensions", num_dimensions)
        checks.positive("init_scale", init_scale)
        checks.number("min_scale", min_scale, "finite and at least 0", 0.0, tf.float32.max)
        self._init_scale = init_scale
        self._min_scale = min_scale
        self._tanh_mean = tanh_mean
        self._fixed_scale = fixed_scale
        self._use_tfd_independent = use_tfd_independent
        w_inits = initializers.distinct(checks.initializer("w_init", w_init), 2)
        b_inits = initializers.distinct(checks.initializer("b_init", b_init), 2)
        self._mean_layer = snt.Linear(size, w_init=w_inits[0], b_init=b_inits[0])
        if not fixed_scale:
            self._scale_layer = snt.Linear(size, w_init=w_inits[1], b_init=b_inits[1])

    def __call__(self, inputs: tf.Tensor) -> tfp.distributions.Distribution:
        """Features [B..., D] -> distribution of batch shape [B...] and event shape [A].

        Raises:
          TypeError: `inputs` are not floating-point.
          ValueError: `inputs` have fewer than two axes, or an unknown number.
        """
        inputs = _features(self, inputs)
        mean = _apply(self._mean_layer, inputs)
        if self._fixed_scale:
            scale = tf.ones_like(mean) * self._init_scale
        else:
            scale = _scale(_apply(self._scale_layer, inputs), self._init_scale) + self._min_scale
        if self._tanh_mean:
            mean = tf.tanh(mean)
        if self._use_tfd_independent:
            return tfd.Independent(tfd.Normal(mean, scale), reinterpreted_batch_ndims=1)
        return tfd.MultivariateNormalDiag(loc=mean, scale_diag=scale)


class GaussianMixture(snt.Module):
    """A mixture of normal distributions; see the two classes derived from it.

    Acme's `GaussianMixture`. At first the components are nearly equal: means of about 0,
    standard deviations of about `init_scale`, equal weights.
    """

    def __init__(
        self,
        num_dimensions: int,
        num_components: int,
        multivariate: bool,
        init_scale: Optional[float] = None,
        name: str = "GaussianMixture",
    ):
        """Makes the layers; their variables come with the first call.

        Args:
          num_dimensions: number A of dimensions.
          num_components: number K of components.
          multivariate: whether there is one mixture of distributions over all dimensions,
            instead of an independent mixture for each dimension.
          init_scale: standard deviation of the components at first; log 2 if None.
          name: of the module.

        Raises:
          TypeError: a size is no integer, or `init_scale` no number.
          ValueError: a size or `init_scale` is not positive.
        """
        super().__init__(name=name)
        self._num_dimensions = checks.size("num_dimensions", num_dimensions)
        self._num_components = checks.size("num_components", num_components)
        self._multivariate = multivariate
        if init_scale is not None:
            checks.positive("init_scale", init_scale)
        self._init_scale = init_scale
        total = self._num_dimensions * self._num_components
        w_init = snt.initializers.VarianceScaling(1e-5)
        self._logit_layer = snt.Linear(num_components if multivariate else total, w_init=w_init)
        self._loc_layer = snt.Linear(total, w_init=w_init)
        self._scale_layer = snt.Linear(total, w_init=w_init)

    def __call__(
        self, inputs: tf.Tensor, low_noise_policy: bool = False
    ) -> tfp.distributions.Distribution:
        """Features [B..., D] -> distribution of batch shape [B...] and event shape [A].

        Args:
          inputs: floats, [B..., D].
          low_noise_policy: whether all components get the least standard deviation (1e-4),
            which makes of the distribution nearly a choice among their means.

        Raises:
          TypeError: `inputs` are not floating-point.
          ValueError: `inputs` have fewer than two axes, or an unknown number.
        """
        inputs = _features(self, inputs)
        shape = self._component_shape()
        logits = _apply(self._logit_layer, inputs, shape[:1] if self._multivariate else shape)
        locs = _apply(self._loc_layer, inputs, shape)
        # Computed in any case, so that the first call makes all variables.
        scales = _scale(_apply(self._scale_layer, inputs, shape), self._init_scale) + _MIN_SCALE
        if low_noise_policy:
            scales = tf.ones_like(locs) * _MIN_SCALE
        mixture = tfd.Categorical(logits=logits)
        if self._multivariate:
            components = tfd.MultivariateNormalDiag(loc=locs, scale_diag=scales)
            return tfd.MixtureSameFamily(mixture, components)
        per_dimension = tfd.MixtureSameFamily(mixture, tfd.Normal(locs, scales))
        return tfd.Independent(per_dimension, reinterpreted_batch_ndims=1)

    def _component_shape(self) -> tuple[int, int]:
        """Axes of the means: components come where TFP looks for them."""
        shape = self._num_components, self._num_dimensions
        return shape if self._multivariate else shape[::-1]


class UnivariateGaussianMixture(GaussianMixture):
    """An independent mixture for each dimension (Acme's `UnivariateGaussianMixture`)."""

    def __init__(
        self,
        num_dimensions: int,
        num_components: int = 5,
        init_scale: Optional[float] = None,
        num_mixtures: Optional[int] = None,
    ):
        """Makes the layers; see `GaussianMixture`.

        Args:
          num_dimensions: number A of dimensions.
          num_components: number K of components.
          init_scale: standard deviation of the components at first; log 2 if None.
          num_mixtures: old name of `num_components`, which it replaces.

        Raises:
          TypeError: a size is no integer, or `init_scale` no number.
          ValueError: a size or `init_scale` is not positive.
        """
        if num_mixtures is not None:
            message = "num_mixtures is deprecated, and replaces num_components: pass that instead."
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            num_components = num_mixtures
        super().__init__(
            num_dimensions, num_components, False, init_scale, name="UnivariateGaussianMixture"
        )


class MultivariateGaussianMixture(GaussianMixture):
    """One mixture of distributions over all dimensions (Acme's `MultivariateGaussianMixture`)."""

    def __init__(
        self, num_dimensions: int, num_components: int = 5, init_scale: Optional[float] = None
    ):
        """Makes the layers; see `GaussianMixture`.

        Args:
          num_dimensions: number A of dimensions.
          num_components: number K of components.
          init_scale: standard deviation of the components at first; log 2 if None.

        Raises:
          TypeError: a size is no integer, or `init_scale` no number.
          ValueError: a size or `init_scale` is not positive.
        """
        super().__init__(
            num_dimensions, num_components, True, init_scale, name="MultivariateGaussianMixture"
        )


GaussianMixtureHead = UnivariateGaussianMixture


class ApproximateMode(snt.Module):
    """Gives transformed distributions a mode (Acme's `ApproximateMode`).

    TFP knows none where the Jacobian of the bijector varies. A common approximation is to
    transform the mode of the distribution underneath.

    Unlike in Acme the result is a new distribution, which keeps its mode when it is copied,
    sliced or returned from a `tf.function`, and `tfd.Independent` is looked into.
    """

    def __call__(self, inputs: tfp.distributions.Distribution) -> tfp.distributions.Distribution:
        """Distribution -> the same one with a mode; one that needs none is returned as it is.

        Raises:
          TypeError: the input is no distribution.
        """
        if not isinstance(inputs, tfd.Distribution):
            raise TypeError(
                f"ApproximateMode got a {type(inputs).__name__}, but needs a tfp distribution: "
                f"put it behind a head that returns one."
            )
        if isinstance(inputs, tfd.Independent):
            return inputs.copy(distribution=self(inputs.distribution))
        bijector = getattr(inputs, "bijector", None)
        if bijector is None or bijector.is_constant_jacobian:
            return inputs
        return distributions.ForwardedMode(
            inputs.distribution, bijector, validate_args=inputs.validate_args, name=inputs.name
        )


def _atoms(vmin: Any, vmax: Any, num_atoms: int) -> np.ndarray:
    """[S..., N]: values in equal steps, as `tf.linspace` makes them."""
    low, high = (_known(name, x) for name, x in (("vmin", vmin), ("vmax", vmax)))
    try:
        low, high = np.broadcast_arrays(low, high)
    except ValueError as error:
        raise ValueError(
            f"vmin has shape {np.shape(low)} and vmax {np.shape(high)}, but they must broadcast "
            f"against each other."
        ) from error
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError(f"vmin must be finite and less than vmax, got {vmin} and {vmax}.")
    dtype = np.result_type(low, high)
    with tf.init_scope():  # also where a function is being traced, this is done at once
        return tf.linspace(low.astype(dtype), high.astype(dtype), num_atoms, axis=-1).numpy()


def _known(name: str, value: Any) -> np.ndarray:
    """`value` as an array of floats; float32 unless it has a floating-point dtype already."""
    tensor = ops_checks.tensor(name, value)
    if not (tensor.dtype.is_floating or tensor.dtype.is_integer):
        raise TypeError(f"{name} must be a number or an array of numbers, got {value!r}.")
    found = tf.get_static_value(tensor)
    if found is None:
        raise ValueError(f"{name} must be a number or an array, not a tensor of a graph.")
    return np.asarray(found if tensor.dtype.is_floating else found.astype(np.float32))


def _features(head: snt.Module, inputs: Any) -> tf.Tensor:
    inputs = checks.features(type(head).__name__, inputs)
    if inputs.shape.rank is None:
        raise ValueError(
            f"{type(head).__name__} got inputs with an unknown number of axes: give the function "
            f"that is being traced a signature such as tf.TensorSpec([None, 64])."
        )
    return inputs


def _apply(layer: snt.Linear, inputs: tf.Tensor, shape: Any = None) -> tf.Tensor:
    """[B..., D] -> [B..., *shape]: one matrix product, whatever axes are in front."""
    axes = inputs.shape.rank - 1
    outputs = layer(snt.merge_leading_dims(inputs, axes))
    if shape is not None:
        outputs = tf.reshape(outputs, [-1, *shape])
    return snt.split_leading_dim(outputs, inputs, axes)


def _scale(raw: tf.Tensor, init_scale: Optional[float]) -> tf.Tensor:
    """Softplus, scaled to be `init_scale` at 0."""
    if init_scale is None:
        return tf.nn.softplus(raw)
    return tf.nn.softplus(raw) * (init_scale / tf.nn.softplus(tf.zeros([], raw.dtype)))
