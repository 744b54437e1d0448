"""Recurrent cores under Acme's names: they step like Sonnet's, and unroll in one piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import sonnet as snt
import tensorflow as tf
import tree

from tfagents_x import types
from tfagents_x.networks import recurrence

_Unrolled = tuple[types.NestedTensor, types.NestedTensor]


class UnpackWrapper(snt.Module):
    """Lets a module with several arguments take them as one sequence (Acme's `UnpackWrapper`).

    `UnpackWrapper(critic)((observation, action))` is `critic(observation, action)`.
    """

    def __init__(self, module: snt.Module, name: str = "UnpackWrapper"):
        """Wraps `module`, any callable of several nests of tensors."""
        super().__init__(name=name)
        self._module = _callable(type(self).__name__, module)

    def __call__(self, inputs: Sequence[types.NestedTensor]) -> types.NestedTensor:
        """Calls the module with the elements of `inputs`."""
        return self._module(*_sequence(inputs))


class RNNUnpackWrapper(snt.RNNCore):
    """The same for a recurrent core (Acme's `RNNUnpackWrapper`).

    `RNNUnpackWrapper(critic)((observation, action), state)` is
    `critic(observation, action, state)`.
    """

    def __init__(self, module: snt.RNNCore, name: str = "RNNUnpackWrapper"):
        """Wraps `module`, a core of several nests of tensors and its state."""
        super().__init__(name=name)
        if not callable(getattr(module, "initial_state", None)):
            raise TypeError(
                f"RNNUnpackWrapper needs a recurrent core, got {module!r}. UnpackWrapper is for "
                "modules without state."
            )
        self._module = _callable("RNNUnpackWrapper", module)

    def __call__(
        self, inputs: Sequence[types.NestedTensor], prev_state: types.NestedTensor
    ) -> _Unrolled:
        """Calls the core with the elements of `inputs` and the state."""
        return self._module(*_sequence(inputs), prev_state)

    def initial_state(self, batch_size: Any, **kwargs: Any) -> types.NestedTensor:
        """The wrapped core's."""
        return self._module.initial_state(batch_size, **kwargs)


class DeepRNN(snt.DeepRNN):
    """`snt.DeepRNN` with a method `unroll` (Acme's `DeepRNN`).

    Unlike Acme's, it unrolls every core in a symbolic loop, whether it has an `unroll` of
    its own or not, and takes layers that return distributions.
    """

    def unroll(
        self,
        inputs: types.NestedTensor,
        state: types.NestedTensor,
        sequence_length: Optional[int] = None,
    ) -> _Unrolled:
        """Runs all layers over a sequence, the stateless ones in one batch.

        Args:
          inputs: nest of tensors [T, B, ...].
          state: one for each recurrent layer, as `initial_state(B)`.
          sequence_length: number of steps to run, by default all T.

        Returns:
          Outputs [sequence_length, B, ...] and the state after the last step.

        Raises:
          ValueError: see `recurrence.unroll`, or `sequence_length` is not in 1 ... T.
        """
        return recurrence.unroll(self, _first_steps(inputs, sequence_length), state)


class LSTM(snt.LSTM):
    """`snt.LSTM` with a method `unroll` (Acme's `LSTM`)."""

    def unroll(
        self, inputs: tf.Tensor, state: snt.LSTMState, sequence_length: Optional[int] = None
    ) -> _Unrolled:
        """Runs the LSTM over a sequence [T, B, D]; see `DeepRNN.unroll`."""
        return recurrence.unroll(self, _first_steps(inputs, sequence_length), state)


class CriticDeepRNN(snt.DeepRNN):
    """A `snt.DeepRNN` of observations and actions (Acme's `CriticDeepRNN`).

    Its first layer gets both, as two arguments. `recurrence.unroll` takes it apart like a
    `snt.DeepRNN`, with the pair (observations, actions) for inputs.
    """

    def __init__(self, layers: Sequence[Any], name: Optional[str] = None):
        """Stacks the layers.

        Args:
          layers: the first is called as `layer(observation, action)`, or as
            `layer(observation, action, state)` if it is a `snt.RNNCore`; the others follow
            as in a `snt.DeepRNN`.
          name: of the module.

        Raises:
          TypeError: `layers` is no sequence, or one of them can't be called.
          ValueError: there is no layer.
        """
        if not isinstance(layers, (list, tuple)):
            raise TypeError(f"CriticDeepRNN needs a list of layers, got {layers!r}.")
        if not layers:
            raise ValueError("CriticDeepRNN needs at least one layer, got none.")
        first, *_ = [_callable("CriticDeepRNN", layer) for layer in layers]
        wrap = RNNUnpackWrapper if isinstance(first, snt.RNNCore) else UnpackWrapper
        super().__init__([wrap(first), *layers[1:]], name=name)

    def __call__(
        self, inputs: types.NestedTensor, action: types.NestedTensor, prev_state: Any
    ) -> _Unrolled:
        """One step: nests [B, ...] and the state -> output [B, ...] and the next state."""
        return super().__call__((inputs, action), prev_state)

    def unroll_all(self, inputs: Any, state: Any, resets: Optional[tf.Tensor] = None) -> _Unrolled:
        """What `recurrence.unroll` uses: the pair of nests [T, B, ...] -> outputs, all states."""
        if not (isinstance(inputs, (tuple, list)) and len(inputs) == 2):
            raise ValueError(
                "To unroll a CriticDeepRNN takes the pair (observations, actions), got "
                f"{tree.map_structure(lambda x: tuple(x.shape), inputs)}."
            )
        return recurrence.unroll_layers(self._layers, tuple(inputs), state, resets)


def _callable(owner: str, module: Any) -> Any:
    if not callable(module):
        raise TypeError(f"{owner} needs modules or functions, got {module!r}.")
    return module


def _sequence(inputs: Any) -> Sequence[Any]:
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(
            f"A wrapped module takes its arguments as one tuple, got a {type(inputs).__name__}."
        )
    return inputs


def takes_pairs(critic: Any) -> bool:
    """Whether `critic` is a `CriticDeepRNN`, which can be taken apart."""
    return isinstance(critic, CriticDeepRNN) and recurrence.has_own(critic, "unroll_all")


def as_pair(critic: snt.RNNCore) -> snt.RNNCore:
    """A core `(observation, action, state)` as one that unrolls over the pair of the first two."""
    return critic if takes_pairs(critic) else RNNUnpackWrapper(critic)


def _first_steps(inputs: types.NestedTensor, sequence_length: Optional[int]) -> Any:
    if sequence_length is None:
        return inputs
    num_steps = tree.flatten(inputs)[0].shape[0]
    if sequence_length < 1 or (num_steps is not None and sequence_length > num_steps):
        raise ValueError(
            f"sequence_length is {sequence_length}, but the inputs have {num_steps} steps: it "
            "must be 1 up to that."
        )
    return tree.map_structure(lambda x: x[:sequence_length], inputs)
