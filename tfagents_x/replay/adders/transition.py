"""n-step transitions (Acme's `NStepTransitionAdder`)."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Mapping
from typing import Any, Optional

import numpy as np

from tfagents_x import types
from tfagents_x.replay import base as replay_base
from tfagents_x.replay.adders import base
from tfagents_x.replay.tables import DEFAULT_TABLE


class NStepTransitionAdder(base.ReplayAdder):
    """Writes, for every step, the transition over the `n_step` steps that end there.

    A transition over `k` steps from `t` holds

        reward   = r_1 + g d_1 r_2 + g^2 d_1 d_2 r_3 + ...   (k terms)
        discount = g^(k-1) d_1 d_2 ... d_k

    where `r_i`, `d_i` are the environment's reward and discount `i` steps on, and `g` is
    `discount`. One factor `g` is left out because the learner multiplies by it. Extras
    are those of the first step.

    As in Acme, an episode begins with the transitions from its first observation over 1,
    2, ... steps (unless `short_at_start` is False), and ends with those to its last
    observation over n-1, n-2, ... 1 steps.

    Args:
      replay: where to; made with `transition_signature`.
      n_step: steps of a transition.
      discount: the agent's discount, between steps within a transition.
      table, priority_fn, max_in_flight_items, insert_timeout: see `ReplayAdder`.
      short_at_start: whether to write the shorter transitions at the start of an episode.
        An episode shorter than `n_step` is then written from its first observation on
        all the same, at its end.

    Raises:
      ValueError: `n_step` < 1, `discount` outside [0, 1], or a replay of sequences.
    """

    def __init__(
        self,
        replay: replay_base.Replay,
        n_step: int,
        discount: float,
        *,
        table: str = DEFAULT_TABLE,
        priority_fn: Optional[base.PriorityFn] = None,
        max_in_flight_items: int = 0,
        insert_timeout: Optional[float] = None,
        short_at_start: bool = True,
    ):
        if n_step < 1:
            raise ValueError(f"n_step is {n_step}, must be >= 1")
        if not 0 <= discount <= 1:
            raise ValueError(f"discount is {discount}, must lie in [0, 1]")
        if not replay.signature.transitions:
            raise ValueError(
                "NStepTransitionAdder needs a replay made with transition_signature(), this "
                "one holds sequences"
            )
        super().__init__(
            replay, n_step + 1, table, priority_fn, max_in_flight_items, insert_timeout
        )
        self._n_step = n_step
        self._discount = np.float32(discount)
        self._short_at_start = short_at_start
        # (reward, discount) of the latest steps of the episode.
        self._steps: collections.deque = collections.deque(maxlen=n_step)

    def reset(self) -> None:
        """Forgets the episode under way; see `Adder`."""
        super().reset()
        self._steps.clear()

    def state(self) -> Mapping[str, Any]:
        """Nothing is carried from one episode to the next: `{}`."""
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Takes back what `state` gave; see `Adder`."""
        if state:
            raise ValueError("this is not an NStepTransitionAdder's state, which is empty")
        self.reset()

    def _write(self, reward: types.NestedArray, discount: types.NestedArray) -> None:
        # `[()]` makes numpy scalars of numbers, which are quicker than arrays without axes.
        self._steps.append(
            (np.asarray(reward, np.float32)[()], np.asarray(discount, np.float32)[()])
        )
        if self._short_at_start or len(self._steps) == self._n_step:
            self._write_transition()

    def _write_last(self) -> None:
        if len(self._steps) == self._n_step or self._short_at_start:
            self._steps.popleft()  # The transition from there is written.
        while self._steps:
            self._write_transition()
            self._steps.popleft()

    def _end_episode(self) -> None:
        super()._end_episode()
        self._steps.clear()

    def _write_transition(self) -> None:
        """Writes the transition over all of `self._steps`."""
        num_steps = len(self._steps)
        reward, discount = n_step_return(self._steps, self._discount)
        priority = 1.0
        if self._priority_fn is not None:
            priority = self._priority_fn(self._writer.transition_at(num_steps, reward, discount))
        self._writer.create_transition(self._table, num_steps, reward, discount, priority)


def n_step_return(steps: Any, discount: np.float32) -> tuple[np.ndarray, np.ndarray]:
    """Sums rewards and multiplies discounts over `steps`, pairs of (reward, discount).

    Returns:
      The discounted sum of rewards, and the product of the discounts without the last
      factor of the agent's `discount`; float32, shaped like a reward.
    """
    reward, total = steps[0]
    for next_reward, next_discount in itertools.islice(steps, 1, None):
        total = total * discount
        reward = reward + total * next_reward
        total = total * next_discount
    return reward, total
