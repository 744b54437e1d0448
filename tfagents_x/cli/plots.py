"""`learning_curve.png`: what a run has learned, as a picture."""

from __future__ import annotations

import csv
import os
from typing import Any, NamedTuple

import numpy as np

WINDOW = 20

_BLUE = "#1f5fa8"
_INK = "#333333"
_GRID = "#e4e4e4"


class Axis(NamedTuple):
    """What the returns are drawn over.

    Attributes:
      column: of the log.
      label: below the picture.
      window: number of episodes in a mean.
    """

    column: str = "actor_steps"
    label: str = "environment steps"
    window: int = WINDOW


ENVIRONMENT_STEPS = Axis()


class Episodes(NamedTuple):
    """Finished episodes, in order.

    Attributes:
      steps: done at the end of each, float64 [N].
      returns: float64 [N].
    """

    steps: np.ndarray
    returns: np.ndarray


class Band(NamedTuple):
    """Statistics of the last episodes at each one, float64 [N]."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def read_episodes(path: os.PathLike, column: str = "actor_steps") -> Episodes:
    """Reads the columns `column` and `episode_return` of a CSV log.

    No file, or one without rows, gives no episodes; a torn last row is left out.
    """
    rows = []
    if os.path.exists(path):
        with open(path, newline="", encoding="utf-8", errors="replace") as file:
            rows = [_numbers(row, column) for row in csv.DictReader(file)]
    values = np.array([row for row in rows if row is not None], np.float64).reshape(-1, 2)
    return Episodes(values[:, 0], values[:, 1])


def running_band(returns: np.ndarray, window: int = WINDOW) -> Band:
    """Mean, 10 % and 90 % quantile of the last `window` returns (or of as many as there are).

    Args:
      returns: [N], N >= 1.
      window: number of episodes.
    """
    padded = np.concatenate([np.full(window - 1, np.nan), returns])
    windows = np.lib.stride_tricks.sliding_window_view(padded, window)
    low, high = np.nanquantile(windows, [0.1, 0.9], axis=1)
    return Band(np.nanmean(windows, axis=1), low, high)


def write_learning_curve(
    csv_path: os.PathLike, png_path: os.PathLike, title: str, axis: Axis = ENVIRONMENT_STEPS
) -> None:
    """Draws the returns of all episodes.

    Args:
      csv_path: the log of the episodes.
      png_path: the picture, 1350 x 750 pixels; replaced if it exists.
      title: above the picture.
      axis: what they are drawn over.

    Raises:
      ImportError: matplotlib is not installed.
      OSError: the picture can't be written.
    """
    figure_class, canvas_class = _import_matplotlib()
    figure = figure_class(figsize=(9, 5), dpi=150, facecolor="white")
    canvas_class(figure)
    axes = figure.add_subplot()
    episodes = read_episodes(csv_path, axis.column)
    _style(axes, title, axis.label)
    if len(episodes.returns):
        _draw(axes, episodes, axis.window)
    else:
        axes.text(0.5, 0.5, "no episode has ended yet", ha="center", color=_INK, fontsize=12)
        axes.set(xlim=(0, 1), xticks=[], yticks=[])
    figure.tight_layout()
    partial = f"{os.fspath(png_path)}.partial"
    figure.savefig(partial, format="png")
    os.replace(partial, png_path)


def _numbers(row: Any, column: str) -> tuple[float, float] | None:
    try:
        return float(row[column]), float(row["episode_return"])
    except (KeyError, TypeError, ValueError):
        return None


def _import_matplotlib() -> tuple[Any, Any]:
    # The canvas is made by hand: pyplot would look for a screen and keep global state.
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            f"matplotlib is needed for the learning curve but can't be imported ({error}). "
            "Install it with: pip install 'tfagents_x[plots]'"
        ) from error
    return Figure, FigureCanvasAgg


def _style(axes: Any, title: str, label: str) -> None:
    axes.set_title(title, loc="left", fontsize=13, fontweight="bold", color=_INK, pad=12)
    axes.set_xlabel(label, color=_INK)
    axes.set_ylabel("return of an episode", color=_INK)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    axes.grid(color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=_INK, length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_GRID)


def _draw(axes: Any, episodes: Episodes, window: int) -> None:
    steps, returns = episodes
    band = running_band(returns, window)
    # Episodes of one evaluation share their step: the last of them sees them all.
    last = np.append(np.flatnonzero(np.diff(steps)), len(steps) - 1)
    band, ends = Band(*(x[last] for x in band)), steps[last]
    # Thousands of episodes would make a solid block of dots.
    alpha = float(np.clip(300.0 / len(returns), 0.12, 0.45))
    axes.fill_between(ends, band.low, band.high, color=_BLUE, alpha=0.14, linewidth=0)
    axes.plot(steps, returns, ".", color=_BLUE, alpha=alpha, markersize=5, markeredgewidth=0)
    axes.plot(
        ends,
        band.mean,
        color=_BLUE,
        linewidth=2.4,
        solid_capstyle="round",
        solid_joinstyle="round",
    )
    axes.set_xlim(0, steps[-1] * 1.09 or 1)
    _annotate_end(axes, steps[-1], band.mean[-1])
    _label(axes, window)


def _annotate_end(axes: Any, step: float, mean: float) -> None:
    axes.plot([step], [mean], "o", color=_BLUE, markersize=6, markeredgecolor="white", zorder=5)
    axes.annotate(
        f"{mean:,.1f}",
        (step, mean),
        xytext=(9, 0),
        textcoords="offset points",
        va="center",
        color=_BLUE,
        fontweight="bold",
        fontsize=12,
        annotation_clip=False,
    )


def _label(axes: Any, window: int) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Line2D([], [], color=_BLUE, linewidth=2.4, label=f"mean of the last {window} episodes"),
        Patch(color=_BLUE, alpha=0.14, linewidth=0, label="their 10 % to 90 % quantiles"),
        Line2D([], [], color=_BLUE, marker=".", linestyle="", alpha=0.45, label="one episode"),
    ]
    axes.legend(handles=handles, loc="best", frameon=False, labelcolor=_INK, fontsize=9)
