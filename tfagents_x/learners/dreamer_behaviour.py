"""What DreamerV3 learns in its dreams: gradients of the actor and of the critic.

Each is computed with as little as the algorithm needs. The dream itself is recorded by no tape.
An actor of discrete actions only needs its own products again, whose values the dream has kept;
one of continuous actions needs gradients back through the dream for its actions, which
`rssm.follow` has, and none for any weights of the world model or the critic.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional

import tensorflow as tf

from tfagents_x.learners import dreamer_losses as losses
from tfagents_x.networks.dreamer import latents, rssm
from tfagents_x.networks.dreamer.model import DreamerModel
from tfagents_x.ops import returns

# From targets [H, N] and what normalized returns so far to what does from now on, [2].
Normalize = Callable[[tf.Tensor], tf.Tensor]


class Settings(NamedTuple):
    """Numbers of the algorithm, see `DreamerV3Learner`."""

    gamma: float
    gae_lambda: float
    horizon: int
    entropy_scale: float
    intrinsic_rewards_scale: Optional[float] = None


class Behaviour(NamedTuple):
    """Results of one dream.

    Attributes:
      gradients: of `actor` and `critic`, in the order of `trainable_variables`.
      terms: losses [H, N] under the source's names, `VALUE_TARGETS_H_BxT` among them.
      percentiles: what normalizes returns from now on, [2].
      dream: everything dreamed, [H + 1, N, ...], under the source's names.
    """

    gradients: dict[str, list]
    terms: dict[str, tf.Tensor]
    percentiles: Optional[tf.Tensor]
    dream: dict[str, tf.Tensor]


def imagine(
    model: DreamerModel, start: tf.Tensor, horizon: int, sampler: latents.Sampler, seed: tf.Tensor
) -> rssm.Imagined:
    """Dreams on from states [N, S], with the model's own actions."""
    weights = model.actor.weights()

    def act(states: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        first = weights.first(states)
        return first, weights.sample(weights.raw(first), sampler, seed)

    widths = (model.actor.first_width, model.num_actions)
    core, keep = model.world_model.rssm, not model.discrete
    return rssm.imagine(core, act, start, horizon, widths, sampler, seed, keep)


def learn(
    model: DreamerModel,
    start: tf.Tensor,
    is_terminated: tf.Tensor,
    settings: Settings,
    normalize: Normalize,
    sampler: latents.Sampler,
    seed: tf.Tensor,
) -> Behaviour:
    """Dreams, and derives actor and critic.

    Args:
      model: all networks.
      start: states [N, S], constants for gradients.
      is_terminated: bool [N], of the start states.
      settings: numbers.
      normalize: from targets [H, N] to percentiles [2].
      sampler: of latent states and actions.
      seed: int32 [2].
    """
    start = tf.stop_gradient(start)
    dreamed = imagine(model, start, settings.horizon, sampler, seed)
    actor, critic = model.actor.trainable_variables, model.critic.trainable_variables
    tapes = [tf.GradientTape(watch_accessed_variables=False) for _ in range(2)]
    with tapes[0] as actor_tape, tapes[1] as critic_tape:
        actor_tape.watch(actor)
        critic_tape.watch(critic)
        params, actions, states = _replay(model, dreamed)
        flat = tf.reshape(states, [-1, states.shape[-1]])
        logits, critic_logits = _values(model, dreamed, flat)
        reward_logits = model.world_model.reward(flat)
        heads = _heads(model, flat, reward_logits, logits, is_terminated, settings.gamma)
        extra = _intrinsic_rewards(model, states, actions, settings)
        targets = returns.dreamer_lambda_returns(
            *(heads.rewards, heads.continues, heads.values, settings.gamma, settings.gae_lambda),
            intrinsic_rewards=extra,
        )
        weights = heads.loss_weights[:-1]
        critic_terms = losses.critic_losses(
            *(critic_logits, targets, heads.ema_values_symlog[:-1], weights)
        )
        critic_loss = tf.reduce_mean(critic_terms["CRITIC_L_total_H_BxT"])
        percentiles = normalize(targets)
        advantages = losses.scaled_value_targets(targets, heads.values[:-1], percentiles)
        scale = settings.entropy_scale
        actor_terms = losses.actor_losses(
            params, dreamed.actions, advantages, weights, scale, model.discrete
        )
        actor_loss = tf.reduce_mean(actor_terms["ACTOR_L_total_H_BxT"])
    gradients = {
        "actor": actor_tape.gradient(actor_loss, actor),
        "critic": critic_tape.gradient(critic_loss, critic),
    }
    terms = {"VALUE_TARGETS_H_BxT": targets, **critic_terms, **actor_terms}
    if extra is not None:
        terms["DISAGREEMENT_intrinsic_rewards_H_BxT"] = extra
    dream = _dream_data(model, dreamed, params, heads, logits, sampler, seed)
    return Behaviour(gradients, terms, percentiles, dream)


def _replay(model: DreamerModel, dreamed: rssm.Imagined) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Parameters of the actions [H, N, ...], actions, and all states [H + 1, N, S]."""
    weights = model.actor.weights()
    fold = lambda x: tf.reshape(x, [-1, x.shape[-1]])
    first = weights.known_first(fold(dreamed.states), fold(dreamed.first))
    params = weights.params(weights.raw(first))
    params = tf.reshape(params, [*_leading(dreamed.states), params.shape[-1]])
    if model.discrete:
        states = tf.concat([dreamed.states, dreamed.last[tf.newaxis]], 0)
        return params, dreamed.actions, states
    mean, std = tf.split(params, 2, -1)
    stop = tf.stop_gradient
    noise = stop((dreamed.actions - mean) / std)
    # The actions' values, with the gradient of mean + noise * std.
    actions = dreamed.actions + (mean - stop(mean)) + noise * (std - stop(std))
    followed = rssm.follow(model.world_model.rssm, dreamed, actions)
    return params, actions, tf.concat([dreamed.states[:1], followed], 0)


def _intrinsic_rewards(
    model: DreamerModel, states: tf.Tensor, actions: tf.Tensor, settings: Settings
) -> Optional[tf.Tensor]:
    """What curiosity gives for steps 1 ... H, [H, N]; None without it."""
    if settings.intrinsic_rewards_scale is None:
        return None
    assert model.disagreement is not None
    flat = lambda x: tf.reshape(x, [-1, x.shape[-1]])
    rewards = model.disagreement.rewards(flat(states[:-1]), flat(actions))
    return settings.intrinsic_rewards_scale * tf.reshape(rewards, _leading(actions))


def _values(
    model: DreamerModel, dreamed: rssm.Imagined, states: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """The critic's logits, with the gradient for states, and with the one for its weights.

    Args:
      model: all networks.
      dreamed: the dream.
      states: all of its states, [(H + 1) N, S].

    Returns:
      Floats [(H + 1) N, 255], and [H, N, 255] of all states but the last.
    """
    weights = model.critic.weights()
    first, leading = weights.first(states), _leading(dreamed.states)
    known = tf.reshape(dreamed.states, [-1, states.shape[-1]])
    count = leading[0] * leading[1]
    own = weights.rest(weights.known_first(known, tf.stop_gradient(first[:count])))
    unfolded = tf.reshape(own, [*leading, losses.NUM_BUCKETS])
    if model.discrete:  # Nobody asks for gradients at the states.
        return tf.stop_gradient(tf.concat([own, weights.rest(first[count:])], 0)), unfolded
    fixed = tf.nest.map_structure(tf.stop_gradient, (weights.hidden, weights.out))
    return weights._replace(hidden=fixed[0], out=fixed[1]).rest(first), unfolded


def _heads(
    model: DreamerModel,
    states: tf.Tensor,
    reward_logits: tf.Tensor,
    value_logits: tf.Tensor,
    is_terminated: tf.Tensor,
    gamma: float,
) -> losses.DreamHeads:
    stopped = tf.stop_gradient(states)
    goes_on = tf.cast(model.world_model.continues(stopped)[:, 0] > 0.0, tf.float32)
    ema = losses.expected_bucket(model.critic_ema(stopped))
    rewards, values = map(losses.expected_bucket, (reward_logits, value_logits))
    return losses.dream_heads(rewards, values, ema, goes_on, is_terminated, gamma)


def _dream_data(
    model: DreamerModel,
    dreamed: rssm.Imagined,
    params: tf.Tensor,
    heads: losses.DreamHeads,
    value_logits: tf.Tensor,
    sampler: latents.Sampler,
    seed: tf.Tensor,
) -> dict[str, tf.Tensor]:
    """All of the dream. What nobody asks for is pruned from the graph, the last action say."""
    weights, size = model.actor.weights(), model.size
    raw = weights.raw(weights.first(dreamed.last))
    last = weights.sample(raw, sampler, seed + [1, 0]), weights.params(raw)
    append = lambda x, row: tf.concat([x, row[tf.newaxis]], 0)
    states = append(dreamed.states, dreamed.last)
    h, z = tf.split(states, [size.gru_units, -1], -1)
    actions = append(dreamed.actions, last[0])
    data = {
        "h_states_t0_to_H_BxT": h,
        "z_states_prior_t0_to_H_BxT": tf.reshape(
            z, [*_leading(z), size.categoricals, size.classes]
        ),
        "actions_dreamed_t0_to_H_BxT": actions,
        "actions_dreamed_dist_params_t0_to_H_BxT": append(params, last[1]),
        "rewards_dreamed_t0_to_H_BxT": heads.rewards,
        "continues_dreamed_t0_to_H_BxT": heads.continues,
        "values_dreamed_t0_to_H_BxT": heads.values,
        "values_symlog_dreamed_logits_t0_to_HxBxT": value_logits,
        "v_symlog_dreamed_ema_t0_to_H_BxT": heads.ema_values_symlog,
        "dream_loss_weights_t0_to_H_BxT": heads.loss_weights,
    }
    if model.discrete:
        data["actions_ints_dreamed_t0_to_H_B"] = tf.argmax(actions, -1, tf.int32)
    return data


def _leading(x: tf.Tensor) -> list[Any]:
    return [size or tf.shape(x)[i] for i, size in enumerate(x.shape[:-1])]
