"""Makes the parts of the CRR agent."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Optional

import numpy as np
import sonnet as snt

from tfagents_x import datasets, types
from tfagents_x.agents import builder, policies
from tfagents_x.agents.crr.config import CRRConfig
from tfagents_x.agents.crr.networks import make_networks
from tfagents_x.learners import rcrr
from tfagents_x.utils import counting, loggers

# Returns beyond those in the data, on either side: part of their range.
_MARGIN = 0.1


class CRRBuilder(builder.OfflineBuilder):
    """Recorded sequences, a recurrent Gaussian policy, a distributional critic, `RCRRLearner`."""

    config_class = CRRConfig
    config: CRRConfig

    policy_names = ("policy", "cwp")

    @classmethod
    def fit(cls, config: CRRConfig, rows: types.Step) -> CRRConfig:
        """The support of the critic covers the discounted returns of the data, and a margin."""
        low, high = _returns_range(rows, config.discount)
        margin = _MARGIN * max(high - low, 1e-3 * max(abs(low), abs(high)), 1e-3)
        if config.value_min is None:
            config = dataclasses.replace(config, value_min=low - margin)
        if config.value_max is None:
            config = dataclasses.replace(config, value_max=high + margin)
        return config

    def make_batches(self, rows: types.Step, seed: int) -> datasets.Sequences:
        """See base class."""
        config = self.config
        return datasets.Sequences(
            rows, config.batch_size, config.sequence_length, config.sequence_period, seed
        )

    def make_networks(self) -> dict[str, snt.Module]:
        """See base class."""
        return builder.with_targets(lambda: make_networks(self.spec, self.config), self.spec)

    def make_policy(
        self, networks: builder.Networks, evaluation: bool = False, name: str = "policy"
    ) -> policies.Policy:
        """See base class; `'cwp'` is the critic-weighted policy."""
        if name == "cwp":
            return policies.CriticWeightedPolicy(
                networks["policy"],
                networks["critic"],
                self.spec.actions,
                self.config.cwp_beta,
                self.config.cwp_num_action_samples,
            )
        return policies.GaussianPolicy(networks["policy"], self.spec.actions, greedy=evaluation)

    def make_learner(
        self,
        networks: builder.Networks,
        dataset: Iterator[types.Step],
        counter: Optional[counting.Counter] = None,
        logger: Optional[loggers.Logger] = None,
        seed: int = 0,
    ) -> rcrr.RCRRLearner:
        """See base class."""
        config = self.config
        return rcrr.RCRRLearner(
            **{f"{name}_network": network for name, network in networks.items()},
            dataset=dataset,
            policy_optimizer=snt.optimizers.Adam(config.policy_learning_rate),
            critic_optimizer=snt.optimizers.Adam(config.critic_learning_rate),
            discount=config.discount,
            target_update_period=config.target_update_period,
            num_action_samples_td_learning=config.num_action_samples_td_learning,
            num_action_samples_policy_weight=config.num_action_samples_policy_weight,
            baseline_reduce_function=config.baseline_reduce_function,
            policy_improvement_modes=config.policy_improvement_modes,
            ratio_upper_bound=config.ratio_upper_bound,
            beta=config.beta,
            counter=counter,
            logger=logger,
            # Sequences go on into the next episode.
            reset_at_episode_start=True,
            jit_compile=config.jit_compile,
            seed=seed,
        )


def _returns_range(rows: types.Step, discount: float) -> tuple[float, float]:
    """Lowest and highest discounted sum of rewards from any row to the end of its episode."""
    value, low, high = 0.0, math.inf, -math.inf
    starts = np.append(rows.start_of_episode[1:], True)
    for reward, last in zip(rows.reward[::-1], starts[::-1]):
        # The last row of an episode holds its last observation; nothing follows.
        value = 0.0 if last else float(reward) + discount * value
        low, high = min(low, value), max(high, value)
    return low, high
