"""The tiny networks of DreamerV3's golden files, under their weights' names, and batches."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import tensorflow as tf

from tests import golden_cases
from tfagents_x import specs
from tfagents_x.learners import dreamer_batch
from tfagents_x.networks import dreamer
from tfagents_x.networks.dreamer import layers

FILE = "learner_dreamerv3_e2e"
FIELDS = dreamer_batch.Batch._fields


def load(name: str) -> golden_cases.Case:
    """The case of exactly this name."""
    (case,) = [c for c in golden_cases.load(FILE, name) if c.name == name]
    return case


def config(case: golden_cases.Case) -> dict[str, Any]:
    """The case's hyper-parameters."""
    return json.loads(str(case["config"]))


def make_model(case: golden_cases.Case, **kwargs: Any) -> dreamer.DreamerModel:
    """The case's networks with its initial weights."""
    settings = config(case)
    sizes = ("dense_units", "gru_units", "categoricals", "classes", "hidden_layers")
    size = dreamer.ModelSize(*(settings[name] for name in sizes), cnn_multiplier=2)
    actions: Any = specs.Array((settings["actions"],), np.float32)
    if settings["action_space"] == "discrete":
        actions = specs.DiscreteArray(settings["actions"])
    observations = specs.Array((settings["obs_dim"],), np.float32)
    model = dreamer.DreamerModel(observations, actions, size, **kwargs)
    for name, variable in variables(model).items():
        variable.assign(case[f"weights.{name}"])
    return model


def variables(model: dreamer.DreamerModel) -> dict[str, tf.Variable]:
    """All variables under the golden names."""
    world, rssm = model.world_model, model.world_model.rssm
    found = {"world_model/initial_h": rssm.initial_h}
    for name in ("kernel", "recurrent_kernel", "bias"):
        short = name.replace("recurrent_kernel", "recurrent")
        found[f"world_model/gru/{name}"] = getattr(rssm, f"gru_{short}")
    found.update(_hidden("world_model/encoder", world.encoder._layers))
    found.update(_hidden("world_model/pre_gru", [rssm.pre_gru]))
    heads = {
        "world_model/posterior": (rssm.posterior, "logits"),
        "world_model/prior": (rssm.prior, "logits"),
        "world_model/decoder": (world.decoder, "out"),
        "world_model/reward": (world.reward, "buckets"),
        "world_model/continue": (world.continues, "out"),
        "critic": (model.critic, "buckets"),
        "critic_ema": (model.critic_ema, "buckets"),
    }
    names = ["logits"] if model.discrete else ["mean", "std"]
    heads.update({f"actor/{n}": (mlp, "out") for n, mlp in zip(names, model.actor.networks)})
    for name, (mlp, last) in heads.items():
        found.update(_hidden(name, mlp.hidden))
        found[f"{name}/{last}/kernel"] = mlp.out.kernel
        found[f"{name}/{last}/bias"] = mlp.out.bias
    return found


def _hidden(name: str, hidden: list[layers.Hidden]) -> dict[str, tf.Variable]:
    found = {}
    for i, layer in enumerate(hidden):
        found[f"{name}/dense_{i}/kernel"] = layer.kernel
        found[f"{name}/norm_{i}/scale"] = layer.scale
        found[f"{name}/norm_{i}/offset"] = layer.offset
    return found


def batch(case: golden_cases.Case) -> dict[str, np.ndarray]:
    """The case's batch."""
    return {name: case[f"in.{name}"] for name in FIELDS}


def sampler(case: golden_cases.Case) -> dreamer.ModeSampler:
    """What replaced chance when the numbers were made."""
    return dreamer.ModeSampler(config(case)["box_sample_eps"])


def arguments(case: golden_cases.Case) -> dict[str, Any]:
    """Keyword arguments of the learner."""
    settings = config(case)
    rates = {f"{name}_lr": rate for name, rate in settings["lr"].items()}
    clips = {f"{k}_grad_clip_by_global_norm": v for k, v in settings["clip"].items()}
    same = ("gamma", "gae_lambda", "entropy_scale", "return_normalization_decay")
    return {
        **rates,
        **clips,
        **{name: settings[name] for name in same},
        "horizon_H": settings["horizon"],
        "critic_ema_decay": settings["ema_decay"],
        "sampler": sampler(case),
    }
