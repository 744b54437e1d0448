"""The logger that is used when none is given."""

from __future__ import annotations

import os
from typing import Any, Callable

from tfagents_x.utils.loggers import (
    async_logger,
    base,
    csv_file,
    dispatcher,
    filters,
    tensorboard,
    terminal,
)


def make_default_logger(
    label: str,
    save_data: bool | None = None,
    time_delta: float = 1.0,
    asynchronous: bool = False,
    print_fn: Callable[[str], Any] | None = None,
    serialize_fn: Callable[[base.LoggingData], base.LoggingData] = base.to_numpy,
    steps_key: str = "steps",
    *,
    directory: str | os.PathLike | None = None,
    use_tensorboard: bool = False,
) -> base.Logger:
    """Makes a logger that prints, and writes to files where it is told to.

    The positional arguments are those of Acme's function of this name. Unlike there, files are
    written only to a directory that was asked for, never to the home directory.

    Args:
      label: name of what logs, put before each line; also the name of the files.
      save_data: whether to write `directory/label.csv`; None means: if there is a directory.
      time_delta: at most one row each so many seconds; the others are dropped unread.
      asynchronous: whether to convert and write in a background thread.
      print_fn: takes each line; `print` if None.
      serialize_fn: brings values to the host.
      steps_key: name of the metric that is the step in TensorBoard.
      directory: where files go.
      use_tensorboard: whether to write events to `directory/tensorboard/label` as well.

    Raises:
      ValueError: files are asked for without a directory, or it can't be written.
    """
    if directory is None and (save_data or use_tensorboard):
        wanted = "save_data" if save_data else "use_tensorboard"
        raise ValueError(
            f"make_default_logger({label!r}, {wanted}=True) needs a place for the files: pass "
            f"directory='...', or leave {wanted} out to print only."
        )
    sinks: list[base.Logger] = [_terminal(label, print_fn)]
    if directory is not None and save_data is not False:
        sinks.append(csv_file.CSVLogger(os.path.join(directory, f"{label}.csv")))
    if directory is not None and use_tensorboard:
        events = os.path.join(directory, "tensorboard", label)
        sinks.append(tensorboard.TensorBoardLogger(events, label, steps_key))
    logger: base.Logger = filters.NoneFilter(dispatcher.Dispatcher(sinks, serialize_fn))
    if asynchronous:
        logger = async_logger.AsyncLogger(logger)
    return filters.TimeFilter(logger, time_delta)


def _terminal(label: str, print_fn: Callable[[str], Any] | None) -> terminal.TerminalLogger:
    if print_fn is None:
        return terminal.TerminalLogger(label)
    return terminal.TerminalLogger(label, print_fn)
