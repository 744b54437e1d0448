"""Episodes on disk: written, read, added to, damaged, cut off."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tree

from tests.datasets import recordings
from tfagents_x import datasets, types
from tfagents_x.datasets import manifest as manifest_lib


def concatenated(episodes):
    return tree.map_structure(lambda *x: np.concatenate(x), *episodes)


def assert_equal(found, wanted):
    tree.map_structure(np.testing.assert_array_equal, found, wanted)
    assert [x.dtype for x in tree.flatten(found)] == [x.dtype for x in tree.flatten(wanted)]


def test_what_is_read_is_what_was_written(tmp_path):
    manifest = recordings.write(tmp_path / "data")
    wanted = [recordings.episode(i, n) for i, n in enumerate((3, 1, 4))]
    found = list(datasets.read(tmp_path / "data").as_numpy_iterator())
    assert len(found) == 3 and isinstance(found[0], types.Step)
    for a, b in zip(found, wanted):
        assert_equal(a, b)
    assert_equal(datasets.load(tmp_path / "data"), concatenated(wanted))
    assert (manifest.episodes, manifest.steps) == (3, 8)
    assert manifest.returns == [float(e.reward.sum()) for e in wanted]


def test_plain_tf_data_reads_the_files(tmp_path):
    """As docs/datasets.md promises: names, types and shapes are in dataset.json."""
    recordings.write(tmp_path)
    content = json.loads((tmp_path / "dataset.json").read_text())
    assert content["format"] == "tfagents_x episodes" and content["episodes"] == 3
    files = [str(tmp_path / part["file"]) for part in content["parts"]]
    names = {"observation/place": tf.float32, "observation/pixel": tf.uint8, "reward": tf.float32}

    def parse(record):
        features = {name: tf.io.FixedLenFeature([], tf.string) for name in names}
        values = tf.io.parse_single_example(record, features)
        return {name: tf.io.parse_tensor(values[name], dtype) for name, dtype in names.items()}

    first = next(iter(tf.data.TFRecordDataset(files).map(parse)))
    wanted = recordings.episode(0, 3)
    np.testing.assert_array_equal(first["observation/place"], wanted.observation["place"])
    np.testing.assert_array_equal(first["reward"], wanted.reward)


def test_parts_are_closed_when_they_are_large(tmp_path):
    manifest = recordings.write(tmp_path, lengths=(3, 3, 3, 3), part_bytes=300)
    assert len(manifest.parts) > 1
    assert len(list(tmp_path.glob("*.tfrecord"))) == len(manifest.parts)
    assert manifest_lib.read(tmp_path).returns == manifest.returns
    assert len(list(datasets.read(tmp_path))) == 4


def test_adding_to_a_dataset(tmp_path):
    first = recordings.write(tmp_path, lengths=(3,), source={"run": "a"})
    both = recordings.write(tmp_path, (2,), manifest_lib.read(tmp_path), 1, source={"run": "b"})
    assert both.episodes == 2 and both.fingerprint != first.fingerprint
    assert [part.source["run"] for part in both.parts] == ["a", "b"]
    wanted = [recordings.episode(0, 3), recordings.episode(1, 2)]
    assert_equal(datasets.load(tmp_path), concatenated(wanted))


def test_nothing_is_written_over(tmp_path):
    recordings.write(tmp_path)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with pytest.raises(ValueError, match="holds a dataset already"):
        datasets.EpisodeWriter(tmp_path, recordings.EMPTY)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


KILLED = """
import os, sys
from tests.datasets import recordings
from tfagents_x import datasets
writer = datasets.EpisodeWriter(sys.argv[1], recordings.EMPTY, part_bytes=300)
for number in range(5):
    writer.write(recordings.episode(number, 3))
writer._file.flush()
os.kill(os.getpid(), 9)
"""


def test_what_a_killed_process_leaves(tmp_path):
    """Complete parts stay, what came after is gone, and recording goes on."""
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    process = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], env=environment)
    assert process.returncode == -9
    manifest = manifest_lib.read(tmp_path)
    assert 0 < manifest.episodes < 5
    assert len(list(datasets.read(tmp_path))) == manifest.episodes
    again = recordings.write(tmp_path, (4,), manifest, manifest.episodes)
    wanted = [recordings.episode(i, 3) for i in range(manifest.episodes)]
    wanted.append(recordings.episode(manifest.episodes, 4))
    assert again.episodes == len(wanted)
    assert_equal(datasets.load(tmp_path), concatenated(wanted))


GOOD = recordings.episode(0, 3)
BAD = {
    "structure": (GOOD._replace(observation=np.zeros([4, 2])), "another structure"),
    "lengths": (GOOD._replace(reward=GOOD.reward[:-1]), "of one length"),
    "no_step": (recordings.episode(0, 0), "at least 2"),
    "scalar": (GOOD._replace(reward=np.float32(0)), "of one length"),
    "shape": (GOOD._replace(action=np.zeros([4, 2], np.float32)), r"action must be float32 of"),
    "dtype": (GOOD._replace(reward=GOOD.reward.astype(np.float64)), "reward must be float32"),
    "nan": (GOOD._replace(reward=np.full([4], np.nan, np.float32)), "reward.* is not finite"),
}


@pytest.mark.parametrize("case", BAD)
def test_episodes_that_do_not_fit(tmp_path, case):
    episode, message = BAD[case]
    writer = datasets.EpisodeWriter(tmp_path, recordings.EMPTY)
    with pytest.raises(ValueError, match=message):
        writer.write(episode)
    writer.write(GOOD)
    writer.close()
    assert_equal(datasets.load(tmp_path), GOOD)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="Can't write"):
        datasets.EpisodeWriter(tmp_path / "file" / "data", recordings.EMPTY)


def _remove(path):
    (path / "part-00000.tfrecord").unlink()


def _cut(path):
    file = path / "part-00000.tfrecord"
    file.write_bytes(file.read_bytes()[:-7])


def _change(text, other):
    def change(path):
        file = path / "dataset.json"
        assert text in file.read_text()
        file.write_text(file.read_text().replace(text, other))

    return change


DAMAGE = {
    "none": (lambda path: (path / "dataset.json").unlink(), "There is no dataset"),
    "missing_part": (_remove, "part-00000.tfrecord is missing"),
    "cut_part": (_cut, "damaged"),
    "json": (lambda path: (path / "dataset.json").write_text("{"), "can't be read"),
    "other_json": (lambda path: (path / "dataset.json").write_text("{}"), "no manifest"),
    "version": (_change('"version": 1', '"version": 7'), "version 7; this version"),
    "huge": (_change('"steps": 3', f'"steps": {10**16}'), "no memory for the 1000000000000000"),
    "endless": (_change('"steps": 3', f'"steps": {10**30}'), "no memory for the 1000000000000000"),
    "negative": (_change('"steps": 3', '"steps": -9'), "no memory for the -"),
    "count": (_change('"steps": 3', '"steps": 4'), "holds 4 rows, its manifest says 5"),
    "empty": (lambda path: recordings.EMPTY.write(path), "has no episodes"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_datasets_that_cannot_be_read(tmp_path, case):
    recordings.write(tmp_path, (3,))
    damage, message = DAMAGE[case]
    damage(tmp_path)
    with pytest.raises(ValueError, match=message):
        datasets.load(tmp_path)
