"""Makes the parts of the IMPALA agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

import numpy as np
import sonnet as snt
import tree

from tfagents_x import specs, types
from tfagents_x.agents import builder, policies
from tfagents_x.agents.impala.config import IMPALAConfig
from tfagents_x.agents.impala.networks import make_network
from tfagents_x.learners import impala, optimizers
from tfagents_x.replay import adders, rows, tables
from tfagents_x.replay import base as replay_base
from tfagents_x.utils import counting, loggers, nest


class IMPALABuilder(builder.OnlineBuilder):
    """Queue, continuing sequences, recurrent categorical policy, `IMPALALearner`."""

    config_class = IMPALAConfig
    config: IMPALAConfig

    @property
    def table(self) -> tables.Table:
        """See base class."""
        return tables.queue(tables.DEFAULT_TABLE, self.config.max_queue_size)

    @property
    def steps_per_batch(self) -> int:
        """See base class."""
        return self.config.batch_size * self.config.sequence_period + self.config.sequence_length

    def make_networks(self) -> dict[str, snt.Module]:
        """See base class."""
        network = make_network(self.spec, self.config)
        nest.create_variables(network, [self.spec.observations])
        return {"network": network}

    def make_policy(
        self, networks: builder.Networks, evaluation: bool = False, name: str = "policy"
    ) -> policies.RecurrentCategoricalPolicy:
        """See base class."""
        return policies.RecurrentCategoricalPolicy(networks["network"], greedy=evaluation)

    def signature(self, networks: builder.Networks) -> rows.Signature:
        """See base class."""
        state = tree.map_structure(
            lambda x: specs.Array(x.shape[1:], x.dtype.as_numpy_dtype),
            networks["network"].initial_state(1),
        )
        logits = specs.Array((self.spec.actions.num_values,), np.float32)
        return rows.sequence_signature(
            self.spec, {"core_state": state, "logits": logits}, self.config.sequence_length
        )

    def make_adder(self, replay: replay_base.Replay) -> adders.SequenceAdder:
        """See base class."""
        return adders.SequenceAdder(
            replay,
            self.config.sequence_length,
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
    ) -> impala.IMPALALearner:
        """See base class."""
        config = self.config
        return impala.IMPALALearner(
            self.spec,
            networks["network"],
            dataset,
            config.learning_rate,
            discount=config.discount,
            entropy_cost=config.entropy_cost,
            baseline_cost=config.baseline_cost,
            max_abs_reward=config.max_abs_reward,
            max_gradient_norm=config.max_gradient_norm,
            counter=counter,
            logger=logger,
            optimizer=optimizers.LinearDecayAdam(
                config.learning_rate,
                config.learning_rate_decay_updates,
                config.learning_rate_final_fraction,
                config.adam_beta1,
                config.adam_beta2,
                config.adam_epsilon,
            ),
            jit_compile=config.jit_compile,
            mask_episode_ends=True,
        )
