"""Policies as pure functions of observation, state and seed, and how they are exported."""

from __future__ import annotations

import abc
import os
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import specs, types
from tfagents_x.networks import legal_actions, rescaling, samplers
from tfagents_x.utils import nest


class PolicyOutput(NamedTuple):
    """What a policy returns for a batch.

    Attributes:
      action: nest of [B, ...], for the environment.
      state: recurrent state after the step, nest of [B, ...]; () if there is none.
      extras: what the actor records beside the action, nest of [B, ...].
      recorded: the action that the actor records, if not `action` itself: a sample before it
        was clipped, say, which `extras` speak of.
    """

    action: types.NestedTensor
    state: types.NestedTensor
    extras: types.NestedTensor
    recorded: Optional[types.NestedTensor] = None


class Policy(abc.ABC):
    """Chooses a batch of actions; holds networks, but no state of its own."""

    @property
    @abc.abstractmethod
    def networks(self) -> Mapping[str, snt.Module]:
        """The networks that it acts with, by their names in the learner's checkpoints."""

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


class CategoricalPolicy(Policy):
    """Samples from (or takes the mode of) the logits of a feed-forward network."""

    def __init__(self, network: snt.Module, greedy: bool = False):
        """Keeps the network.

        Args:
          network: from observations to logits [B, A].
          greedy: take the most likely action instead of sampling.
        """
        self._network = network
        self._greedy = greedy

    @property
    def networks(self) -> Mapping[str, snt.Module]:
        """See base class."""
        return {"policy": self._network}

    def initial_state(self, batch_size: Any) -> types.NestedTensor:
        """See base class; there is none."""
        return ()

    def __call__(
        self, observation: types.NestedTensor, state: types.NestedTensor, seed: tf.Tensor
    ) -> PolicyOutput:
        """See base class."""
        action = _choose(self._network(observation), seed, self._greedy)
        return PolicyOutput(action, state, extras=())


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
        self._network = network
        self._greedy = greedy

    @property
    def networks(self) -> Mapping[str, snt.Module]:
        """See base class."""
        return {"network": self._network}

    def initial_state(self, batch_size: Any) -> types.NestedTensor:
        """See base class."""
        return self._network.initial_state(batch_size)

    def __call__(
        self, observation: types.NestedTensor, state: types.NestedTensor, seed: tf.Tensor
    ) -> PolicyOutput:
        """See base class."""
        (logits, _), next_state = self._network(observation, state)
        action = _choose(logits, seed, self._greedy)
        return PolicyOutput(action, next_state, {"core_state": state, "logits": logits})


class RecurrentEpsilonGreedyPolicy(Policy):
    """Takes an action of the highest value, or now and then any; records `'core_state'`.

    `acme.agents.tf.r2d2.agent`: actions of equal value have equal chances.
    """

    def __init__(self, network: snt.RNNCore, epsilon: float = 0.0):
        """Keeps the network.

        Args:
          network: core from observations to action values [B, A].
          epsilon: probability of any action, in [0, 1].
        """
        self._network = network
        self._epsilon = epsilon

    @property
    def networks(self) -> Mapping[str, snt.Module]:
        """See base class."""
        return {"network": self._network}

    def initial_state(self, batch_size: Any) -> types.NestedTensor:
        """See base class."""
        return self._network.initial_state(batch_size)

    def __call__(
        self, observation: types.NestedTensor, state: types.NestedTensor, seed: tf.Tensor
    ) -> PolicyOutput:
        """See base class."""
        values, next_state = self._network(observation, state)
        action = legal_actions.epsilon_greedy(values, self._epsilon).sample(seed=seed)
        return PolicyOutput(action, next_state, {"core_state": state})


class GaussianPolicy(Policy):
    """Samples from (or takes the mean of) a network's distribution over continuous actions.

    The environment gets the action clipped to its bounds. Recorded are the sample as it was
    drawn and its `'log_prob'`, which learners that weigh by importance compare with that of
    their own policy (`acme.agents.tf.svg0_prior.acting`, where the environment clips).
    """

    def __init__(self, network: snt.Module, action_spec: specs.BoundedArray, greedy: bool = False):
        """Keeps the network.

        Args:
          network: from observations to a tfp distribution with batch [B] and event [A]; may be
            a recurrent core.
          action_spec: of the environment, with finite bounds.
          greedy: take the mean instead of sampling.

        Raises:
          TypeError: the actions aren't continuous.
          ValueError: a bound isn't finite.
        """
        self._network = network
        self._recurrent = isinstance(network, snt.RNNCore)
        self._clip = rescaling.ClipToSpec(action_spec)
        self._greedy = greedy

    @property
    def networks(self) -> Mapping[str, snt.Module]:
        """See base class."""
        return {"policy": self._network}

    def initial_state(self, batch_size: Any) -> types.NestedTensor:
        """See base class."""
        return self._network.initial_state(batch_size) if self._recurrent else ()

    def __call__(
        self, observation: types.NestedTensor, state: types.NestedTensor, seed: tf.Tensor
    ) -> PolicyOutput:
        """See base class."""
        if self._recurrent:
            distribution, state = self._network(observation, state)
        else:
            distribution = self._network(observation)
        sample = distribution.mean() if self._greedy else distribution.sample(seed=seed)
        extras = {"log_prob": distribution.log_prob(sample)}
        return PolicyOutput(self._clip(sample), state, extras, recorded=sample)


class CriticWeightedPolicy(Policy):
    """Samples actions of a policy network and picks one by its value.

    Wang et al., 2020, arXiv:2006.15134, section 3.2. It is random also in an evaluation: the
    weights make it prefer better actions.
    """

    def __init__(
        self,
        policy: snt.RNNCore,
        critic: snt.RNNCore,
        action_spec: specs.BoundedArray,
        beta: float = 1.0,
        num_action_samples: int = 16,
    ):
        """Keeps the networks.

        Args:
          policy: recurrent core to a distribution over actions.
          critic: recurrent core from observation and action to a value (or its distribution).
          action_spec: of the environment, with finite bounds.
          beta: temperature of the choice.
          num_action_samples: to choose from.

        Raises:
          TypeError, ValueError: see `networks.RecurrentExpQWeightedPolicy`.
        """
        self._policy, self._critic = policy, critic
        self._sampler = samplers.RecurrentExpQWeightedPolicy(
            policy, critic, beta, num_action_samples
        )
        self._clip = rescaling.ClipToSpec(action_spec)

    @property
    def networks(self) -> Mapping[str, snt.Module]:
        """See base class."""
        return {"policy": self._policy, "critic": self._critic}

    def initial_state(self, batch_size: Any) -> types.NestedTensor:
        """See base class."""
        return self._sampler.initial_state(batch_size)

    def __call__(
        self, observation: types.NestedTensor, state: types.NestedTensor, seed: tf.Tensor
    ) -> PolicyOutput:
        """See base class."""
        action, state = self._sampler(observation, state, seed)
        return PolicyOutput(self._clip(action), state, extras=())


class ExportedPolicy(tf.Module):
    """A policy as a SavedModel: `initial_state(batch_size)` and `act(observation, state, seed)`.

    Plain TensorFlow loads it; the package is not needed to act.
    """

    def __init__(self, policy: Policy, observation_spec: types.NestedSpec):
        """Makes the two functions, traced when they are saved.

        Args:
          policy: what `act` does; its networks are saved, and no others.
          observation_spec: nest of array specs, without batch axis.
        """
        super().__init__()
        self._networks = dict(policy.networks)
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


def _choose(logits: tf.Tensor, seed: tf.Tensor, greedy: bool) -> tf.Tensor:
    """Actions, int32 [B]: the most likely ones, or sampled."""
    if greedy:
        return tf.argmax(logits, axis=-1, output_type=tf.int32)
    return tf.random.stateless_categorical(logits, 1, seed, dtype=tf.int32)[:, 0]
