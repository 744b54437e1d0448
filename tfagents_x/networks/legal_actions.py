"""Networks that know which discrete actions are legal."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Callable, Optional, Union

import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp

from tfagents_x import types
from tfagents_x.networks import checks
from tfagents_x.ops import checks as ops_checks


def epsilon_greedy(
    action_values: tf.Tensor,
    epsilon: Union[float, tf.Tensor],
    legal_actions_mask: Optional[tf.Tensor] = None,
) -> tfp.distributions.Categorical:
    """With probability epsilon any legal action, otherwise one of the highest value.

    The result of trfl's function of this name, ties being split evenly, except for this: there
    the mask only restricts the random actions, here an illegal action is never taken either
    way. Where no action is legal, all are taken for legal.

    Args:
      action_values: [..., A] floats.
      epsilon: probability in [0, 1], a scalar.
      legal_actions_mask: [..., A], 1 or True where an action is legal; None if all are.

    Returns:
      Categorical over the A actions, batch shape [...]; its samples are int32.

    Raises:
      TypeError: `action_values` are not floating-point.
      ValueError: `epsilon` is outside of [0, 1] or no scalar, or the shapes differ.
    """
    values = checks.floats("epsilon_greedy", action_values)
    epsilon = ops_checks.scalar_in_range("epsilon", epsilon, values.dtype, 0.0, 1.0)
    legal = tf.ones_like(values, tf.bool)
    if legal_actions_mask is not None:
        legal = _legal(legal_actions_mask, values)
        legal |= tf.logical_not(tf.reduce_any(legal, axis=-1, keepdims=True))
    nothing = tf.constant(-math.inf, values.dtype)
    best = tf.reduce_max(tf.where(legal, values, nothing), axis=-1, keepdims=True)
    greedy = _evenly(legal & (values >= best), values.dtype)
    return tfp.distributions.Categorical(
        probs=epsilon * _evenly(legal, values.dtype) + (1 - epsilon) * greedy
    )


def _evenly(chosen: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Probabilities [..., A] that split 1 evenly over the actions chosen [..., A]."""
    weights = tf.cast(chosen, dtype)
    return weights / tf.reduce_sum(weights, axis=-1, keepdims=True)


def _legal(mask: Any, values: tf.Tensor) -> tf.Tensor:
    """The mask as booleans, checked against action values [..., A]."""
    mask = _is_one("the mask of legal actions", mask)
    if not mask.shape.is_compatible_with(values.shape):
        raise ValueError(
            f"The legal actions have shape {mask.shape}, but the action values {values.shape}: "
            "pass a 1 or 0 for every action, [B, A]."
        )
    return mask


def _is_one(name: str, flags: Any) -> tf.Tensor:
    flags = ops_checks.tensor(name, flags)
    return flags if flags.dtype.is_bool else tf.equal(flags, tf.ones([], flags.dtype))


class MaskedSequential(snt.Module):
    """A chain of layers whose outputs, action values, are masked (Acme's `MaskedSequential`).

    Illegal actions are worth -1e9 (in float16 its lowest number), and in terminal states all
    actions 0, so that a Q-learning target's maximum is 0 there. The penalty is finite because
    minus infinity times 0 is NaN.
    """

    def __init__(
        self,
        layers: Optional[Iterable[Callable[..., Any]]] = None,
        name: str = "MaskedSequential",
    ):
        """Takes the layers.

        Args:
          layers: modules and functions, applied to the observation one after the other; the
            last gives [B, A]. None for none.
          name: of the module.

        Raises:
          TypeError: `layers` is no sequence, or one of them can't be called.
        """
        super().__init__(name=name)
        if layers is not None and not isinstance(layers, Iterable):
            raise TypeError(f"layers must be a sequence of modules and functions, got {layers!r}.")
        self._layers = [checks.function(f"layers[{i}]", x) for i, x in enumerate(layers or ())]
        self._illegal_action_penalty = -1e9

    def __call__(self, inputs: types.OLT) -> tf.Tensor:
        """Applies the layers and the mask.

        Args:
          inputs: any named tuple with the fields of `types.OLT`: `observation` nest [B, ...],
            `legal_actions` [B, A] and `terminal` [B, 1] or [B], 1 or True for yes.

        Returns:
          Action values [B, A].

        Raises:
          TypeError: `inputs` lack a field, or the layers' output is not floating-point.
          ValueError: the shapes don't fit.
        """
        try:
            outputs, legal, terminal = inputs.observation, inputs.legal_actions, inputs.terminal
        except AttributeError:
            raise TypeError(
                "MaskedSequential needs a types.OLT(observation, legal_actions, terminal), got "
                f"a {type(inputs).__name__}."
            ) from None
        for layer in self._layers:
            outputs = layer(outputs)
        values = checks.floats("MaskedSequential (after its layers)", outputs)
        penalty = tf.constant(
            max(self._illegal_action_penalty, float(values.dtype.min)), values.dtype
        )
        masked = tf.where(_legal(legal, values), values, penalty)
        return tf.where(_terminal(terminal, values), tf.zeros_like(values), masked)


def _terminal(terminal: Any, values: tf.Tensor) -> tf.Tensor:
    """Booleans [B, 1] for action values [B, A]."""
    flags = _is_one("terminal", terminal)
    if flags.shape.rank == values.shape.rank - 1:
        flags = flags[..., tf.newaxis]
    if not flags.shape.is_compatible_with([*values.shape[:-1], 1]):
        raise ValueError(
            f"terminal has shape {flags.shape}, but must have one flag for each row of action "
            f"values {values.shape}: pass [B, 1]."
        )
    return flags


class EpsilonGreedy(snt.Module):
    """`epsilon_greedy` with a variable epsilon, over actions worth more than a threshold.

    Acme's `EpsilonGreedy`, but for action values whose highest legal one is exactly 0: there
    illegal actions counted as just as good.
    """

    def __init__(
        self,
        epsilon: Union[tf.Tensor, float],
        threshold: float,
        name: str = "EpsilonGreedy",
    ):
        """Makes the variable.

        Args:
          epsilon: probability of a random action, in [0, 1]. It becomes a variable that isn't
            trained; a variable is used as it is, so that a schedule can assign to it.
          threshold: actions are legal if their value is above it. Take one far above the
            -1e9 that `MaskedSequential` gives to illegal actions.
          name: of the module.

        Raises:
          TypeError: `epsilon` or `threshold` is no number.
          ValueError: `epsilon` is outside of [0, 1], or no scalar, or `threshold` is NaN.
        """
        super().__init__(name=name)
        if not isinstance(epsilon, tf.Variable):
            epsilon = ops_checks.scalar_in_range("epsilon", epsilon, tf.float32, 0.0, 1.0)
            epsilon = tf.Variable(epsilon, trainable=False, name="epsilon")
        self._epsilon = epsilon
        checks.number("threshold", threshold)
        self._threshold = threshold

    def __call__(self, action_values: tf.Tensor) -> tfp.distributions.Categorical:
        """Action values [..., A] -> policy, see `epsilon_greedy`.

        Raises:
          TypeError: they are not floating-point.
        """
        values = checks.floats("EpsilonGreedy", action_values)
        legal = values > tf.cast(self._threshold, values.dtype)
        return epsilon_greedy(values, tf.cast(self._epsilon, values.dtype), legal)
