"""Acting with a Q-network where some actions are illegal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable, Optional, Union

import sonnet as snt
import tensorflow as tf

from tfagents_x import types
from tfagents_x.networks import checks, legal_actions

_MASK = "legal_actions_mask"


class NetworkWithMaskedEpsilonGreedy(snt.Module):
    """Samples an epsilon-greedy legal action of a Q-network.

    Acme's `NetworkWithMaskedEpsilonGreedy`, where the greedy action could be an illegal one;
    see `legal_actions.epsilon_greedy`.
    """

    def __init__(
        self,
        network: Callable[[Mapping[str, types.NestedTensor]], tf.Tensor],
        epsilon: Optional[Union[float, tf.Tensor]] = None,
    ):
        """Takes the network.

        Args:
          network: from the whole observation, a dictionary, to action values [B, A].
          epsilon: probability of a random action, in [0, 1]: a number, tensor or variable. It
            has to be given; the default is there because Acme has it.

        Raises:
          TypeError: `network` can't be called, or `epsilon` is no number.
          ValueError: `epsilon` is None, or outside of [0, 1].
        """
        super().__init__()
        if epsilon is None:
            raise ValueError("epsilon must be given: 0 for no random actions.")
        known = checks.number("epsilon", epsilon)
        if known is not None and not 0 <= known <= 1:
            raise ValueError(f"epsilon is {known:g}, but must be from 0 to 1.")
        self._network = checks.function("network", network)
        self._epsilon = epsilon

    def __call__(self, observation: Mapping[str, types.NestedTensor]) -> tf.Tensor:
        """Chooses actions.

        Args:
          observation: dictionary with what the network needs, and under
            "legal_actions_mask" [B, A], 1 or True where an action is legal.

        Returns:
          Actions [B] int32.

        Raises:
          TypeError: `observation` is not a dictionary.
          ValueError: it has no mask, or the shapes don't fit, or epsilon is outside of [0, 1].
        """
        if not isinstance(observation, Mapping):
            raise TypeError(
                f"The observation must be a dictionary with the key {_MASK!r}, got a "
                f"{type(observation).__name__}."
            )
        if _MASK not in observation:
            raise ValueError(
                f"The observation has no {_MASK!r}, only {sorted(observation)}: add [B, A] with 1 "
                "where an action is legal."
            )
        values = self._network(observation)
        return legal_actions.epsilon_greedy(values, self._epsilon, observation[_MASK]).sample()
