"""Abstract bases for networks of one's own, as in Acme's `networks.base`."""

from __future__ import annotations

import abc
from typing import Any, Optional

import sonnet as snt
import tensorflow_probability as tfp

from tfagents_x import types


class Module(snt.Module, abc.ABC):
    """A network from nests of tensors to a nest of tensors."""

    @abc.abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> types.NestedTensor:
        """Applies the network to a batch, leaves [B, ...]."""
        raise _missing(self, "__call__")


class DistributionalModule(snt.Module, abc.ABC):
    """A network from nests of tensors to a tfp distribution."""

    @abc.abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> tfp.distributions.Distribution:
        """Applies the network to a batch; the distribution's batch shape is [B]."""
        raise _missing(self, "__call__")


class RNNCore(snt.RNNCore, abc.ABC):
    """A recurrent core that knows how to run over a whole sequence by itself.

    What doesn't depend on the order of time can then be computed for all steps at once.
    """

    @abc.abstractmethod
    def unroll(
        self,
        inputs: types.NestedTensor,
        state: types.NestedTensor,
        sequence_length: Optional[int] = None,
    ) -> tuple[types.NestedTensor, types.NestedTensor]:
        """Steps through a sequence, with the numbers of calling the core once for each step.

        Args:
          inputs: nest of tensors [T, B, ...].
          state: state of the core before the first step, as `initial_state(B)`.
          sequence_length: the number of steps T. In Acme it always has to be given; here
            `inputs` tell it.

        Returns:
          The outputs of all steps, a nest of tensors [T, B, ...], and the state after the
          last step.
        """
        raise _missing(self, "unroll")


def _missing(module: snt.Module, method: str) -> NotImplementedError:
    """For subclasses: Sonnet's metaclass loses track of what is abstract one class further on."""
    return NotImplementedError(f"{type(module).__name__} must define {method}.")
