"""Several heads on the same features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Union

import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp

from tfagents_x import types
from tfagents_x.ops import checks


class Multihead(snt.Module):
    """Applies N networks to the same input and stacks what they give (Acme's `Multihead`)."""

    def __init__(self, network_heads: Sequence[Callable[[types.NestedTensor], Any]]):
        """Takes the heads.

        Args:
          network_heads: modules or functions of one input, all returning tensors of one
            shape, or all returning distributions.

        Raises:
          ValueError: there are none.
          TypeError: one can't be called.
        """
        if callable(network_heads) or not network_heads:
            raise ValueError(
                f"network_heads must be a sequence of at least one network, got {network_heads!r}."
            )
        for i, head in enumerate(network_heads):
            if not callable(head):
                raise TypeError(
                    f"network_heads[{i}] must be a module or function, got {type(head).__name__}."
                )
        super().__init__(name="multihead")
        self._network_heads = list(network_heads)

    def __call__(
        self, inputs: types.NestedTensor
    ) -> Union[tf.Tensor, list[tfp.distributions.Distribution]]:
        """Applies all heads.

        Args:
          inputs: what the heads take.

        Returns:
          [..., N], the heads' outputs [...] stacked along a new last axis; or the list of the
          N distributions, which can't be stacked.

        Raises:
          TypeError: some heads return a distribution and some don't.
          ValueError: the outputs' shapes or dtypes differ.
        """
        outputs = [head(inputs) for head in self._network_heads]
        kinds = {isinstance(output, tfp.distributions.Distribution) for output in outputs}
        if len(kinds) > 1:
            raise TypeError(
                "Multihead needs heads of one kind, but some return a distribution and some a "
                f"tensor: {[type(output).__name__ for output in outputs]}."
            )
        return outputs if True in kinds else _stack(outputs)


def _stack(outputs: Sequence[Any]) -> tf.Tensor:
    tensors = [checks.tensor(f"the output of network_heads[{i}]", x) for i, x in enumerate(outputs)]
    first = tensors[0]
    for tensor in tensors[1:]:
        if tensor.dtype != first.dtype or not tensor.shape.is_compatible_with(first.shape):
            raise ValueError(
                "Multihead stacks its heads' outputs, which must have the same shape and dtype, "
                f"got {[(tuple(t.shape), t.dtype.name) for t in tensors]}."
            )
    return tf.stack(tensors, axis=-1)
