"""RLDS datasets, written with TensorFlow Datasets and read into rows."""

from __future__ import annotations

import json
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf
import tree

pytest.importorskip("tensorflow_datasets")

from tensorflow_datasets import public_api as tfds

from tests.datasets import rlds_parts
from tfagents_x import datasets, specs

pytestmark = pytest.mark.usefixtures("ends")

EPISODES = [
    rlds_parts.episode(0, 4, terminal=True),
    rlds_parts.episode(1, 3),
    rlds_parts.episode(2, 1),  # An observation and nothing else.
    rlds_parts.episode(3, 3, last=False),
]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return rlds_parts.write(tmp_path_factory.mktemp("rlds"), EPISODES)


def by_number(rows):
    """Rows of each episode: tfds does not keep the order in which they were written."""
    episode = np.cumsum(rows.start_of_episode)
    of = lambda number: tree.map_structure(lambda x: x[episode == number], rows)
    parts = map(of, range(1, episode[-1] + 1))
    return {int(part.observation["place"][0, 0] // 100): part for part in parts}


def test_rows_are_those_that_were_written(written):
    recorded = datasets.load_any(written)
    found = by_number(recorded.rows)
    assert set(found) == {0, 1, 3}
    for number, length, end in ((0, 4, 0.0), (1, 3, 1.0), (3, 3, 1.0)):
        value = 100.0 * number + np.arange(length)
        followed = np.arange(length) < length - 1
        rows = found[number]
        place, pixel = rows.observation["place"], rows.observation["pixel"]
        np.testing.assert_array_equal(place, np.stack([value, -value], 1).astype(np.float32))
        np.testing.assert_array_equal(pixel[:, 0, 0, 0], np.arange(length))
        np.testing.assert_allclose(rows.action[:, 0], 0.001 * value * followed, rtol=1e-6)
        np.testing.assert_array_equal(rows.reward, value * followed)
        discount = [1.0] * (length - 2) + [end, 0.0]
        np.testing.assert_array_equal(rows.discount, discount)
    dtypes = tree.map_structure(lambda x: x.dtype, recorded.rows)
    assert dtypes.observation == {"place": np.float32, "pixel": np.uint8}
    assert dtypes.action == dtypes.reward == dtypes.discount == np.float32
    assert recorded.environment is None and recorded.has_rewards


def test_spec(written):
    spec = datasets.load_any(written).spec
    assert spec.observations["pixel"].shape == (2, 3, 1)
    assert spec.observations["place"].dtype == np.float32
    assert type(spec.actions) is specs.Array and spec.actions.shape == (1,)
    assert spec.rewards.shape == () and spec.discounts.maximum == 1.0


def test_batches_of_it(written):
    batch = next(datasets.Transitions(datasets.load_any(written).rows, 7))
    following = batch.next_observation["place"][:, 0] - batch.observation["place"][:, 0]
    np.testing.assert_array_equal(following, np.ones(7))


def test_moved_or_changed(written, tmp_path):
    shutil.copytree(written, tmp_path / "moved")
    first, moved = datasets.load_any(written), datasets.load_any(tmp_path / "moved")
    assert first.fingerprint == moved.fingerprint and first.folder != moved.folder
    other = rlds_parts.write(tmp_path / "other", [*EPISODES[:3], rlds_parts.episode(4, 3)])
    assert datasets.load_any(other).fingerprint != first.fingerprint


def test_several_files_are_read_in_order(tmp_path):
    episodes = [rlds_parts.episode(i, 3) for i in range(9)]
    folder = rlds_parts.write(tmp_path, episodes, per_file=3)
    assert len(list(folder.glob("*.tfrecord*"))) == 3
    first, again = datasets.load_any(folder), datasets.load_any(folder)
    assert first.fingerprint == again.fingerprint and len(by_number(first.rows)) == 9


@pytest.mark.parametrize(
    ("feature", "count"), [(np.int64, 3), (tfds.features.ClassLabel(num_classes=5), 5)]
)
def test_discrete_actions_without_rewards(tmp_path, feature, count):
    names = ("observation", "is_first", "is_last", "is_terminal")
    features = {name: rlds_parts.FEATURES[name] for name in names}
    episodes = [rlds_parts.episode(0, 4, terminal=True)]
    for t, step in enumerate(episodes[0]):
        step["action"] = t % 3
    recorded = datasets.load_any(
        rlds_parts.write(tmp_path, episodes, {**features, "action": feature})
    )
    actions = recorded.spec.actions
    assert isinstance(actions, specs.DiscreteArray) and actions.num_values == count
    np.testing.assert_array_equal(recorded.rows.action, [0, 1, 2, 0])
    assert recorded.rows.action.dtype == actions.dtype == np.int32
    assert not recorded.has_rewards and recorded.rows.reward == () == recorded.spec.rewards
    np.testing.assert_array_equal(recorded.rows.discount, [1, 1, 0, 0])
    batch = next(datasets.Transitions(recorded.rows, 3))
    assert batch.reward == () and batch.action.shape == (3,)


def test_recorded_discounts_and_an_end_that_is_terminal_but_not_last(tmp_path):
    episode = rlds_parts.episode(0, 4, last=False, terminal=True)
    for t, step in enumerate(episode):
        step["discount"] = 0.9 - 0.1 * t
    rows = datasets.load_any(rlds_parts.write(tmp_path, [episode])).rows
    np.testing.assert_allclose(rows.discount, [0.9, 0.8, 0.0, 0.0], rtol=1e-6)


def test_one_step_and_neither_discounts_nor_is_terminal(tmp_path):
    episode = rlds_parts.episode(0, 2, terminal=True)
    folder = rlds_parts.write(tmp_path, [episode], without("discount", "is_terminal"))
    np.testing.assert_array_equal(datasets.load_any(folder).rows.discount, [1, 0])


def test_a_split_of_another_name(tmp_path):
    one = rlds_parts.write(tmp_path / "one", EPISODES[:1], splits=["mine"])
    assert len(datasets.load_any(one).rows.reward) == 4
    two = rlds_parts.write(tmp_path / "two", EPISODES[:1], splits=["mine", "yours"])
    with pytest.raises(ValueError, match="has no split 'train'; it has: mine, yours"):
        datasets.load_any(two)


def without(*names):
    return {name: value for name, value in rlds_parts.FEATURES.items() if name not in names}


def steps(**changes):
    return [[{**step, **changes} for step in rlds_parts.episode(0, 3)]]


LONG = {**without("action"), "action": np.int64}
TEXT = {**without("observation"), "observation": {"order": tfds.features.Text()}}
BAD = {
    "no_steps": (dict(nested="frames"), "is no RLDS dataset: .* but .*frames"),
    "no_action": (dict(features=without("action", "is_last")), "lack action, is_last; they have"),
    "text": (
        dict(features=TEXT, episodes=steps(observation={"order": "left"})),
        "observation/order in .* is string",
    ),
    "long": (
        dict(features=LONG, episodes=steps(action=1 << 40)),
        "Episode 0: action must be int32 .* got int64",
    ),
    "nan": (dict(episodes=steps(reward=np.nan)), "Episode 0: reward of the episode is not finite"),
    "goes_on": (dict(episodes=steps(is_last=True)), "goes on after the step that is marked"),
    "large": (dict(episodes=steps(reward=1e300)), "Episode 0: reward .* is not finite"),
    "empty": (dict(episodes=[rlds_parts.episode(0, 1)]), "There is no episode of one step"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_read(tmp_path, case):
    arguments, message = BAD[case]
    folder = rlds_parts.write(tmp_path, **{"episodes": EPISODES[:1], **arguments})
    with pytest.raises(ValueError, match=message):
        datasets.load_any(folder)


def _cut(folder):
    (file,) = folder.glob("*.tfrecord*")
    file.write_bytes(file.read_bytes()[:-7])


def _without_an_episode(folder):
    (file,) = map(str, folder.glob("*.tfrecord*"))
    records = [record.numpy() for record in tf.data.TFRecordDataset(file)]
    with tf.io.TFRecordWriter(file) as writer:
        for record in records[:-1]:
            writer.write(record)


def _of_another_format(folder):
    info = folder / "dataset_info.json"
    info.write_text(json.dumps({**json.loads(info.read_text()), "fileFormat": "array_record"}))


DAMAGE = {
    "info": (lambda folder: (folder / "dataset_info.json").write_text("{"), "can't open"),
    "features": (lambda folder: (folder / "features.json").write_text("{}"), "can't open"),
    "cut": (_cut, "can't be read"),
    "shorter": (_without_an_episode, "can't be read"),
    "format": (_of_another_format, "can't be read: NotImplementedError: .*ArrayRecord"),
    "gone": (lambda folder: [f.unlink() for f in folder.glob("*.tfrecord*")], "can't be read"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage(written, tmp_path, case):
    damage, message = DAMAGE[case]
    shutil.copytree(written, tmp_path / "data")
    damage(tmp_path / "data")
    with pytest.raises(ValueError, match=message):
        datasets.load_any(tmp_path / "data")


def test_the_folder_above(written):
    above = written.parent
    with pytest.raises(ValueError, match=f"There is no dataset in .*But there is one in {written}"):
        datasets.load_any(above)


def test_without_the_package(written, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(ImportError, match=r"pip install 'tfagents_x\[rlds\]'$"):
        datasets.load_any(written)
