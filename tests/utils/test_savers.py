"""Checkpoint folders: complete or absent, damage is found, nests come back as they were."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tfagents_x.utils import savers


def write(text):
    def into(folder):
        (folder / "sub").mkdir()
        (folder / "sub" / "a.txt").write_text(text)
        (folder / "b.txt").write_text(text * 2)

    return into


@pytest.fixture
def folder(tmp_path):
    return savers.CheckpointFolder(tmp_path / "checkpoints", max_to_keep=2)


def test_keeps_the_newest(folder):
    for step in (1, 9, 10):
        folder.save(step, write(f"at {step}"))
    assert [p.name for p in folder.all()] == ["step-9", "step-10"]
    assert folder.latest() == folder.root / "step-10"
    assert (folder.latest() / "sub" / "a.txt").read_text() == "at 10"


def test_replaces_the_same_step(folder):
    folder.save(1, write("old"))
    folder.save(1, write("new"))
    assert (folder.latest() / "sub" / "a.txt").read_text() == "new"


def test_an_interrupted_save_leaves_no_checkpoint(folder):
    folder.save(1, write("good"))

    def die(path):
        write("half")(path)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        folder.save(2, die)
    assert [p.name for p in folder.all()] == ["step-1"]
    folder.save(2, write("whole"))
    assert folder.latest().name == "step-2"


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def _write_text(path, text):
    path.write_text(text)


def flip(path):
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("file", "damage", "words"),
    [
        ("sub/a.txt", truncate, "bytes instead of"),
        ("b.txt", flip, "other contents"),
        ("b.txt", lambda p: p.unlink(), "missing"),
        ("manifest.json", truncate, "manifest"),
        ("manifest.json", lambda p: p.unlink(), "manifest"),
        ("c.txt", lambda p: p.write_text("more"), "c.txt is not in manifest.json"),
        ("manifest.json", lambda p: p.write_bytes(b"\xff"), "manifest"),
        *(
            ("manifest.json", functools.partial(_write_text, text=text), "no list of files")
            for text in (
                "[]",
                "{}",
                "3",
                "null",
                '{"b.txt": 6}',
                '{"b.txt": [6]}',
                '{"b.txt": ["6", "sum"]}',
                '{"b.txt": [true, "sum"]}',
                '{"b.txt": [6, null]}',
            )
        ),
    ],
)
def test_goes_back_when_damaged(folder, file, damage, words):
    folder.save(1, write("one"))
    folder.save(2, write("two"))
    damage(folder.root / "step-2" / file)
    reports = []
    assert folder.latest(reports.append) == folder.root / "step-1"
    assert len(reports) == 1 and "step-2" in reports[0] and words in reports[0]


def test_nothing_intact(folder):
    assert folder.latest() is None
    folder.save(1, write("one"))
    folder.save(2, write("two"))
    for step in ("step-1", "step-2"):
        truncate(folder.root / step / "b.txt")
    reports = []
    assert folder.latest(reports.append) is None
    newest, oldest = reports
    assert newest.endswith("; going back to the one before.")
    assert oldest.endswith("; there is none before it.")


def test_the_number_of_a_checkpoint(folder):
    assert folder.step_of(folder.save(12, write("one"))) == 12


def test_drop_after(folder):
    folder.save(1, write("one"))
    folder.save(2, write("two"))
    folder.drop_after(folder.root / "step-1")
    assert [p.name for p in folder.all()] == ["step-1"]


def test_max_to_keep_is_checked(tmp_path):
    with pytest.raises(ValueError, match="at least 2"):
        savers.CheckpointFolder(tmp_path, max_to_keep=1)


def test_nest_round_trip(tmp_path):
    nest = {
        "a": np.arange(6, dtype=np.uint64).reshape(2, 3),
        "b": [1, 2.5, "text", None, True, (np.float32(3.0), ())],
        "c": {"d": np.array([], np.int32), "e": np.array([True])},
        "big": 2**63,
    }
    savers.write_nest(tmp_path / "n.npz", nest)
    back = savers.read_nest(tmp_path / "n.npz")
    np.testing.assert_equal(back, nest)
    assert back["a"].dtype == np.uint64 and isinstance(back["b"][5], tuple)


def test_nest_refuses_objects(tmp_path):
    for bad in (object(), {1: 2}, np.array([None])):
        with pytest.raises(TypeError, match="without pickle"):
            savers.write_nest(tmp_path / "n.npz", {"x": bad})
