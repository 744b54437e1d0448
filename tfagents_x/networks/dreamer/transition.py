"""One step of DreamerV3's recurrent model, forward and backward, on plain tensors.

    x      = silu(norm(z @ pre_z + act))        act: the action's share, computed outside
    u, r   = sigmoid(x @ kernel + h @ recurrent + biases)
    c      = tanh(x @ kernel + bias + r * (h @ recurrent + bias))
    h'     = u h + (1 - u) c
    logits = silu(norm(h' @ out_h + obs)) @ logits_kernel + bias

`obs` is the encoder's share for the posterior, and missing for the prior. The gate order, the
reset after the product, and which gate keeps are those of a GRU with `reset_after`.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import tensorflow as tf

from tfagents_x.networks.dreamer import latents, layers


class Weights(NamedTuple):
    """What a step multiplies with. Hidden kernels come without their rows' means.

    Attributes:
      pre_z: [K C, U].
      pre_scale: [U].
      pre_offset: [U].
      kernel: [U, 3 G].
      recurrent: [G, 3 G].
      bias: [2, 3 G].
      out_h: [G, U].
      out_scale: [U].
      out_offset: [U].
      logits_kernel: [U, K C].
      logits_bias: [K C].
    """

    pre_z: tf.Tensor
    pre_scale: tf.Tensor
    pre_offset: tf.Tensor
    kernel: tf.Tensor
    recurrent: tf.Tensor
    bias: tf.Tensor
    out_h: tf.Tensor
    out_scale: tf.Tensor
    out_offset: tf.Tensor
    logits_kernel: tf.Tensor
    logits_bias: tf.Tensor


class Kept(NamedTuple):
    """What the backward pass needs of a step.

    Attributes:
      pre: [B, U], the product under x.
      update, reset, candidate: u, r, c [B, G].
      recurrent: [B, G], what r is multiplied with.
      out: [B, U], the product before the logits.
    """

    pre: tf.Tensor
    update: tf.Tensor
    reset: tf.Tensor
    candidate: tf.Tensor
    recurrent: tf.Tensor
    out: tf.Tensor


def kept_widths(units: int, gru_units: int) -> list[int]:
    """The widths of the fields of `Kept`."""
    return [units, *[gru_units] * 4, units]


def step(
    w: Weights,
    h: tf.Tensor,
    z: tf.Tensor,
    act: tf.Tensor,
    obs: Optional[tf.Tensor],
    dtype: tf.DType,
) -> tuple[tf.Tensor, tf.Tensor, Kept]:
    """h, z before the step -> h' [B, G], logits [B, K C], and what the backward pass needs."""
    pre = layers.product(z, w.pre_z, dtype) + act
    x = layers.norm_silu(pre, w.pre_scale, w.pre_offset)
    gates_x = tf.nn.bias_add(layers.product(x, w.kernel, dtype), w.bias[0])
    gates_h = tf.nn.bias_add(layers.product(h, w.recurrent, dtype), w.bias[1])
    width = h.shape[-1]
    x_ur, x_c = tf.split(gates_x, [2 * width, width], -1)
    h_ur, recurrent = tf.split(gates_h, [2 * width, width], -1)
    update, reset = tf.split(tf.sigmoid(x_ur + h_ur), 2, -1)
    candidate = tf.tanh(x_c + reset * recurrent)
    h = candidate + update * (h - candidate)
    out = layers.product(h, w.out_h, dtype)
    out = out if obs is None else out + obs
    hidden = layers.norm_silu(out, w.out_scale, w.out_offset)
    logits = tf.nn.bias_add(layers.product(hidden, w.logits_kernel, dtype), w.logits_bias)
    return h, logits, Kept(pre, update, reset, candidate, recurrent, out)


class Slopes(NamedTuple):
    """`Kept`, prepared for the backward pass; for all steps at once, as it doesn't recur.

    Attributes:
      pre, pre_by, pre_slope: normalized product [.., U], its factor [.., 1], slope of silu
        times scale [.., U]; the same for `out`.
      update: u [.., G].
      by_gate: [.., 3 G], how u, r and c move per change of h'.
      reset_c: r times the slope at c, [.., G].
      varying: `latents.varying_share` of the logits [.., K C].
    """

    pre: tf.Tensor
    pre_by: tf.Tensor
    pre_slope: tf.Tensor
    update: tf.Tensor
    by_gate: tf.Tensor
    reset_c: tf.Tensor
    out: tf.Tensor
    out_by: tf.Tensor
    out_slope: tf.Tensor
    varying: tf.Tensor


def slopes(w: Weights, h_before: tf.Tensor, logits: tf.Tensor, kept: Kept, classes: int) -> Slopes:
    """All arguments with any leading axes, [..., width]."""
    pre, pre_by = layers.normalize(kept.pre)
    out, out_by = layers.normalize(kept.out)
    u, r, c = kept.update, kept.reset, kept.candidate
    to_c = (1.0 - u) * (1.0 - c * c)
    by_gate = [(h_before - c) * u * (1.0 - u), to_c * kept.recurrent * r * (1.0 - r), to_c]
    split = tf.reshape(logits, [*_leading(logits), -1, classes])
    return Slopes(
        pre=pre,
        pre_by=pre_by,
        pre_slope=layers.silu_slope(pre * w.pre_scale + w.pre_offset) * w.pre_scale,
        update=u,
        by_gate=tf.concat(by_gate, -1),
        reset_c=to_c * r,
        out=out,
        out_by=out_by,
        out_slope=layers.silu_slope(out * w.out_scale + w.out_offset) * w.out_scale,
        varying=tf.reshape(latents.varying_share(split), [*_leading(logits), logits.shape[-1]]),
    )


class Transposed(NamedTuple):
    """Transposed kernels: a small product with `transpose_b` would take several times longer."""

    pre_z: tf.Tensor
    kernel: tf.Tensor
    recurrent: tf.Tensor
    out_h: tf.Tensor
    logits_kernel: tf.Tensor


def transposed(w: Weights) -> Transposed:
    """The kernels of `w`, transposed."""
    return Transposed(*(tf.transpose(getattr(w, name)) for name in Transposed._fields))


class Adjoints(NamedTuple):
    """Gradients inside a step, of which those of all weights are products.

    Attributes:
      pre: at the product under x, [B, U]: also the gradient for `act`.
      x: at x, [B, U].
      gates_x: [B, 3 G].
      gates_hc: the last third of the other product's, [B, G]; the rest is that of `gates_x`.
      out: [B, U], also the gradient for `obs`.
      hidden: [B, U].
      logits: [B, K C].
      h: at the h before the step, [B, G].
    """

    pre: tf.Tensor
    x: tf.Tensor
    gates_x: tf.Tensor
    gates_hc: tf.Tensor
    out: tf.Tensor
    hidden: tf.Tensor
    logits: tf.Tensor
    h: tf.Tensor


def adjoint_widths(units: int, gru_units: int, latent: int) -> list[int]:
    """The widths of the fields of `Adjoints`."""
    return [units, units, 3 * gru_units, gru_units, units, units, latent, gru_units]


def step_vjp(
    w: Transposed,
    s: Slopes,
    d_h: tf.Tensor,
    d_z: tf.Tensor,
    d_logits: Optional[tf.Tensor],
    classes: int,
    dtype: tf.DType,
) -> tuple[tf.Tensor, tf.Tensor, Adjoints]:
    """One step backward, with the straight-through gradient of z.

    Args:
      w: transposed kernels.
      s: of this step, [B, width].
      d_h: gradient at h', all later uses included, [B, G].
      d_z: gradient at the z sampled from the logits, [B, K C].
      d_logits: what else wants the logits to move, [B, K C]; None for nothing.
      classes: C.
      dtype: in which products are formed.

    Returns:
      Gradients at the h and the z before the step, and inside.
    """
    split = lambda x: tf.reshape(x, [-1, x.shape[-1] // classes, classes])
    at_logits = latents.unimix_vjp(split(s.varying), split(d_z))
    at_logits = tf.reshape(at_logits, tf.shape(d_z))
    if d_logits is not None:
        at_logits += d_logits
    hidden = layers.product(at_logits, w.logits_kernel, dtype)
    out = layers.normalize_vjp(s.out, s.out_by, hidden * s.out_slope)
    d_h += layers.product(out, w.out_h, dtype)
    gates_x = tf.tile(d_h, [1, 3]) * s.by_gate
    gates_hc = d_h * s.reset_c
    width = d_h.shape[-1]
    gates_h = tf.concat([gates_x[:, : 2 * width], gates_hc], -1)
    before = d_h * s.update + layers.product(gates_h, w.recurrent, dtype)
    x = layers.product(gates_x, w.kernel, dtype)
    pre = layers.normalize_vjp(s.pre, s.pre_by, x * s.pre_slope)
    d_z = layers.product(pre, w.pre_z, dtype)
    return before, d_z, Adjoints(pre, x, gates_x, gates_hc, out, hidden, at_logits, before)


def weight_gradients(
    w: Weights,
    s: Slopes,
    d: Adjoints,
    h_before: tf.Tensor,
    z_before: tf.Tensor,
    h: tf.Tensor,
    dtype: tf.DType,
) -> Weights:
    """Gradients for all weights, one product each over all steps; arguments [T, B, width]."""
    product = lambda x, upstream: layers.weight_gradient(x, upstream, dtype)
    total = lambda x: tf.reduce_sum(x, [0, 1])
    pre, out = s.pre * w.pre_scale + w.pre_offset, s.out * w.out_scale + w.out_offset
    d_pre, d_out = d.x * layers.silu_slope(pre), d.hidden * layers.silu_slope(out)
    width = h.shape[-1]
    gates_h = tf.concat([d.gates_x[..., : 2 * width], d.gates_hc], -1)
    return Weights(
        pre_z=product(z_before, d.pre),
        pre_scale=total(d_pre * s.pre),
        pre_offset=total(d_pre),
        kernel=product(pre * tf.sigmoid(pre), d.gates_x),
        recurrent=product(h_before, gates_h),
        bias=tf.stack([total(d.gates_x), total(gates_h)]),
        out_h=product(h, d.out),
        out_scale=total(d_out * s.out),
        out_offset=total(d_out),
        logits_kernel=product(out * tf.sigmoid(out), d.logits),
        logits_bias=total(d.logits),
    )


def _leading(x: tf.Tensor) -> list:
    """The sizes of all axes but the last, static where they are known."""
    return [size or tf.shape(x)[i] for i, size in enumerate(x.shape[:-1])]
