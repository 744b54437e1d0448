"""Small RLDS datasets, written by TensorFlow Datasets."""

from __future__ import annotations

import pathlib

import numpy as np

# The package itself hides why it can't be imported.
from tensorflow_datasets import public_api as tfds

FEATURES = {
    "observation": {
        "place": tfds.features.Tensor(shape=(2,), dtype=np.float64),
        "pixel": tfds.features.Image(shape=(2, 3, 1), dtype=np.uint8),
    },
    "action": tfds.features.Tensor(shape=(1,), dtype=np.float64),
    "reward": np.float64,
    "discount": np.float32,
    "is_first": np.bool_,
    "is_last": np.bool_,
    "is_terminal": np.bool_,
}


def episode(number, length, last=True, terminal=False):
    """Steps [length] in which every leaf tells the episode's number and the step.

    What the format calls meaningless, in the last step, is not a number.
    """
    steps = []
    for t in range(length):
        value = 100.0 * number + t
        at_end = t == length - 1
        unknown = np.nan if last and at_end else 0.0
        steps.append(
            {
                "observation": {
                    "place": np.array([value, -value]),
                    "pixel": np.full([2, 3, 1], t, np.uint8),
                },
                "action": np.array([0.001 * value + unknown]),
                "reward": value + unknown,
                "discount": 1.0,
                "is_first": t == 0,
                "is_last": last and at_end,
                "is_terminal": terminal and at_end,
            }
        )
    return steps


def write(folder, episodes, features=FEATURES, splits=("train",), nested="steps", per_file=100):
    """Writes `episodes`, lists of steps of which the named features are kept, as EnvLogger does.

    Returns:
      The folder of the dataset's version.
    """
    path = pathlib.Path(folder, "recording", "1.0.0")
    path.mkdir(parents=True)
    identity = tfds.core.DatasetIdentity(
        name="recording", version=tfds.core.Version("1.0.0"), data_dir=str(path), module_name=""
    )
    named = {nested: tfds.features.Dataset(features), "name": np.int64}
    info = tfds.core.DatasetInfo(builder=identity, features=tfds.features.FeaturesDict(named))
    writer = tfds.core.SequentialWriter(info, per_file)
    writer.initialize_splits(list(splits))
    for number, steps in enumerate(episodes):
        kept = [{name: step[name] for name in features} for step in steps]
        for split in splits:
            writer.add_examples({split: [{nested: kept, "name": number}]})
    writer.close_all()
    return path
