"""Policies as pure functions of observation, state and seed, and how they are exported."""

from __future__ import annotations

import abc
import os
from typing import Any, NamedTuple

import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import types
from tfagents_x.utils import nest


class PolicyOutput(NamedTuple):
    """What a policy returns for a batch.

    Attributes:
      action: nest of [B, ...].
      state: recurrent state after the step, nest of [B, ...]; () if there is none.
      extras: what the actor records beside the action, nest of [B, ...].
    """

    action: types.NestedTensor
    state: types.NestedTensor
    extras: types.NestedTensor


class Policy(abc.ABC):
    """Chooses a batch of actions; holds networks, but no state of its own."""

    @abc.abstractmethod
    def initial_state(self, batch_size: Any) -> types.NestedTensor:
        """Recurrent state at the start of an episode, leaves [B, ...]; () if there is none."""

    @abc.abstractmethod
    def __call__(
        self, observation: types.NestedTensor, state: types.NestedTensor, seed: tf.Tensor
    ) -> PolicyOutput:
        """Acts.

        Args:
          observation: nest of [B, ...].
          state: as `initial_state(B)` or as the step before returned it.
          seed: int32 [2]; the same seed gives the same actions.
        """


class RecurrentCategoricalPolicy(Policy):
    """Samples from (or takes the mode of) the logits of a recurrent policy-value network.

    Records what IMPALA learns from: `'core_state'` before the step, and `'logits'`.
    """

    def __init__(self, network: snt.RNNCore, greedy: bool = False):
        """Keeps the network.

        Args:
          network: core from observations to `(logits [B, A], value [B])`.
          greedy: take the most likely action instead of sampling.
        """
        self.network = network
        self._greedy = greedy

    def initial_state(self, batch_size: Any) -> types.NestedTensor:
        """See base class."""
        return self.network.initial_state(batch_size)

    def __call__(
        self, observation: types.NestedTensor, state: types.NestedTensor, seed: tf.Tensor
    ) -> PolicyOutput:
        """See base class."""
        (logits, _), next_state = self.network(observation, state)
        if self._greedy:
            action = tf.argmax(logits, axis=-1, output_type=tf.int32)
        else:
            action = tf.random.stateless_categorical(logits, 1, seed, dtype=tf.int32)[:, 0]
        return PolicyOutput(action, next_state, {"core_state": state, "logits": logits})


class ExportedPolicy(tf.Module):
    """A policy as a SavedModel: `initial_state(batch_size)` and `act(observation, state, seed)`.

    Plain TensorFlow loads it; the package is not needed to act.
    """

    def __init__(self, policy: Policy, observation_spec: types.NestedSpec, network: snt.Module):
        """Makes the two functions, traced when they are saved.

        Args:
          policy: what `act` does.
          observation_spec: nest of array specs, without batch axis.
          network: holds the policy's variables.
        """
        super().__init__()
        self._network = network
        state = tree.map_structure(
            lambda x: tf.TensorSpec([None, *x.shape[1:]], x.dtype), policy.initial_state(1)
        )

        def initial_state(batch_size: tf.Tensor) -> types.NestedTensor:
            return policy.initial_state(batch_size)

        def act(observation: Any, state: Any, seed: tf.Tensor) -> dict[str, Any]:
            output = policy(observation, state, seed)
            return {"action": output.action, "state": output.state}

        self.initial_state = tf.function(
            initial_state, input_signature=[tf.TensorSpec([], tf.int32, "batch_size")]
        )
        observation = nest.tensor_specs(observation_spec, [None])
        self.act = tf.function(
            act, input_signature=[observation, state, tf.TensorSpec([2], tf.int32, "seed")]
        )

    def export(self, path: os.PathLike) -> None:
        """Writes the SavedModel into the folder `path`."""
        tf.saved_model.save(self, os.fspath(path))
