"""RCRRLearner against three updates of Acme's, its options, and its errors."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp

from tests import golden_cases
from tests.learners import golden_control, modes
from tfagents_x import networks, types
from tfagents_x.learners.rcrr import RCRRLearner
from tfagents_x.utils import distribute, loggers

CASES = golden_cases.load("learner_rcrr")
METRICS = {"critic_loss", "policy_loss", "policy_loss_coef"}
NAMES = ("policy", "critic", "target_policy", "target_critic")
COPIED = (
    *("discount", "target_update_period", "num_action_samples_td_learning"),
    *("num_action_samples_policy_weight", "baseline_reduce_function", "clipping"),
    *("policy_improvement_modes", "ratio_upper_bound", "beta"),
)


def make(case, dataset, strategy=None, **kwargs):
    """The case's networks, and the learner on them."""
    with distribute.scope(strategy):
        nets = {name: golden_control.Network(name, case, recurrent=True) for name in NAMES}
        settings = {name: golden_control.config(case)[name] for name in COPIED}
        optimizers = {
            f"{n}_optimizer": golden_control.optimizer(case) for n in ("policy", "critic")
        }
    settings.update(optimizers, logger=loggers.NoOpLogger(), accelerator_strategy=strategy)
    settings.update(kwargs)
    return RCRRLearner(*[nets[name].module for name in NAMES], dataset, **settings), nets


@modes.all_modes
@pytest.mark.parametrize("case", CASES, ids=golden_cases.ids)
def test_golden_updates(case, mode):
    data = golden_control.batches(case)
    learner, nets = make(case, iter(data), jit_compile=mode == "xla")
    with modes.running(mode):
        golden_control.check_updates(case, learner, nets, METRICS)


@pytest.mark.parametrize("case", CASES, ids=golden_cases.ids)
def test_golden_gradients(case):
    learner, nets = make(case, iter([]))
    golden_control.check_gradients(case, learner, nets)
    gradients, _ = learner._gradients(golden_control.tensors(case))
    for name, part in learner._trained.items():
        updates = gradients[name]
        norm = tf.linalg.global_norm(updates)
        golden_cases.assert_close(norm, case[f"out.step1.grad_norm.{name}"], rtol=1e-4, atol=1e-5)
        if part.max_gradient_norm is not None:
            updates, _ = tf.clip_by_global_norm(updates, part.max_gradient_norm)
        applied = case.get(f"out.step1.grads_applied.{name}", case[f"out.step1.grads.{name}"])
        golden_cases.assert_close(nets[name].flat(updates), applied, 1e-4, 1e-5, scaled=True)


BASE = CASES[0]
DATA = golden_control.batches(BASE)[0].data
REPLICAS = (tf.distribute.MirroredStrategy, snt.distribute.Replicator)


@pytest.mark.parametrize("kind", REPLICAS, ids=lambda kind: kind.__name__)
def test_two_replicas_equal_one(kind):
    # Clipping acts on the mean of the gradients, so the case with both clipped counts most.
    case = next(c for c in CASES if c.name == "clip_both")
    golden_control.check_two_replicas(case, make, kind, METRICS)


def test_graph_does_not_grow_with_time():
    golden_control.check_graph_size(lambda: make(BASE, iter([]))[0], DATA)


class BlackBoxPolicy(snt.RNNCore):
    """Not a `DeepRNN`, so it is stepped; its outputs are distributions all the same."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def __call__(self, observation, state):
        return self.inner(observation, state)

    def initial_state(self, batch_size):
        return self.inner.initial_state(batch_size)


class BlackBoxCritic(BlackBoxPolicy):
    def __call__(self, observation, action, state):
        return self.inner(observation, action, state)


@pytest.mark.parametrize("name", ["exp_mean_td1", "exp_max_td3"])
def test_any_core_gives_the_golden_numbers(name):
    case = next(c for c in CASES if c.name == name)
    learner, nets = make(case, iter(golden_control.batches(case)))
    for attribute in ("_policy", "_target_policy"):
        setattr(learner, attribute, BlackBoxPolicy(getattr(learner, attribute)))
    for attribute in ("_critic", "_target_critic"):
        setattr(learner, attribute, BlackBoxCritic(getattr(learner, attribute)))
    golden_control.check_updates(case, learner, nets, METRICS)


def test_plain_steps_and_datasets():
    want = make(BASE, iter(golden_control.batches(BASE)))[0].step()
    dataset = tf.data.Dataset.from_tensors(DATA).repeat()
    for source in (iter([DATA]), dataset):
        got = make(BASE, source)[0].step()
        for name in METRICS:
            np.testing.assert_allclose(got[name], want[name], rtol=1e-6)


def test_sequences_of_two_steps():
    data = tf.nest.map_structure(lambda x: x[:, :2], DATA)
    learner, _ = make(BASE, iter([data]))
    assert all(np.isfinite(value) for value in learner.step().values())


def test_get_variables_gives_the_targets():
    learner, nets = make(BASE, iter([]))
    for name in ("policy", "critic"):
        acting = nets[f"target_{name}"].module.variables
        for got, want in zip(learner.get_variables([name])[0], acting):
            np.testing.assert_array_equal(got, want)


def test_resets_at_episode_start():
    """Two episodes in one sequence give what they give as two sequences."""
    starts = np.zeros(DATA.reward.shape, bool)
    starts[:, 3] = True
    joined, _ = make(
        BASE, iter([DATA._replace(start_of_episode=starts)]), reset_at_episode_start=True
    )
    halves = [tf.nest.map_structure(lambda x, s=s: x[:, s], DATA) for s in (slice(3), slice(3, 6))]
    apart = [make(BASE, iter([half]))[0].step() for half in halves]
    # The sums over transitions are divided by 6 rows there, by 3 rows here.
    for name, value in joined.step().items():
        np.testing.assert_allclose(value, sum(m[name] for m in apart) / 2, rtol=1e-4)
    unlike = make(BASE, iter([DATA]))[0].step()
    assert abs(unlike["critic_loss"] - value) > 1e-3


def test_checkpoint_and_snapshots(tmp_path):
    data = golden_control.batches(BASE)
    first, nets = make(BASE, iter(data), checkpoint=True, directory=tmp_path)
    first.step()
    weights = {name: net.flat() for name, net in nets.items()}
    again, nets = make(BASE, iter(data[1:]), checkpoint=True, directory=tmp_path)
    assert again.num_updates == 1 and again.counter.get_counts()["steps"] == 1
    for name, net in nets.items():
        np.testing.assert_array_equal(net.flat(), weights[name])
    first.step(), again.step()
    for name, want in first.save()["networks"].items():
        tf.nest.map_structure(np.testing.assert_array_equal, again.save()["networks"][name], want)
    policy = tf.saved_model.load(str(tmp_path / "snapshots" / "raw_policy"))
    action, _ = policy(tf.zeros([5, 3]), policy.initial_state(5))
    assert action.shape == (5, 2)
    critic = tf.saved_model.load(str(tmp_path / "snapshots" / "critic"))
    value, _ = critic(tf.zeros([5, 3]), tf.zeros([5, 2]), critic.initial_state(5))
    assert value.shape == (5,)


def collection(core):
    """The policy as a collection of 1-d distributions."""
    normal = lambda d: tfp.distributions.Normal(d.loc, d.stddev())
    return snt.DeepRNN([core, normal])


BAD_ARGUMENTS = {
    "reduce": ({"baseline_reduce_function": "median"}, "'mean', 'max', 'min', got 'median'"),
    "mode": ({"policy_improvement_modes": "linear"}, "'exp', 'binary', 'all', got 'linear'"),
    "samples": ({"num_action_samples_td_learning": 0}, "td_learning must be at least 1, got 0"),
    "weights": ({"num_action_samples_policy_weight": 1.5}, "policy_weight must be an int"),
    "discount": ({"discount": 1.2}, "discount must be between"),
    "beta": ({"beta": 0.0}, "beta must be between"),
    "bound": ({"ratio_upper_bound": -1.0}, "ratio_upper_bound must be between"),
    "period": ({"target_update_period": 0}, "target_update_period must be at least 1"),
    "half_period": ({"target_update_period": 1.5}, "target_update_period must be an int, got 1.5"),
    "clipping": ({"clipping": "no"}, "clipping must be True or False, got 'no'"),
    "norm": ({"max_gradient_norm": float("inf")}, "max_gradient_norm must be between"),
    "optimizer": ({"critic_optimizer": snt.optimizers.SGD}, "got the class SGD: make one"),
}


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_bad_arguments_are_explained(name):
    arguments, message = BAD_ARGUMENTS[name]
    with pytest.raises((ValueError, TypeError), match=message):
        make(BASE, iter([]), **arguments)


class Headed(snt.RNNCore):
    """A critic with another layer behind, and the same states."""

    def __init__(self, core, head):
        super().__init__()
        self._core, self._head = core, head

    def initial_state(self, batch_size):
        return self._core.initial_state(batch_size)

    def __call__(self, observation, action, state):
        outputs, state = self._core(observation, action, state)
        return self._head(outputs), state


BAD_NETWORKS = {
    "collection": ("_policy", collection, r"event \[A\].*collection of distributions"),
    "samples": ("_policy", lambda core: snt.DeepRNN([core, lambda d: d.sample()]), "tfp distrib"),
    "discrete": (
        "_policy",
        lambda core: snt.DeepRNN([core, lambda d: tfp.distributions.Categorical(d.loc)]),
        "int32; this learner is for continuous actions",
    ),
    "scalar_critic": (
        "_critic",
        lambda core: networks.CriticDeepRNN([core, networks.StochasticMeanHead()]),
        r"DiscreteValuedDistribution.*DiscreteValuedHead\(vmin, vmax, num_atoms\)",
    ),
    "scalar_target_critic": (
        "_target_critic",
        lambda core: Headed(core, lambda d: d.mean()),
        "RCRR's target critic must return a DiscreteValuedDistribution",
    ),
}


@pytest.mark.parametrize("name", BAD_NETWORKS)
def test_bad_networks_are_explained(name):
    attribute, wrap, message = BAD_NETWORKS[name]
    learner, _ = make(BASE, iter([DATA]))
    setattr(learner, attribute, wrap(getattr(learner, attribute)))
    with pytest.raises((ValueError, TypeError), match=message):
        learner.step()


def test_networks_that_are_none_are_explained():
    _, nets = make(BASE, iter([]))
    given = [nets[name].module for name in NAMES]
    with pytest.raises(TypeError, match=r"policy_network must be a recurrent core.*DeepRNN"):
        RCRRLearner(snt.Linear(2), *given[1:], iter([]))
    with pytest.raises(ValueError, match="critic_network has no variables yet.*create_variables"):
        RCRRLearner(given[0], networks.CriticDeepRNN([snt.LSTM(2)]), *given[2:], iter([]))
    with pytest.raises(ValueError, match="must have the same variables"):
        RCRRLearner(given[0], given[1], given[1], given[0], iter([]))


BAD_BATCHES = {
    "one_step": (tf.nest.map_structure(lambda x: x[:, :1], DATA), r"at least 2 steps.*\[4, 1\]"),
    "discrete": (DATA._replace(action=np.zeros([4, 6], np.int32)), "continuous actions.*int32"),
    "short_reward": (DATA._replace(reward=DATA.reward[:, 1:]), r"reward.*\(4, 5\), wanted \(4, 6"),
    "short_observation": (
        DATA._replace(observation=DATA.observation[:, 1:]),
        r"observation has shape \(4, 5, 3\).*\[4, 6\]",
    ),
    "other_actions": (
        DATA._replace(action=DATA.action[..., :1]),
        # The critic is asked first, and its first layer has another width.
        "network doesn't fit the batch",
    ),
    "transition": (
        types.Transition(DATA.observation, DATA.action, DATA.reward, DATA.discount, 0, ()),
        "sequences: the dataset must yield types.Step",
    ),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_bad_batches_are_explained(name):
    data, message = BAD_BATCHES[name]
    learner, _ = make(BASE, iter([data]))
    with pytest.raises((ValueError, TypeError), match=message):
        learner.step()
