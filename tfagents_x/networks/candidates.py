"""N candidate actions for each batch element, and what recurrent networks make of them.

Candidates lie in rows: row n * B + b is candidate n of batch element b, for actions,
observations, values and states alike. A policy may return samples, and then sees N copies
of its inputs, or a distribution, which is made once for each batch element and sampled N
times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Callable, NamedTuple, Optional

import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from tfagents_x import types
from tfagents_x.networks import action_values, batched, stochastic, tracing
from tfagents_x.ops import checks

# (inputs, state) -> (output, next state)
_Step = Callable[[Any, Any], tuple[Any, Any]]


class Candidates(NamedTuple):
    """What a policy proposes.

    Attributes:
      actions: nest of tensors [N * B, ...].
      state: the policy's next state, leaves [N * B, ...], or [B, ...] if it is `shared`.
      shared: whether all candidates of a batch element have the same state.
    """

    actions: types.NestedTensor
    state: types.NestedTensor
    shared: bool


class CandidatePolicy:
    """Draws candidates from a policy network of either kind.

    Which kind it is shows only when it is called. In a graph, a trace into a graph that is
    thrown away tells: nothing of it is left in the caller's. In eager mode the network is
    called on the N copies; if that gives a distribution, it is called again without
    copies, and only so from then on. A network that returns samples never runs twice.

    A policy whose last layer is a `StochasticSamplingHead` returns samples, of a distribution
    that is the same for all N copies if the layers before the head are deterministic. Where
    a trace proves that (no random operation, none that changes a variable, no call into
    Python; in graphs only), those layers are evaluated once and the distribution is
    sampled N times, which has the same distribution of results. Rows must not depend on
    their position in the batch, as for any layer that works on batches.
    """

    name = ""  # of the constructor argument, for errors

    def __init__(self, network: Callable[..., Any], num_samples: int):
        """Keeps the network.

        Args:
          network: the policy.
          num_samples: N.
        """
        self._network: Any = network
        self._num_samples = num_samples
        self._known_distribution = False  # in eager mode, where asking again costs time

    def _step(self, observation: Any, state: Any) -> tuple[Any, Any]:
        """Calls the network: (output, next state)."""
        raise NotImplementedError

    def _layers(self) -> Iterable[Callable[..., Any]]:
        """The layers that the network is a chain of, none if it is something else."""
        raise NotImplementedError

    def draw(
        self,
        observation: types.NestedTensor,
        state: types.NestedTensor,
        seed: Optional[tf.Tensor] = None,
    ) -> Candidates:
        """N candidates for each of B batch elements.

        Args:
          observation: nest of tensors [B, ...].
          state: nest of tensors [B, ...], or scalars, which all rows share.
          seed: int32 [2], of samples drawn here; a network that samples itself does not see it.

        Raises:
          TypeError: the network returns distributions and tensors mixed.
          ValueError: a shape doesn't fit.
        """
        step = self._distribution_step(observation, state)
        if step is not None:
            return self._sample(observation, *step(observation, state), seed)
        tiled_observation, tiled_state = action_values.repeat(
            (observation, state), self._num_samples
        )
        actions, next_state = self._step(tiled_observation, tiled_state)
        if is_distribution(actions):  # in eager mode, or if the trace failed
            self._known_distribution = True
            return self._sample(observation, *self._step(observation, state), seed)
        return self._checked(observation, actions, next_state, shared=False)

    def _distribution_step(self, observation: Any, state: Any) -> Optional[_Step]:
        """What to call without copies to get a distribution, or None."""
        if tf.executing_eagerly():
            return self._step if self._known_distribution else None
        layers = list(self._layers())
        if len(layers) > 1 and _is_plain(layers[-1], stochastic.StochasticSamplingHead):
            before_head = lambda inputs, state: action_values.step_layers(
                layers[:-1], inputs, state, 1
            )
            found = tracing.trace(before_head, observation, state)
            shareable = found is not None and _gives_distribution(found) and found.deterministic
            return before_head if shareable else None
        # With the copies, as it would really be called: some heads know the number of rows.
        found = tracing.trace(
            self._step, *action_values.repeat((observation, state), self._num_samples)
        )
        return self._step if found is not None and _gives_distribution(found) else None

    def _sample(
        self, observation: Any, distributions: Any, next_state: Any, seed: Any
    ) -> Candidates:
        mixed = [type(d).__name__ for d in tree.flatten(distributions) if not _can_sample(d)]
        if mixed:
            raise TypeError(
                f"{self.name} returned distributions beside {', '.join(mixed)}: return either "
                f"distributions or samples for all parts of the action."
            )
        batch = batched.batch_size(observation)
        samples = _samples(distributions, self._num_samples, seed)
        samples = tensors(f"an action of {self.name}", samples)
        for sample in tree.flatten(samples):
            shape = sample.shape
            if shape.rank is not None and (shape.rank < 2 or _differ(shape[1], batch)):
                raise ValueError(
                    f"{self.name} returned a distribution with samples of shape {shape[1:]}, but "
                    f"the batch of the observation is {batch}: the distribution's batch shape "
                    f"must begin with it."
                )
        actions = tree.map_structure(_merge, samples)
        return self._checked(observation, actions, next_state, shared=True)

    def _checked(self, observation: Any, actions: Any, state: Any, shared: bool) -> Candidates:
        batch = batched.batch_size(observation)
        rows = batch * self._num_samples
        actions = tensors(f"an action of {self.name}", actions)
        state = tensors(f"a next state of {self.name}", state)
        require_rows(f"an action of {self.name}", actions, rows, scalars=False)
        require_rows(f"a next state of {self.name}", state, batch if shared else rows)
        return Candidates(actions, state, shared)


class FeedForwardPolicy(CandidatePolicy):
    """Candidates of a network that is called as network(observation)."""

    name = "actor_network"

    def _step(self, observation: Any, state: Any) -> tuple[Any, Any]:
        return self._network(observation), state

    def _layers(self) -> Iterable[Callable[..., Any]]:
        return _flat_layers([self._network])


class RecurrentPolicy(CandidatePolicy):
    """Candidates of a network that is called as network(observation, state)."""

    name = "policy_network"

    def _step(self, observation: Any, state: Any) -> tuple[Any, Any]:
        return pair(self.name, self._network(observation, state))

    def _layers(self) -> Iterable[Callable[..., Any]]:
        if _is_plain(self._network, snt.DeepRNN):
            return _flat_layers(self._network._layers)
        return []


def _samples(distributions: Any, num_samples: int, seed: Any) -> Any:
    leaves = tree.flatten(distributions)
    seeds = [None] * len(leaves)
    if seed is not None:
        seeds = tf.unstack(tfp.random.split_seed(seed, n=len(leaves)))
    samples = [d.sample(num_samples, seed=s) for d, s in zip(leaves, seeds)]
    return tree.unflatten_as(distributions, samples)


def tensors(name: str, nest: types.Nest) -> types.NestedTensor:
    """Every leaf as a tensor.

    Raises:
      TypeError: a leaf is none.
    """
    return tree.map_structure_with_path(lambda path, x: checks.tensor(name + _keys(path), x), nest)


def _keys(path: tuple) -> str:
    return "".join(f"[{key!r}]" for key in path)


def require_rows(name: str, nest: types.NestedTensor, rows: Any, scalars: bool = True) -> None:
    """Checks the leading axis of every leaf, as far as it is known.

    Raises:
      ValueError: it is not `rows`, or a leaf has none where `scalars` are not allowed.
    """
    for path, leaf in tree.flatten_with_path(nest):
        rank = leaf.shape.rank
        if rank is None or (rank == 0 and scalars):
            continue
        if rank == 0 or _differ(leaf.shape[0], rows):
            raise ValueError(
                f"{name}{_keys(path)} has shape {leaf.shape}, but must have "
                f"{rows if isinstance(rows, int) else 'the number of candidates'} rows on axis 0."
            )


def pair(name: str, output: Any) -> tuple[Any, Any]:
    """`output`, if it is a pair.

    Raises:
      TypeError: it is not.
    """
    if isinstance(output, (tuple, list)) and len(output) == 2:
        return output[0], output[1]
    raise TypeError(
        f"{name} returned a {type(output).__name__}, but must return the pair (output, next "
        f"state): pass a recurrent network, for instance a snt.DeepRNN."
    )


def is_distribution(output: types.Nest) -> bool:
    """Whether there is a distribution in the output of a policy."""
    return any(_can_sample(leaf) for leaf in tree.flatten(output))


def _can_sample(leaf: Any) -> bool:
    return callable(getattr(leaf, "sample", None))


def _gives_distribution(found: tracing.Trace) -> bool:
    return is_distribution(found.output[0])


def _differ(size: Any, wanted: Any) -> bool:
    """Whether two sizes are known and not equal."""
    return isinstance(size, int) and isinstance(wanted, int) and size != wanted


def _merge(rows: tf.Tensor) -> tf.Tensor:
    """[N, B, ...] -> [N * B, ...]."""
    return snt.merge_leading_dims(rows, 2)


def _is_plain(network: Any, kind: Any) -> bool:
    """Whether calling `network` does what `kind` does: a subclass may do anything."""
    skips = getattr(network, "_skip_connections", False)
    return type(network).__call__ is kind.__call__ and not skips


def _flat_layers(layers: Iterable[Any]) -> Iterator[Any]:
    for layer in layers:
        if _is_plain(layer, snt.Sequential):
            yield from _flat_layers(layer._layers)
        else:
            yield layer
