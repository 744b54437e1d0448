"""The vocabulary that every other module speaks: nests, transitions, steps, replay samples.

Nothing here imports TensorFlow or Reverb, so a data-collecting process can use
it without either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Union

import numpy as np

# A nest is a leaf or any dm-tree structure (dict, tuple, list, namedtuple) of leaves.
Nest = Any
NestedArray = Any
NestedTensor = Any
NestedSpec = Any

Array = np.ndarray
Shape = Sequence[int]
Scalar = Union[int, float, np.number]
Metrics = Mapping[str, Any]


class Transition(NamedTuple):
    """One (n-step) transition, the item of feed-forward replay.

    Field names and order are those of Acme's `types.Transition`.

    Attributes:
      observation: Nest, what the agent saw before acting.
      action: Nest, what it did.
      reward: float, sum of the n rewards, discounted (`NStepTransitionAdder`).
      discount: float, product of the n discounts; 0 where the episode terminated.
      next_observation: Nest, what it saw n steps later.
      extras: Nest of whatever the actor added (log-probabilities, logits, ...).
    """

    observation: NestedArray
    action: NestedArray
    reward: NestedArray
    discount: NestedArray
    next_observation: NestedArray
    extras: NestedArray = ()


class Step(NamedTuple):
    """One step of a trajectory, the row of sequence replay.

    Row `t` holds the observation, the action taken at it, and the reward and
    discount that *followed* that action. Field names and order are those of
    Acme's `adders.Step`.

    Attributes:
      observation: Nest, what the agent saw.
      action: Nest, what it did at `observation`.
      reward: float, reward of that action.
      discount: float, discount of the next observation; 0 where the episode terminated.
      start_of_episode: bool, whether `observation` is the first of its episode.
      extras: Nest of whatever the actor added (core state before the step, logits, ...).
    """

    observation: NestedArray
    action: NestedArray
    reward: NestedArray
    discount: NestedArray
    start_of_episode: NestedArray
    extras: NestedArray = ()


class OAR(NamedTuple):
    """An observation with what led to it. Same fields as Acme's `OAR`.

    Attributes:
      observation: Nest, what the environment shows.
      action: Nest, the last action; zeros where an episode starts.
      reward: float, the reward of that action; 0 where an episode starts.
    """

    observation: NestedArray
    action: NestedArray
    reward: NestedArray


class OLT(NamedTuple):
    """An observation with the legal actions. Same fields as Acme's `OLT`.

    Attributes:
      observation: Nest, what the environment shows.
      legal_actions: [A], 1 for every action that is legal, 0 for the others.
      terminal: [1], 1 where the episode is over, else 0.
    """

    observation: NestedArray
    legal_actions: NestedArray
    terminal: NestedArray


class SampleInfo(NamedTuple):
    """How an item was drawn from replay. Same fields as `reverb.SampleInfo`.

    Attributes:
      key: uint64, identity of the item. Stays on the host: TPUs have no 64-bit integers.
      probability: float64, with which the item was selected.
      table_size: int64, number of items in the table when it was drawn.
      priority: float64, priority of the item when it was drawn.
      times_sampled: int32, number of times the item was drawn, this time included.
    """

    key: Any
    probability: Any
    table_size: Any
    priority: Any
    times_sampled: Any = 1


class ReplaySample(NamedTuple):
    """What a replay dataset yields. Same fields as `reverb.ReplaySample`.

    Attributes:
      info: `SampleInfo`, leaves of shape [B].
      data: `Step` with leaves [B, T, ...], or `Transition` with leaves [B, ...].
    """

    info: Any
    data: Any
