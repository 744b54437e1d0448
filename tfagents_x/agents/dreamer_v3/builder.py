"""Makes the parts of the DreamerV3 agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

import numpy as np
import sonnet as snt

from tfagents_x import specs, types
from tfagents_x.agents import builder, continuous, replayed
from tfagents_x.agents.dreamer_v3.config import DreamerV3Config
from tfagents_x.agents.dreamer_v3.policy import DreamerPolicy
from tfagents_x.learners import dreamer_batch, dreamer_v3
from tfagents_x.networks import dreamer
from tfagents_x.replay import base as replay_base
from tfagents_x.replay import rows
from tfagents_x.utils import counting, loggers


class DreamerV3Builder(replayed.ReplayedBuilder):
    """Uniform replay of sequences that may begin anywhere, `DreamerV3Learner`."""

    config_class = DreamerV3Config
    config: DreamerV3Config

    default_steps = 20_000

    @property
    def num_rows(self) -> int:
        """See base class."""
        return self.config.batch_length + 1

    def make_networks(self) -> dict[str, snt.Module]:
        """The model; checkpoints hold its parts."""
        if not isinstance(self.spec.actions, specs.DiscreteArray):
            continuous.check_actions("DreamerV3", self.spec.actions, or_discrete=True)
        model = dreamer.DreamerModel(
            self.spec.observations, self.spec.actions, self.config.model_size
        )
        return {"model": model}

    def make_policy(
        self, networks: builder.Networks, evaluation: bool = False, name: str = "policy"
    ) -> DreamerPolicy:
        """See base class."""
        return DreamerPolicy(networks["model"], greedy=evaluation)

    def signature(self, networks: builder.Networks) -> rows.Signature:
        """See base class."""
        return rows.sequence_signature(self.spec, (), self.num_rows)

    def make_learner(
        self,
        networks: builder.Networks,
        dataset: Iterator[types.ReplaySample],
        replay: Optional[replay_base.Replay] = None,
        counter: Optional[counting.Counter] = None,
        logger: Optional[loggers.Logger] = None,
        seed: int = 0,
    ) -> dreamer_v3.DreamerV3Learner:
        """See base class."""
        config = self.config
        return dreamer_v3.DreamerV3Learner(
            networks["model"],
            (sample._replace(data=as_batch(sample.data)) for sample in dataset),
            gamma=config.gamma,
            gae_lambda=config.gae_lambda,
            horizon_H=config.horizon,
            entropy_scale=config.entropy_scale,
            return_normalization_decay=config.return_normalization_decay,
            world_model_lr=config.world_model_lr,
            actor_lr=config.actor_lr,
            critic_lr=config.critic_lr,
            world_model_grad_clip_by_global_norm=config.world_model_grad_clip,
            actor_grad_clip_by_global_norm=config.actor_grad_clip,
            critic_grad_clip_by_global_norm=config.critic_grad_clip,
            jit_compile=config.jit_compile,
            counter=counter,
            logger=logger,
            seed=seed,
        )


def as_batch(steps: types.Step) -> dreamer_batch.Batch:
    """Rows of replay as the learner takes them.

    A row of replay holds what followed its action, a row of the batch what came before its
    observation. So the first row of the sequence only says how the second came about.

    Args:
      steps: [B, T + 1, ...].

    Returns:
      [B, T, ...]; every sequence begins with `is_first`, as in the source.
    """
    to_numpy = lambda x: np.asarray(x)
    observation, action, reward, discount, start = map(to_numpy, steps[:5])
    begins = start[:, 1:]
    is_first = begins.copy()
    is_first[:, 0] = True
    return dreamer_batch.Batch(
        obs=observation[:, 1:],
        actions=action[:, 1:],
        rewards=np.where(begins, np.float32(0.0), reward[:, :-1]),
        is_first=is_first,
        is_last=np.concatenate([begins[:, 1:], np.zeros_like(begins[:, :1])], 1),
        is_terminated=~begins & (discount[:, :-1] == 0.0),
    )
