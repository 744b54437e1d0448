"""`snt.LSTM` over a sequence: projections hoisted out of the loop, gradient derived by hand.

Left to itself, automatic differentiation of the loop forms a weight gradient in
every step and adds them up. Here the backward loop only carries the gates'
gradients; the weight gradients are one product over [T * B] afterwards.
"""

from __future__ import annotations

from typing import Any, Optional

import sonnet as snt
import tensorflow as tf

from tfagents_x.networks import blocks


def is_plain(core: snt.Module) -> bool:
    """Whether `core` begins and steps as a `snt.LSTM` without projection of the hidden state."""
    kind = type(core)
    same = isinstance(core, snt.LSTM) and kind.__call__ is snt.LSTM.__call__
    return same and kind.initial_state is snt.LSTM.initial_state and core._projection_size is None


def unroll(
    core: snt.LSTM,
    inputs: tf.Tensor,
    initial_state: snt.LSTMState,
    resets: Optional[tf.Tensor] = None,
) -> tuple[tf.Tensor, snt.LSTMState]:
    """Runs a plain `snt.LSTM` along time.

    Args:
      core: a `snt.LSTM` for which `is_plain` holds.
      inputs: [T, B, D], T known.
      initial_state: hidden and cell, [B, H] each.
      resets: [T, B] bool, where the state is zeroed before the step; None for nowhere.

    Returns:
      Hidden states [T, B, H], and the `snt.LSTMState` after every step, [T, B, H] each.
      First derivatives only.
    """
    core._initialize(inputs[0])
    w_h = tf.convert_to_tensor(core.hidden_to_hidden)
    gates_x = tf.reshape(
        tf.matmul(snt.merge_leading_dims(inputs, 2), core.input_to_hidden) + core.b,
        [inputs.shape[0], -1, w_h.shape[1]],
    )
    keep = None if resets is None else tf.logical_not(resets)[..., tf.newaxis]

    @tf.custom_gradient
    def recurrence(gates_x: tf.Tensor, w_h: tf.Tensor, h_0: tf.Tensor, c_0: tf.Tensor) -> Any:
        # Without this, TensorFlow would derive gradients of the loop, and (for a persistent tape)
        # of these, only to throw them away: two thirds of the time of tracing.
        gates_x, w_h, h_0, c_0 = map(tf.stop_gradient, (gates_x, w_h, h_0, c_0))
        hidden, cell, gates = _forward(gates_x, w_h, h_0, c_0, keep)

        def gradient(d_hidden: tf.Tensor, d_cell: tf.Tensor) -> Any:
            h_before, c_before = _before(h_0, hidden, keep), _before(c_0, cell, keep)
            d_gates, d_h0, d_c0 = _backward(d_hidden, d_cell, gates, cell, c_before, w_h, keep)
            d_w = tf.matmul(_flat(h_before), _flat(d_gates), transpose_a=True)
            return d_gates, d_w, d_h0, d_c0

        return (hidden, cell), gradient

    hidden, cell = recurrence(gates_x, w_h, initial_state.hidden, initial_state.cell)
    return hidden, snt.LSTMState(hidden=hidden, cell=cell)


def step_from_shared_state(
    core: snt.LSTM, inputs: tf.Tensor, state: snt.LSTMState, multiple: Any
) -> tuple[tf.Tensor, snt.LSTMState]:
    """One step on several inputs for each state; the state's product is formed once.

    Args:
      core: a `snt.LSTM` for which `is_plain` holds.
      inputs: [multiple * M, D], row n * M + m starting from state m.
      state: hidden and cell, [M, H] each.
      multiple: number of inputs for each state.

    Returns:
      Hidden states [multiple * M, H] and the next `snt.LSTMState`, as `core` gives them on
      `multiple` copies of the state.
    """
    core._initialize(inputs)
    share = lambda x: tf.tile(x, [multiple, 1])
    from_state = tf.matmul(state.hidden, core.hidden_to_hidden) + core.b
    hidden, cell = _cell(
        tf.matmul(inputs, core.input_to_hidden) + share(from_state), share(state.cell)
    )
    return hidden, snt.LSTMState(hidden=hidden, cell=cell)


def _activations(gates: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Pre-activations [..., 4H] -> input, forget, update and output gate [..., H]."""
    width = gates.shape[-1] // 4
    i_f, g, o = tf.split(gates, [2 * width, width, width], axis=-1)
    i, f = tf.split(tf.sigmoid(i_f), 2, axis=-1)
    return i, f, tf.tanh(g), tf.sigmoid(o)


def _cell(gates: tf.Tensor, cell: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Pre-activations [B, 4H] and the cell before -> hidden and cell [B, H]."""
    i, f, g, o = _activations(gates)
    cell = f * cell + i * g
    return o * tf.tanh(cell), cell


def _before(first: tf.Tensor, rest: tf.Tensor, keep: Optional[tf.Tensor]) -> tf.Tensor:
    """What the step at t started from, [T, B, H]."""
    before = tf.concat([first[tf.newaxis], rest[:-1]], 0)
    return _kept(before, keep)


def _kept(x: tf.Tensor, keep: Optional[tf.Tensor]) -> tf.Tensor:
    """Zero where a state was reset: selected, so that NaN and infinity end there, too."""
    return x if keep is None else tf.where(keep, x, tf.zeros_like(x))


def _flat(x: tf.Tensor) -> tf.Tensor:
    return tf.reshape(x, [-1, x.shape[-1]])


def _forward(
    gates_x: tf.Tensor, w_h: tf.Tensor, h_0: tf.Tensor, c_0: tf.Tensor, keep: Optional[tf.Tensor]
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """h_t, c_t [T, B, H] and pre-activations [T, B, 4H]: input, forget, update, output."""

    def step(state: tuple, x: tf.Tensor, keep: Optional[tf.Tensor] = None) -> tuple[tuple, tuple]:
        h, c = (_kept(s, keep) for s in state)
        gates = x + tf.matmul(h, w_h)
        h, c = _cell(gates, c)
        return (h, c), (h, c, gates)

    inputs = [gates_x] if keep is None else [gates_x, keep]
    width = w_h.shape[0]
    _, outputs = blocks.scan(step, (h_0, c_0), inputs, [width, width, 4 * width])
    return outputs


def _backward(
    d_hidden: tf.Tensor,
    d_cell: tf.Tensor,
    gates: tf.Tensor,
    cell: tf.Tensor,
    cell_before: tf.Tensor,
    w_h: tf.Tensor,
    keep: Optional[tf.Tensor],
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Gradients of the gates' pre-activations [T, B, 4H] and of the initial state."""
    i, f, g, o = _activations(gates)
    tanh_c = tf.tanh(cell)
    # All that does not depend on the recurrence: how each pre-activation moves c and h.
    to_cell = o * (1 - tanh_c * tanh_c)
    by_gate = [g * i * (1 - i), cell_before * f * (1 - f), i * (1 - g * g), tanh_c * o * (1 - o)]
    known = [d_hidden, d_cell, to_cell, _kept(f, keep), tf.concat(by_gate, 2)]
    width = cell.shape[2]
    # Transposed once: for small batches a product with `transpose_b` is several times slower.
    w_h_transposed = tf.transpose(w_h)

    def step(
        state: tuple,
        d_hidden: tf.Tensor,
        d_cell: tf.Tensor,
        to_cell: tf.Tensor,
        through_cell: tf.Tensor,
        by_gate: tf.Tensor,
        keep: Optional[tf.Tensor] = None,
    ) -> tuple[tuple, tuple]:
        d_h, d_c = state
        d_h = d_h + d_hidden
        d_c = d_c + d_cell + d_h * to_cell
        d_gates = tf.concat([d_c, d_c, d_c, d_h], 1) * by_gate
        d_h = _kept(tf.matmul(d_gates, w_h_transposed), keep)
        return (d_h, d_c * through_cell), (d_gates,)

    zeros = tf.zeros_like(cell[0])
    inputs = known if keep is None else [*known, keep]
    (d_h0, d_c0), (d_gates,) = blocks.scan(step, (zeros, zeros), inputs, [4 * width], True)
    return d_gates, d_h0, d_c0
