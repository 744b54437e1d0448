"""SVG0Learner against three updates of Acme's, without and with a prior, and its errors."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp

from tests import golden_cases
from tests.learners import golden_control, modes
from tfagents_x import networks, specs, utils
from tfagents_x.learners.svg0 import SVG0Learner
from tfagents_x.utils import distribute, loggers

CASES = golden_cases.load("learner_svg0")
COPIED = ("distillation_cost", "entropy_regularizer_cost", "num_action_samples", "lambda_")


def names(case):
    online = ["policy", "critic"] + ["prior"] * golden_control.config(case)["prior"]
    return [*online, *[f"target_{name}" for name in online]]


def make(case, dataset, strategy=None, **kwargs):
    """The case's networks, and the learner on them."""
    config = golden_control.config(case)
    with distribute.scope(strategy):
        nets = {name: golden_control.Network(name, case, recurrent=False) for name in names(case)}
        settings = {
            f"{name}_optimizer": golden_control.optimizer(case)
            for name in nets
            if not name.startswith("target_")
        }
    arguments = {f"{name}_network": net.module for name, net in nets.items()}
    settings.update({name: config[name] for name in COPIED}, checkpoint=False)
    settings.update(logger=loggers.NoOpLogger(), accelerator_strategy=strategy)
    settings.update(arguments)
    settings.update(kwargs)
    learner = SVG0Learner(
        discount=config["discount"],
        target_update_period=config["target_update_period"],
        dataset_iterator=dataset,
        **settings,
    )
    return learner, nets


@modes.all_modes
@pytest.mark.parametrize("case", CASES, ids=golden_cases.ids)
def test_golden_updates(case, mode):
    data = golden_control.batches(case)
    learner, nets = make(case, iter(data), jit_compile=mode == "xla")
    metrics = {f"{name}_loss" for name in nets if not name.startswith("target_")}
    with modes.running(mode):
        golden_control.check_updates(case, learner, nets, metrics)


@pytest.mark.parametrize("case", CASES, ids=golden_cases.ids)
def test_golden_gradients(case):
    learner, nets = make(case, iter([]))
    golden_control.check_gradients(case, learner, nets)


PLAIN = CASES[0]
PRIOR = next(c for c in CASES if c.name == "prior_lambda1_ent01")
DATA = golden_control.batches(PRIOR)[0].data
REPLICAS = (tf.distribute.MirroredStrategy, snt.distribute.Replicator)
LOSSES = {"policy_loss", "critic_loss", "prior_loss"}


@pytest.mark.parametrize("kind", REPLICAS, ids=lambda kind: kind.__name__)
def test_two_replicas_equal_one(kind):
    golden_control.check_two_replicas(PRIOR, make, kind, LOSSES)


def test_graph_does_not_grow_with_time():
    golden_control.check_graph_size(lambda: make(PRIOR, iter([]))[0], DATA)


def test_ratio_that_overflows_in_a_void_transition_does_no_harm():
    """The source multiplies infinity by 0 there."""
    starts = np.zeros(DATA.reward.shape, bool)
    starts[:, 3] = True
    log_prob = DATA.extras["log_prob"].copy()
    log_prob[:, 2] = -200.0  # of the transition into step 3
    data = DATA._replace(start_of_episode=starts, extras={"log_prob": log_prob})
    got = make(PRIOR, iter([data]))[0].step()
    log_prob[:, 2] = 0.0
    want = make(PRIOR, iter([data._replace(extras={"log_prob": log_prob})]))[0].step()
    for name in LOSSES:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-6)


@pytest.mark.parametrize("shape", ["[B]", "[B, 1]"])
def test_critic_shapes(shape):
    want = make(PRIOR, iter([DATA]))[0].step()
    learner, _ = make(PRIOR, iter([DATA]))
    if shape == "[B]":
        for name in ("_critic", "_target_critic"):
            critic = getattr(learner, name)
            setattr(learner, name, snt.Sequential([critic, lambda q: tf.squeeze(q, -1)]))
    got = learner.step()
    for name in LOSSES:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-6)


def test_get_variables_gives_the_online_networks():
    learner, nets = make(PRIOR, iter([]))
    for name in ("policy", "critic", "prior"):
        for got, want in zip(learner.get_variables([name])[0], nets[name].module.variables):
            np.testing.assert_array_equal(got, want)


def gaussian():
    head = networks.MultivariateNormalDiagHead(2)
    network = snt.Sequential([networks.LayerNormMLP([4], activate_final=True), head])
    utils.create_variables(network, [specs.Array((3,), np.float32)])
    return network


def test_checkpoint_and_snapshots(tmp_path):
    def make_real(data):
        names = ("policy", "target_policy", "prior", "target_prior")
        heads = {f"{name}_network": gaussian() for name in names}
        return make(PRIOR, iter(data), checkpoint=True, directory=tmp_path, **heads)[0]

    data = golden_control.batches(PRIOR)
    first = make_real(data)
    first.step()
    again = make_real(data[1:])
    assert again.num_updates == 1
    tf.nest.map_structure(np.testing.assert_array_equal, again.save(), first.save())
    load = lambda name: tf.saved_model.load(str(tmp_path / "snapshots" / name))
    assert load("critic")(tf.zeros([5, 3]), tf.zeros([5, 2])).shape == (5, 1)
    for name in ("policy", "prior"):
        assert load(name)(tf.zeros([5, 3])).sample().shape == (5, 2)


ADAM = snt.optimizers.Adam(1e-3)
BAD_ARGUMENTS = {
    "prior_alone": ({"target_prior_network": None}, "belong together"),
    "target_prior_alone": ({"prior_network": None}, "belong together"),
    "samples": ({"num_action_samples": 0}, "num_action_samples must be at least 1"),
    "lambda": ({"lambda_": 1.5}, "lambda_ must be between"),
    "cost": ({"distillation_cost": "high"}, "distillation_cost must be a number"),
    "policy": ({"policy_network": lambda x: x}, "policy_network must be a snt.Module"),
    "critic": ({"critic_network": snt.Linear(1)}, "critic_network has no variables yet"),
    "no_target": ({"target_policy_network": None}, "target_policy_network must be a snt.Module"),
    "recurrent": ({"policy_network": snt.LSTM(2)}, "policy_network is a recurrent core"),
    "norm": ({"max_gradient_norm": float("nan")}, "max_gradient_norm must be between"),
    "jit": ({"jit_compile": "no"}, "jit_compile must be True or False, got 'no'"),
    "class": ({"policy_optimizer": snt.optimizers.Adam}, "got the class Adam: make one"),
    "one_optimizer": (
        {"policy_optimizer": ADAM, "critic_optimizer": ADAM},
        "policy and the critic optimizer are the same object",
    ),
}


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_bad_arguments_are_explained(name):
    arguments, message = BAD_ARGUMENTS[name]
    with pytest.raises((ValueError, TypeError), match=message):
        make(PRIOR, iter([]), **arguments)


def after(layer):
    return lambda network: snt.Sequential([network, layer])


BAD_NETWORKS = {
    "collection": (
        "_policy",
        after(lambda d: tfp.distributions.Normal(d.loc, d.stddev())),
        r"event \[A\].*collection of distributions",
    ),
    "samples": ("_policy", after(lambda d: d.sample()), "must return a tfp distribution"),
    "other_actions": (
        "_policy",
        after(lambda d: tfp.distributions.MultivariateNormalDiag(d.loc[:, :1], d.stddev()[:, :1])),
        r"actions have shape \(1,\), those of the data \(2,\)",
    ),
    "critic_of_two": ("_critic", after(lambda q: tf.tile(q, [1, 2])), r"one value.*\[5, 4, 2\]"),
    "critic_of_atoms": (
        "_critic",
        after(networks.DiscreteValuedHead(-1.0, 1.0, 5)),
        "one value for each state and action",
    ),
    "no_gradient": (
        "_policy",
        after(
            lambda d: tfp.distributions.MixtureSameFamily(
                tfp.distributions.Categorical(tf.zeros([1])),
                tfp.distributions.MultivariateNormalDiag(d.loc[:, None], d.stddev()[:, None]),
            )
        ),
        "MixtureSameFamily have no gradient",
    ),
    "no_divergence": (
        "_prior",
        after(lambda d: tfp.distributions.Independent(tfp.distributions.Laplace(d.loc, 1.0), 1)),
        "no analytic KL",
    ),
}


@pytest.mark.parametrize("name", BAD_NETWORKS)
def test_bad_networks_are_explained(name):
    attribute, wrap, message = BAD_NETWORKS[name]
    learner, _ = make(PRIOR, iter([DATA]))
    setattr(learner, attribute, wrap(getattr(learner, attribute)))
    with pytest.raises((ValueError, TypeError), match=message):
        learner.step()


BAD_BATCHES = {
    "one_step": (tf.nest.map_structure(lambda x: x[:, :1], DATA), r"at least 2 steps.*\[4, 1\]"),
    "no_log_prob": (DATA._replace(extras={}), "needs 'log_prob'.*actor must record"),
    "no_starts": (DATA._replace(start_of_episode=()), "start_of_episode has another structure"),
    "float_starts": (
        DATA._replace(start_of_episode=DATA.reward),
        "start_of_episode has dtype float32.*bool",
    ),
    "log_prob_by_dimension": (
        DATA._replace(extras={"log_prob": DATA.action}),
        r"log_prob has shape \(4, 6, 2\), wanted \(4, 6\)",
    ),
    "discrete": (DATA._replace(action=np.zeros([4, 6], np.int32)), "continuous actions.*int32"),
    "dictionary": (DATA._asdict(), "ReplaySample"),
    "no_reward": (DATA._replace(reward=None), "reward of the batch: .* NoneType"),
    "no_observation": (DATA._replace(observation=()), "observation is empty"),
    "few_features": (
        DATA._replace(observation=DATA.observation[..., :2]),
        r"network doesn't fit the batch.*observation='\[4, 6, 2\]'",
    ),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_bad_batches_are_explained(name):
    data, message = BAD_BATCHES[name]
    learner, _ = make(PRIOR, iter([data]))
    with pytest.raises((ValueError, TypeError), match=message):
        learner.step()
