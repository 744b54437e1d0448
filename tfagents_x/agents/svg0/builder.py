"""Makes the parts of the SVG0 agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

import numpy as np
import sonnet as snt

from tfagents_x import specs, types
from tfagents_x.agents import builder, policies, replayed
from tfagents_x.agents.svg0.config import SVG0Config
from tfagents_x.agents.svg0.networks import make_networks
from tfagents_x.learners import svg0
from tfagents_x.replay import base as replay_base
from tfagents_x.replay import rows
from tfagents_x.utils import counting, loggers


class SVG0Builder(replayed.ReplayedBuilder):
    """Uniform replay, continuing sequences, Gaussian policy, `SVG0Learner`."""

    config_class = SVG0Config
    config: SVG0Config

    default_steps = 12_000

    @property
    def num_rows(self) -> int:
        """See base class."""
        return self.config.sequence_length + 1

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
        return rows.sequence_signature(self.spec, {"log_prob": log_prob}, self.num_rows)

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
