"""Networks as SavedModels, which plain TensorFlow loads: to keep, to inspect, to act with.

A snapshot holds a network's function and variables; `tf.saved_model.load` gives back an
object with `__call__`, `variables`, `trainable_variables` and, for a recurrent network,
`initial_state`. For resuming training there are checkpoints (`savers`).
"""

from __future__ import annotations

import numbers
import os
import pathlib
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Optional

import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from tfagents_x.utils import nest, savers

# Every process has a folder of its own below it, so that runs don't replace each other's.
DIRECTORY = "~/tfagents_x/"
_PROCESS = f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:8]}"


class Snapshotter:
    """Writes snapshots of networks every now and then (Acme's `Snapshotter`).

        snapshotter = Snapshotter({"policy": policy_network})
        snapshotter.save()
        policy = tf.saved_model.load(os.path.join(snapshotter.directory, "policy"))

    A snapshot is written beside the one before and then put in its place, so that being
    killed does not leave half a snapshot under its name. The argument
    `snapshot_ttl_seconds` of Acme, which has no effect there, does not exist here: delete
    old snapshots when you like.
    """

    def __init__(
        self,
        objects_to_save: Optional[Mapping[str, snt.Module]],
        *,
        directory: str = DIRECTORY,
        time_delta_minutes: float = 30.0,
    ):
        """Traces the networks; the folder is made with the first save.

        Args:
          objects_to_save: networks by the name of their snapshot, each as `make_snapshot`
            wants it. None stands for none.
          directory: local folder; snapshots go to `<directory>/snapshots/<name>`, and with the
            default to `~/tfagents_x/<identifier of this process>/snapshots/<name>`. (In Acme
            the identifier is in every path.)
          time_delta_minutes: `save` does nothing until so many minutes after it last saved.

        Raises:
          TypeError: see `make_snapshot`, or `time_delta_minutes` is no number.
          ValueError: see `make_snapshot`, or a name can't be that of a folder, or
            `time_delta_minutes` is negative, or `directory` is not local.
        """
        _require_minutes(time_delta_minutes)
        self._seconds = 60 * time_delta_minutes
        self._last_saved: Optional[float] = None
        folder = process_folder(directory) / "snapshots"
        self.directory = str(folder)
        objects = objects_to_save or {}
        paths = {name: folder / _checked_name(name) for name in objects}
        self._snapshots = {paths[name]: make_snapshot(x) for name, x in objects.items()}
        for path in self._snapshots:
            _recover(path)

    def save(self, force: bool = False) -> bool:
        """Writes all snapshots if it is time to.

        Args:
          force: write them in any case.

        Returns:
          Whether they were written.

        Raises:
          OSError: the disk is full, or the like; snapshots from before are intact.
          ValueError: a network returns distributions of a class that TensorFlow can't name.
        """
        now = time.monotonic()
        due = self._last_saved is None or now - self._last_saved >= self._seconds
        if not self._snapshots or not (force or due):
            return False
        for path, snapshot in self._snapshots.items():
            _replace(path, snapshot)
        self._last_saved = time.monotonic()
        return True


def process_folder(directory: str | os.PathLike) -> pathlib.Path:
    """`directory` with its `~` resolved; the default one gets a folder for each process.

    Raises:
      ValueError: it is not local.
    """
    if "://" in str(directory):
        raise ValueError(f"directory is {directory!r}, but must be a local folder.")
    folder = pathlib.Path(directory).expanduser()
    shared = folder == pathlib.Path(DIRECTORY).expanduser()
    return folder / _PROCESS if shared else folder


def _require_minutes(minutes: Any) -> None:
    if isinstance(minutes, bool) or not isinstance(minutes, numbers.Real):
        raise TypeError(f"time_delta_minutes must be a number, got {minutes!r}.")
    if not float(minutes) >= 0:
        raise ValueError(f"time_delta_minutes must be 0 or more, got {minutes}.")


def _checked_name(name: Any) -> str:
    plain = isinstance(name, str) and name and pathlib.PurePath(name).name == name
    if not plain or name.startswith("."):
        raise ValueError(
            f"{name!r} can't be the name of a snapshot: it must be that of a folder, without "
            "separators, not starting with a dot."
        )
    return name


def _beside(path: pathlib.Path, what: str) -> pathlib.Path:
    return path.with_name(f".{path.name}.{what}")


def _replace(path: pathlib.Path, snapshot: Snapshot) -> None:
    """Writes a SavedModel to `path`, where there is a whole one, old or new, but for a moment."""
    partial, previous = _beside(path, "partial"), _beside(path, "previous")
    _recover(path)
    shutil.rmtree(partial, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    _export(path.name, snapshot, partial)
    for written in [*sorted(partial.rglob("*")), partial]:
        savers.sync(written)
    if path.exists():
        path.rename(previous)
    partial.rename(path)
    shutil.rmtree(previous, ignore_errors=True)


def _export(name: str, snapshot: Snapshot, path: pathlib.Path) -> None:
    try:
        tf.saved_model.save(snapshot, str(path))
    except Exception as error:
        if type(error).__name__ != "NotEncodableError":  # TensorFlow doesn't export its class.
            raise
        raise ValueError(
            f"What {name!r} returns can't be written: {error} A distribution's class has to be "
            "defined at the top of a module, once; or let the network return its parameters."
        ) from error


def _recover(path: pathlib.Path) -> None:
    """Undoes what a process did that was killed between the two renames of `_replace`."""
    previous = _beside(path, "previous")
    if previous.exists() and not path.exists():
        previous.rename(path)
    shutil.rmtree(previous, ignore_errors=True)


class Snapshot(tf.Module):
    """What is exported; made by `make_snapshot`.

    Attributes:
      variables: list, those of the network.
      trainable_variables: list, those of the network.
    """

    # Attributes, where `tf.Module` has properties: those would not be in the SavedModel.
    # Lists, because an empty tuple would not be, either.
    variables: Any = None
    trainable_variables: Any = None

    def __init__(self, module: snt.Module, input_signature: list[Any]):
        """Traces `module` for nests of `tf.TensorSpec`, one for each argument."""
        super().__init__()
        self._module = module  # Its tables and random generators belong to the SavedModel, too.
        self.variables = list(nest.variables_of(module))
        self.trainable_variables = [v for v in self.variables if v.trainable]
        self.__call__.get_concrete_function(*input_signature)
        if isinstance(module, snt.RNNCore):
            scalar = tf.TensorSpec([], tf.int32, "batch_size")
            self.initial_state = tf.function(module.initial_state, input_signature=[scalar])

    @tf.function
    def __call__(self, *args: Any) -> Any:
        """What the network returns, its distributions as composite tensors."""
        return tree.map_structure(_as_composite, self._module(*args))


def _as_composite(output: Any) -> Any:
    is_distribution = isinstance(output, tfp.distributions.Distribution)
    return tfp.experimental.as_composite(output) if is_distribution else output


def make_snapshot(module: snt.Module) -> Snapshot:
    """A network in the form in which `tf.saved_model.save` can write it.

    Acme's `make_snapshot`. The batch size stays free. Where the network returns a
    distribution, loading needs the package that has its class imported, as in
    `import tensorflow_probability as tfp; tfp.distributions`.

    Args:
      module: a network whose variables were made by `create_variables`, for it or for its
        first layer: in a `snt.Sequential`, a `snt.DeepRNN` or a sub-class of theirs, or behind a
        wrapper that calls what is in its attribute `_module`.

    Raises:
      TypeError: `module` is no module that can be called.
      ValueError: it isn't known what the network's inputs look like.
    """
    if not (isinstance(module, tf.Module) and callable(module)):
        raise TypeError(
            f"Only a Sonnet module that can be called has snapshots, not {module!r}. Wrap a "
            "function in tfagents_x.utils.to_sonnet_module."
        )
    input_signature = _signature(module)
    if input_signature is None:
        raise ValueError(
            f"What the inputs of {module.name!r} look like is not known: call "
            "tfagents_x.utils.create_variables(network, [spec]) before you make a snapshot."
        )
    return Snapshot(module, input_signature)


def _signature(module: Any) -> Optional[list[Any]]:
    """Specs for each argument of `module`, from itself or its first layer; None if unknown."""
    stored = getattr(module, "_input_signature", None)
    if stored is not None:
        return list(_unwrapped(stored))
    first = _first_layer(module)
    inner = None if first is None else _signature(first)
    if inner is None:
        return None
    # States change with what is stacked on the first layer, inputs don't.
    inputs = inner[:-1] if isinstance(first, snt.RNNCore) else inner
    state = []
    if isinstance(module, snt.RNNCore):
        state = [tree.map_structure(nest.batched_spec, module.initial_state(1))]
    return next((x + state for x in _arrangements(inputs) if _takes(module, x + state)), None)


def _first_layer(module: Any) -> Any:
    if isinstance(module, (snt.Sequential, snt.DeepRNN)):
        return module._layers[0] if module._layers else None
    return getattr(module, "_module", None)


def _arrangements(inputs: list[Any]) -> Iterator[list[Any]]:
    """How a first layer's inputs may come in outside: as they are, as one tuple, unpacked."""
    yield inputs
    yield [tuple(inputs)]
    if len(inputs) == 1 and isinstance(inputs[0], tuple):
        yield list(inputs[0])


def _takes(module: Any, input_signature: list[Any]) -> bool:
    """Whether `module` can be called so; found by trying, since Sonnet hides its parameters."""
    zeros = tree.map_structure(
        lambda s: tf.zeros([d or 1 for d in s.shape], s.dtype), input_signature
    )
    try:
        module(*zeros)
    except TypeError:
        return False
    return True


def _unwrapped(specs: Any) -> Any:
    """Without the wrappers that `tf.Module` puts around lists, tuples and dictionaries."""
    specs = getattr(specs, "__wrapped__", specs)
    if isinstance(specs, Mapping):
        return {key: _unwrapped(value) for key, value in specs.items()}
    if isinstance(specs, tuple) and hasattr(specs, "_fields"):
        return type(specs)(*map(_unwrapped, specs))
    if isinstance(specs, (list, tuple)):
        return (tuple if isinstance(specs, tuple) else list)(map(_unwrapped, specs))
    return specs
