"""What agents share that learn from replayed sequences."""

from __future__ import annotations

import abc
import math
from typing import Optional

from tfagents_x.agents import builder
from tfagents_x.replay import adders, tables
from tfagents_x.replay import base as replay_base


class ReplayedBuilder(builder.OnlineBuilder):
    """Sequences are drawn again and again, at a fixed ratio of updates to environment steps.

    The config has `batch_size`, `updates_per_step`, `sequence_period`, `min_replay_size` and
    `max_replay_size`.
    """

    @property
    @abc.abstractmethod
    def num_rows(self) -> int:
        """Rows of a sequence."""

    @property
    def priority_exponent(self) -> Optional[float]:
        """Of priorities, by which sequences are drawn; None for equal chances."""
        return None

    @property
    def end_of_episode(self) -> str:
        """What the adder does there; see `adders.EndBehavior`."""
        return "continue"

    @property
    def table(self) -> tables.Table:
        """See base class."""
        config, exponent = self.config, self.priority_exponent
        samples_per_insert = config.updates_per_step * config.batch_size * config.sequence_period
        return tables.Table(
            tables.DEFAULT_TABLE,
            config.max_replay_size,
            "uniform" if exponent is None else "prioritized",
            min_size=config.min_replay_size,
            samples_per_insert=samples_per_insert,
            # The learner takes what it can after each step; an episode's end may insert twice.
            error_buffer=config.batch_size + 2.0 * samples_per_insert,
            priority_exponent=1.0 if exponent is None else exponent,
        )

    @property
    def steps_per_batch(self) -> int:
        """See base class."""
        return math.ceil(1 / self.config.updates_per_step) + self.config.sequence_period

    @property
    def steps_to_first_batch(self) -> int:
        """See base class."""
        return self.num_rows + self.config.min_replay_size * self.config.sequence_period

    def make_adder(self, replay: replay_base.Replay) -> adders.SequenceAdder:
        """Writes sequences of priority 1, as Acme does."""
        return adders.SequenceAdder(
            replay,
            self.num_rows,
            self.config.sequence_period,
            end_of_episode_behavior=self.end_of_episode,
            # One thread acts and learns: waiting for room would be waiting for itself.
            insert_timeout=0,
        )
