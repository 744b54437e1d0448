"""Losses of behaviour cloning, as functions of a network and a batch of transitions.

`acme.agents.jax.bc.losses`. Each function here makes a loss:

    loss = peerbc(logp(), zeta=0.1)
    loss(network, transitions)

`network` is anything that maps observations [B, ...] to outputs, `transitions` has
`observation` and `action`, and the result is a scalar. Losses that draw take a third
argument, `seed` (int32 [2]); without it they draw other numbers in each call.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Optional

import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from tfagents_x import types
from tfagents_x.learners import checks, continuous
from tfagents_x.ops import indexing
from tfagents_x.utils import nest

Loss = Callable[..., tf.Tensor]
LogProbFn = Callable[[Any, tf.Tensor], tf.Tensor]
SampleFn = Callable[[Any, Any], tf.Tensor]

_Distribution = tfp.distributions.Distribution


def logp(logp_fn: Optional[LogProbFn] = None, num_bins: Optional[int] = None) -> Loss:
    """-mean log_prob(action); the cross-entropy, if the network returns logits.

    Args:
      logp_fn: from the network's output and the actions to log-probabilities; by default
        `log_prob`.
      num_bins: for actions [B, D] of `num_bins` values each: the network returns all logits in
        one row, [B, D * num_bins], which is reshaped to [B, D, num_bins].

    Raises:
      TypeError: `logp_fn` is no function, or `num_bins` no int.
      ValueError: `num_bins` is less than 1.
    """
    logp_fn = log_prob if logp_fn is None else logp_fn
    _check_function("logp_fn", logp_fn, "(output, action)")
    _check_bins(num_bins)

    def loss(network: Any, transitions: Any, seed: Any = None) -> tf.Tensor:
        del seed
        output = _in_bins(_apply(network, transitions.observation), num_bins)
        return -tf.reduce_mean(logp_fn(output, transitions.action))

    return loss


def mse(sample_fn: Optional[SampleFn] = None) -> Loss:
    """Mean over batch and dimensions of (the policy's action - action)^2.

    Args:
      sample_fn: from the network's output and a seed to actions. By default a tensor is the
        action itself and a distribution is sampled, as in the source; for its mode,
        `mse(lambda output, seed: output.mode())`.

    Raises:
      TypeError: `sample_fn` is no function.
    """
    sample_fn = sample if sample_fn is None else sample_fn
    _check_function("sample_fn", sample_fn, "(output, seed)")

    def loss(network: Any, transitions: Any, seed: Any = None) -> tf.Tensor:
        wanted = _one_tensor("mse", transitions.action)
        if not wanted.dtype.is_floating:
            raise TypeError(
                f"mse is for continuous actions, but the data has {wanted.dtype.name} ones. For "
                "discrete actions use logp()."
            )
        actions = sample_fn(_apply(network, transitions.observation), seed)
        if not actions.shape.is_compatible_with(wanted.shape):
            raise ValueError(
                f"The policy's actions have shape {actions.shape}, those of the data "
                f"{wanted.shape}."
            )
        return tf.reduce_mean(tf.math.squared_difference(actions, tf.cast(wanted, actions.dtype)))

    return loss


def peerbc(base_loss_fn: Loss, zeta: float) -> Loss:
    """A base loss - zeta times that of permuted actions: a penalty on what any action would get.

    Peer behaviour cloning, Wang et al., 2020, arXiv:2010.01748. As in the source, the
    dimensions of each action are permuted, in every row in another order; rows are not
    exchanged. With one dimension it is (1 - zeta) base.

    Args:
      base_loss_fn: a loss for actions [B, D, ...].
      zeta: weight of the penalty.

    Raises:
      TypeError: `base_loss_fn` is no loss, or `zeta` no number.
    """
    check_loss_fn("base_loss_fn", base_loss_fn)
    checks.check_number("zeta", zeta)

    def loss(network: Any, transitions: Any, seed: Any = None) -> tf.Tensor:
        action = _one_tensor("peerbc", transitions.action)
        if (action.shape.rank or 0) < 2:
            raise ValueError(
                "peerbc permutes the dimensions of each action, [B, D], but the data has actions "
                f"of shape {action.shape}. For single discrete actions there are logp and rcal."
            )
        seed, seed_base, seed_permuted = _split(seed, 3)
        permuted = transitions._replace(action=permute_within_rows(action, seed))
        base = _scalar(base_loss_fn, network, transitions, seed_base)
        return base - zeta * _scalar(base_loss_fn, network, permuted, seed_permuted)

    return loss


def rcal(base_loss_fn: Loss, discount: float, alpha: float, num_bins: Optional[int] = None) -> Loss:
    """The base loss + alpha mean |q(observation, action) - discount max_a q(next_observation, a)|.

    Piot, Geist and Pietquin, 2014, "Boosted and Reward-regularized Classification for
    Apprenticeship Learning": the logits are taken for action values, and the reward that
    follows from them by the Bellman equation shall be sparse. Both values have a gradient. As
    in the source, an episode's end does not count: `transitions.discount` is not used.

    Args:
      base_loss_fn: a loss for integer actions, [B] or [B, D].
      discount: of the Bellman equation.
      alpha: weight of the regularization.
      num_bins: see `logp`; the mean then runs over B and D.

    Raises:
      TypeError: `base_loss_fn` is no loss, or a number none.
      ValueError: a number is out of range.
    """
    check_loss_fn("base_loss_fn", base_loss_fn)
    checks.check_number("discount", discount, 0.0, 1.0)
    checks.check_number("alpha", alpha)
    _check_bins(num_bins)

    def values(network: Any, observation: Any) -> tf.Tensor:
        output = _apply(network, observation)
        if not tf.is_tensor(output):
            raise TypeError(f"rcal needs a network that returns logits, got {output!r}.")
        return _in_bins(output, num_bins)

    def loss(network: Any, transitions: Any, seed: Any = None) -> tf.Tensor:
        if isinstance(transitions.next_observation, tuple) and not transitions.next_observation:
            raise ValueError("rcal needs the transitions' next_observation, which is empty.")
        q_tm1 = values(network, transitions.observation)
        q_t = values(network, transitions.next_observation)
        action = _check_discrete(q_tm1, transitions.action)
        # The maximum by its index, because one of several equal values has all the gradient.
        best = tf.argmax(q_t, axis=-1, output_type=tf.int32)
        rewards = indexing.batched_index(q_tm1, action)
        rewards -= discount * indexing.batched_index(q_t, best)
        base = _scalar(base_loss_fn, network, transitions, seed)
        return base + alpha * tf.reduce_mean(tf.abs(rewards))

    return loss


def log_prob(output: Any, action: tf.Tensor) -> tf.Tensor:
    """Log-probability of each row's action, [B].

    Args:
      output: a tfp distribution with batch [B] over whole actions; or logits, [B, A], or
        [B, D, bins] for D independent choices.
      action: [B, ...] as the distribution's events; for logits integers, [B] or [B, D].

    Raises:
      TypeError: discrete actions for a continuous policy, or the other way round.
      ValueError: the shapes don't fit.
    """
    action = _one_tensor("log_prob", action)
    if isinstance(output, _Distribution):
        if output.dtype.is_integer != action.dtype.is_integer:
            raise TypeError(
                f"The network returns a distribution over {output.dtype.name}, but the actions "
                f"are {action.dtype.name}: one is discrete, the other continuous. Use a network "
                "made for this action space."
            )
        continuous.check_events(output, 1, action)
        return output.log_prob(tf.cast(action, output.dtype))
    if not tf.is_tensor(output):
        raise TypeError(
            f"The network must return logits or a tfp distribution, got {output!r}. For outputs "
            "of another kind use logp(logp_fn)."
        )
    action = _check_discrete(output, action)
    log_probs = -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=action, logits=output)
    return tf.reduce_sum(log_probs, axis=range(1, action.shape.rank))


def sample(output: Any, seed: Any = None) -> tf.Tensor:
    """The policy's action: a tensor as it is, a sample of a distribution.

    Raises:
      TypeError: neither of the two, or a distribution whose samples have no gradient.
    """
    if tf.is_tensor(output):
        return output
    if not isinstance(output, _Distribution):
        raise TypeError(
            f"The network must return actions or a tfp distribution over them, got {output!r}. "
            "For outputs of another kind use mse(sample_fn)."
        )
    if output.reparameterization_type is not tfp.distributions.FULLY_REPARAMETERIZED:
        raise TypeError(
            f"Samples of {output!r} have no gradient, so mse can't learn from them. Use logp(), "
            "or another head."
        )
    return output.sample(seed=seed)


def permute_within_rows(actions: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """The entries of each row, along axis 1 of [B, D, ...], in an order of its own."""
    keys = tf.random.stateless_uniform(tf.shape(actions)[:2], seed)
    return tf.gather(actions, tf.argsort(keys, axis=1), axis=1, batch_dims=1)


def call(loss_fn: Loss, network: Any, transitions: Any, seed: Any) -> Any:
    """What `loss_fn` returns, given the seed if it has an argument of that name."""
    if "seed" in _parameters(loss_fn):
        return loss_fn(network, transitions, seed=seed)
    return loss_fn(network, transitions)


def check_loss_fn(name: str, loss_fn: Any) -> None:
    """Refuses what can't be called as `loss_fn(network, transitions)` (TypeError)."""
    if loss_fn in (logp, mse, peerbc, rcal):
        raise TypeError(
            f"{name} is the function {loss_fn.__name__}, which makes losses: call it, as in logp()."
        )
    seed = {"seed": None} if "seed" in _parameters(loss_fn) else {}
    _check_function(name, loss_fn, "(network, transitions)", **seed)


def check_loss(name: str, loss: Any) -> tf.Tensor:
    """Returns what a loss function returned, if it is a scalar.

    Raises:
      TypeError: no tensor of floats.
      ValueError: of another shape.
    """
    if callable(loss) and not tf.is_tensor(loss):
        raise TypeError(
            f"{name} must return a scalar, got the function {loss!r}. The functions of bc_losses "
            "make losses: pass logp(), not logp."
        )
    if not tf.is_tensor(loss) or not loss.dtype.is_floating:
        raise TypeError(f"{name} must return a float scalar, got {loss!r}.")
    if loss.shape.rank != 0:
        raise ValueError(
            f"{name} must return a scalar, got shape {loss.shape}. Take the mean over the batch: "
            "tf.reduce_mean(loss)."
        )
    return loss


def _scalar(loss_fn: Loss, network: Any, transitions: Any, seed: Any) -> tf.Tensor:
    return check_loss("base_loss_fn", call(loss_fn, network, transitions, seed))


def _parameters(function: Any) -> Any:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # Some built-in functions have none.
        return {}


def _check_function(name: str, function: Any, arguments: str, **named: Any) -> None:
    """Refuses what can't be called with two positional arguments, and those in `named`."""
    if not callable(function):
        raise TypeError(f"{name} must be a function of {arguments}, got {function!r}.")
    if not _parameters(function):
        return
    try:
        inspect.signature(function).bind(None, None, **named)
    except TypeError:
        raise TypeError(
            f"{name} must be a function of {arguments}, got one of {inspect.signature(function)}."
        ) from None


def _split(seed: Any, count: int) -> list[Any]:
    seeds = tfp.random.split_seed(tfp.random.sanitize_seed(seed), n=count)
    return tf.unstack(seeds)


def _apply(network: Any, observation: types.NestedTensor) -> Any:
    if isinstance(network, snt.RNNCore):
        raise TypeError(
            f"Behaviour cloning is of feed-forward networks, got the recurrent core {network!r}. "
            "RCRRLearner(..., policy_improvement_modes='all') clones from sequences; or pass a "
            "loss_fn that unrolls it."
        )
    return network(observation)


def _check_bins(num_bins: Optional[int]) -> None:
    if num_bins is not None:
        checks.check_count("num_bins", num_bins)


def _in_bins(output: Any, num_bins: Optional[int]) -> Any:
    """[B, D * num_bins] as [B, D, num_bins]; as it is without `num_bins`."""
    if num_bins is None:
        return output
    if not tf.is_tensor(output) or output.shape.rank != 2 or output.shape[1] % num_bins:
        raise ValueError(
            f"With num_bins = {num_bins} the network must return logits [B, D * {num_bins}], got "
            f"{checks.describe(output)}."
        )
    return tf.reshape(output, [-1, output.shape[1] // num_bins, num_bins])


def _one_tensor(what: str, action: Any) -> tf.Tensor:
    if tree.is_nested(action):
        raise TypeError(
            f"{what} needs actions that are one tensor, got {checks.describe(action)}. For "
            "others write a loss_fn of your own."
        )
    return nest.as_tensor("action", action)


def _check_discrete(logits: tf.Tensor, action: Any) -> tf.Tensor:
    """Returns actions [B] or [B, D] as int32, for logits [B, A] or [B, D, bins]."""
    action = _one_tensor("a discrete policy", action)
    if not action.dtype.is_integer:
        raise TypeError(
            f"The network returns a tensor, which counts as logits of discrete actions, but the "
            f"actions are {action.dtype.name}. For continuous ones end the network with a head "
            "that returns a distribution, such as networks.MultivariateNormalDiagHead, or use "
            "loss_fn=mse()."
        )
    if not logits.shape[:-1].is_compatible_with(action.shape) or logits.shape.rank not in (2, 3):
        raise ValueError(
            "Logits must be [B, A] for actions [B], or [B, D, bins] for actions [B, D], got "
            f"{logits.shape} for {action.shape}."
        )
    return tf.cast(action, tf.int32)
