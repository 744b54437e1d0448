"""The logger interface, and the one place where metrics become numpy values."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, Union

import numpy as np

LoggingData = Mapping[str, Any]
Number = Union[int, float]


class Logger(abc.ABC):
    """Takes metrics, one mapping from name to value at a time."""

    @abc.abstractmethod
    def write(self, data: LoggingData) -> None:
        """Writes `data`: scalars, arrays, tensors, texts or None by name."""

    @abc.abstractmethod
    def close(self) -> None:
        """Releases what the logger holds. May be called twice; nothing is written after it."""

    def truncate_after(self, key: str, value: Number) -> None:  # noqa: B027
        """Takes back everything written since `key` first exceeded `value`.

        Called when a run goes on from a checkpoint made at `key == value`, so that what was
        logged between the checkpoint and the end of the run does not appear twice. Loggers that
        can't take anything back (a terminal) do nothing.
        """


class NoOpLogger(Logger):
    """Drops everything."""

    def write(self, data: LoggingData) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""


def to_numpy(data: LoggingData) -> dict[str, Any]:
    """Brings metrics to the host.

    Args:
      data: values may be Python or numpy scalars, arrays, eager tensors, texts, None, or
        mappings of these.

    Returns:
      A new flat dict: nested names are joined with `/`, scalars are numpy scalars (bfloat16
      becomes float32), arrays stay arrays, texts are `str`, None stays None.

    Raises:
      TypeError: a value is a tensor of a graph, which has no value yet.
    """
    flat: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, Mapping):
            flat.update({f"{name}/{key}": item for key, item in to_numpy(value).items()})
        else:
            flat[name] = _to_numpy(name, value)
    return flat


def _to_numpy(name: str, value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    # Duck typing: TensorFlow need not be imported to log a float.
    if hasattr(value, "numpy"):
        value = value.numpy()
    elif hasattr(value, "graph"):
        raise TypeError(
            f"The metric {name!r} is a tensor of a tf.function's graph, which has no value yet. "
            "Return it from the tf.function and log what the call returns."
        )
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    array = np.asarray(value)
    if array.dtype.name == "bfloat16":
        array = array.astype(np.float32)
    return array[()] if array.shape == () else array
