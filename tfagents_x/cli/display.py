"""What a person sees while an agent trains: a live panel, or plain lines."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any, Callable

from rich import console as rich_console
from rich import live, panel, progress_bar, spinner, table, text

from tfagents_x.cli import texts
from tfagents_x.cli.progress import Progress, Snapshot

_BLOCKS = "▁▂▃▄▅▆▇█"
_REFRESHES_PER_SECOND = 4


class Display(Progress):
    """An observer that shows what it is told, while it is entered as a context."""

    def __enter__(self) -> Display:
        """Begins to show."""
        return self

    def __exit__(self, *exc_info: Any) -> None:
        """Shows the last state and ends."""


def make_display(title: str, goal: int, unit: str = "step") -> Display:
    """A live panel if stdout is a terminal that can show one, else plain lines.

    Args:
      title: what is trained, on what, and where the files go; on one line.
      goal: steps to be done in all.
      unit: what these are.
    """
    console = rich_console.Console(highlight=False)
    if sys.stdout.isatty() and not console.is_dumb_terminal:
        return LiveDisplay(title, goal, console, unit)
    return PlainDisplay(title, goal, unit=unit)


class LiveDisplay(Display):
    """A panel that a thread of rich redraws four times a second."""

    def __init__(self, title: str, goal: int, console: rich_console.Console, unit: str = "step"):
        """See `make_display`; the console must be a terminal."""
        super().__init__(goal, unit=unit)
        self._title = title
        self._console = console
        self._spinner = spinner.Spinner("dots" if _speaks_unicode(console) else "line")
        self._live = live.Live(
            console=console,
            get_renderable=self.render,
            refresh_per_second=_REFRESHES_PER_SECOND,
            vertical_overflow="crop",
        )

    def __enter__(self) -> LiveDisplay:
        """Draws the panel for the first time."""
        self._live.start(refresh=True)
        return self

    def __exit__(self, *exc_info: Any) -> None:
        """Draws it for the last time and leaves it on the screen."""
        self._live.stop()

    def on_message(self, message: str) -> None:
        """Prints it above the panel, where it stays."""
        self._console.print(message, markup=False, highlight=False)

    def render(self) -> panel.Panel:
        """The panel as of now."""
        now = self.snapshot()
        body = table.Table.grid(padding=(0, 2))
        body.add_column(style="dim", no_wrap=True)
        body.add_column(ratio=1)
        for label, content in self._rows(now):
            body.add_row(label, content)
        title = text.Text(self._title, style="bold", overflow="ellipsis")
        return panel.Panel(body, title=title, title_align="left", border_style="blue")

    def _rows(self, now: Snapshot) -> list[tuple]:
        rows: list[tuple] = [(f"{now.unit}s", self._steps_row(now)), ("time", _times(now))]
        if now.phase is not None:
            self._spinner.update(text=now.phase, style="cyan")
            rows.append(("now", self._spinner))
        rows.append(("return", self._return_row(now)))
        rows.append(("speed", _speeds(now)))
        if now.metrics:
            rows.append(("learner", self._learner_row(now)))
        rows.append(("saved", _saved(now)))
        return rows

    def _steps_row(self, now: Snapshot) -> table.Table:
        bar = progress_bar.ProgressBar(total=max(now.goal, 1), completed=now.steps, width=40)
        row = table.Table.grid(padding=(0, 1))
        row.add_column()
        for _ in range(2):
            row.add_column(no_wrap=True)
        row.add_row(bar, f"{_percent(now)} %", f"{now.steps:,} of {now.goal:,}")
        return row

    def _return_row(self, now: Snapshot) -> text.Text:
        line = text.Text()
        line.append(texts.number(now.mean_return), style="bold green")
        line.append(f" mean of last {now.window}   {texts.number(now.best_return)} best")
        line.append(f"   {texts.count(now.episodes, 'episode')}")
        if _speaks_unicode(self._console) and len(now.curve) > 1:
            line.append(f"   {sparkline(now.curve)}", style="green")
        return line

    def _learner_row(self, now: Snapshot) -> text.Text:
        # A no-break space keeps name and value on one line.
        space = "\N{NO-BREAK SPACE}" if _speaks_unicode(self._console) else " "
        line = text.Text()
        for name, value in now.metrics.items():
            line.append(f"{name}{space}", style="dim")
            line.append(f"{texts.metric(value)}   ")
        return line


class PlainDisplay(Display):
    """Prints a line now and then, for log files and pipes."""

    def __init__(
        self,
        title: str,
        goal: int,
        print_line: Callable[[str], Any] = lambda line: print(line, flush=True),
        first_seconds: float = 1.5,
        seconds: float = 5.0,
        unit: str = "step",
    ):
        """See `make_display`.

        Args:
          title: see there.
          goal: see there.
          print_line: gets each line.
          first_seconds: before the first line about the state.
          seconds: between two of these lines.
          unit: see `make_display`.
        """
        super().__init__(goal, unit=unit)
        self._title = title
        self._print = print_line
        self._delays = (first_seconds, seconds)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> PlainDisplay:
        """Prints the title and starts the thread that prints the rest."""
        self._print(self._title)
        self._thread.start()
        return self

    def __exit__(self, *exc_info: Any) -> None:
        """Prints the last state."""
        self._done.set()
        self._thread.join()
        self._print(plain_line(self.snapshot()))

    def on_message(self, message: str) -> None:
        """Prints it."""
        self._print(message)

    def _work(self) -> None:
        delay, then = self._delays
        while not self._done.wait(delay):
            self._print(plain_line(self.snapshot()))
            delay = then


def plain_line(now: Snapshot) -> str:
    """A snapshot on one line."""
    parts = [f"{texts.duration(now.elapsed):>9}", f"{now.steps:,}/{now.goal:,} {now.unit}s"]
    if now.phase is not None:
        parts.append(now.phase)
    if now.episodes:
        parts.append(texts.count(now.episodes, "episode"))
        parts.append(f"mean return {texts.number(now.mean_return)}")
    parts += [f"{k} {texts.metric(v)}" for k, v in now.metrics.items() if k == "loss"]
    if now.steps_per_second is not None:
        parts.append(_speeds(now))
        parts.append(_left(now))
    return " | ".join(parts)


def sparkline(values: Sequence[float], width: int = 30) -> str:
    """A curve as a line of blocks, from its lowest to its highest value."""
    count = len(values)
    picked = [values[i * (count - 1) // (width - 1)] for i in range(width)]
    if count < width:
        picked = list(values)
    low, high = min(picked), max(picked)
    scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BLOCKS[round((v - low) * scale)] for v in picked)


def _percent(now: Snapshot) -> int:
    return min(100, int(100 * now.steps / max(now.goal, 1)))


def _times(now: Snapshot) -> str:
    return f"{texts.duration(now.elapsed)} so far   {_left(now)}"


def _left(now: Snapshot) -> str:
    if now.seconds_left is None:
        return "- left"
    return f"{texts.duration(now.seconds_left)} left"


def _speeds(now: Snapshot) -> str:
    actor, learner = map(_rate, (now.steps_per_second, now.updates_per_second))
    if now.unit == "update":
        return f"{learner} updates/s"
    updates = texts.count(now.updates, "update")
    return f"actor {actor} steps/s   learner {learner} updates/s   {updates}"


def _saved(now: Snapshot) -> str:
    if now.checkpoint is None:
        return "-"
    name, age = now.checkpoint
    return f"{name}, {texts.duration(age)} ago"


def _speaks_unicode(console: rich_console.Console) -> bool:
    return console.encoding.lower().startswith("utf")


def _rate(per_second: float | None) -> str:
    return texts.number(per_second, 1 if per_second is not None and per_second < 10 else 0)
