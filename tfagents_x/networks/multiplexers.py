"""Networks of several inputs."""

from __future__ import annotations

from typing import Any, Callable, Optional

import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import types
from tfagents_x.utils import nest

TensorTransformation = Callable[[types.NestedTensor], types.NestedTensor]


class CriticMultiplexer(snt.Module):
    """`critic_network(concat(observation_network(o), action_network(a)))`.

    A network that is None passes its input on as it is; without any of the three this is
    `batch_concat([o, a])` (Acme's `CriticMultiplexer`).
    """

    def __init__(
        self,
        critic_network: Optional[TensorTransformation] = None,
        observation_network: Optional[TensorTransformation] = None,
        action_network: Optional[TensorTransformation] = None,
    ):
        """Connects the networks.

        Args:
          critic_network: from [B, D] to whatever the critic gives, tensor or distribution.
          observation_network: from observations to a nest of tensors [B, ...].
          action_network: from actions to a nest of tensors [B, ...].

        Raises:
          TypeError: one of them can't be called.
        """
        super().__init__(name="critic_multiplexer")
        self._critic_network = _callable("critic_network", critic_network)
        self._observation_network = _callable("observation_network", observation_network)
        self._action_network = _callable("action_network", action_network)

    def __call__(self, observation: types.NestedTensor, action: types.NestedTensor) -> Any:
        """Evaluates observations and actions with a common first axis.

        All but the first axis are flattened before concatenation, so sequences [T, B, ...]
        go through `snt.BatchApply`, or through `networks.recurrence.unroll`, which merges
        the two leading axes itself.

        Args:
          observation: nest of tensors [B, ...].
          action: nest of tensors [B, ...]. If observation and action, as they come out of
            their networks, are single tensors, action is cast to the observation's dtype.

        Returns:
          What the critic network gives for [B, D]; that tensor itself without one.

        Raises:
          TypeError: a network returned something else than tensors, or the dtypes differ in a
            way that a cast would not heal.
          ValueError: the batch sizes differ.
        """
        return self.combine(self.embed_observation(observation), self.embed_action(action))

    def embed_observation(self, observation: types.NestedTensor) -> types.NestedTensor:
        """The observation [B, ...] as it goes into the concatenation.

        Raises:
          TypeError: its network returned something else than tensors.
        """
        network = self._observation_network
        return _tensors("observation", observation if network is None else network(observation))

    def embed_action(self, action: types.NestedTensor) -> types.NestedTensor:
        """The action [B, ...] as it goes into the concatenation.

        Raises:
          TypeError: its network returned something else than tensors.
        """
        network = self._action_network
        return _tensors("action", action if network is None else network(action))

    def combine(self, observation: types.NestedTensor, action: types.NestedTensor) -> Any:
        """What the critic network says of an observation and action, both embedded already.

        Raises:
          TypeError: their dtypes differ in a way that a cast would not heal.
          ValueError: their batch sizes differ.
        """
        _check_batch(observation, action)
        outputs = nest.batch_concat([observation, _cast_like(observation, action)])
        return outputs if self._critic_network is None else self._critic_network(outputs)


def _callable(name: str, network: Any) -> Any:
    if network is not None and not callable(network):
        raise TypeError(
            f"{name} must be a module or function, or None, got a {type(network).__name__}."
        )
    return network


def _tensors(name: str, inputs: Any) -> types.NestedTensor:
    def convert(leaf: Any) -> tf.Tensor:
        try:
            return tf.convert_to_tensor(leaf)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"CriticMultiplexer concatenates tensors, but {name} is or holds a "
                f"{type(leaf).__name__}: let {name}_network return a nest of tensors."
            ) from error

    return tree.map_structure(convert, inputs)


def _check_batch(observation: types.NestedTensor, action: types.NestedTensor) -> None:
    """Every leaf must have the same first axis, as far as it is known while tracing."""
    shapes = {}
    for path, leaf in tree.flatten_with_path({"observation": observation, "action": action}):
        shapes["/".join(map(str, path))] = leaf.shape
    sizes = {shape[0] for shape in shapes.values() if shape.rank and shape[0] is not None}
    if len(sizes) > 1 or any(shape.rank == 0 for shape in shapes.values()):
        raise ValueError(
            "CriticMultiplexer needs observations and actions, after their networks, with the "
            f"same batch axis in front, got { ({k: tuple(v) for k, v in shapes.items()}) }."
        )


def _cast_like(observation: types.NestedTensor, action: types.NestedTensor) -> types.NestedTensor:
    if not tf.is_tensor(observation) or not tf.is_tensor(action):
        return action
    if action.dtype.is_floating and not observation.dtype.is_floating:
        raise TypeError(
            f"The action is {action.dtype.name} but the observation {observation.dtype.name}, and "
            "a cast would round the action: give an observation_network that makes floats."
        )
    return tf.cast(action, observation.dtype)
