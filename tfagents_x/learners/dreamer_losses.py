"""The losses of DreamerV3, each a pure function of tensors.

Hafner, Pasukonis, Ba and Lillicrap, 2023, "Mastering Diverse Domains through World Models",
arXiv:2301.04104v1, equations 4, 5, 8 to 12; `DreamerV3TfLearner` of RLlib, whose names the
results carry. "B_T" are steps of the batch [B, T], "BxT" the same folded into N = B T rows,
"H_BxT" dreamed steps [H, N], the time of the dream first.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from tfagents_x.networks.dreamer import latents
from tfagents_x.ops import symlog

NUM_BUCKETS = 255
_BOUND = 20.0
# KL divergences below 1 nat are not minimized any further.
_FREE_NATS = 1.0
# What the dynamics and the representation loss weigh.
_DYNAMICS, _REPRESENTATION = 0.5, 0.1
_MIN_SCALE = 1e-8

Losses = dict[str, tf.Tensor]


def expected_bucket(logits: tf.Tensor) -> tf.Tensor:
    """The mean of a distribution over the 255 buckets, which lie in symlog space.

    Args:
      logits: floats [..., 255].

    Returns:
      Floats [...], within -20 ... 20.
    """
    buckets = np.linspace(-_BOUND, _BOUND, NUM_BUCKETS, dtype=np.float32)
    # A product, which XLA and CPUs do faster than multiplying and adding up.
    return tf.linalg.matvec(tf.nn.softmax(logits), tf.cast(buckets, logits.dtype))


@tf.custom_gradient
def two_hot_cross_entropy(logits: tf.Tensor, targets: tf.Tensor) -> tuple[tf.Tensor, Any]:
    """-sum(log_softmax(logits) * two_hot(target)), from two of the 255 logits only.

    Args:
      logits: floats [M, 255].
      targets: floats [M] in symlog space, clipped to -20 ... 20; constants for gradients.

    Returns:
      Floats [M].
    """
    # Counted from the bucket in the middle, which is 0: floats are densest there.
    middle = (NUM_BUCKETS - 1) // 2
    position = tf.clip_by_value(targets * (middle / _BOUND), -float(middle), float(middle))
    lower = tf.minimum(tf.floor(position), middle - 1.0)
    upper_weight = position - lower
    # Clipped as an integer, too: what a NaN becomes would be no index.
    index = tf.clip_by_value(tf.cast(lower, tf.int32) + middle, 0, NUM_BUCKETS - 2)
    pairs = tf.gather(logits, tf.stack([index, index + 1], 1), batch_dims=1)
    weights = tf.stack([1.0 - upper_weight, upper_weight], 1)
    log_total = tf.reduce_logsumexp(logits, -1)
    losses = log_total - tf.reduce_sum(pairs * weights, -1)
    # Not every device lets NaN through clipping.
    losses = tf.where(tf.math.is_nan(targets), targets, losses)

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, None]:
        places = tf.range(NUM_BUCKETS, dtype=logits.dtype) - middle
        distance = tf.abs(places - position[:, tf.newaxis])
        two_hot = tf.nn.relu(1.0 - distance)
        probs = tf.exp(logits - log_total[:, tf.newaxis])
        return upstream[:, tf.newaxis] * (probs - two_hot), None

    return losses, gradient


def prediction_losses(
    obs: tf.Tensor,
    obs_means: tf.Tensor,
    reward_logits: tf.Tensor,
    continue_logits: tf.Tensor,
    rewards: tf.Tensor,
    continues: tf.Tensor,
) -> Losses:
    """How well a world model predicts observations, rewards and whether the episode goes on.

    Args:
      obs: floats [N, ...], what the decoder should say: symlog'd vectors, scaled images.
      obs_means: floats [N, D], what it says, flat.
      reward_logits: floats [N, 255].
      continue_logits: floats [N].
      rewards: floats [B, T], raw.
      continues: floats [B, T], 1 minus `is_terminated`.

    Returns:
      `L_decoder_B_T` (a sum of squares without a factor), `L_reward_B_T`, `L_continue_B_T`
      (negative log-likelihoods), and `L_prediction_B_T`, their sum; floats [B, T].
    """
    unfold = lambda x: tf.reshape(x, tf.shape(rewards))
    flat = lambda x: tf.reshape(x, [-1])
    difference = obs_means - tf.reshape(obs, tf.shape(obs_means))
    decoder = unfold(tf.reduce_sum(tf.square(difference), -1))
    targets = flat(symlog.symlog(rewards))
    reward = unfold(two_hot_cross_entropy(reward_logits, targets))
    binary = tf.nn.softplus(continue_logits) - flat(continues) * continue_logits
    losses = {"L_decoder": decoder, "L_reward": reward, "L_continue": unfold(binary)}
    losses["L_prediction"] = tf.add_n(list(losses.values()))
    return {f"{name}_B_T": value for name, value in losses.items()}


def dynamics_and_representation_losses(
    posterior_probs: tf.Tensor, prior_probs: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """KL(posterior || prior) twice: once to train the prior, once to train the posterior.

    Args:
      posterior_probs: floats [..., K, C], without zeros.
      prior_probs: floats [..., K, C], without zeros.

    Returns:
      Dynamics and representation loss, floats [...]: equal numbers of at least 1, of which
      the first has a gradient for the prior only, the second for the posterior only, and
      neither where the divergence is 1 or less.
    """
    log_p, log_q = tf.math.log(posterior_probs), tf.math.log(prior_probs)
    stop = tf.stop_gradient
    dynamics = tf.reduce_sum(stop(posterior_probs) * (stop(log_p) - log_q), [-2, -1])
    representation = tf.reduce_sum(posterior_probs * (log_p - stop(log_q)), [-2, -1])
    free = tf.constant(_FREE_NATS, dynamics.dtype)
    # Not tf.maximum, of which the gradient at a tie is TensorFlow's to choose; NaN must stay.
    limit = lambda kl: tf.where(kl <= free, free, kl)
    return limit(dynamics), limit(representation)


def world_model_losses(
    predictions: Losses, dynamics: tf.Tensor, representation: tf.Tensor
) -> Losses:
    """All losses of the world model with their weighted sum, `L_total_B_T`; floats [B, T]."""
    total = predictions["L_prediction_B_T"] + _DYNAMICS * dynamics
    return {
        **predictions,
        "L_dynamics_B_T": dynamics,
        "L_representation_B_T": representation,
        "L_total_B_T": total + _REPRESENTATION * representation,
    }


def disagreement_loss(
    predicted: tf.Tensor, posterior_probs: tf.Tensor, is_first: tf.Tensor
) -> tf.Tensor:
    """Cross-entropy of predictions of the next latent state, the mean over networks and steps.

    Args:
      predicted: floats [E, B, T - 1, K, C], of each network, from the steps before.
      posterior_probs: floats [B, T - 1, K, C] of the steps themselves; constants for gradients.
      is_first: bool [B, T - 1], steps that nothing led to; they count 0.
    """
    entropies = -tf.reduce_sum(tf.stop_gradient(posterior_probs) * tf.math.log(predicted), [-2, -1])
    return tf.reduce_mean(tf.where(is_first, tf.zeros_like(entropies), entropies))


class DreamHeads(NamedTuple):
    """What the heads say about dreamed states, all floats [H + 1, N].

    Attributes:
      rewards: of arriving at the state.
      continues: 1 where the episode goes on, else 0.
      values: of the critic.
      ema_values_symlog: of its average, in symlog space.
      loss_weights: what the state's losses count.
    """

    rewards: tf.Tensor
    continues: tf.Tensor
    values: tf.Tensor
    ema_values_symlog: tf.Tensor
    loss_weights: tf.Tensor


def dream_heads(
    rewards_symlog: tf.Tensor,
    values_symlog: tf.Tensor,
    ema_values_symlog: tf.Tensor,
    predicted_continues: tf.Tensor,
    start_is_terminated: tf.Tensor,
    gamma: float,
) -> DreamHeads:
    """Puts what the heads predict into the form of the losses.

    Args:
      rewards_symlog: floats [(H + 1) N], the dream's time first, as are the next three.
      values_symlog: floats [(H + 1) N].
      ema_values_symlog: floats [(H + 1) N].
      predicted_continues: floats [(H + 1) N], 0 or 1.
      start_is_terminated: bool (or floats) [N], what is known of the first states.
      gamma: the discount.

    Returns:
      `DreamHeads`. The weight of step t is gamma^t times all continues up to its own.
    """
    unfold = lambda x: tf.reshape(
        x, [-1, start_is_terminated.shape[0] or tf.size(start_is_terminated)]
    )
    first = 1.0 - tf.cast(start_is_terminated, rewards_symlog.dtype)
    continues = tf.concat([first[tf.newaxis], unfold(predicted_continues)[1:]], 0)
    return DreamHeads(
        rewards=symlog.symexp(unfold(rewards_symlog)),
        continues=continues,
        values=symlog.symexp(unfold(values_symlog)),
        ema_values_symlog=unfold(ema_values_symlog),
        loss_weights=tf.math.cumprod(gamma * continues, 0) / gamma,
    )


def return_percentiles(value_targets: tf.Tensor) -> tf.Tensor:
    """The 5th and the 95th percentile of all numbers, as members of the batch; floats [2].

    A NaN anywhere gives NaN.
    """
    values = tf.sort(tf.reshape(tf.stop_gradient(value_targets), [-1]))
    last = tf.cast(tf.size(values) - 1, tf.float32)
    index = tf.cast(tf.round(last * tf.constant([0.05, 0.95])), tf.int32)
    # A sum over all is what lets NaN through, wherever sorting put it.
    unknown = tf.reduce_any(tf.math.is_nan(values))
    return tf.where(unknown, tf.cast(np.nan, values.dtype), tf.gather(values, index))


def update_percentiles(state: tf.Tensor, batch: tf.Tensor, decay: float) -> tf.Tensor:
    """Moves the percentiles towards the batch's; a state of NaN (none yet) takes them over."""
    return tf.where(tf.math.is_nan(state), batch, decay * state + (1.0 - decay) * batch)


def scaled_value_targets(
    value_targets: tf.Tensor, values: tf.Tensor, percentiles: tf.Tensor
) -> tf.Tensor:
    """Advantages in units of the range of returns (equation 12, whose limit of 1 is 1e-8 here).

    Args:
      value_targets: floats [H, N].
      values: floats [H, N].
      percentiles: floats [2], the 5th and 95th; constants for gradients.

    Returns:
      Floats [H, N].
    """
    low, high = tf.unstack(tf.stop_gradient(percentiles))
    scale = tf.maximum(_MIN_SCALE, high - low)
    return (value_targets - low) / scale - (values - low) / scale


def actor_losses(
    dist_params: tf.Tensor,
    actions: tf.Tensor,
    scaled_targets: tf.Tensor,
    loss_weights: tf.Tensor,
    entropy_scale: float,
    discrete: bool,
) -> Losses:
    """Equation 11: REINFORCE for discrete actions, the gradient through the dream for others.

    Args:
      dist_params: floats [H, N, A], log-probabilities; or [H, N, 2 A], mean and deviation.
      actions: floats [H, N, A], one-hot if discrete; constants for gradients.
      scaled_targets: floats [H, N], of `scaled_value_targets`.
      loss_weights: floats [H, N], constants for gradients.
      entropy_scale: what the entropy counts.
      discrete: which of the two.

    Returns:
      Terms [H, N] under RLlib's names, `ACTOR_L_total_H_BxT` and what it is made of. Only the
      total is weighted.
    """
    stop = tf.stop_gradient
    if discrete:
        log_probs = tf.reduce_sum(stop(actions) * dist_params, -1)
        reinforce = -log_probs * stop(scaled_targets)
        entropy = latents.categorical_entropy(dist_params)
    else:
        log_probs = latents.gaussian_log_prob(dist_params, stop(actions))
        reinforce = -scaled_targets
        entropy = latents.gaussian_entropy(dist_params)
    neg_entropy = -entropy_scale * entropy
    return {
        "ACTOR_L_total_H_BxT": (reinforce + neg_entropy) * stop(loss_weights),
        "ACTOR_logp_actions_dreamed_H_BxT": log_probs,
        "ACTOR_scaled_value_targets_H_BxT": scaled_targets,
        "ACTOR_action_entropy_H_BxT": entropy,
        "ACTOR_L_neglogp_reinforce_term_H_BxT": reinforce,
        "ACTOR_L_neg_entropy_term_H_BxT": neg_entropy,
    }


def critic_losses(
    value_logits: tf.Tensor,
    value_targets: tf.Tensor,
    ema_values_symlog: tf.Tensor,
    loss_weights: tf.Tensor,
) -> Losses:
    """Cross-entropy with the value targets, and with what the critic's average says.

    Args:
      value_logits: floats [H, N, 255].
      value_targets: floats [H, N], raw; constants for gradients, as the next two.
      ema_values_symlog: floats [H, N].
      loss_weights: floats [H, N].

    Returns:
      Terms [H, N] under RLlib's names, and `VALUE_TARGETS_symlog_H_BxT`. Only
      `CRITIC_L_total_H_BxT` is weighted.
    """
    targets = tf.stop_gradient(symlog.symlog(value_targets))
    logits = tf.reshape(value_logits, [-1, NUM_BUCKETS])

    def against(wanted: tf.Tensor) -> tf.Tensor:
        losses = two_hot_cross_entropy(logits, tf.reshape(tf.stop_gradient(wanted), [-1]))
        return tf.reshape(losses, tf.shape(wanted))

    value, ema = against(targets), against(ema_values_symlog)
    return {
        "VALUE_TARGETS_symlog_H_BxT": targets,
        "CRITIC_L_total_H_BxT": (value + ema) * tf.stop_gradient(loss_weights),
        "CRITIC_L_neg_logp_of_value_targets_H_BxT": value,
        "CRITIC_L_slow_critic_regularization_H_BxT": ema,
    }


def means(losses: Losses, prefix: str = "", suffix: Optional[str] = "_H_BxT") -> Losses:
    """The mean of each term, under its name without `suffix` and with `prefix`."""
    cut = lambda name: name[: -len(suffix)] if suffix and name.endswith(suffix) else name
    return {prefix + cut(name): tf.reduce_mean(value) for name, value in losses.items()}
