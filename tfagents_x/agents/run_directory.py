"""What a training run leaves on disk, and whether a run can go on where another stopped."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import pathlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Callable, Optional

import tfagents_x

# What locking gives when another process holds the lock; other errors mean that it can't be had.
_HELD = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES)

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> None:
        # Far behind the PID: on Windows nobody else could read a locked byte.
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@dataclasses.dataclass(frozen=True)
class RunSpec:
    """What defines a run; two runs with equal specs make the same numbers.

    Attributes:
      agent: name in the registry of agents.
      environment: name for `environments.make_environment`.
      seed: of networks, episodes and actions.
      replay: `'in_process'` or `'reverb'`; `'none'` for an offline agent.
      config: fields of the agent's config.
      dataset: folder of the recorded episodes that an offline agent learns from; else None.
    """

    agent: str
    environment: str
    seed: int
    replay: str
    config: Mapping[str, Any]
    dataset: Optional[str] = None

    def differences(self, other: RunSpec) -> dict[str, tuple]:
        """Names of the settings that differ, with both values."""
        mine, theirs = _flat(self), _flat(other)
        names = sorted({*mine, *theirs})
        pairs = {n: (mine.get(n), theirs.get(n)) for n in names}
        return {n: pair for n, pair in pairs.items() if pair[0] != pair[1]}


def _flat(spec: RunSpec) -> dict[str, Any]:
    # Through JSON, so that a tuple equals the list that was read back.
    fields = json.loads(json.dumps(dataclasses.asdict(spec)))
    return {**{k: v for k, v in fields.items() if k != "config"}, **fields["config"]}


class RunDirectory:
    """Names the files of one run.

    `config.json`, `metrics/episodes.csv`, `metrics/learner.csv`, `tensorboard/`,
    `checkpoints/`, `policy/` (SavedModel), `learning_curve.png`, `.lock`.
    """

    def __init__(self, path: os.PathLike):
        """Only keeps the path; `make` or `create` makes the folder."""
        self.path = pathlib.Path(path)
        self.lock = self.path / ".lock"
        self.config = self.path / "config.json"
        self.episodes = self.path / "metrics" / "episodes.csv"
        self.learner = self.path / "metrics" / "learner.csv"
        self.tensorboard = self.path / "tensorboard"
        self.checkpoints = self.path / "checkpoints"
        self.policy = self.path / "policy"
        self.learning_curve = self.path / "learning_curve.png"
        self._made: list[pathlib.Path] = []

    def make(self, exist_ok: bool = True) -> None:
        """Makes the folder, and remembers which ones were missing.

        Raises:
          FileExistsError: it is there, and `exist_ok` is false.
          ValueError: it can't be made.
        """
        missing = [p for p in (self.path, *self.path.parents) if not p.exists()]
        try:
            self.path.mkdir(parents=True, exist_ok=exist_ok)
        except OSError as error:
            if isinstance(error, FileExistsError) and not exist_ok:
                raise
            raise self._not_writable(error) from error
        self._made += missing

    @contextlib.contextmanager
    def locked(self, report: Callable[[str], None] = lambda message: None) -> Iterator[None]:
        """Makes the folder and keeps every other process from training in it.

        The system ends the lock when the process dies, however it dies. If no run is there at
        the end, what was made for it is removed.

        Args:
          report: told if the file system knows no locks.

        Raises:
          ValueError: another process has the lock (its PID is named), or nothing can be written.
        """
        self.make()
        descriptor = self._acquire(report)
        try:
            os.truncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.write(descriptor, b"%d\n" % os.getpid())
            yield
        finally:
            self._release(descriptor)

    def _acquire(self, report: Callable[[str], None]) -> int:
        while True:
            try:
                descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT, 0o644)
            except OSError as error:
                raise self._not_writable(error) from error
            try:
                _try_lock(descriptor)
            except OSError as error:
                if error.errno in _HELD:
                    os.close(descriptor)
                    raise ValueError(self._in_use()) from error
                report(
                    f"{self.path} can't be locked ({error.strerror or error}): make sure that no "
                    "other process trains in it."
                )
                return descriptor
            if _is_file(descriptor, self.lock):
                return descriptor
            os.close(descriptor)  # Its owner removed it between our opening and locking.

    def _in_use(self) -> str:
        try:
            owner = f"process {int(self.lock.read_text())}"
        except (OSError, ValueError):
            owner = "another process"
        return (
            f"{self.path} is in use by {owner}: one process at a time can train in a run "
            "directory. Wait for it or stop it, or give another --run directory."
        )

    def _release(self, descriptor: int) -> None:
        unused = not self.config.exists()
        # Removed before it is closed, so that it can't be the one of another process by then.
        # Windows can only do it after, and refuses if another process has it open.
        steps = [lambda: os.close(descriptor)]
        if unused:
            steps.insert(len(steps) if sys.platform == "win32" else 0, self.lock.unlink)
        for step in steps:
            with contextlib.suppress(OSError):
                step()
        if unused:
            self._remove_empty()

    def _remove_empty(self) -> None:
        inside = [pathlib.Path(folder) for folder, _, _ in os.walk(self.path)][1:]
        for folder in [*sorted(inside, reverse=True), *self._made]:
            with contextlib.suppress(OSError):  # There is something in it.
                folder.rmdir()

    def create(self, spec: RunSpec, steps: Optional[int] = None) -> None:
        """Makes the folder of a new run and writes its config.

        Args:
          spec: what defines the run.
          steps: environment steps it is meant to do; no part of what defines it.

        Raises:
          ValueError: there is a run already, or the folder can't be written.
        """
        if self.config.exists():
            raise ValueError(
                f"{self.path} holds a run already. Give another --run directory, or --resume to "
                "go on with it."
            )
        self.make()
        try:
            self.episodes.parent.mkdir(exist_ok=True)
            self._write(spec, steps)
        except OSError as error:
            raise self._not_writable(error) from error

    def open(self, spec: Optional[RunSpec] = None) -> RunSpec:
        """Reads the config of the run that is there.

        Args:
          spec: if given, must be the same run.

        Raises:
          ValueError: there is no run, its config is unreadable, or it differs from `spec`.
        """
        stored = self.read()
        differences = {} if spec is None else stored.differences(spec)
        if differences:
            listed = ", ".join(f"{k}: {a!r} there, {b!r} now" for k, (a, b) in differences.items())
            raise ValueError(
                f"The run in {self.path} has another config ({listed}). Resume it with its own "
                "settings, or start a new run in another directory."
            )
        return stored

    def read(self) -> RunSpec:
        """The spec of the run.

        Raises:
          ValueError: there is none, it can't be read, or a setting in it makes no sense.
        """
        content = self._read()
        # What a config lacks has a default: it was added since.
        names = [f.name for f in dataclasses.fields(RunSpec) if f.name in content]
        return RunSpec(**{name: content[name] for name in names})

    def _read(self) -> dict[str, Any]:
        try:
            content = json.loads(self.config.read_text())
        except FileNotFoundError:
            raise ValueError(
                f"There is no run in {self.path} (no {self.config.name}). "
                "`tfagents-x train` makes one."
            ) from None
        except (OSError, ValueError) as error:
            raise ValueError(f"{self.config} can't be read: {error!r}.") from error
        problem = _problem(content)
        if problem is not None:
            raise ValueError(f"{self.config}: {problem}. Put it right, or start a new run.")
        return content

    def read_steps(self) -> Optional[int]:
        """Environment steps that the run is meant to do, if it was told.

        Raises:
          ValueError: the config can't be read.
        """
        return self._read().get("steps")

    def write_steps(self, steps: int) -> None:
        """Changes the number of steps that the run is meant to do.

        Raises:
          ValueError: the config can't be read.
          OSError: it can't be written.
        """
        self._write(self.read(), steps)

    def _not_writable(self, error: OSError) -> ValueError:
        return ValueError(
            f"Can't write to the run directory {self.path}: {error.strerror or error}. "
            "Give a writable --run directory."
        )

    def _write(self, spec: RunSpec, steps: Optional[int]) -> None:
        content = {
            "tfagents_x": tfagents_x.__version__,
            **dataclasses.asdict(spec),
            "steps": steps,
        }
        partial = self.config.with_suffix(".partial")
        partial.write_text(json.dumps(content, indent=2) + "\n")
        partial.replace(self.config)


def _problem(content: Any) -> Optional[str]:
    """What is wrong with the content of a config file, in words, or None."""
    if not isinstance(content, dict):
        return f"must hold a mapping of settings, got {content!r}"
    checks: dict[str, tuple[str, Callable[[Any], bool]]] = {
        "agent": ("text", lambda x: isinstance(x, str)),
        "environment": ("text", lambda x: isinstance(x, str)),
        "seed": ("a whole number, at least 0", lambda x: _is_whole(x, 0)),
        "replay": ("'in_process' or 'reverb'", lambda x: x in ("in_process", "reverb", "none")),
        "config": ("a mapping of settings", lambda x: isinstance(x, dict)),
        "steps": ("a whole number, at least 1, or null", lambda x: x is None or _is_whole(x, 1)),
        "dataset": ("text, or null", lambda x: x is None or isinstance(x, str)),
    }
    for name, (wanted, fits) in checks.items():
        if name not in content and name not in ("steps", "dataset"):
            return f"{name} is missing"
        if not fits(content.get(name)):
            return f"{name} must be {wanted}, got {content[name]!r}"
    return None


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_file(descriptor: int, path: pathlib.Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
