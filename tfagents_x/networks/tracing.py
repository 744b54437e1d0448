"""What a function of tensors does, found by tracing it into a graph that is thrown away."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional

import tensorflow as tf
import tree

# TensorFlow counts these as stateful, yet they give the same to equal inputs.
_READS = {"VarHandleOp", "ReadVariableOp", "ResourceGather", "ResourceGatherNd", "Assert"}
# All others whose name begins with Stateless are random.
_CONTROL_FLOW = {"StatelessIf", "StatelessWhile", "StatelessCase"}


class Trace(NamedTuple):
    """What was seen.

    Attributes:
      output: what the function returned; its tensors belong to the graph that is gone.
      deterministic: whether equal rows of the arguments certainly give equal rows of the
        results: no operation is random, changes a variable or calls into Python. What calls
        a function with variables in it counts as not certain.
    """

    output: Any
    deterministic: bool


def trace(fn: Callable[..., Any], *arguments: Any) -> Optional[Trace]:
    """Calls `fn` in a graph of its own: no operation of it will ever run.

    Without AutoGraph, which would take longer than all the rest.

    Args:
      fn: takes nests of tensors.
      *arguments: the shapes and dtypes to call it with.

    Returns:
      What was seen, or None if `fn` can't be called like this: the caller will find out why
      when it calls `fn` for good.
    """
    outputs: list[Any] = []

    def traced(*flat: tf.Tensor) -> None:
        outputs.append(fn(*tree.unflatten_as(arguments, flat)))

    specs = [tf.TensorSpec(leaf.shape, leaf.dtype) for leaf in tree.flatten(arguments)]
    try:
        graph = tf.function(traced, autograph=False).get_concrete_function(*specs).graph
    except Exception:
        return None
    return Trace(outputs[-1], _is_deterministic(graph))


def _is_deterministic(graph: tf.Graph) -> bool:
    stateful = {op.type for op in graph.get_operations() if op.op_def.is_stateful}
    definition = graph.as_graph_def()
    used = {node.op for node in definition.node}
    used |= {node.op for function in definition.library.function for node in function.node_def}
    random = {op for op in used - _CONTROL_FLOW if op.startswith(("Stateless", "XlaRng"))}
    return not random and stateful <= _READS
