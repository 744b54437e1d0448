"""Makes the parts of the BC agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

import sonnet as snt

from tfagents_x import datasets, specs, types
from tfagents_x.agents import builder, policies
from tfagents_x.agents.bc import networks as networks_lib
from tfagents_x.agents.bc.config import BCConfig
from tfagents_x.learners import bc, bc_losses
from tfagents_x.utils import counting, loggers, nest


class BCBuilder(builder.OfflineBuilder):
    """Recorded transitions, a feed-forward policy, `BCLearner`."""

    config_class = BCConfig
    config: BCConfig

    needs_rewards = False

    def __init__(self, config: BCConfig, spec: specs.EnvironmentSpec):
        """See base class.

        Raises:
          TypeError: see base class.
          ValueError: the loss is not one for actions as these.
        """
        super().__init__(config, spec)
        _check_loss(config, networks_lib.is_discrete(spec))

    def make_batches(self, rows: types.Step, seed: int) -> datasets.Transitions:
        """See base class."""
        size = self.config.batch_size * self.config.num_sgd_steps_per_step
        return datasets.Transitions(rows, size, seed)

    def make_networks(self) -> dict[str, snt.Module]:
        """See base class."""
        network = networks_lib.make_network(self.spec, self.config)
        nest.create_variables(network, [self.spec.observations])
        return {"policy": network}

    def make_policy(
        self, networks: builder.Networks, evaluation: bool = False, name: str = "policy"
    ) -> policies.Policy:
        """See base class."""
        if networks_lib.is_discrete(self.spec):
            return policies.CategoricalPolicy(networks["policy"], greedy=evaluation)
        return policies.GaussianPolicy(networks["policy"], self.spec.actions, greedy=evaluation)

    def make_learner(
        self,
        networks: builder.Networks,
        dataset: Iterator[types.Transition],
        counter: Optional[counting.Counter] = None,
        logger: Optional[loggers.Logger] = None,
        seed: int = 0,
    ) -> bc.BCLearner:
        """See base class."""
        return bc.BCLearner(
            networks["policy"],
            self.config.learning_rate,
            dataset,
            counter=counter,
            logger=logger,
            checkpoint=False,
            loss_fn=make_loss(self.config),
            num_sgd_steps_per_step=self.config.num_sgd_steps_per_step,
            jit_compile=self.config.jit_compile,
            seed=seed,
        )


def make_loss(config: BCConfig) -> Optional[bc_losses.Loss]:
    """The loss that the config names; None for the learner's own, which is logp."""
    if config.loss == "peerbc":
        base = bc_losses.mse() if config.peerbc_base_loss == "mse" else bc_losses.logp()
        return bc_losses.peerbc(base, config.peerbc_zeta)
    if config.loss == "rcal":
        return bc_losses.rcal(bc_losses.logp(), config.rcal_discount, config.rcal_alpha)
    return bc_losses.mse() if config.loss == "mse" else None


def _check_loss(config: BCConfig, discrete: bool) -> None:
    wrong = ("mse", "peerbc") if discrete else ("rcal",)
    kind, right = (
        ("discrete", "logp or rcal") if discrete else ("continuous", "logp, mse or peerbc")
    )
    if config.loss in wrong:
        raise ValueError(
            f"The loss {config.loss} is not for {kind} actions, as this environment's are: choose "
            f"{right}, as in --set loss=logp."
        )
