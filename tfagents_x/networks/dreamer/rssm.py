"""The recurrent state-space model of DreamerV3, over whole sequences.

Hafner et al., 2023, arXiv:2301.04104, equation 3; RLlib's `WorldModel`, `SequenceModel` and
`DynamicsPredictor`. What doesn't recur is computed for all steps at once; the loops hold the
rest, and their gradients are loops too, which only carry what recurs.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional

import sonnet as snt
import tensorflow as tf

from tfagents_x.networks import blocks
from tfagents_x.networks.dreamer import latents, layers, transition
from tfagents_x.networks.dreamer.sizes import ModelSize


class Observed(NamedTuple):
    """States of a batch of sequences, floats [T, B, ...].

    Attributes:
      h: recurrent states [.., G], after each step.
      z: latent states [.., K C], sampled from the posterior.
      logits: of the posterior [.., K C].
    """

    h: tf.Tensor
    z: tf.Tensor
    logits: tf.Tensor


class RSSM(snt.Module):
    """Sequence model, posterior, prior and the learnt initial state."""

    def __init__(
        self, encoded: int, actions: int, size: ModelSize, dtype: tf.DType, name: str = "rssm"
    ):
        """Makes the variables.

        Args:
          encoded: width of encoded observations.
          actions: A, width of actions.
          size: of the networks.
          dtype: in which products are formed.
          name: of the module.
        """
        super().__init__(name=name)
        self.size, self.dtype = size, dtype
        self.latent = size.categoricals * size.classes
        width, units = size.gru_units, size.units
        mlp = lambda inputs, name: layers.MLP(inputs, units, 1, self.latent, dtype, name=name)
        self.posterior = mlp(encoded + width, "posterior")
        self.prior = mlp(width, "prior")
        self.pre_gru = layers.Hidden(self.latent + actions, units, dtype, name="pre_gru")
        kernels = layers.glorot()([units, 3 * width], tf.float32)
        recurrent = snt.initializers.Orthogonal()([width, 3 * width], tf.float32)
        self.gru_kernel = tf.Variable(kernels, name="gru_kernel")
        self.gru_recurrent = tf.Variable(recurrent, name="gru_recurrent_kernel")
        self.gru_bias = tf.Variable(tf.zeros([2, 3 * width]), name="gru_bias")
        self.initial_h = tf.Variable(tf.zeros([width]), name="initial_h")

    def initial_state(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Where episodes begin: h [G], and z [K C], the prior's mode there, without gradient."""
        h = tf.tanh(self.initial_h)
        logits = self.prior(tf.stop_gradient(h)[tf.newaxis])
        modes = latents.ModeSampler().categorical(self._split(logits))
        return h, tf.stop_gradient(tf.reshape(modes, [-1]))

    def probs(self, logits: tf.Tensor) -> tf.Tensor:
        """Logits [M, K C] -> probabilities [M, K, C]."""
        return latents.unimix(tf.reshape(logits, [-1, self.size.categoricals, self.size.classes]))

    def sample(self, logits: tf.Tensor, sampler: latents.Sampler, seed: tf.Tensor) -> tf.Tensor:
        """Latent states [M, K C] of logits [M, K C]; one-hot, without gradient."""
        return tf.reshape(sampler.categorical(self._split(logits), seed), tf.shape(logits))

    def _split(self, logits: tf.Tensor) -> tf.Tensor:
        return tf.reshape(logits, [-1, self.size.classes])

    def weights(self, mlp: layers.MLP) -> tuple[transition.Weights, tf.Tensor, tf.Tensor]:
        """What steps multiply with, where `mlp` (posterior or prior) gives the logits.

        Returns:
          The weights, the rows of pre_gru's kernel for actions [A, U], and those of the
          posterior's for encoded observations.
        """
        pre, out = self.pre_gru.weights(), mlp.weights()
        pre_z, pre_a = pre.kernel[: self.latent], pre.kernel[self.latent :]
        hidden = out.hidden[0]
        rows = hidden.kernel.shape[0] - self.size.gru_units
        weights = transition.Weights(
            *(pre_z, pre.scale, pre.offset),
            tf.convert_to_tensor(self.gru_kernel),
            tf.convert_to_tensor(self.gru_recurrent),
            tf.convert_to_tensor(self.gru_bias),
            *(hidden.kernel[rows:], hidden.scale, hidden.offset),
            *out.out,
        )
        return weights, pre_a, hidden.kernel[:rows]

    def advance(
        self,
        encoded: tf.Tensor,
        h: tf.Tensor,
        z: tf.Tensor,
        actions: tf.Tensor,
        sampler: latents.Sampler,
        seed: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """One step of acting: state [M, ...] and observation -> h [M, G] and z [M, K C]."""
        weights, pre_a, out_e = self.weights(self.posterior)
        act = layers.product(actions, pre_a, self.dtype)
        obs = layers.product(encoded, out_e, self.dtype)
        h, logits, _ = transition.step(weights, h, z, act, obs, self.dtype)
        return h, self.sample(logits, sampler, seed)

    def observe(
        self,
        encoded: tf.Tensor,
        actions: tf.Tensor,
        is_first: tf.Tensor,
        sampler: latents.Sampler,
        seed: tf.Tensor,
    ) -> Observed:
        """Steps through sequences of observations; differentiable.

        Args:
          encoded: floats [T, B, E].
          actions: floats [T, B, A], taken at each observation. The action before the first
            step is the last one of the row, as in the source; masked, if the row begins an
            episode.
          is_first: bool [T, B], where the state begins anew.
          sampler: of latent states.
          seed: int32 [2].
        """
        weights, pre_a, out_e = self.weights(self.posterior)
        is_first = is_first[..., tf.newaxis]
        before = tf.roll(actions, 1, 0)
        before = tf.where(is_first, tf.zeros_like(before), before)
        shares = [
            tf.reshape(layers.product(_flat(x), kernel, self.dtype), [*_leading(x), -1])
            for x, kernel in ((before, pre_a), (encoded, out_e))
        ]
        shares = [tf.ensure_shape(x, [None, None, self.size.units]) for x in shares]
        h_0, z_0 = self.initial_state()
        seeds = _seeds(seed, actions.shape[0])
        sample = lambda logits, seed: self.sample(logits, sampler, seed)
        widths = (self.size.units, self.size.gru_units, self.latent, self.size.classes)
        act, obs = shares
        return _observe(act, obs, h_0, z_0, is_first, seeds, weights, sample, widths, self.dtype)


def _observe(
    act: tf.Tensor,
    obs: tf.Tensor,
    h_0: tf.Tensor,
    z_0: tf.Tensor,
    is_first: tf.Tensor,
    seeds: tf.Tensor,
    weights: transition.Weights,
    sample: Callable[..., tf.Tensor],
    widths: tuple[int, int, int, int],
    dtype: tf.DType,
) -> Observed:
    units, width, latent, classes = widths

    @tf.custom_gradient
    def recurrence(act: tf.Tensor, obs: tf.Tensor, h_0: tf.Tensor, *weights: tf.Tensor) -> Any:
        # Hidden from tapes, which would derive gradients of the loop; see `lstm`.
        act, obs, h_0 = map(tf.stop_gradient, (act, obs, h_0))
        w = transition.Weights(*map(tf.stop_gradient, weights))

        def forward(state: tuple, act: Any, obs: Any, first: Any, seed: Any) -> tuple:
            h, z = _restart(first, h_0, state[0]), _restart(first, z_0, state[1])
            h, logits, kept = transition.step(w, h, z, act, obs, dtype)
            z = sample(logits, seed[0])
            return (h, z), (h, z, logits, *kept)

        batch = tf.shape(act)[1]
        start = _spread(h_0, batch, act.shape[1]), _spread(z_0, batch, act.shape[1])
        out_widths = [width, latent, latent, *transition.kept_widths(units, width)]
        inputs = [act, obs, is_first, seeds]
        _, (h, z, logits, *kept) = blocks.scan(forward, start, inputs, out_widths)

        def gradient(d_h: tf.Tensor, d_z: tf.Tensor, d_logits: tf.Tensor) -> list[tf.Tensor]:
            h_before = _restart(is_first, h_0, tf.concat([start[0][tf.newaxis], h[:-1]], 0))
            z_before = _restart(is_first, z_0, tf.concat([start[1][tf.newaxis], z[:-1]], 0))
            s = transition.slopes(w, h_before, logits, transition.Kept(*kept), classes)
            w_t = transition.transposed(w)

            def backward(
                state: tuple, d_h: Any, d_z: Any, d_logits: Any, first: Any, *s: Any
            ) -> Any:
                d_h, d_z, d = transition.step_vjp(
                    *(w_t, transition.Slopes(*s), state[0] + d_h, state[1] + d_z),
                    *(d_logits, classes, dtype),
                )
                zero = lambda x: tf.where(first, tf.zeros_like(x), x)
                return (zero(d_h), zero(d_z)), tuple(d)

            zeros = tf.zeros_like(h[0]), tf.zeros_like(z[0])
            inputs = [d_h, d_z, d_logits, is_first, *s]
            widths = transition.adjoint_widths(units, width, latent)
            (d_start, _), adjoints = blocks.scan(backward, zeros, inputs, widths, True)
            d = transition.Adjoints(*adjoints)
            restarts = tf.where(is_first, d.h, tf.zeros_like(d.h))
            d_h_0 = tf.reduce_sum(restarts, [0, 1]) + tf.reduce_sum(d_start, 0)
            d_w = transition.weight_gradients(w, s, d, h_before, z_before, h, dtype)
            return [d.pre, d.out, d_h_0, *d_w]

        return (h, z, logits), gradient

    return Observed(*recurrence(act, obs, h_0, *weights))


class Imagined(NamedTuple):
    """A dream of H steps; constants for gradients, floats.

    Attributes:
      states: h and z side by side before each step [H, N, G + K C].
      last: the same after the last step [N, G + K C].
      first: first products of the actor, [H, N, ...].
      actions: taken in `states`, [H, N, A].
      logits: of the prior [H, N, K C]; None if nothing is `kept`.
      kept: see `transition.Kept`; None for a dream that won't be differentiated.
    """

    states: tf.Tensor
    last: tf.Tensor
    first: tf.Tensor
    actions: tf.Tensor
    logits: Optional[tf.Tensor]
    kept: Optional[transition.Kept]


def imagine(
    rssm: RSSM,
    act: Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]],
    start: tf.Tensor,
    horizon: int,
    widths: tuple[int, int],
    sampler: latents.Sampler,
    seed: tf.Tensor,
    keep: bool,
) -> Imagined:
    """Dreams from N states on.

    Args:
      rssm: whose prior chooses latent states.
      act: of states [N, G + K C] and a seed to the actor's first product and actions.
      start: states [N, G + K C].
      horizon: H.
      widths: of the first product, and of actions.
      sampler: of latent states.
      seed: int32 [2].
      keep: what `follow` needs.
    """
    stop = lambda nest: tf.nest.map_structure(tf.stop_gradient, nest)
    (w, pre_a, _), dtype, size = stop(rssm.weights(rssm.prior)), rssm.dtype, rssm.size
    start = tf.stop_gradient(start)

    def step(state: tuple, seed: Any) -> tuple:
        h, z = state
        states = tf.concat([h, z], -1)
        first, actions = act(states, seed[0] + [0, 1 << 21])
        share = layers.product(actions, pre_a, dtype)
        h, logits, kept = transition.step(w, h, z, share, None, dtype)
        z = rssm.sample(logits, sampler, seed[0])
        return (h, z), (states, first, actions, *([logits, *kept] if keep else []))

    width = size.gru_units
    out_widths = [width + rssm.latent, *widths]
    if keep:
        out_widths += [rssm.latent, *transition.kept_widths(size.units, width)]
    begin = start[:, :width], start[:, width:]
    # One step at a time: it has much to do, and filling up a block would double that.
    last, outputs = blocks.scan(step, begin, [_seeds(seed, horizon)], out_widths, steps=1)
    last = tf.concat(last, -1)
    states, first, actions, *rest = outputs
    if not keep:
        return Imagined(states, last, first, actions, None, None)
    return Imagined(states, last, first, actions, rest[0], transition.Kept(*rest[1:]))


def follow(rssm: RSSM, dream: Imagined, actions: tf.Tensor) -> tf.Tensor:
    """The states after each step of a dream as a function of its actions.

    Args:
      rssm: as in `imagine`.
      dream: with what is kept.
      actions: [H, N, A], of the values that the dream has.

    Returns:
      [H, N, G + K C], with a gradient for `actions` through all later states, and none for
      any weights.
    """
    w, pre_a, _ = tf.nest.map_structure(tf.stop_gradient, rssm.weights(rssm.prior))
    width, classes, dtype = rssm.size.gru_units, rssm.size.classes, rssm.dtype
    assert dream.kept is not None
    remembered = (dream.states, dream.logits, *dream.kept)

    @tf.custom_gradient
    def followed(actions: tf.Tensor) -> tuple[tf.Tensor, Any]:
        states = tf.concat([dream.states[1:], dream.last[tf.newaxis]], 0)

        def gradient(d_states: tf.Tensor) -> tf.Tensor:
            w_t, a_t = transition.transposed(w), tf.transpose(pre_a)

            def backward(state: tuple, d_states: Any, before: Any, logits: Any, *kept: Any) -> Any:
                kept = transition.Kept(*kept)
                s = transition.slopes(w, before[:, :width], logits, kept, classes)
                d_h, d_z = state[0] + d_states[:, :width], state[1] + d_states[:, width:]
                d_h, d_z, d = transition.step_vjp(w_t, s, d_h, d_z, None, classes, dtype)
                return (d_h, d_z), (layers.product(d.pre, a_t, dtype),)

            zeros = tf.zeros_like(dream.last)
            begin = zeros[:, :width], zeros[:, width:]
            inputs = [d_states, *remembered]
            _, (d_actions,) = blocks.scan(
                backward, begin, inputs, [actions.shape[-1]], True, steps=1
            )
            return d_actions

        return states, gradient

    return followed(actions)


def _seeds(seed: tf.Tensor, length: int) -> tf.Tensor:
    """A seed for each step, int32 [length, 1, 2]."""
    steps = tf.stack([tf.zeros([length], tf.int32), tf.range(length)], 1)
    return (seed + steps)[:, tf.newaxis]


def _restart(first: tf.Tensor, initial: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Selected, so that NaN and infinity end there, too."""
    return tf.where(first, initial, x)


def _spread(x: tf.Tensor, batch: tf.Tensor, static: Optional[int]) -> tf.Tensor:
    return tf.ensure_shape(tf.tile(x[tf.newaxis], [batch, 1]), [static, x.shape[0]])


def _flat(x: tf.Tensor) -> tf.Tensor:
    return tf.reshape(x, [-1, x.shape[-1]])


def _leading(x: tf.Tensor) -> list:
    return [size or tf.shape(x)[i] for i, size in enumerate(x.shape[:-1])]
