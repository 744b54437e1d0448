"""Makes the parts of the R2D2 agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

import sonnet as snt
import tree

from tfagents_x import specs, types
from tfagents_x.agents import builder, policies, replayed
from tfagents_x.agents.r2d2.config import R2D2Config
from tfagents_x.agents.r2d2.networks import make_network
from tfagents_x.learners import base, optimizers, r2d2
from tfagents_x.replay import base as replay_base
from tfagents_x.replay import rows
from tfagents_x.utils import counting, loggers, nest

# How long new priorities may take to arrive in a replay that is in this process.
_SECONDS_TO_SETTLE = 10.0


class R2D2Builder(replayed.ReplayedBuilder):
    """Prioritised replay, overlapping sequences, recurrent epsilon-greedy policy, `R2D2Learner`."""

    config_class = R2D2Config
    config: R2D2Config

    default_steps = 60_000

    @property
    def num_rows(self) -> int:
        """See base class."""
        return self.config.sequence_length

    @property
    def priority_exponent(self) -> float:
        """See base class."""
        return self.config.priority_exponent

    @property
    def end_of_episode(self) -> str:
        """See base class."""
        return self.config.end_of_episode

    def make_networks(self) -> dict[str, snt.Module]:
        """See base class."""
        network, target = (make_network(self.spec, self.config) for _ in range(2))
        for made in (network, target):
            nest.create_variables(made, [self.spec.observations])
        for variable, source in zip(target.variables, network.variables):
            variable.assign(source)
        return {"network": network, "target_network": target}

    def make_policy(
        self, networks: builder.Networks, evaluation: bool = False, name: str = "policy"
    ) -> policies.RecurrentEpsilonGreedyPolicy:
        """See base class."""
        epsilon = self.config.evaluation_epsilon if evaluation else self.config.epsilon
        return policies.RecurrentEpsilonGreedyPolicy(networks["network"], epsilon)

    def signature(self, networks: builder.Networks) -> rows.Signature:
        """See base class."""
        state = tree.map_structure(
            lambda x: specs.Array(x.shape[1:], x.dtype.as_numpy_dtype),
            networks["network"].initial_state(1),
        )
        return rows.sequence_signature(self.spec, {"core_state": state}, self.num_rows)

    def make_learner(
        self,
        networks: builder.Networks,
        dataset: Iterator[types.ReplaySample],
        replay: Optional[replay_base.Replay] = None,
        counter: Optional[counting.Counter] = None,
        logger: Optional[loggers.Logger] = None,
        seed: int = 0,
    ) -> r2d2.R2D2Learner:
        """See base class."""
        config = self.config
        clip = config.max_abs_reward
        return r2d2.R2D2Learner(
            self.spec,
            networks["network"],
            networks["target_network"],
            config.burn_in_length,
            config.sequence_length,
            dataset,
            reverb_client=replay,
            counter=counter,
            logger=logger,
            discount=config.discount,
            target_update_period=config.target_update_period,
            importance_sampling_exponent=config.importance_sampling_exponent,
            max_replay_size=config.max_replay_size,
            max_priority_weight=config.max_priority_weight,
            n_step=config.n_step,
            clip_grad_norm=config.max_gradient_norm,
            optimizer=optimizers.LinearDecayAdam(
                config.learning_rate,
                config.learning_rate_decay_updates,
                config.learning_rate_final_fraction,
                epsilon=config.adam_epsilon,
            ),
            clip_rewards=clip is not None,
            max_abs_reward=1.0 if clip is None else clip,
            # Padding shows no episode's start.
            mask_episode_ends=config.end_of_episode == "continue",
            jit_compile=config.jit_compile,
        )

    def settle(self, learner: base.Learner) -> None:
        """Waits for the priorities of the last update."""
        assert isinstance(learner, r2d2.R2D2Learner)
        learner.flush_priorities(_SECONDS_TO_SETTLE)
