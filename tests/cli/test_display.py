"""What is shown while an agent trains."""

from __future__ import annotations

import io
import math
import pathlib
import time

import numpy as np
import pytest
import tensorflow as tf
from rich import console

from tfagents_x.cli import display, progress


class FakeTraining:
    steps = 0
    window = 20
    mean_return = math.nan


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def _play(observer, clock, seconds=20, rate=50):
    """`rate` steps and 2 updates each second, an episode every other second."""
    training = FakeTraining()
    observer.on_start(training)
    observer.snapshot()
    for second in range(1, seconds + 1):
        clock.now += 1.0
        observer.on_step(training.steps + rate * second)
        observer.on_update(2 * second, {"loss": tf.constant(0.5), "norm": np.float32(2.0)})
        if second % 2 == 0:
            training.mean_return = 10.0 * second
            observer.on_episode({"episode_return": 20.0 * second, "actor_episodes": second // 2})
        observer.snapshot()


def test_snapshot_counts_rates_and_time_left(clock):
    observer = progress.Progress(2000, clock)
    clock.now += 5.0
    _play(observer, clock)
    observer.on_checkpoint(pathlib.Path("checkpoints/step-900"))
    clock.now += 3.0
    now = observer.snapshot()
    assert (now.steps, now.goal, now.updates, now.episodes) == (1000, 2000, 40, 10)
    assert (now.mean_return, now.best_return) == (200.0, 400.0)
    assert now.curve == [20.0 * i for i in range(1, 11)]
    assert now.metrics == {"loss": 0.5, "norm": 2.0}
    assert now.phase is None
    assert now.elapsed == 28.0
    assert now.checkpoint == ("step-900", 3.0)
    # Seven of the last ten seconds went on at full speed, three stood still.
    assert 30 < now.steps_per_second < 40
    assert now.updates_per_second == pytest.approx(now.steps_per_second / 25)
    assert now.seconds_left == pytest.approx(1000 / now.steps_per_second)


def test_rates_are_those_of_the_last_seconds_and_not_of_what_was_restored(clock):
    observer = progress.Progress(10**6, clock)
    assert observer.snapshot().steps_per_second is None
    training = FakeTraining()
    training.steps = 5000
    observer.on_start(training)
    clock.now += 0.1
    assert observer.snapshot().steps_per_second is None
    for second in range(30):
        clock.now += 1.0
        observer.on_step(5000 + (second + 1) * (10 if second < 15 else 100))
        observer.snapshot()
    # At once from 10 to 100 steps/s in the 16th second; the window holds only the later ones.
    assert observer.snapshot().steps_per_second == pytest.approx(100.0, rel=0.01)


def test_phases(clock):
    observer = progress.Progress(100, clock)
    assert observer.snapshot().phase == "building the networks ..."
    observer.on_start(FakeTraining())
    assert "tracing the first update" in observer.snapshot().phase
    observer.on_update(1, {})
    assert observer.snapshot().phase is None


def test_metrics_stay_tensors_until_someone_looks(clock):
    class Metric:
        read = 0

        def __array__(self, dtype=None, copy=None):
            self.read += 1
            return np.array(3.0)

    metric = Metric()
    observer = progress.Progress(100, clock)
    for update in range(100):
        observer.on_update(update, {"loss": metric, "vector": np.zeros(3)})
    assert metric.read == 0
    assert observer.snapshot().metrics == {"loss": 3.0}
    assert metric.read == 1


def test_a_step_costs_next_to_nothing():
    observer = progress.Progress(100)
    start = time.perf_counter()
    for step in range(20_000):
        observer.on_step(step)
    assert (time.perf_counter() - start) / 20_000 < 20e-6


def _live(clock, width=100):
    output = io.StringIO()
    terminal = console.Console(file=output, force_terminal=True, width=width, _environ={})
    shown = display.LiveDisplay("impala on CartPole-v1: runs/x", 2000, terminal)
    shown._clock = clock
    return shown, output


def _rendered(shown, width=100):
    output = io.StringIO()
    console.Console(file=output, width=width, _environ={}).print(shown.render())
    return output.getvalue().replace("\N{NO-BREAK SPACE}", " ")


def test_live_panel_before_anything_is_built(clock):
    shown, output = _live(clock)
    with shown:
        assert "building the networks ..." in output.getvalue()
        assert "impala on CartPole-v1: runs/x" in output.getvalue()


def test_live_panel_shows_everything(clock):
    shown, _ = _live(clock)
    _play(shown, clock)
    shown.on_checkpoint(pathlib.Path("checkpoints/step-900"))
    text = _rendered(shown)
    for part in (
        "50 %",
        "1,000 of 2,000",
        "20 s left",
        "200.0 mean of last 20",
        "400.0 best",
        "10 episodes",
        "actor 50 steps/s",
        "learner 2.0 updates/s",
        "40 updates",
        "loss 0.5",
        "norm 2",
        "step-900, 0 s ago",
    ):
        assert part in text, part
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("width", [40, 60, 200])
def test_live_panel_fits_any_width(clock, width):
    shown, _ = _live(clock, width)
    _play(shown, clock)
    lines = _rendered(shown, width).splitlines()
    assert max(map(len, lines)) <= width
    assert any("1,000 of 2,000" in line for line in lines)


def test_live_messages_stay_above_the_panel(clock):
    shown, output = _live(clock)
    with shown:
        shown.on_message("Checkpoint [step-3] is damaged.")
    text = output.getvalue()
    assert "Checkpoint [step-3] is damaged." in text
    # The panel is drawn again below the message.
    assert text.rindex("building the networks") > text.index("is damaged.")


def test_live_refreshes_by_itself(clock):
    shown, output = _live(clock)
    with shown:
        shown.on_step(777)
        deadline = time.monotonic() + 10
        while "777 of 2,000" not in output.getvalue() and time.monotonic() < deadline:
            time.sleep(0.02)
    assert "777 of 2,000" in output.getvalue()


def test_plain_lines_come_at_once_then_now_and_then(clock):
    lines = []
    shown = display.PlainDisplay(
        "impala on CartPole-v1", 2000, lines.append, first_seconds=0.05, seconds=0.1
    )
    with shown:
        assert lines[0] == "impala on CartPole-v1"
        deadline = time.monotonic() + 10
        while len(lines) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(lines) >= 4
        shown.on_message("hello")
        assert "hello" in lines
    count = len(lines)
    time.sleep(0.3)
    assert len(lines) == count
    assert "building the networks ..." in lines[1]


def test_the_first_plain_line_comes_within_two_seconds():
    shown = display.PlainDisplay("x", 1)
    assert shown._delays[0] < 2.0
    assert shown._delays[1] == 5.0


def test_plain_line(clock):
    observer = progress.Progress(2000, clock)
    _play(observer, clock)
    line = display.plain_line(observer.snapshot())
    assert line.split(" | ") == [
        "     20 s",
        "1,000/2,000 steps",
        "10 episodes",
        "mean return 200.0",
        "loss 0.5",
        "actor 50 steps/s   learner 2.0 updates/s   40 updates",
        "20 s left",
    ]


def test_one_episode_and_one_update_are_singular(clock):
    shown, _ = _live(clock)
    shown.on_start(FakeTraining())
    shown.snapshot()
    clock.now += 2.0
    shown.on_update(1, {})
    shown.on_episode({"episode_return": 1.0})
    for text in (_rendered(shown), display.plain_line(shown.snapshot())):
        assert "1 episode" in text and "1 update" in text
        assert "1 episodes" not in text and "1 updates" not in text


def test_sparkline():
    assert display.sparkline([0.0, 7.0]) == "▁█"
    assert display.sparkline([3.0, 3.0]) == "▁▁"
    curve = display.sparkline(list(range(1000)), width=30)
    assert len(curve) == 30
    assert list(curve) == sorted(curve)
    assert (curve[0], curve[-1]) == ("▁", "█")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_display_fits_where_output_goes(monkeypatch, is_terminal):
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    kind = display.LiveDisplay if is_terminal else display.PlainDisplay
    assert type(display.make_display("x", 1)) is kind
