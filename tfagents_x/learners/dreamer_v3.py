"""DreamerV3: learns a model of the world, and in its dreams what to do there.

Hafner, Pasukonis, Ba and Lillicrap, 2023, "Mastering Diverse Domains through World Models",
arXiv:2301.04104v1; `DreamerV3TfLearner` of RLlib.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from tfagents_x import types
from tfagents_x.learners import (
    base,
    checks,
    dreamer_batch,
    dreamer_behaviour,
    optimizers,
    saving,
    targets,
)
from tfagents_x.learners import dreamer_losses as losses
from tfagents_x.networks.dreamer.latents import Sampler
from tfagents_x.networks.dreamer.model import DreamerModel
from tfagents_x.ops import clipping
from tfagents_x.utils import counting, distribute, loggers

# The least limit of gradients: 0 would be none.
_TINY = float(np.finfo(np.float32).tiny)
_TOTALS = ("WORLD_MODEL_L_total", "ACTOR_L_total", "CRITIC_L_total", "DISAGREEMENT_L_total")


class DreamerV3Learner(base.Learner):
    """Trains the three parts of a `DreamerModel`, each by its own loss and optimizer.

    Batches are dictionaries (or `dreamer_batch.Batch`es, bare or in a `ReplaySample`) of
    [B, T, ...] with `obs`, `actions`, `rewards`, `is_first`, `is_last`, `is_terminated`: row t
    holds an observation, the reward received on arriving there, and the action taken there.
    Metrics have RLlib's names.
    """

    _draws = True

    def __init__(
        self,
        model: DreamerModel,
        dataset: Any,
        *,
        gamma: float = 0.997,
        gae_lambda: float = 0.95,
        horizon_H: int = 15,  # noqa: N803
        entropy_scale: float = 3e-4,
        return_normalization_decay: float = 0.99,
        critic_ema_decay: float = 0.98,
        world_model_lr: float = 1e-4,
        actor_lr: float = 3e-5,
        critic_lr: float = 3e-5,
        world_model_grad_clip_by_global_norm: Optional[float] = 1000.0,
        actor_grad_clip_by_global_norm: Optional[float] = 100.0,
        critic_grad_clip_by_global_norm: Optional[float] = 100.0,
        train_actor: bool = True,
        train_critic: bool = True,
        use_curiosity: bool = False,
        intrinsic_rewards_scale: float = 0.1,
        report_individual_batch_item_stats: bool = False,
        report_dream_data: bool = False,
        report_images_and_videos: bool = False,
        sampler: Optional[Sampler] = None,
        accelerator_strategy: Optional[tf.distribute.Strategy] = None,
        jit_compile: bool = False,
        num_sgd_steps_per_step: int = 1,
        prefetch_size: int = 2,
        counter: Optional[counting.Counter] = None,
        logger: Optional[loggers.Logger] = None,
        checkpoint: bool = False,
        directory: str = saving.DIRECTORY,
        seed: Optional[int] = None,
    ):
        """Keyword names and defaults are those of RLlib's `DreamerV3Config`.

        Args:
          model: all networks.
          dataset: see `base.Learner`; batches as above.
          gamma: discount.
          gae_lambda: of the value targets.
          horizon_H: steps of a dream.
          entropy_scale: weight of the actor's entropy.
          return_normalization_decay: of the moving percentiles of returns.
          critic_ema_decay: of the critic's slow copy.
          world_model_lr: learning rate.
          actor_lr: learning rate.
          critic_lr: learning rate.
          world_model_grad_clip_by_global_norm: None for no limit, as for the next two.
          actor_grad_clip_by_global_norm: see before.
          critic_grad_clip_by_global_norm: see before.
          train_actor: False leaves the actor, and the percentiles, as they are.
          train_critic: False leaves the critic as it is.
          use_curiosity: reward dreams for what the model's ensemble disagrees about; trains the
            ensemble, with the settings of the world model.
          intrinsic_rewards_scale: what such rewards are multiplied with.
          report_individual_batch_item_stats: `step` also returns losses of every item,
            [B, T] and [H, B T].
          report_dream_data: `step` also returns dreams from the first step of each row, under
            `dream_data`, [H + 1, B, ...].
          report_images_and_videos: `step` also returns what the decoder makes of the first
            row, `WORLD_MODEL_fwd_out_obs_distribution_means_b0xT` [T, D].
          sampler: of latent states and actions.
          accelerator_strategy: see `base.Learner`. Returns are normalized by percentiles of the
            whole batch, which the replicas gather.
          jit_compile: see `base.Learner`; with one replica, or on TPUs.
          num_sgd_steps_per_step: see `base.Learner`.
          prefetch_size: see `base.Learner`.
          counter: see `base.Learner`.
          logger: see `base.Learner`; gets the scalars.
          checkpoint: write checkpoints, now and then every 30 minutes.
          directory: where `checkpoint` writes; see `saving.PeriodicSaver`.
          seed: of all sampling; see `base.Learner`.

        Raises:
          TypeError: `model` is no `DreamerModel`, or a number is none.
          ValueError: a number is out of range, or `jit_compile` with several replicas that are
            no TPUs; or `use_curiosity` for a model without the networks for it.
        """
        if not isinstance(model, DreamerModel):
            raise TypeError(f"model must be a DreamerModel, got {type(model).__name__}.")
        decays = {
            "gamma": gamma,
            "gae_lambda": gae_lambda,
            "return_normalization_decay": return_normalization_decay,
            "critic_ema_decay": critic_ema_decay,
        }
        for name, value in decays.items():
            checks.check_number(name, value, 0.0, 1.0)
        if gamma == 0:
            raise ValueError("gamma must be more than 0.")
        checks.check_number("entropy_scale", entropy_scale)
        checks.check_number("intrinsic_rewards_scale", intrinsic_rewards_scale)
        if use_curiosity and model.disagreement is None:
            raise ValueError(
                "use_curiosity needs a model with networks that can disagree: "
                "DreamerModel(..., num_curiosity_nets=8)."
            )
        checks.check_count("horizon_H", horizon_H)
        strategy = distribute.get_strategy(accelerator_strategy)
        tpu = isinstance(strategy, tf.distribute.TPUStrategy)
        if jit_compile and strategy.num_replicas_in_sync > 1 and not tpu:
            raise ValueError(
                "The replicas gather their returns within the update, which XLA can't compile for "
                "CPUs and GPUs. Leave out jit_compile, or use one replica."
            )
        self._model = model
        self._settings = dreamer_behaviour.Settings(
            *(gamma, gae_lambda, horizon_H, entropy_scale),
            intrinsic_rewards_scale if use_curiosity else None,
        )
        self._decay = return_normalization_decay
        self._sampler = sampler or Sampler()
        self._reports = {
            "items": report_individual_batch_item_stats,
            "dream_data": report_dream_data,
            "images": report_images_and_videos,
        }
        self._clips: dict[str, Optional[float]] = {}
        trained = {}
        world_model = world_model_lr, 1e-8, world_model_grad_clip_by_global_norm
        parts = {
            "world_model": (*world_model, True),
            "actor": (actor_lr, 1e-5, actor_grad_clip_by_global_norm, train_actor),
            "critic": (critic_lr, 1e-5, critic_grad_clip_by_global_norm, train_critic),
            "disagreement": (*world_model, use_curiosity),
        }
        with distribute.scope(strategy):
            for name, (rate, epsilon, clip, train) in parts.items():
                checks.check_number(f"{name}_lr", rate, 0.0)
                clip_name = f"{name}_grad_clip_by_global_norm"
                checks.check_number(clip_name, clip, _TINY, optional=True)
                if train:
                    self._clips[name] = clip
                    variables = getattr(model, name).trainable_variables
                    optimizer = optimizers.UncorrectedAdam(rate, epsilon=epsilon)
                    trained[name] = base.Trained(variables, optimizer)
            nan = tf.constant(np.nan, shape=[2])
            self._percentiles = tf.Variable(nan, trainable=False, name="value_target_percentiles")
        networks = {
            name: getattr(model, name) for name in ("world_model", "actor", "critic", "critic_ema")
        }
        if use_curiosity:
            networks["disagreement"] = model.disagreement
        super().__init__(
            networks=networks,
            trained=trained,
            dataset=dreamer_batch.samples(dataset),
            target_copy=targets.MovingAverage(
                *targets.pair((model.critic, model.critic_ema)), critic_ema_decay
            ),
            accelerator_strategy=strategy,
            jit_compile=jit_compile,
            num_sgd_steps_per_step=num_sgd_steps_per_step,
            prefetch_size=prefetch_size,
            counter=counter,
            logger=logger,
            seed=seed,
            saver=saving.PeriodicSaver(directory, {}) if checkpoint else None,
        )
        if strategy.num_replicas_in_sync > 1 and not jit_compile:
            # Replicas can't meet inside nested functions.
            self._gradients_fn, self._apply_fn = self._gradients, self._apply

    def _split(self, sample: types.ReplaySample) -> tuple[Any, Any]:
        return dreamer_batch.as_batch(sample.data), ()

    def _losses(self, data: dreamer_batch.Batch) -> base.Losses:
        return self._gradients(data)[1]

    def _gradients(self, data: dreamer_batch.Batch) -> tuple[dict[str, list], base.Losses]:
        """Gradients of each part by its own loss, and the percentiles to go on with."""
        batch = dreamer_batch.check(data, self._model)
        seeds = self._seeds(2)
        model = self._model.world_model
        variables = self._trained["world_model"].variables
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            forward = model.forward(
                batch.obs, batch.actions, batch.is_first, self._sampler, seeds[0]
            )
            terms = _world_model_terms(forward, batch)
            loss = tf.reduce_mean(terms["L_total_B_T"])
        gradients = {"world_model": tape.gradient(loss, variables)}
        # Dreaming after the world model's backward pass, not beside it, needs less memory.
        with tf.control_dependencies([x for x in gradients["world_model"] if x is not None]):
            start = tf.identity(forward.states)
        terminated = tf.reshape(batch.is_terminated, [-1])
        behaviour = dreamer_behaviour.learn(
            *(self._model, start, terminated, self._settings, self._normalize),
            *(self._sampler, seeds[1]),
        )
        gradients.update({k: v for k, v in behaviour.gradients.items() if k in self._trained})
        if "actor" in self._trained:
            gradients["percentiles"] = [behaviour.percentiles]
        metrics = losses.means(terms, "WORLD_MODEL_", "_B_T")
        dreamed = {k: v for k, v in behaviour.terms.items() if self._is_reported(k)}
        metrics.update(_scalars(dreamed))
        if "disagreement" in self._trained:
            loss, gradients["disagreement"] = self._disagreement(forward, batch)
            metrics["DISAGREEMENT_L_total"] = loss
        metrics["total_loss"] = tf.add_n([metrics[k] for k in _TOTALS if k in metrics])
        items = {f"WORLD_MODEL_{k}": v for k, v in terms.items()}
        details = self._details(forward, batch, {**items, **dreamed}, behaviour.dream)
        return gradients, base.Losses({}, metrics, details)

    def _disagreement(self, forward: Any, batch: dreamer_batch.Batch) -> tuple[tf.Tensor, list]:
        """Loss and gradients of the ensemble that predicts the next latent state."""
        variables, ensemble = self._trained["disagreement"].variables, self._model.disagreement
        assert ensemble is not None
        num_rows, length = tf.shape(batch.rewards)[0], batch.rewards.shape[1]
        rows = lambda x: tf.reshape(x, [num_rows, length, *x.shape[1:]])
        flat = lambda x: tf.reshape(x, [-1, x.shape[-1]])
        states, actions = rows(tf.stop_gradient(forward.states))[:, :-1], batch.actions[:, :-1]
        probs = rows(forward.posterior_probs)[:, 1:]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            predicted = ensemble(flat(states), flat(actions))
            predicted = tf.reshape(predicted, [-1, num_rows, length - 1, *probs.shape[2:]])
            loss = losses.disagreement_loss(predicted, probs, batch.is_first[:, 1:])
        return loss, tape.gradient(loss, variables)

    def _is_reported(self, name: str) -> bool:
        return "actor" in self._trained or not name.startswith("ACTOR_")

    def _normalize(self, value_targets: tf.Tensor) -> tf.Tensor:
        """What returns of this update are normalized by: percentiles of all replicas' targets."""
        everywhere = distribute.all_gather(tf.stop_gradient(value_targets))
        batch = losses.return_percentiles(everywhere)
        state = tf.convert_to_tensor(self._percentiles)
        return losses.update_percentiles(state, batch, self._decay)

    def _details(
        self,
        forward: Any,
        batch: dreamer_batch.Batch,
        items: Mapping[str, tf.Tensor],
        dream: Mapping[str, tf.Tensor],
    ) -> dict[str, tf.Tensor]:
        """What is reported beside scalars, with the axis of B in front."""
        details = {}
        num_rows = batch.rewards.shape[0] or tf.shape(batch.rewards)[0]
        length = batch.rewards.shape[1]
        # [H, B T, ...] -> [B T, H, ...]
        swap = lambda x: tf.transpose(x, [1, 0, *range(2, x.shape.rank)])
        if self._reports["items"]:
            front = lambda name, x: x if name.endswith("_B_T") else swap(x)
            details.update({name: front(name, x) for name, x in items.items()})
        if self._reports["dream_data"]:
            for name, x in dream.items():
                if name.endswith("H_BxT"):
                    details[f"dream_data/{name[:-1]}1"] = swap(x[:, ::length])
        if self._reports["images"]:
            means = tf.reshape(forward.obs_means, [num_rows, length, -1])
            details["WORLD_MODEL_fwd_out_obs_distribution_means_b0xT"] = means
        return details

    def _after_update(self, kept: Any, per_item: Any) -> None:
        """Puts the replicas' details together, in the source's order of axes."""
        self._last_details: dict[str, Any] = {}
        for name in per_item[0]:
            x = tf.concat([replica[name] for replica in per_item], 0)
            if name.endswith("b0xT"):
                x = x[0]
            elif not name.endswith("_B_T"):
                x = tf.transpose(x, [1, 0, *range(2, x.shape.rank)])
            group, _, key = name.rpartition("/")
            into = self._last_details.setdefault(group, {}) if group else self._last_details
            into[key] = x

    def step(self) -> Mapping[str, types.NestedTensor]:
        """Does one update; see `base.Learner.step`.

        Returns:
          Scalar metrics, and what the `report_` arguments ask for.
        """
        metrics = super().step()
        return {**metrics, **self._last_details}

    def _apply_all(self, gradients: Mapping[str, list]) -> base.Metrics:
        metrics, clipped = {}, {}
        for name, clip in self._clips.items():
            result = clipping.clip_gradients(
                gradients[name], grad_clip=clip, grad_clip_by="global_norm"
            )
            clipped[name] = result.gradients
            largest = [tf.reduce_max(tf.abs(x)) for x in result.gradients if x is not None]
            prefix = f"{name.upper()}_gradients"
            metrics[f"{prefix}_global_norm"] = result.global_norm
            metrics[f"{prefix}_maxabs_after_clipping"] = tf.reduce_max(largest)
        if "percentiles" in gradients:
            (percentiles,) = gradients["percentiles"]
            distribute.local(self._percentiles).assign(percentiles)
            low, high = tf.unstack(percentiles)
            metrics["ACTOR_value_targets_pct5_ema"] = low
            metrics["ACTOR_value_targets_pct95_ema"] = high
        metrics.update(super()._apply_all(clipped))
        initial_h = tf.convert_to_tensor(self._model.world_model.rssm.initial_h)
        metrics["WORLD_MODEL_learned_initial_h"] = tf.reduce_mean(initial_h)
        return metrics

    def _guarded(self, metrics: base.Metrics) -> base.Metrics:
        return {name: metrics[name] for name in _TOTALS if name in metrics}

    def _numbers(self) -> dict[str, tf.Variable]:
        return {**super()._numbers(), "value_target_percentiles": self._percentiles}


def _world_model_terms(forward: Any, batch: dreamer_batch.Batch) -> losses.Losses:
    """All losses of the world model, [B, T]."""
    predictions = losses.prediction_losses(
        obs=forward.obs,
        obs_means=forward.obs_means,
        reward_logits=forward.reward_logits,
        continue_logits=forward.continue_logits,
        rewards=batch.rewards,
        continues=1.0 - tf.cast(batch.is_terminated, tf.float32),
    )
    divergences = losses.dynamics_and_representation_losses(
        forward.posterior_probs, forward.prior_probs
    )
    unfold = lambda x: tf.reshape(x, tf.shape(batch.rewards))
    return losses.world_model_losses(predictions, *map(unfold, divergences))


# Means that the source reports of dreamed terms; the others only item by item.
_UNREPORTED = (
    "ACTOR_logp_actions_dreamed_H_BxT",
    "ACTOR_scaled_value_targets_H_BxT",
    "VALUE_TARGETS_symlog_H_BxT",
)


def _scalars(terms: losses.Losses) -> losses.Losses:
    reported = {k: v for k, v in terms.items() if k not in _UNREPORTED}
    means = losses.means(reported)
    means["VALUE_TARGETS_H_BxT"] = means.pop("VALUE_TARGETS")
    return means
