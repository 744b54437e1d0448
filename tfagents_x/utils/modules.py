"""Plain functions where a Sonnet module is wanted."""

from __future__ import annotations

from typing import Any, Callable, Optional

import sonnet as snt

from tfagents_x import types


class TransformationWrapper(snt.Module):
    """A function of nests of tensors as a module (Acme's `TransformationWrapper`).

    A policy that is written by hand can then be treated like one that is trained.
    """

    def __init__(
        self, transformation: Callable[..., types.NestedTensor], name: Optional[str] = None
    ):
        """Wraps the function.

        Args:
          transformation: called as the module is. If it is a `tf.Module`, its variables are
            the module's.
          name: of the module.

        Raises:
          TypeError: `transformation` can't be called.
        """
        super().__init__(name=name)
        if not callable(transformation):
            raise TypeError(
                f"transformation is a {type(transformation).__name__}, but must be a function of "
                "tensors."
            )
        self._transformation = transformation

    def __call__(self, *args: Any, **kwargs: Any) -> types.NestedTensor:
        """What the function returns for these arguments."""
        return self._transformation(*args, **kwargs)


def to_sonnet_module(transformation: Callable[..., types.NestedTensor]) -> snt.Module:
    """Makes a Sonnet module of a function (Acme's `to_sonnet_module`).

    Args:
      transformation: function of nests of tensors; a `snt.Module` is returned as it is.

    Returns:
      A module, whose `variables` are () if it has none (where Sonnet would raise).

    Raises:
      TypeError: `transformation` can't be called.
    """
    if isinstance(transformation, snt.Module):
        return transformation
    return snt.allow_empty_variables(TransformationWrapper(transformation))
