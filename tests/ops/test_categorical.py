"""Projections and the categorical Bellman loss: Acme's numbers, laws, and errors."""

from __future__ import annotations

import types

import hypothesis
import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from hypothesis import strategies as st

from tests import golden_cases
from tests.ops import modes
from tfagents_x.networks.distributions import DiscreteValuedDistribution
from tfagents_x.ops import categorical as op

LOSSES = {"categorical": op.categorical, "multiaxis_categorical": op.multiaxis_categorical}
ATOMS = np.linspace(-2, 2, 5).astype(np.float32)


def cases(function):
    found = golden_cases.load("ops_categorical", f"{function}__")
    return pytest.mark.parametrize("case", found, ids=golden_cases.ids)


def floats(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def probabilities(*shape, seed=0):
    p = np.exp(floats(*shape, seed=seed))
    return p / p.sum(-1, keepdims=True)


def dist(values=ATOMS, **parameters):
    return DiscreteValuedDistribution(values=values, **parameters)


# ---- Golden values ----


@modes.all_modes
@cases("l2_project")
def test_l2_project(case, mode):
    found = modes.run(mode, op.l2_project, case.under("in"))
    golden_cases.assert_close(found, case["out.projection"], rtol=1e-5, atol=1e-5)


@modes.all_modes
@cases("multiaxis_l2_project")
def test_multiaxis_l2_project(case, mode):
    found = modes.run(mode, op.multiaxis_l2_project, case.under("in"))
    golden_cases.assert_close(found, case["out.projection"], rtol=1e-5, atol=1e-5)


def with_loss(function):
    @modes.with_gradients(grad=["loss"])
    def outputs(q_tm1_logits, q_tm1_values, q_t_logits, q_t_values, r_t, d_t):
        q_tm1, q_t = dist(q_tm1_values, logits=q_tm1_logits), dist(q_t_values, logits=q_t_logits)
        return {"loss": function(q_tm1, r_t, d_t, q_t)}

    return outputs


WITH_LOSS = {name: with_loss(function) for name, function in LOSSES.items()}


@modes.all_modes
@cases("categorical")
def test_categorical(case, mode):
    check_loss("categorical", case, mode)


@modes.all_modes
@cases("multiaxis_categorical")
def test_multiaxis_categorical(case, mode):
    check_loss("multiaxis_categorical", case, mode)


def check_loss(name, case, mode):
    outputs, gradients = modes.run(mode, WITH_LOSS[name], case.under("in"))
    golden_cases.assert_close(outputs["loss"], case["out.loss"], rtol=1e-5, atol=2e-5)
    found = gradients["grad"]
    golden_cases.assert_close(
        found.pop("q_tm1_logits"), case["out.grad.q_tm1_logits"], rtol=1e-4, atol=4e-5
    )
    assert set(found.values()) == {None}  # the target is a constant
    # The target is not returned, but the gradient is softmax - target.
    target = tf.nn.softmax(case["in.q_tm1_logits"]) - case["out.grad.q_tm1_logits"]
    golden_cases.assert_close(target, case["out.target"], rtol=1e-5, atol=1e-5)


# ---- Laws ----

bounded = st.floats(-3, 3, width=32)


@st.composite
def supports(draw, size):
    gaps = draw(hnp.arrays(np.float32, size - 1, elements=st.floats(0.0625, 2, width=32)))
    return np.concatenate([[0], np.cumsum(gaps)]).astype(np.float32) + np.float32(draw(bounded))


def project(zp, p, zq):
    return _project(tf.constant(zp), tf.constant(p), tf.constant(zq)).numpy()


_project = tf.function(op.l2_project)
laws = hypothesis.settings(max_examples=50, deadline=None, derandomize=True)


@laws
@hypothesis.given(
    zp=hnp.arrays(np.float32, (2, 7), elements=st.floats(-9, 9, width=32)),
    p=hnp.arrays(np.float32, (2, 7), elements=st.floats(0, 1, width=32)),
    zq=supports(5),
    w=hnp.arrays(np.float32, 5, elements=bounded),
)
def test_projection_is_the_adjoint_of_linear_interpolation(zp, p, zq, w):
    """Which says all: w = 1 gives the mass, w = zq the mean of what is inside."""
    q = project(zp, p, zq)
    expected = (p * np.stack([np.interp(row, zq, w) for row in zp])).sum(-1)
    np.testing.assert_allclose((q * w).sum(-1), expected, atol=1e-4)


@laws
@hypothesis.given(
    zp=hnp.arrays(np.float32, (2, 7), elements=st.floats(0, 1, width=32)),
    p=hnp.arrays(np.float32, (2, 7), elements=st.floats(-1, 1, width=32)),
    zq=supports(5),
)
def test_mass_and_mean_inside_the_support_are_kept(zp, p, zq):
    zp = zq[0] + zp * (zq[-1] - zq[0])
    q = project(zp, p, zq)
    np.testing.assert_allclose(q.sum(-1), p.sum(-1), atol=1e-5)
    np.testing.assert_allclose((q * zq).sum(-1), (p * zp).sum(-1), atol=1e-4)


@laws
@hypothesis.given(
    zp=hnp.arrays(np.float32, (2, 7), elements=st.floats(-9, 9, width=32)),
    p=hnp.arrays(np.float32, (2, 7), elements=st.floats(0, 1, width=32)),
    zq=supports(5),
)
def test_weights_stay_positive_and_unreached_atoms_get_none(zp, p, zq):
    q = project(zp, p, zq)
    assert (q >= 0).all()
    inside = np.clip(zp, zq[0], zq[-1])
    lower, upper = np.r_[-np.inf, zq[:-1]], np.r_[zq[1:], np.inf]
    near = (inside[..., None] > lower) & (inside[..., None] < upper)
    assert (q[~near.any(1)] == 0).all()


def test_projections_have_gradients():
    zp, p, w = tf.constant(floats(3, 7)), tf.constant(probabilities(3, 7)), floats(5, seed=1)
    with tf.GradientTape() as tape:
        tape.watch((zp, p))
        total = tf.reduce_sum(op.l2_project(zp, p, ATOMS) * w)
    by_zp, by_p = tape.gradient(total, (zp, p))
    np.testing.assert_allclose(by_p, np.interp(zp, ATOMS, w), atol=1e-5)
    slopes = np.diff(w)[np.clip(np.searchsorted(ATOMS, zp) - 1, 0, 3)]  # the gaps are 1
    slopes = np.where(np.abs(zp) > 2, 0, slopes)
    np.testing.assert_allclose(by_zp, p * slopes, atol=1e-5)


def test_nan_stays_in_its_row():
    zp = floats(2, 3)
    zp[0, 1] = np.nan
    found = op.l2_project(zp, probabilities(2, 3), ATOMS).numpy()
    assert np.isnan(found[0]).all() and np.isfinite(found[1]).all()


# ---- Shapes ----


def test_time_and_batch():
    q_tm1, q_t, r_t, d_t = floats(3, 2, 5), floats(3, 2, 5, seed=1), floats(3, 2), floats(3, 2)
    found = op.categorical(dist(logits=q_tm1), r_t, d_t, dist(logits=q_t))
    assert found.shape == (3, 2)
    for t in range(3):
        row = op.categorical(dist(logits=q_tm1[t]), r_t[t], d_t[t], dist(logits=q_t[t]))
        np.testing.assert_allclose(found[t], row, rtol=1e-6)
    columns = op.categorical(dist(logits=q_tm1), r_t[..., None], d_t[..., None], dist(logits=q_t))
    np.testing.assert_array_equal(found, columns)


def test_components_are_independent():
    values = np.stack([ATOMS, 3 * ATOMS, ATOMS + 1])
    q_tm1, q_t, r_t, d_t = floats(4, 3, 5), floats(4, 3, 5, seed=1), floats(4, 3), floats(4, 3)
    q_tm1_dist, q_t_dist = dist(values, logits=q_tm1), dist(values, logits=q_t)
    found = op.multiaxis_categorical(q_tm1_dist, r_t, d_t, q_t_dist)
    for i in range(3):
        one = (dist(values[i], logits=q[:, i]) for q in (q_tm1, q_t))
        expected = op.categorical(next(one), r_t[:, i], d_t[:, i], next(one))
        np.testing.assert_allclose(found[:, i], expected, rtol=1e-5)


@pytest.mark.parametrize("function", LOSSES.values(), ids=LOSSES)
def test_single_numbers_count_for_the_whole_batch(function):
    q = dist(logits=floats(4, 5))
    everywhere = [np.full(4, x, np.float32) for x in (0.5, 0.9)]
    np.testing.assert_array_equal(function(q, 0.5, 0.9, q), function(q, *everywhere, q))


def test_without_batch():
    q_tm1, q_t = floats(1, 5), floats(1, 5, seed=1)
    found = op.categorical(dist(logits=q_tm1[0]), 0.5, 0.9, dist(logits=q_t[0]))
    assert found.shape == ()
    batch = op.categorical(dist(logits=q_tm1), 0.5, 0.9, dist(logits=q_t))
    np.testing.assert_allclose(found, batch[0], rtol=1e-6)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_sizes_that_are_not_known_while_tracing(jit_compile):
    spec = tf.TensorSpec([None, None], tf.float32)
    logits = tf.TensorSpec([None, None, 5], tf.float32)

    @tf.function(input_signature=[logits, spec, spec, logits], jit_compile=jit_compile)
    def loss(q_tm1, r_t, d_t, q_t):
        return op.categorical(dist(logits=q_tm1), r_t, d_t, dist(logits=q_t))

    for shape in ((3, 2), (1, 4)):
        inputs = floats(*shape, 5), floats(*shape), floats(*shape), floats(*shape, 5, seed=1)
        q_tm1, r_t, d_t, q_t = inputs
        expected = op.categorical(dist(logits=q_tm1), r_t, d_t, dist(logits=q_t))
        np.testing.assert_allclose(loss(*map(tf.constant, inputs)), expected, rtol=1e-5)


def test_graphs_do_not_grow_with_the_atoms():
    def number_of_operations(n):
        specs = [tf.TensorSpec([8, n]), tf.TensorSpec([8, n]), tf.TensorSpec([n])]
        graph = tf.function(op.l2_project).get_concrete_function(*specs).graph
        return len(graph.get_operations())

    assert number_of_operations(3) == number_of_operations(51)


# ---- Probabilities, dtypes ----


def test_probabilities_are_as_good_as_logits():
    p_tm1, p_t = probabilities(4, 5), probabilities(4, 5, seed=1)
    r_t, d_t = floats(4), floats(4, seed=1)
    expected = op.categorical(dist(logits=np.log(p_tm1)), r_t, d_t, dist(logits=np.log(p_t)))
    for scale in (1, 2):  # as log_prob, it normalises
        found = op.categorical(dist(probs=scale * p_tm1), r_t, d_t, dist(probs=scale * p_t))
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    mixed = op.categorical(dist(probs=p_tm1), r_t, d_t, dist(logits=np.log(p_t)))
    np.testing.assert_allclose(mixed, expected, rtol=1e-5)


def test_gradient_by_probabilities():
    p = tf.constant(probabilities(4, 5))
    q_t = dist(logits=floats(4, 5, seed=1))
    found = []
    for make in (lambda: dist(probs=p), lambda: dist(logits=tf.math.log(p))):
        with tf.GradientTape() as tape:
            tape.watch(p)
            loss = op.categorical(make(), 0.5, 0.9, q_t)
        found.append(tape.gradient(loss, p))
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_atoms_that_both_rule_out_do_no_harm(kind):
    """The target is on atoms 0 and 1, and the prediction rules out the last two."""
    p = np.array([[0.5, 0.25, 0.25, 0, 0]], np.float32)
    with np.errstate(divide="ignore"):
        parameter = tf.constant(np.log(p) if kind == "logits" else p)
    q_t = dist(probs=np.array([[0.5, 0.5, 0, 0, 0]], np.float32))
    with tf.GradientTape() as tape:
        tape.watch(parameter)
        loss = op.categorical(dist(**{kind: parameter}), 0.0, 1.0, q_t)
    np.testing.assert_allclose(loss, [-0.5 * np.log(0.5) - 0.5 * np.log(0.25)], rtol=1e-6)
    expected = [0, -0.25, 0.25, 0, 0] if kind == "logits" else [0, -1, 1, 1, 1]
    np.testing.assert_allclose(tape.gradient(loss, parameter)[0], expected, atol=1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_other_dtypes(dtype):
    def loss(cast):
        q_tm1, q_t = (dist(cast(ATOMS), logits=cast(floats(4, 5, seed=s))) for s in (0, 1))
        return op.categorical(q_tm1, cast(floats(4)), cast(floats(4, seed=1)), q_t)

    found = loss(lambda x: tf.cast(x, dtype))
    assert found.dtype == dtype
    expected = loss(tf.constant)
    np.testing.assert_allclose(tf.cast(found, tf.float32), expected, rtol=3e-2)


def test_half_precision_keeps_small_weights():
    """201 atoms, 1 / 201 of the mass on each: below the last digit of sums near 1."""
    atoms = np.arange(201, dtype=np.float32)
    p = np.full([1, 201], 1 / 201, np.float32)
    half = (tf.cast(x, tf.bfloat16) for x in (atoms[None], p, atoms))
    found = tf.cast(op.l2_project(*half), tf.float32)
    np.testing.assert_allclose(found, p, rtol=1e-2)


# ---- Errors ----


@pytest.mark.parametrize("function", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("name", ["q_tm1", "q_t"])
@pytest.mark.parametrize(
    "wrong", [tf.zeros([4, 5]), np.zeros([4, 5]), None, {"values": 1}, types.SimpleNamespace()]
)
def test_a_tensor_is_no_distribution(function, name, wrong):
    arguments = {"q_tm1": dist(logits=floats(4, 5)), "q_t": dist(logits=floats(4, 5))}
    arguments[name] = wrong
    wanted = rf"{name} is a .*, but must be a DiscreteValuedDistribution.*DiscreteValuedHead\(vmin"
    with pytest.raises(TypeError, match=wanted):
        function(arguments["q_tm1"], floats(4), floats(4), arguments["q_t"])


def test_a_distribution_without_atoms_is_none_either():
    q = tfp.distributions.Categorical(logits=floats(4, 5))
    with pytest.raises(TypeError, match="q_t is a Categorical, but must be a DiscreteValued"):
        op.categorical(dist(logits=floats(4, 5)), floats(4), floats(4), q)


BAD_SUPPORTS = {
    "one atom": ([1.0], "N >= 2"),
    "repeated": ([0.0, 1.0, 1.0], "ascend strictly"),
    "descending": ([1.0, 0.0, -1.0], "ascend strictly"),
    "infinite": ([0.0, 1.0, np.inf], "finite"),
    "not a number": ([0.0, np.nan, 1.0], "finite"),
    "scalar": (1.0, "N >= 2"),
}


@pytest.mark.parametrize("support, wanted", BAD_SUPPORTS.values(), ids=BAD_SUPPORTS)
def test_supports(support, wanted):
    support = np.array(support, np.float32)
    n = max(support.size, 1)
    with pytest.raises(ValueError, match=f"Zq .*{wanted}"):
        op.multiaxis_l2_project(floats(4, n), floats(4, n), support)
    if support.shape:
        q = dist(support, logits=floats(4, n))
        with pytest.raises(ValueError, match=rf"q_t\.values .*{wanted}"):
            op.categorical(q, floats(4), floats(4), q)


def test_supports_are_checked_while_tracing():
    @tf.function
    def loss(logits):
        q = dist(ATOMS[::-1].copy(), logits=logits)
        return op.categorical(q, 0.0, 1.0, q)

    with pytest.raises(ValueError, match="ascend strictly"):
        loss(tf.constant(floats(4, 5)))


@pytest.mark.parametrize(
    "shapes, wanted",
    [
        (((4, 7), (4, 6), (5,)), r"P has shape \(4, 6\).*as Zp"),
        (((7,), (7,), (5,)), r"Zp has shape \(7,\).*\[B, \.\.\., M\]"),
        (((4, 7), (4, 7), (2, 5)), "use multiaxis_l2_project"),
    ],
)
def test_shapes_of_l2_project(shapes, wanted):
    zp, p, zq = (np.broadcast_to(np.arange(s[-1], dtype=np.float32), s) for s in shapes)
    with pytest.raises(ValueError, match=wanted):
        op.l2_project(zp, p, zq)


def test_axes_of_multiaxis_l2_project():
    zq = np.broadcast_to(ATOMS, (2, 5))
    with pytest.raises(ValueError, match=r"Zp has shape \(4, 3, 7\) and Zq \(2, 5\).*broadcast"):
        op.multiaxis_l2_project(floats(4, 3, 7), floats(4, 3, 7), zq)


@pytest.mark.parametrize("name", ["Zp", "P", "Zq"])
def test_dtypes_of_projections(name):
    arguments = {"Zp": floats(4, 7), "P": floats(4, 7), "Zq": ATOMS}
    arguments[name] = tf.cast(arguments[name], tf.int32)
    with pytest.raises(TypeError, match=f"{name} is int32"):
        op.l2_project(**arguments)


@pytest.mark.parametrize("name", ["r_t", "d_t"])
@pytest.mark.parametrize("shape", [(3,), (4, 4), (1, 4), (1,)])
def test_shapes_of_rewards(name, shape):
    q = dist(logits=floats(4, 5))
    arguments = {"r_t": floats(4), "d_t": floats(4), name: floats(*shape)}
    with pytest.raises(ValueError, match=rf"{name} has shape \(.*\), but must have \(4,\)"):
        op.categorical(q, q_t=q, **arguments)


@pytest.mark.parametrize("name", ["r_t", "d_t"])
@pytest.mark.parametrize("shape", [(3, 2), (3,), (1, 3, 3)])
def test_shapes_of_rewards_with_axes(name, shape):
    q = dist(logits=floats(3, 3, 5))
    arguments = {"r_t": 0.0, "d_t": 0.9, name: floats(*shape)}
    with pytest.raises(ValueError, match=rf"{name} has shape .* must broadcast to \(3, 3\)"):
        op.multiaxis_categorical(q, q_t=q, **arguments)


def test_dtypes_of_the_loss():
    q = dist(logits=floats(4, 5))
    with pytest.raises(TypeError, match="r_t is int32"):
        op.categorical(q, tf.ones(4, tf.int32), floats(4), q)
    with pytest.raises(TypeError, match="d_t is float64, but q_tm1.logits is float32"):
        op.categorical(q, floats(4), tf.ones(4, tf.float64), q)


def test_shapes_of_distributions():
    q, other = dist(logits=floats(4, 5)), dist(logits=floats(3, 5))
    with pytest.raises(ValueError, match=r"q_tm1\.logits has shape \(4, 5\).*as q_t\.logits"):
        op.categorical(q, floats(4), floats(4), other)
    axes = dist(np.stack([ATOMS] * 3), logits=floats(4, 3, 5))
    with pytest.raises(ValueError, match="use multiaxis_categorical"):
        op.categorical(axes, floats(4), floats(4), axes)
    loose = types.SimpleNamespace(values=ATOMS[:3], logits=floats(4, 5))
    with pytest.raises(ValueError, match=r"q_t\.values has shape \(3,\)"):
        op.categorical(q, floats(4), floats(4), loose)
