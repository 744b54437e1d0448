"""The learning curve."""

from __future__ import annotations

import struct
import sys

import numpy as np
import pytest
from matplotlib import image

from tfagents_x.cli import plots


def _write_csv(path, returns, tail=""):
    steps = np.cumsum(np.maximum(np.abs(returns), 1)) if len(returns) else []
    rows = [f"{r},{i + 1},{s}" for i, (r, s) in enumerate(zip(returns, steps))]
    lines = ["episode_return,actor_episodes,actor_steps", *rows]
    path.write_text("\n".join(lines) + "\n" + tail)
    return path


def test_reads_steps_and_returns(tmp_path):
    episodes = plots.read_episodes(_write_csv(tmp_path / "e.csv", [3.0, 5.5]))
    np.testing.assert_array_equal(episodes.steps, [3.0, 8.5])
    np.testing.assert_array_equal(episodes.returns, [3.0, 5.5])


def test_a_torn_last_row_is_left_out(tmp_path):
    episodes = plots.read_episodes(_write_csv(tmp_path / "e.csv", [3.0, 5.5], tail="7.0,3"))
    np.testing.assert_array_equal(episodes.returns, [3.0, 5.5])


@pytest.mark.parametrize("content", [None, "", "episode_return,actor_steps\n", "a,b\n1,2\n"])
def test_no_episodes(tmp_path, content):
    path = tmp_path / "e.csv"
    if content is not None:
        path.write_text(content)
    assert plots.read_episodes(path).returns.shape == (0,)


def test_running_band_is_that_of_the_last_window():
    returns = np.arange(10.0) ** 2
    band = plots.running_band(returns, window=4)
    for i in range(10):
        last = returns[max(0, i - 3) : i + 1]
        np.testing.assert_allclose(
            [band.mean[i], band.low[i], band.high[i]],
            [last.mean(), *np.quantile(last, [0.1, 0.9])],
        )


def _png_size(path):
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", content[16:24])


@pytest.mark.parametrize("count", [0, 1, 5, 400])
def test_draws_any_number_of_episodes(tmp_path, count):
    returns = np.linspace(10, 500, count)
    csv_path, png_path = _write_csv(tmp_path / "e.csv", returns), tmp_path / "curve.png"
    plots.write_learning_curve(csv_path, png_path, "impala on CartPole-v1, seed 0")
    assert _png_size(png_path) == (1350, 750)
    pixels = image.imread(png_path)[..., :3]
    # The colour of the curve is in it exactly if there is something to draw.
    blue = np.abs(pixels - np.array([0x1F, 0x5F, 0xA8]) / 255).max(-1) < 0.02
    assert (blue.sum() > 20) == (count > 0)
    assert (pixels.min(-1) < 0.5).sum() > 500  # Title and labels.
    assert [p.name for p in tmp_path.iterdir() if "partial" in p.name] == []


def test_returns_that_are_all_the_same_or_negative(tmp_path):
    for returns in (np.full(30, 500.0), np.linspace(-1600, -200, 30)):
        csv_path = _write_csv(tmp_path / "e.csv", returns)
        plots.write_learning_curve(csv_path, tmp_path / "curve.png", "x")
        assert _png_size(tmp_path / "curve.png") == (1350, 750)


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'tfagents_x\[plots\]'"):
        plots.write_learning_curve(tmp_path / "e.csv", tmp_path / "curve.png", "x")
    assert not (tmp_path / "curve.png").exists()
