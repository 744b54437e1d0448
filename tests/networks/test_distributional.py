"""Heads: their distributions, initial weights and shapes."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp

from tests.ops import modes
from tfagents_x.networks import distributional as heads
from tfagents_x.networks import distributions

tfd, tfb = tfp.distributions, tfp.bijectors

HEADS = {
    "discrete": lambda: heads.DiscreteValuedHead(-1.0, 1.0, 5),
    "discrete_axes": lambda: heads.DiscreteValuedHead(np.zeros([3]), np.ones([3]), 5),
    "normal": lambda: heads.MultivariateNormalDiagHead(3),
    "normal_fixed": lambda: heads.MultivariateNormalDiagHead(3, fixed_scale=True),
    "normal_independent": lambda: heads.MultivariateNormalDiagHead(3, use_tfd_independent=True),
    "univariate": lambda: heads.UnivariateGaussianMixture(3, num_components=4),
    "multivariate": lambda: heads.MultivariateGaussianMixture(3, num_components=4),
}
each_head = pytest.mark.parametrize("make", HEADS.values(), ids=HEADS)


def floats(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def randomize(module):
    """Weights of size 1, so that what comes out depends on what goes in."""
    for i, variable in enumerate(module.variables):
        variable.assign(floats(*variable.shape, seed=i))
    return module


def built(make, width=6):
    head = make()
    head(tf.zeros([1, width]))
    return randomize(head)


def point(dist, value=0):
    """An event: all zeros, or position 0."""
    return np.full(dist.event_shape, value, np.int32 if dist.dtype.is_integer else np.float32)


# ---- All heads ----


@each_head
def test_axes_in_front(make):
    """[T, B, D] is what [T * B, D] is, and whatever is not known while tracing."""
    head = built(make)
    inputs = tf.constant(floats(4, 2, 6))
    dist, flat = head(inputs), head(tf.reshape(inputs, [8, 6]))
    assert dist.batch_shape == (4, 2) and flat.batch_shape == (8,)
    assert dist.event_shape == flat.event_shape
    x = point(dist)
    expected = flat.log_prob(x).numpy()
    np.testing.assert_allclose(
        tf.reshape(dist.log_prob(x), expected.shape), expected, rtol=1e-4, atol=1e-5
    )
    assert dist.sample().shape == (4, 2, *dist.event_shape)

    @tf.function(input_signature=[tf.TensorSpec([None, None, 6])])
    def unknown(inputs):
        dist = head(inputs)
        assert dist.batch_shape.as_list() == [None, None]
        return dist.log_prob(x), dist.sample()

    log_prob, sample = unknown(inputs)
    np.testing.assert_allclose(log_prob, dist.log_prob(x), rtol=1e-4, atol=1e-5)
    assert sample.shape == dist.sample().shape


@each_head
def test_compiled(make):
    head = built(make)
    inputs = tf.constant(floats(4, 6))
    log_prob = tf.function(lambda x: head(x).log_prob(point(head(x))), jit_compile=True)
    expected = head(inputs).log_prob(point(head(inputs)))
    np.testing.assert_allclose(log_prob(inputs), expected, rtol=1e-4, atol=1e-4)


@each_head
def test_functions_return_it(make):
    head = built(make)
    inputs = tf.constant(floats(4, 6))
    dist = tf.function(head)(inputs)
    assert type(dist) is type(head(inputs))
    np.testing.assert_allclose(dist.mean(), head(inputs).mean(), rtol=1e-5, atol=1e-6)


@each_head
def test_every_variable_has_a_gradient(make):
    head = built(make)
    with tf.GradientTape() as tape:
        dist = head(floats(4, 6))
        loss = tf.reduce_sum(dist.log_prob(point(dist, 1)))
    gradients = tape.gradient(loss, head.trainable_variables)
    assert all(g is not None and np.abs(g).max() > 0 for g in gradients)


@each_head
def test_saved_models_hold_it(make, tmp_path):
    head = built(make)
    module = tf.Module()
    module.head = head
    module.call = tf.function(head, input_signature=[tf.TensorSpec([None, 6])])
    tf.saved_model.save(module, str(tmp_path))
    inputs = tf.constant(floats(4, 6))
    loaded = tf.saved_model.load(str(tmp_path))
    dist = loaded.call(inputs)
    assert type(dist) is type(head(inputs))
    np.testing.assert_allclose(dist.mean(), head(inputs).mean(), rtol=1e-5, atol=1e-6)


@each_head
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_dtypes(make, dtype):
    head = make()
    dist = head(tf.cast(floats(4, 6), dtype))
    assert {v.dtype.name for v in head.variables} == {dtype}
    assert dist.mean().dtype == dtype


@each_head
def test_inputs_that_do_not_fit(make):
    head = make()
    name = type(head).__name__
    with pytest.raises(ValueError, match=rf"{name} needs a batch of vectors.*\(6,\)"):
        head(tf.zeros([6]))
    with pytest.raises(TypeError, match=f"{name} needs floating-point inputs, got int32"):
        head(tf.zeros([4, 6], tf.int32))
    with pytest.raises(ValueError, match=f"{name} got inputs with an unknown number of axes"):
        tf.function(head, input_signature=[tf.TensorSpec(None)]).get_concrete_function()


# ---- DiscreteValuedHead ----


def test_atoms():
    dist = heads.DiscreteValuedHead(-150.0, 150.0, 51)(floats(4, 6))
    assert type(dist) is distributions.DiscreteValuedDistribution
    assert dist.logits.shape == (4, 51)
    np.testing.assert_array_equal(dist.values, tf.linspace(-150.0, 150.0, 51))


@pytest.mark.parametrize("cast", [np.asarray, tf.constant])
def test_atoms_of_components(cast):
    vmin, vmax = cast(np.array([[0.0], [-2.0]])), cast(np.array([[1.0, 2.0, 3.0]]))
    dist = heads.DiscreteValuedHead(vmin, vmax, 5)(floats(4, 6))
    assert dist.batch_shape == (4,) and dist.event_shape == (2, 3)
    assert dist.logits.shape == (4, 2, 3, 5) and dist.values.dtype == tf.float32
    for i, low in enumerate([0.0, -2.0]):
        for j, high in enumerate([1.0, 2.0, 3.0]):
            expected = np.linspace(low, high, 5)
            np.testing.assert_allclose(dist.values[i, j], expected, rtol=1e-6)


def test_logits_are_linear_in_the_features():
    head = built(lambda: heads.DiscreteValuedHead(np.zeros(3), np.ones(3), 5))
    b, w = head.variables
    inputs = floats(4, 6)
    expected = (inputs @ w.numpy() + b.numpy()).reshape(4, 3, 5)
    np.testing.assert_allclose(head(inputs).logits, expected, rtol=1e-4, atol=1e-5)


def test_integer_ends_are_float32():
    dist = heads.DiscreteValuedHead(-1, np.int64(1), 3)(floats(4, 6))
    np.testing.assert_array_equal(dist.values, tf.constant([-1.0, 0.0, 1.0]))


def test_heads_can_be_made_while_tracing():
    made = []

    @tf.function(autograph=False)
    def first(x):
        if not made:
            made.append(heads.DiscreteValuedHead(-1.0, tf.constant(1.0), 3))
        return made[0](x).values

    np.testing.assert_array_equal(first(tf.zeros([4, 6])), [-1.0, 0.0, 1.0])
    np.testing.assert_array_equal(made[0](tf.zeros([4, 6])).values, [-1.0, 0.0, 1.0])


def test_initializers_of_the_discrete_head():
    constant = snt.initializers.Constant
    head = heads.DiscreteValuedHead(-1.0, 1.0, 3, w_init=constant(0.5), b_init=constant(2.0))
    np.testing.assert_array_equal(head(tf.ones([1, 6])).logits, [[5.0] * 3])


@pytest.mark.parametrize(
    "arguments, error, wanted",
    [
        ((1.0, 1.0, 5), ValueError, "vmin must be finite and less than vmax, got 1.0 and 1.0"),
        ((-np.inf, 1.0, 5), ValueError, "vmin must be finite"),
        ((0.0, np.nan, 5), ValueError, "vmin must be finite"),
        ((np.zeros(2), np.ones(3), 5), ValueError, r"vmin has shape \(2,\) and vmax \(3,\)"),
        ((-1.0, 1.0, 1), ValueError, "num_atoms must be at least 2"),
        ((-1.0, 1.0, 5.0), TypeError, "num_atoms must be an integer"),
        (("a", 1.0, 5), TypeError, "vmin must be a number or an array of numbers, got 'a'"),
        ((0.0, None, 5), TypeError, "vmax is a NoneType"),
        ((0.0, 1.0, 5, "x"), TypeError, "w_init must be an initializer .*, got 'x'"),
        ((0.0, 1.0, 5, None, 3), TypeError, "b_init must be an initializer .*, got 3"),
    ],
)
def test_ends_that_do_not_fit(arguments, error, wanted):
    with pytest.raises(error, match=wanted):
        heads.DiscreteValuedHead(*arguments)


def test_ends_that_are_not_known():
    make = tf.function(lambda vmax: heads.DiscreteValuedHead(0.0, vmax, 3))
    with pytest.raises(ValueError, match="vmax must be a number or an array, not a tensor of"):
        make(tf.constant(1.0))


# ---- MultivariateNormalDiagHead ----


@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("tanh_mean", [False, True])
@pytest.mark.parametrize("fixed_scale", [False, True])
def test_normal(independent, tanh_mean, fixed_scale):
    head = heads.MultivariateNormalDiagHead(
        3, 0.7, 0.1, tanh_mean, fixed_scale, use_tfd_independent=independent
    )
    inputs = floats(4, 6)
    head(inputs)
    mean, raw = ((randomize(layer).w, layer.b) for layer in layers(head))
    dist = head(inputs)
    assert type(dist) is (tfd.Independent if independent else tfd.MultivariateNormalDiag)
    expected = inputs @ mean[0].numpy() + mean[1].numpy()
    expected = np.tanh(expected) if tanh_mean else expected
    np.testing.assert_allclose(dist.mean(), expected, rtol=1e-4, atol=1e-5)
    scale = np.full([4, 3], 0.7)
    if not fixed_scale:
        scale = np.log1p(np.exp(inputs @ raw[0].numpy() + raw[1].numpy()))
        scale = 0.7 * scale / np.log(2) + 0.1
    np.testing.assert_allclose(dist.stddev(), scale, rtol=1e-4)


def layers(head):
    mean = head._mean_layer
    return mean, getattr(head, "_scale_layer", mean)


def test_first_distribution_of_the_normal_head():
    """Weights of variance 1e-4 / fan-in, biases 0, whatever the features."""
    head = heads.MultivariateNormalDiagHead(50)
    dist = head(floats(4, 400))
    np.testing.assert_allclose(dist.mean(), np.zeros([4, 50]), atol=0.05)
    np.testing.assert_allclose(dist.stddev(), np.full([4, 50], 0.3), atol=0.01)
    for layer in layers(head):
        assert np.std(layer.w) == pytest.approx(np.sqrt(1e-4 / 400), rel=0.02)
        assert np.abs(layer.w).max() < 2.3 * np.sqrt(1e-4 / 400)  # truncated normal
        assert not layer.b.numpy().any()


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("how", ["eager", "graph"])
def test_no_two_layers_start_with_equal_weights(seed, how):
    """A graph draws the same numbers each time it meets one seed."""
    init = snt.initializers.TruncatedNormal(seed=seed)
    head = heads.MultivariateNormalDiagHead(5, w_init=init, b_init=init)
    modes.MODES[how](head)(tf.ones([1, 6]))
    mean, scale = layers(head)
    assert not np.isclose(mean.w, scale.w).any() and not np.isclose(mean.b, scale.b).any()
    assert init.seed == seed


@pytest.mark.parametrize(
    "make", [heads.UnivariateGaussianMixture, heads.MultivariateGaussianMixture]
)
def test_no_two_layers_of_mixtures_start_with_equal_weights(make):
    tf.random.set_seed(1)
    head = make(1, 4)
    tf.function(head)(tf.ones([1, 6]))
    weights = [v.numpy() for v in head.variables if v.shape.rank == 2]
    assert len(weights) == 3 and {w.shape for w in weights} == {(6, 4)}
    assert not any(np.isclose(weights[i], weights[j]).any() for i in range(3) for j in range(i))


@pytest.mark.parametrize(
    "arguments, wanted",
    [
        ({"num_dimensions": 0}, "num_dimensions must be at least 1"),
        ({"num_dimensions": 3, "init_scale": 0.0}, "init_scale must be positive, got 0.0"),
        (
            {"num_dimensions": 3, "min_scale": -1.0},
            "min_scale must be finite and at least 0, got -1.0",
        ),
    ],
)
def test_arguments_of_the_normal_head(arguments, wanted):
    with pytest.raises(ValueError, match=wanted):
        heads.MultivariateNormalDiagHead(**arguments)


@pytest.mark.parametrize(
    "arguments, wanted",
    [
        ({"init_scale": None}, "init_scale must be a number, got None"),
        ({"init_scale": "a"}, "init_scale must be a number, got 'a'"),
        ({"min_scale": None}, "min_scale must be a number, got None"),
        ({"w_init": "x"}, "w_init must be an initializer"),
        ({"b_init": 3}, "b_init must be an initializer"),
    ],
)
def test_types_of_the_arguments_of_the_normal_head(arguments, wanted):
    with pytest.raises(TypeError, match=wanted):
        heads.MultivariateNormalDiagHead(3, **arguments)


# ---- Mixtures ----


def parameters(head, inputs):
    """Logits, means, and standard deviations from the layers' definition."""
    raw = [
        inputs @ layer.w.numpy() + layer.b.numpy()
        for layer in (head._logit_layer, head._loc_layer, head._scale_layer)
    ]
    return raw[0], raw[1], np.log1p(np.exp(raw[2]))


@pytest.mark.parametrize("init_scale, factor", [(None, 1), (0.4, float(0.4 / np.log(2)))])
def test_univariate_mixture(init_scale, factor):
    head = built(lambda: heads.UnivariateGaussianMixture(3, 4, init_scale))
    inputs, x = floats(5, 6), floats(5, 3)
    logits, loc, scale = (a.reshape(5, 3, 4) for a in parameters(head, inputs))
    parts = tfd.Normal(loc, factor * scale + 1e-4).log_prob(x[..., None])
    expected = tf.reduce_logsumexp(tf.nn.log_softmax(logits) + parts, -1)
    found = head(inputs).log_prob(x)
    np.testing.assert_allclose(found, tf.reduce_sum(expected, -1), rtol=1e-4)


@pytest.mark.parametrize("init_scale, factor", [(None, 1), (0.4, float(0.4 / np.log(2)))])
def test_multivariate_mixture(init_scale, factor):
    head = built(lambda: heads.MultivariateGaussianMixture(3, 4, init_scale))
    inputs, x = floats(5, 6), floats(5, 3)
    logits, loc, scale = parameters(head, inputs)
    loc, scale = loc.reshape(5, 4, 3), scale.reshape(5, 4, 3)
    parts = tfd.Normal(loc, factor * scale + 1e-4).log_prob(x[:, None])
    parts = tf.reduce_sum(parts, -1)
    expected = tf.reduce_logsumexp(tf.nn.log_softmax(logits) + parts, -1)
    np.testing.assert_allclose(head(inputs).log_prob(x), expected, rtol=1e-4)


@pytest.mark.parametrize(
    "make", [heads.UnivariateGaussianMixture, heads.MultivariateGaussianMixture]
)
def test_low_noise(make):
    head = make(3, 4)
    inputs = floats(5, 6)
    dist = head(inputs, low_noise_policy=True)
    assert len(head.variables) == 6  # also the layer that was not needed
    randomize(head)
    noisy, dist = head(inputs), head(inputs, low_noise_policy=True)
    assert len(head.variables) == 6
    np.testing.assert_allclose(dist.mean(), noisy.mean(), rtol=1e-4, atol=1e-5)
    centres = parameters(head, inputs)[1].reshape(5, -1)
    gaps = np.abs(dist.sample(seed=1).numpy()[:, :, None] - centres[:, None, :]).min(-1)
    assert gaps.max() < 1e-3


@pytest.mark.parametrize(
    "make", [heads.UnivariateGaussianMixture, heads.MultivariateGaussianMixture]
)
def test_first_distribution_of_mixtures(make):
    dist = make(10, init_scale=0.4)(floats(4, 400))
    np.testing.assert_allclose(dist.mean(), np.zeros([4, 10]), atol=0.02)
    np.testing.assert_allclose(dist.stddev(), np.full([4, 10], 0.4), atol=0.02)


def test_old_names_of_mixtures():
    assert heads.GaussianMixtureHead is heads.UnivariateGaussianMixture
    with pytest.warns(DeprecationWarning, match="num_mixtures is deprecated"):
        head = heads.UnivariateGaussianMixture(3, num_mixtures=7)
    head(floats(4, 6))
    assert head._logit_layer.output_size == 3 * 7


@pytest.mark.parametrize(
    "make", [heads.UnivariateGaussianMixture, heads.MultivariateGaussianMixture]
)
@pytest.mark.parametrize(
    "arguments, error, wanted",
    [
        ((0,), ValueError, "num_dimensions must be at least 1"),
        ((3, 0), ValueError, "num_components must be at least 1"),
        ((3, 2.5), TypeError, "num_components must be an integer"),
        ((3, 2, -1.0), ValueError, "init_scale must be positive"),
        ((3, 2, "a"), TypeError, "init_scale must be a number, got 'a'"),
    ],
)
def test_arguments_of_mixtures(make, arguments, error, wanted):
    with pytest.raises(error, match=wanted):
        make(*arguments)


# ---- Names, ApproximateMode ----


def test_names_under_which_checkpoints_find_layers():
    """Those of Acme."""
    expected = {
        "discrete": ["_distributional_layer"],
        "normal": ["_mean_layer", "_scale_layer"],
        "univariate": ["_loc_layer", "_logit_layer", "_scale_layer"],
        "multivariate": ["_loc_layer", "_logit_layer", "_scale_layer"],
    }
    for name, layers in expected.items():
        head = HEADS[name]()
        assert sorted(k for k in vars(head) if k.endswith("_layer")) == layers
        head(tf.zeros([1, 6]))
        assert all(v.name.startswith(f"{head.name}/linear") for v in head.variables)


LOC = floats(4)


def test_approximate_mode():
    plain = tfd.TransformedDistribution(tfd.Normal(LOC, 0.5), tfb.Tanh())
    with pytest.raises(NotImplementedError):
        plain.mode()
    dist = heads.ApproximateMode()(plain)
    np.testing.assert_allclose(dist.mode(), np.tanh(LOC), rtol=1e-6)
    np.testing.assert_array_equal(dist.log_prob(0.3), plain.log_prob(0.3))
    with pytest.raises(NotImplementedError):
        plain.mode()  # it is another distribution


def test_approximate_mode_of_independent_parts():
    parts = tfd.TransformedDistribution(tfd.Normal(LOC, 0.5), tfb.Tanh())
    dist = heads.ApproximateMode()(tfd.Independent(parts, 1))
    assert dist.batch_shape == () and dist.event_shape == (4,)
    np.testing.assert_allclose(dist.mode(), np.tanh(LOC), rtol=1e-6)


def test_approximate_mode_of_what_is_no_composite_tensor():
    """TFP makes another class of them."""
    inline = tfb.Inline(
        forward_fn=tf.exp, inverse_fn=tf.math.log, forward_min_event_ndims=0,
        inverse_log_det_jacobian_fn=lambda y: -tf.math.log(y), is_constant_jacobian=False,
    )  # fmt: skip
    dist = heads.ApproximateMode()(tfd.TransformedDistribution(tfd.Normal(LOC, 0.5), inline))
    np.testing.assert_allclose(dist.mode(), np.exp(LOC), rtol=1e-6)


@pytest.mark.parametrize(
    "dist",
    [
        tfd.Normal(LOC, 0.5),
        tfd.MultivariateNormalDiag(LOC),
        tfd.TransformedDistribution(tfd.Normal(LOC, 0.5), tfb.Scale(2.0)),
    ],
)
def test_approximate_mode_leaves_others_alone(dist):
    assert heads.ApproximateMode()(dist) is dist


def test_approximate_mode_of_a_tensor():
    with pytest.raises(TypeError, match="ApproximateMode got a .*Tensor, but needs a tfp dist"):
        heads.ApproximateMode()(tf.zeros([4, 3]))
