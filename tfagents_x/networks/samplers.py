"""Policies that sample several actions and pick one by its value.

Both draw N candidates for each batch element from a policy, let a critic value them, and
pick candidate n with probability exp(q_n / beta) / sum_m exp(q_m / beta): Critic
Regularized Regression (Wang et al., 2020), section 3.2, "critic weighted policy".
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional, Union

import numpy as np
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from tfagents_x import types
from tfagents_x.networks import action_values, batched, candidates
from tfagents_x.ops import checks

Temperature = Union[float, tf.Tensor, tf.Variable]


class PolicyCriticRNNState(NamedTuple):
    """The states of two recurrent networks (Acme's class of this name).

    Attributes:
      policy: state of the policy network.
      critic: state of the critic network.
    """

    policy: types.NestedTensor
    critic: types.NestedTensor


class ExpQWeightedPolicy(snt.Module):
    """Samples actions and picks one with probability softmax(Q / beta) (Acme's class).

    The candidates of different batch elements are drawn and picked independently. Beside
    what the original takes, the actor may return a distribution, actions may be nests
    of any rank, and the critic may return [..., 1] or a distribution.
    """

    def __init__(
        self,
        actor_network: Callable[..., Any],
        critic_network: Callable[..., Any],
        beta: Temperature = 1.0,
        num_action_samples: int = 16,
        name: str = "ExpQWeightedPolicy",
    ):
        """Keeps the networks.

        Args:
          actor_network: called with the observation. Returns a nest of tfp distributions,
            which is made once for each batch element and sampled N times, or a nest of
            sampled actions, and then sees N copies of each batch element: [N * B, ...], row
            n * B + b. See `candidates.CandidatePolicy`.
          critic_network: called with observation and action for these N * B rows. Returns
            [N * B] or [N * B, 1], or a distribution with such a mean.
          beta: temperature, above 0: the smaller, the surer the best candidate is picked. A
            variable may change between calls.
          num_action_samples: number N of candidates for each batch element.
          name: of the module.

        Raises:
          TypeError: a network can't be called.
          ValueError: `beta` or `num_action_samples` is not positive.
        """
        super().__init__(name=name)
        self._actor_network = _network("actor_network", actor_network)
        self._critic_network = _network("critic_network", critic_network)
        self._num_action_samples = _positive_int("num_action_samples", num_action_samples)
        self._beta = _temperature("beta", beta)
        self._policy = candidates.FeedForwardPolicy(actor_network, self._num_action_samples)

    def __call__(
        self, inputs: types.NestedTensor, seed: Optional[tf.Tensor] = None
    ) -> types.NestedTensor:
        """One action for each batch element.

        Args:
          inputs: observation, nest of tensors [B, ...].
          seed: see `RecurrentExpQWeightedPolicy`.

        Returns:
          Nest of tensors [B, ...], of the dtypes that the actor gives.

        Raises:
          TypeError: the critic returns no floats.
          ValueError: a shape doesn't fit.
          tf.errors.InvalidArgumentError: a value is NaN, or the best one not finite (not
            found out in code compiled by XLA).
        """
        observation = _observation(inputs)
        batch, num = batched.batch_size(observation), self._num_action_samples
        draw_seed, pick_seed = _split(seed)
        drawn = self._policy.draw(observation, (), draw_seed)
        output = action_values.evaluate_rows(self._critic_network, observation, drawn.actions, num)
        rows = _pick(_values(output, num, batch), self._beta, pick_seed)
        return _take(drawn.actions, rows)


class RecurrentExpQWeightedPolicy(snt.RNNCore):
    """`ExpQWeightedPolicy` for recurrent networks (Acme's class).

    The original maps over the batch with `tf.vectorized_map`; this is one evaluation of
    all N * B candidates, with the same distribution of results. The products of the critic's
    LSTM states and their weights are computed once for all candidates. As there, AutoGraph does
    not look into the networks: they decide by tensors with `tf.cond`, not with `if`.
    """

    def __init__(
        self,
        policy_network: Callable[..., Any],
        critic_network: Callable[..., Any],
        temperature_beta: Temperature = 1.0,
        num_action_samples: int = 16,
        name: str = "RecurrentExpQWeightedPolicy",
    ):
        """Keeps the networks.

        Args:
          policy_network: recurrent core, called with observation and state. Its output is
            as that of `ExpQWeightedPolicy`'s actor.
          critic_network: called with observation, action and state, as a `CriticDeepRNN`. Its
            output is as that of `ExpQWeightedPolicy`'s critic.
          temperature_beta: temperature, above 0.
          num_action_samples: number N of candidates for each batch element.
          name: of the module.

        Raises:
          TypeError: a network can't be called, or is a `snt.Module` without `initial_state`.
          ValueError: `temperature_beta` or `num_action_samples` is not positive.
        """
        super().__init__(name=name)
        self._policy_network = _core("policy_network", policy_network)
        self._critic_network = _core("critic_network", critic_network)
        self._num_action_samples = _positive_int("num_action_samples", num_action_samples)
        self._temperature_beta = _temperature("temperature_beta", temperature_beta)
        self._policy = candidates.RecurrentPolicy(policy_network, self._num_action_samples)

    @tf.autograph.experimental.do_not_convert
    def __call__(
        self,
        observation: types.NestedTensor,
        prev_state: PolicyCriticRNNState,
        seed: Optional[tf.Tensor] = None,
    ) -> tuple[types.NestedTensor, PolicyCriticRNNState]:
        """One action for each batch element, and the states that belong to it.

        Args:
          observation: nest of tensors [B, ...].
          prev_state: states of both networks, nests of tensors [B, ...]. A scalar has no
            row for each candidate, so it goes to the networks and comes back as it is: a
            counter of steps, for instance.
          seed: int32 [2]; the same one gives the same actions, if `policy_network` returns a
            distribution. None draws from TensorFlow's global generator.

        Returns:
          The picked actions, a nest of tensors [B, ...], and the states after the step in
          which they were proposed and valued.

        Raises:
          TypeError: a network returns no pair, or the critic no floats, or `prev_state` is
            no `PolicyCriticRNNState`.
          ValueError: a shape or the structure of a state doesn't fit.
          tf.errors.InvalidArgumentError: a value is NaN, or the best one not finite (not
            found out in code compiled by XLA).
        """
        observation = _observation(observation)
        batch, num = batched.batch_size(observation), self._num_action_samples
        policy_state, critic_state = self._states(prev_state, batch)
        draw_seed, pick_seed = _split(seed)
        drawn = self._policy.draw(observation, policy_state, draw_seed)
        stepped = action_values.step_rows(
            self._critic_network, observation, drawn.actions, critic_state, num
        )
        output, next_critic_state = candidates.pair("critic_network", stepped)
        next_critic_state = candidates.tensors("a next state of critic_network", next_critic_state)
        candidates.require_rows("a next state of critic_network", next_critic_state, num * batch)
        rows = _pick(_values(output, num, batch), self._temperature_beta, pick_seed)
        next_policy_state = drawn.state if drawn.shared else _take(drawn.state, rows)
        next_state = PolicyCriticRNNState(next_policy_state, _take(next_critic_state, rows))
        return _take(drawn.actions, rows), next_state

    def initial_state(self, batch_size: Any, **kwargs: Any) -> PolicyCriticRNNState:
        """The initial states of both networks.

        Args:
          batch_size: number or integer scalar tensor.
          **kwargs: given to both networks.

        Raises:
          TypeError: a network has no initial state.
        """
        return PolicyCriticRNNState(
            policy=_initial_state("policy_network", self._policy_network)(batch_size, **kwargs),
            critic=_initial_state("critic_network", self._critic_network)(batch_size, **kwargs),
        )

    def _states(self, prev_state: Any, batch: Any) -> list[types.NestedTensor]:
        """Both states as tensors, compared with what the networks start from."""
        if not all(hasattr(prev_state, field) for field in PolicyCriticRNNState._fields):
            raise TypeError(
                f"prev_state is a {type(prev_state).__name__}, but must be a "
                f"PolicyCriticRNNState: begin with initial_state(batch_size)."
            )
        states = []
        for name, network in (("policy", self._policy_network), ("critic", self._critic_network)):
            state = candidates.tensors(f"prev_state.{name}", getattr(prev_state, name))
            if isinstance(network, snt.RNNCore):
                _require_structure(f"prev_state.{name}", state, network.initial_state(1))
            candidates.require_rows(f"prev_state.{name}", state, batch)
            states.append(state)
        return states


def _split(seed: Optional[tf.Tensor]) -> list:
    return [None, None] if seed is None else tf.unstack(tfp.random.split_seed(seed, n=2))


def _pick(values: tf.Tensor, temperature: Temperature, seed: Any) -> tf.Tensor:
    """Rows n * B + b, [B], of candidates n drawn from softmax(values / temperature).

    Args:
      values: floats [N, B].
      temperature: above 0.
      seed: int32 [2], or None.
    """
    # Differences to the best value: nothing overflows, however small the temperature.
    best = tf.debugging.check_numerics(
        tf.reduce_max(values, axis=0), "critic_network returned NaN or infinite values"
    )
    logits = tf.transpose(values - best) / _divisor(temperature, values.dtype)
    index = tfp.distributions.Categorical(logits=logits).sample(seed=seed)
    batch = tf.shape(values)[1]
    return index * batch + tf.range(batch)


def _take(nest: types.NestedTensor, rows: tf.Tensor) -> types.NestedTensor:
    """The given rows of all leaves; scalars stay as they are."""
    return tree.map_structure(lambda x: x if x.shape.rank == 0 else tf.gather(x, rows), nest)


def _values(output: Any, num_samples: int, batch: Any) -> tf.Tensor:
    """[N, B] from what a critic returned for N * B rows, as float32 at least.

    Raises:
      TypeError: it returned no floats.
      ValueError: it returned another shape than [N * B] or [N * B, 1].
    """
    if not isinstance(output, (tf.Tensor, np.ndarray)) and callable(getattr(output, "mean", None)):
        output = output.mean()
    (values,) = checks.float_tensors(**{"the output of critic_network": output})
    rows = num_samples * batch if isinstance(batch, int) else None
    fitting = any(values.shape.is_compatible_with(shape) for shape in ([rows], [rows, 1]))
    if not fitting:
        size = rows or f"{num_samples} * B"
        raise ValueError(
            f"critic_network returned values of shape {values.shape} for {size} candidates, but "
            f"must return [{size}] or [{size}, 1], or a distribution with such a mean."
        )
    values = tf.cast(values, tf.float64 if values.dtype == tf.float64 else tf.float32)
    return tf.reshape(values, [num_samples, batch])


def _observation(inputs: types.NestedTensor) -> types.NestedTensor:
    """The observation as tensors that agree on the batch size."""
    observation = candidates.tensors("the observation", inputs)
    leaves = tree.flatten(observation)
    if not leaves or any(leaf.shape.rank == 0 for leaf in leaves):
        shapes = [tuple(leaf.shape) for leaf in leaves]
        raise ValueError(f"The observation has shapes {shapes}, but must have a batch axis.")
    candidates.require_rows("the observation", observation, batched.batch_size(observation))
    return observation


def _network(name: str, network: Any) -> Any:
    if not callable(network):
        raise TypeError(f"{name} is a {type(network).__name__}, but must be a network to call.")
    return network


def _core(name: str, network: Any) -> Any:
    """A recurrent network; functions are taken on trust."""
    _network(name, network)
    if isinstance(network, snt.Module) and not callable(getattr(network, "initial_state", None)):
        raise TypeError(
            f"{name} is a feed-forward {type(network).__name__}, but must be a recurrent network "
            f"(snt.RNNCore): wrap a policy in snt.DeepRNN([policy]), a critic in "
            f"networks.CriticDeepRNN([critic]), or use ExpQWeightedPolicy."
        )
    return network


def _positive_int(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{name} is {value!r}, but must be an integer of at least 1.")
    return int(value)


def _temperature(name: str, value: Any) -> Any:
    """A number above 0; tensors and variables stay what they are."""
    if _is_tensor(value):
        # The value of a variable is not looked at: it may change.
        number = None if isinstance(value, tf.Variable) else tf.get_static_value(value)
        scalar = value.shape.rank in (0, None) and value.dtype.is_floating
    else:
        number = value
        scalar = np.ndim(value) == 0 and np.asarray(value).dtype.kind in "iuf"
    if not scalar or (number is not None and not number > 0):
        raise ValueError(f"{name} is {value!r}, but must be a single number above 0.")
    if number is not None and tf.float32.max < number < np.inf:
        raise ValueError(f"{name} is {value!r}, which is more than float32 can hold.")
    return value


def _is_tensor(value: Any) -> bool:
    return isinstance(value, tf.Variable) or tf.is_tensor(value)


def _divisor(temperature: Temperature, dtype: tf.DType) -> tf.Tensor:
    """The temperature as a number to divide by; what may change is checked in every call."""
    if _is_tensor(temperature):
        message = "The temperature must be above 0."
        with tf.control_dependencies([tf.debugging.assert_positive(temperature, message=message)]):
            temperature = tf.identity(temperature)
    # The smallest normal number: smaller ones may count as 0, and 0 / 0 is not a logit.
    return tf.maximum(tf.cast(temperature, dtype), np.finfo(np.float32).tiny)


def _initial_state(name: str, network: Any) -> Callable[..., Any]:
    if not hasattr(network, "initial_state"):
        raise TypeError(f"{name} has no initial_state: pass a recurrent network (snt.RNNCore).")
    return network.initial_state


def _require_structure(name: str, state: Any, wanted: Any) -> None:
    try:
        tree.assert_same_structure(wanted, state, check_types=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} does not have the structure of the network's initial_state(batch_size): "
            f"{error}"
        ) from error
