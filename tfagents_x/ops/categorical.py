"""Categorical value distributions: projection onto a support, and the Bellman loss.

Bellemare et al., 2017, "A Distributional Perspective on Reinforcement Learning"
(arXiv:1707.06887), section 4. Gradients reach the prediction only:

    target = projection of (r_t + d_t * z_t, p_t) onto z_t
    loss   = - sum over atoms of target * log p_tm1

Weight at x between two atoms is shared linearly between them; what lies outside the
support moves to its nearest end. With the ramps

    ramp_n(x) = (x - z_{n-1}) / (z_n - z_{n-1}), clipped to 0 ... 1,   ramp_0 = 1

atom n gets the share ramp_n(x) - ramp_{n+1}(x). So the sums of the ramps over the
source atoms are all that is needed, and the projection is their difference: one
array of all pairs of atoms, which XLA never stores, where two-sided kernels take
several. It needs neither scatter nor matrix products, which lose digits on
accelerators, and the order of its sums is fixed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfagents_x.ops import checks, placement


def categorical(q_tm1: Any, r_t: tf.Tensor, d_t: tf.Tensor, q_t: Any) -> tf.Tensor:
    """Categorical TD(0) loss (Acme's `categorical`), for values with one support [N].

    The target lives on the support of `q_t`. As in Acme, the support of `q_tm1` has no
    influence, so that of a target network that differs goes unnoticed.

    Unlike in Acme there may be several batch axes, such as [T, B], and the distributions
    may have been made from probabilities.

    Args:
      q_tm1: `networks.DiscreteValuedDistribution`, the prediction, of batch shape [B...].
      r_t: floats, [B...] or [B..., 1], or a single number.
      d_t: floats, likewise, the discount of what `q_t` is the value of.
      q_t: `networks.DiscreteValuedDistribution` of the same batch shape.

    Returns:
      Floats, [B...], the cross-entropy; differentiable in the parameters of `q_tm1`.

    Raises:
      TypeError: `q_tm1` or `q_t` is no such distribution, an argument is not of a
        floating-point dtype, or two dtypes differ.
      ValueError: the shapes don't fit, or the support of `q_t` is known to be no ascending
        one of two atoms or more.
    """
    prediction, r_t, d_t, target = _arguments(q_tm1, r_t, d_t, q_t)
    if target.support.shape.rank != 1:
        raise ValueError(
            f"q_t.values has shape {target.support.shape}, but must have [N]: use "
            f"multiaxis_categorical for values with one support per component."
        )
    shape = target.parameter.shape[:-1]
    r_t = _per_transition("r_t", r_t, shape)
    d_t = _per_transition("d_t", d_t, shape)
    return _loss(prediction, r_t, d_t, target)


def multiaxis_categorical(q_tm1: Any, r_t: tf.Tensor, d_t: tf.Tensor, q_t: Any) -> tf.Tensor:
    """Categorical TD(0) loss (Acme's `multiaxis_categorical`), for values with component axes.

    See `categorical`, of which this is the case of distributions [B, E..., N] with one
    support [N] for all components, or one for each, [D..., N] where D... broadcasts to E....

    Args:
      q_tm1: `networks.DiscreteValuedDistribution`, the prediction, of parameters [B, E..., N].
      r_t: floats, [B, E...], where any axis may be of size 1, or a single number.
      d_t: floats, likewise.
      q_t: `networks.DiscreteValuedDistribution`, of parameters [B, E..., N].

    Returns:
      Floats, [B, E...], the cross-entropy; differentiable in the parameters of `q_tm1`.

    Raises:
      TypeError: as in `categorical`.
      ValueError: as in `categorical`.
    """
    prediction, r_t, d_t, target = _arguments(q_tm1, r_t, d_t, q_t)
    shape = target.parameter.shape[:-1]
    for name, x in (("r_t", r_t), ("d_t", d_t)):
        _require_broadcast(name, x, shape, "with as many axes", as_many_axes=x.shape.rank != 0)
    return _loss(prediction, r_t, d_t, target)


def l2_project(Zp: tf.Tensor, P: tf.Tensor, Zq: tf.Tensor) -> tf.Tensor:  # noqa: N803
    """Projects a distribution (Zp, P) onto the support Zq (Acme's `l2_project`).

    It is the closest one in the L2 metric over cumulative distributions. The sum of the
    weights is kept, whatever it is, and so is the mean, if all Zp are inside Zq. Infinite
    Zp count as outside; NaN among them makes its row NaN.

    Args:
      Zp: floats, [B..., M], source atoms in any order.
      P: floats, [B..., M], their weights, of any sign and sum.
      Zq: floats, [N] or [1, N], target atoms, strictly ascending, at least two.

    Returns:
      Floats, [B..., N], the weights of the target atoms.

    Raises:
      TypeError: an argument is not of a floating-point dtype, or two dtypes differ.
      ValueError: the shapes don't fit, or `Zq` is known not to ascend strictly.
    """
    zp, p, zq = checks.float_tensors(Zp=Zp, P=P, Zq=Zq)
    if zq.shape.rank == 2 and zq.shape[0] == 1:
        zq = zq[0]
    if zq.shape.rank not in (1, None):
        raise ValueError(
            f"Zq has shape {zq.shape}, but must have [N] or [1, N]: use multiaxis_l2_project for "
            f"a support with further axes."
        )
    return multiaxis_l2_project(zp, p, zq)


def multiaxis_l2_project(Zp: tf.Tensor, P: tf.Tensor, Zq: tf.Tensor) -> tf.Tensor:  # noqa: N803
    """`l2_project` for each index of further axes (Acme's `multiaxis_l2_project`).

    C... and D... are broadcast against each other, from the right, to E...; the batch axis
    takes no part in that.

    Args:
      Zp: floats, [B, C..., M], source atoms in any order.
      P: floats, [B, C..., M], their weights.
      Zq: floats, [D..., N], target atoms, strictly ascending, at least two.

    Returns:
      Floats, [B, E..., N], the weights of the target atoms.

    Raises:
      TypeError: as in `l2_project`.
      ValueError: as in `l2_project`.
    """
    zp, p, zq = checks.float_tensors(Zp=Zp, P=P, Zq=Zq)
    _require_support("Zq", zq)
    checks.require_shape("P", p, zp.shape, "as Zp")
    _require_axes(zp, zq)
    missing = [tf.newaxis] * (zq.shape.rank + 1 - zp.shape.rank)
    zp, p = (x[(slice(None), *missing)] for x in (zp, p))
    return _project(zp, p, zq)


def _project(zp: tf.Tensor, p: tf.Tensor, zq: tf.Tensor) -> tf.Tensor:
    """The projection, for shapes whose axes before the last broadcast as they are."""
    if zp.dtype.size < 4:  # differences of sums need more digits than half precision has
        wide = (tf.cast(x, tf.float32) for x in (zp, p, zq))
        return tf.cast(_project(*wide), zp.dtype)
    if zq.shape.rank == 1 and placement.on_cpu_kernels():
        return _project_by_scattering(zp, p, zq)
    # An infinite source atom and the infinite foot below would give NaN.
    inside = tf.minimum(tf.maximum(zp, zq[..., :1]), zq[..., -1:])
    ends = tf.ones_like(zq[..., :1])
    feet = tf.concat([-np.inf * ends, zq[..., :-1]], axis=-1)[..., tf.newaxis]
    gaps = tf.concat([ends, zq[..., 1:] - zq[..., :-1]], axis=-1)[..., tf.newaxis]
    # A division, no product with 1 / gap: (z_n - z_{n-1}) / gap is 1 then to the last
    # bit. So ramps never ascend with n, no weight becomes negative that should not, and
    # atoms that nothing falls on get an exact 0.
    ramps = tf.clip_by_value((inside[..., tf.newaxis, :] - feet) / gaps, 0.0, 1.0)
    sums = tf.reduce_sum(ramps * p[..., tf.newaxis, :], axis=-1)
    return sums - tf.concat([sums[..., 1:], tf.zeros_like(sums[..., :1])], axis=-1)


def _project_by_scattering(zp: tf.Tensor, p: tf.Tensor, zq: tf.Tensor) -> tf.Tensor:
    """`_project` onto one support [N]: each weight is parted between its two neighbours.

    On a CPU it is many times faster than comparing all pairs of atoms, which accelerators do at
    once and without the atomic additions that scattering takes there.
    """
    row = tf.shape(zp)[:-1]
    num_atoms = tf.size(zq)
    flat = tf.reshape(tf.minimum(tf.maximum(zp, zq[0]), zq[-1]), [-1])
    below = tf.searchsorted(zq, flat, side="right") - 1
    below = tf.minimum(tf.maximum(below, 0), num_atoms - 2)
    foot = tf.gather(zq, below)
    share = (flat - foot) / (tf.gather(zq, below + 1) - foot)
    upper = share * tf.reshape(p, [-1])
    lower = (1.0 - share) * tf.reshape(p, [-1])
    rows = tf.reduce_prod(row)
    first = tf.repeat(tf.range(rows) * num_atoms, tf.shape(zp)[-1])
    into = tf.concat([first + below, first + below + 1], 0)
    sums = tf.math.unsorted_segment_sum(tf.concat([lower, upper], 0), into, rows * num_atoms)
    result = tf.reshape(sums, tf.concat([row, [num_atoms]], 0))
    # NaN has no neighbours; it makes its row NaN all the same.
    result += 0.0 * tf.reduce_sum(tf.reshape(flat, tf.shape(zp)), axis=-1, keepdims=True)
    result.set_shape([*zp.shape[:-1], zq.shape[0]])
    return result


class _Values(NamedTuple):
    """What the loss reads of a distribution over values.

    Attributes:
      support: [D..., N], the atoms.
      kind: "logits" or "probs".
      parameter: [B..., N], those.
    """

    support: tf.Tensor
    kind: str
    parameter: tf.Tensor

    def probs(self) -> tf.Tensor:
        """[B..., N], normalised."""
        if self.kind == "logits":
            return tf.nn.softmax(self.parameter)
        return self.parameter / tf.reduce_sum(self.parameter, axis=-1, keepdims=True)

    def cross_entropy(self, target: tf.Tensor) -> tf.Tensor:
        """- sum over atoms of target * log p; [B...]."""
        if self.kind == "logits":
            log_probs = tf.nn.log_softmax(self.parameter)
            # A ruled-out atom (logit -inf) without a target counts as 0, in the gradient too.
            return -tf.reduce_sum(tf.math.multiply_no_nan(log_probs, target), axis=-1)
        # Likewise, an atom of probability 0. The target sums to 1.
        total = tf.reduce_sum(self.parameter, axis=-1)
        return tf.math.log(total) - tf.reduce_sum(tf.math.xlogy(target, self.parameter), axis=-1)


def _arguments(
    q_tm1: Any, r_t: Any, d_t: Any, q_t: Any
) -> tuple[_Values, tf.Tensor, tf.Tensor, _Values]:
    """The arguments as tensors of one dtype, all but the prediction constants."""
    tm1, t = _read("q_tm1", q_tm1), _read("q_t", q_t)
    names = (f"q_tm1.{tm1.kind}", f"q_t.{t.kind}", "q_t.values", "r_t", "d_t")
    found = (tm1.parameter, t.parameter, t.support, r_t, d_t)
    prediction, parameter, support, r_t, d_t = checks.float_tensors(**dict(zip(names, found)))
    checks.require_shape(names[0], prediction, parameter.shape, f"as {names[1]}")
    _require_support("q_t.values", support)
    _require_broadcast("q_t.values", support, parameter.shape, "the last axes of the logits")
    # Already here, not only at the target: else an eager tape keeps the projection's arrays.
    parameter, support, r_t, d_t = map(tf.stop_gradient, (parameter, support, r_t, d_t))
    return tm1._replace(parameter=prediction), r_t, d_t, _Values(support, t.kind, parameter)


def _read(name: str, q: Any) -> _Values:
    """Takes atoms and parameters out of a distribution: any object that has them."""
    values, logits, probs = (getattr(q, field, None) for field in ("values", "logits", "probs"))
    if values is None or callable(values) or (logits is None and probs is None):
        raise TypeError(
            f"{name} is a {type(q).__name__}, but must be a DiscreteValuedDistribution: let the "
            f"critic end in networks.DiscreteValuedHead(vmin, vmax, num_atoms), which makes one "
            f"from features, or make one from tensors with "
            f"networks.DiscreteValuedDistribution(values=..., logits=...)."
        )
    return _Values(values, "probs", probs) if logits is None else _Values(values, "logits", logits)


def _loss(prediction: _Values, r_t: tf.Tensor, d_t: tf.Tensor, target: _Values) -> tf.Tensor:
    """Cross-entropy of the prediction with the projected target."""
    probs = target.probs()
    atoms = r_t[..., tf.newaxis] + d_t[..., tf.newaxis] * target.support
    projected = _project(tf.broadcast_to(atoms, tf.shape(probs)), probs, target.support)
    return prediction.cross_entropy(projected)


def _per_transition(name: str, x: tf.Tensor, shape: tf.TensorShape) -> tf.Tensor:
    """`x` without its column axis, after checking that it is [B...], or a scalar."""
    if x.shape.rank == 0:
        return x
    if shape.rank is not None and x.shape.rank == shape.rank + 1 and x.shape[-1] == 1:
        x = tf.squeeze(x, axis=-1)
    checks.require_shape(name, x, shape, "one number for each distribution, or be a scalar")
    return x


def _require_broadcast(
    name: str, x: tf.Tensor, shape: tf.TensorShape, wanted: str, as_many_axes: bool = False
) -> None:
    """Checks that `x` broadcasts to `shape` without changing it."""
    if None in (x.shape.rank, shape.rank):
        return
    pairs = zip(reversed(x.shape.as_list()), reversed(shape.as_list()))
    fits = all(size == 1 or None in (size, full) or size == full for size, full in pairs)
    missing = shape.rank - x.shape.rank
    if not fits or missing < 0 or (as_many_axes and missing):
        raise ValueError(f"{name} has shape {x.shape}, but must broadcast to {shape}, {wanted}.")


def _require_axes(zp: tf.Tensor, zq: tf.Tensor) -> None:
    """Checks that the source has a batch axis, and that all further axes broadcast."""
    if zp.shape.rank is None or zp.shape.rank < 2:
        raise ValueError(f"Zp has shape {zp.shape}, but must have [B, ..., M], of known rank.")
    try:
        tf.broadcast_static_shape(zp.shape[1:-1], zq.shape[:-1])
    except ValueError as error:
        raise ValueError(
            f"Zp has shape {zp.shape} and Zq {zq.shape}: the axes between the batch and the atoms "
            f"of Zp must broadcast against those before the atoms of Zq."
        ) from error


def _require_support(name: str, support: tf.Tensor) -> None:
    """Checks that `support` has atoms and, if their values are known, that they ascend."""
    shape = support.shape
    if not shape.rank or (shape[-1] is not None and shape[-1] < 2):
        raise ValueError(
            f"{name} has shape {shape}, but must have [..., N], of known rank, with N >= 2 atoms."
        )
    atoms = tf.get_static_value(support)
    if atoms is None:
        return
    atoms = np.asarray(atoms, np.float64)  # half-precision arrays have no `diff`
    if not (np.isfinite(atoms).all() and (np.diff(atoms) > 0).all()):
        raise ValueError(
            f"{name} must hold finite atoms that ascend strictly along the last axis, but is "
            f"{atoms.tolist()}: sort the atoms, and drop what comes twice."
        )
