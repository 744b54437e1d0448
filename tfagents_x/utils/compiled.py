"""Calling a compiled function many times a second.

`tf.function` binds and checks its arguments in Python on every call, which for a
policy with a few small tensors takes several times as long as running it. Where
the caller guarantees shapes and dtypes, as an actor does, that can be left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import tensorflow as tf
import tree


def quick(function: Callable[..., Any], signature: Sequence[Any]) -> Callable[..., Any]:
    """Compiles `function` for one signature and returns it with next to no call overhead.

    Args:
      function: of nests of tensors, returning a nest of tensors.
      signature: nest of `tf.TensorSpec` for each positional argument.

    Returns:
      A function of the same arguments (eager tensors or numpy arrays), whose shapes and
      dtypes must be exactly those of the signature: they are not checked or converted.
      It sees later changes of the variables that `function` reads.
    """
    signature = list(signature)
    structure: list[Any] = []

    def flat(*leaves: tf.Tensor) -> list[tf.Tensor]:
        output = function(*tree.unflatten_as(signature, leaves))
        structure[:] = [output]
        return [tf.identity(x) for x in tree.flatten(output)]

    compiled = tf.function(flat, tree.flatten(signature), autograph=False)
    concrete = compiled.get_concrete_function()
    captured = list(concrete.captured_inputs)
    dtypes = [x.dtype for x in concrete.outputs]
    (output,) = structure
    # The tensors of the trace are only placeholders in the structure now.
    output = tree.map_structure(lambda _: None, output)

    def call(*arguments: Any) -> Any:
        leaves = tree.flatten(list(arguments)) + captured
        return tree.unflatten_as(
            output, tf.raw_ops.StatefulPartitionedCall(args=leaves, Tout=dtypes, f=concrete)
        )

    call.trace = compiled  # type: ignore[attr-defined]  # Keeps the function alive.
    return call
