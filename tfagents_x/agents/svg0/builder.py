"""Makes the parts of the SVG0 agent."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Optional

import numpy as np
import sonnet as snt

from tfagents_x import specs, types
from tfagents_x.agents import builder, policies
from tfagents_x.agents.svg0.config import SVG0Config
from tfagents_x.agents.svg0.networks import make_networks
from tfagents_x.learners import svg0
from tfagents_x.replay import adders, rows, tables
from tfagents_x.replay import base as replay_base
from tfagents_x.utils import counting, loggers


class SVG0Builder(builder.OnlineBuilder):
    """Uniform replay, continuing sequences, Gaussian policy, `SVG0Learner`."""

    config_class = SVG0Config
    config: SVG0Config

    default_steps = 12_000

    @property
    def table(self) -> tables.Table:
        """See base class."""
        config = self.config
        samples_per_insert = config.updates_per_step * config.batch_size * config.sequence_period
        return tables.uniform(
            tables.DEFAULT_TABLE,
            config.max_replay_size,
            config.min_replay_size,
            samples_per_insert,
            # The learner takes what it can after each step; an episode's end may insert twice.
            error_buffer=config.batch_size + 2.0 * samples_per_insert,
        )

    @property
    def steps_per_batch(self) -> int:
        """See base class."""
        config = self.config
        return math.ceil(1 / config.updates_per_step) + config.sequence_period

    @property
    def steps_to_first_batch(self) -> int:
        """See base class."""
        config = self.config
        return config.sequence_length + config.min_replay_size * config.sequence_period

    def make_networks(self) -> dict[str, snt.Module]:
        """See base class."""
        return builder.with_targets(lambda: make_networks(self.spec, self.config), self.spec)

    def make_policy(
        self, networks: builder.Networks, evaluation: bool = False, name: str = "policy"
    ) -> policies.GaussianPolicy:
        """See base class."""
        return policies.GaussianPolicy(networks["policy"], self.spec.actions, greedy=evaluation)

    def signature(self, networks: builder.Networks) -> rows.Signature:
        """See base class."""
        log_prob = specs.Array((), np.float32)
        return rows.sequence_signature(
            self.spec, {"log_prob": log_prob}, self.config.sequence_length + 1
        )

    def make_adder(self, replay: replay_base.Replay) -> adders.SequenceAdder:
        """See base class."""
        return adders.SequenceAdder(
            replay,
            self.config.sequence_length + 1,
            self.config.sequence_period,
            end_of_episode_behavior="continue",
            # One thread acts and learns: waiting for room would be waiting for itself.
            insert_timeout=0,
        )

    def make_learner(
        self,
        networks: builder.Networks,
        dataset: Iterator[types.ReplaySample],
        replay: Optional[replay_base.Replay] = None,
        counter: Optional[counting.Counter] = None,
        logger: Optional[loggers.Logger] = None,
        seed: int = 0,
    ) -> svg0.SVG0Learner:
        """See base class."""
        config = self.config
        return svg0.SVG0Learner(
            **{f"{name}_network": network for name, network in networks.items()},
            discount=config.discount,
            target_update_period=config.target_update_period,
            dataset_iterator=dataset,
            policy_optimizer=snt.optimizers.Adam(config.policy_learning_rate),
            critic_optimizer=snt.optimizers.Adam(config.critic_learning_rate),
            prior_optimizer=snt.optimizers.Adam(config.prior_learning_rate),
            distillation_cost=config.distillation_cost,
            entropy_regularizer_cost=config.entropy_regularizer_cost,
            num_action_samples=config.num_action_samples,
            lambda_=config.lambda_,
            counter=counter,
            logger=logger,
            checkpoint=False,
            jit_compile=config.jit_compile,
            seed=seed,
            max_gradient_norm=config.max_gradient_norm,
        )
