"""Loggers: where metrics go. All have `write(data)`, and none imports TensorFlow by itself."""

from tfagents_x.utils.loggers.async_logger import AsyncLogger
from tfagents_x.utils.loggers.base import Logger, LoggingData, NoOpLogger, to_numpy
from tfagents_x.utils.loggers.csv_file import CSVLogger
from tfagents_x.utils.loggers.default import make_default_logger
from tfagents_x.utils.loggers.dispatcher import Dispatcher
from tfagents_x.utils.loggers.filters import NoneFilter, TimeFilter
from tfagents_x.utils.loggers.in_memory import InMemoryLogger
from tfagents_x.utils.loggers.tensorboard import TensorBoardLogger
from tfagents_x.utils.loggers.terminal import TerminalLogger

__all__ = [
    "AsyncLogger",
    "CSVLogger",
    "Dispatcher",
    "InMemoryLogger",
    "Logger",
    "LoggingData",
    "NoOpLogger",
    "NoneFilter",
    "TensorBoardLogger",
    "TerminalLogger",
    "TimeFilter",
    "make_default_logger",
    "to_numpy",
]
