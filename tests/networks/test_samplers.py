"""The samplers against golden numbers, in eager mode, graphs and XLA."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from tests import golden_cases
from tests.networks import sampler_networks as nets
from tests.ops import modes
from tfagents_x.networks import action_values, cores, samplers

HEADS = {"distribution": nets.DistributionHead, "samples": nets.SampleHead}
all_forms = pytest.mark.parametrize("form", list(HEADS))
DRAWS = 100_000  # at least, in all batch elements together


def cases(prefix, *endings):
    found = [c for c in golden_cases.load("samplers", prefix) if c.name.endswith(endings)]
    assert found
    return pytest.mark.parametrize("case", found, ids=golden_cases.ids)


def assert_close(actual, expected):
    golden_cases.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def sampler_of(case, form):
    """The sampler of a golden case with networks, and the function that it is."""
    beta, num = (nets.settings(case)[key] for key in ("beta", "num_action_samples"))
    policy, critic = nets.policy_layers(case, HEADS[form]), nets.critic_layers(case)
    if nets.settings(case)["sampler"] == "net":
        return samplers.ExpQWeightedPolicy(
            snt.Sequential(policy), snt.Sequential(critic), beta, num
        )
    return samplers.RecurrentExpQWeightedPolicy(
        snt.DeepRNN(policy), cores.CriticDeepRNN(critic), beta, num
    )


def state_of(case, key, copies=1):
    """A stored pair of states; every leaf is repeated."""

    def network_state(name):
        repeat = lambda part: tf.repeat(case[f"{key}.{name}.{part}"], copies, axis=0)
        return (snt.LSTMState(hidden=repeat("hidden"), cell=repeat("cell")),)

    return samplers.PolicyCriticRNNState(network_state("policy"), network_state("critic"))


def inputs_of(case, copies=1):
    observation = tf.repeat(case["in.observation"], copies, axis=0)
    if nets.settings(case)["sampler"] == "net":
        return (observation,)
    return observation, state_of(case, "in.state", copies)


# ---- Golden values ----


@modes.all_modes
@all_forms
@cases("expq_net", "argmax")
def test_certain_pick(case, form, mode):
    sampler = sampler_of(case, form)
    action = modes.MODES[mode](sampler.__call__)(*inputs_of(case))
    assert_close(action, case["out.action"])
    picked = case["out.candidates"][range(len(action)), case["out.index"]]
    assert_close(action, picked)


@modes.all_modes
@all_forms
@cases("recurrent", "argmax")
def test_certain_pick_and_its_state(case, form, mode):
    sampler = sampler_of(case, form)
    action, state = modes.MODES[mode](sampler.__call__)(*inputs_of(case))
    assert_close(action, case["out.action"])
    assert_close(action, case["out.candidates"][range(len(action)), case["out.index"]])
    expected = state_of(case, "out.next_state")
    tf.nest.assert_same_structure(state, expected)
    for actual, wanted in zip(tf.nest.flatten(state), tf.nest.flatten(expected)):
        assert_close(actual, wanted)


@modes.all_modes
@cases("expq_table", "argmax")
def test_certain_pick_from_a_table(case, mode):
    sampler = table_sampler(case)
    index = tf.range(len(case["in.q"]))
    np.testing.assert_array_equal(modes.MODES[mode](sampler.__call__)(index), case["out.action"])


def by_candidate(rows, num):
    """[N * B, ...] -> [B, N, ...]."""
    rows = np.asarray(rows)
    return np.moveaxis(rows.reshape(num, -1, *rows.shape[1:]), 0, 1)


@modes.all_modes
@all_forms
@cases("expq_net", "")
def test_candidates_and_values(case, form, mode):
    sampler, num = sampler_of(case, form), nets.settings(case)["num_action_samples"]

    def fn(observation):
        actions = sampler._policy.draw(observation, ()).actions
        return actions, action_values.evaluate_rows(
            sampler._critic_network, observation, actions, num
        )

    actions, values = modes.MODES[mode](fn)(*inputs_of(case))
    assert_close(by_candidate(actions, num), case["out.candidates"])
    assert_close(by_candidate(values, num)[..., 0], case["out.q"])


@modes.all_modes
@all_forms
@cases("recurrent", "")
def test_recurrent_candidates_values_and_states(case, form, mode):
    sampler, num = sampler_of(case, form), nets.settings(case)["num_action_samples"]

    def fn(observation, state):
        drawn = sampler._policy.draw(observation, state.policy)
        output, next_state = action_values.step_rows(
            sampler._critic_network, observation, drawn.actions, state.critic, num
        )
        policy_state = action_values.repeat(drawn.state, num if drawn.shared else 1)
        return drawn.actions, output.mean(), samplers.PolicyCriticRNNState(policy_state, next_state)

    actions, values, state = modes.MODES[mode](fn)(*inputs_of(case))
    assert_close(by_candidate(actions, num), case["out.candidates"])
    assert_close(by_candidate(values, num), case["out.q"])
    expected = state_of(case, "out.candidate_state")
    for actual, wanted in zip(tf.nest.flatten(state), tf.nest.flatten(expected)):
        assert_close(by_candidate(actual, num), wanted)


# ---- Frequencies ----


def table_sampler(case):
    table = nets.Table(case["in.candidates"], case["in.q"])
    beta, num = (nets.settings(case)[key] for key in ("beta", "num_action_samples"))
    return samplers.ExpQWeightedPolicy(table.actor, table.critic, beta, num)


def picks(action, candidate_actions):
    """Which candidates [B, N, A] the actions [B * M, A] are, [B, M]."""
    action = np.asarray(action).reshape(len(candidate_actions), -1, 1, action.shape[-1])
    distance = np.abs(action - candidate_actions[:, np.newaxis]).max(-1)
    assert distance.min(-1).max() < 1e-5
    return distance.argmin(-1)


def assert_independent(first, second, first_probs, second_probs):
    """That two rows of picks have the product of their probabilities."""
    joint = np.zeros([len(first_probs), len(second_probs)])
    np.add.at(joint, (first, second), 1)
    nets.assert_frequencies(joint.ravel(), np.outer(first_probs, second_probs).ravel())


def assert_picks(found, probs):
    """Frequencies, and that copies of one batch element, and elements, are independent."""
    for row, p in zip(found, probs):
        nets.assert_frequencies(np.bincount(row, minlength=len(p)), p)
        assert_independent(row[::2], row[1::2], p, p)
    assert_independent(found[0], found[1], probs[0], probs[1])


@pytest.mark.parametrize("mode", ["graph", "xla"])
@cases("expq_table", "beta1", "beta025", "large_q", "tie")
def test_frequencies_of_tables(case, mode):
    tf.random.set_seed(1)
    index = tf.repeat(tf.range(len(case["in.q"])), DRAWS // 2)
    action = modes.MODES[mode](table_sampler(case).__call__)(index)
    assert_picks(picks(action, case["in.candidates"]), case["out.probs"])


@pytest.mark.parametrize(
    ("form", "mode"), [("distribution", "graph"), ("distribution", "xla"), ("samples", "graph")]
)
@cases("", "net_beta05", "recurrent_beta1", "recurrent_beta02", "recurrent_initial")
def test_frequencies_of_networks(case, form, mode):
    """Both forms of the policy have the same frequencies: the stored ones."""
    tf.random.set_seed(2)
    fn = modes.MODES[mode](sampler_of(case, form).__call__)
    inputs, found = inputs_of(case, DRAWS // 6), []
    for _ in range(2):
        action = fn(*inputs)
        action = action[0] if isinstance(action, tuple) else action
        found.append(picks(action, case["out.candidates"]))
    assert_picks(np.concatenate(found, axis=1), case["out.probs"])


@modes.all_modes
def test_hot_policies_pick_evenly(mode):
    values = np.random.default_rng(0).normal(size=[2, 4]).astype(np.float32)
    actions = np.tile(np.arange(4, dtype=np.float32)[:, np.newaxis], [2, 1, 1])
    table = nets.Table(actions, values)
    tf.random.set_seed(3)
    for beta in (1e12, float("inf")):
        sampler = samplers.ExpQWeightedPolicy(table.actor, table.critic, beta, 4)
        action = modes.MODES[mode](sampler.__call__)(tf.repeat([0, 1], DRAWS // 2))
        assert_picks(picks(action, actions), np.full([2, 4], 0.25))


@modes.all_modes
def test_impossible_candidates_never_appear(mode):
    """Values of -inf, and differences that underflow, also where a quotient would overflow."""
    values = np.array([[0, -np.inf, 0.5, -1000], [1e30, 1, 1e30, -1e30]], np.float32)
    actions = np.tile(np.arange(4, dtype=np.float32)[:, np.newaxis], [2, 1, 1])
    table = nets.Table(actions, values)
    tf.random.set_seed(4)
    for beta in (1.0, 1e-20):
        sampler = samplers.ExpQWeightedPolicy(table.actor, table.critic, beta, 4)
        action = modes.MODES[mode](sampler.__call__)(tf.repeat([0, 1], 20_000))
        first, second = picks(action, actions)
        assert set(first) == ({0, 2} if beta == 1 else {2}) and set(second) == {0, 2}


@functools.cache
def _half_precision(dtype):
    rng = np.random.default_rng(5)
    table = nets.Table(
        tf.cast(rng.normal(size=[1, 8, 1]), dtype), tf.cast(rng.normal(size=[1, 8]), dtype)
    )
    q = table._values.numpy().astype(np.float64)
    probs = np.exp(q / 0.5) / np.exp(q / 0.5).sum()
    return table, probs


@modes.all_modes
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64], ids=lambda d: d.name)
def test_other_precisions(dtype, mode):
    table, probs = _half_precision(dtype)
    sampler = samplers.ExpQWeightedPolicy(table.actor, table.critic, 0.5, 8)
    tf.random.set_seed(5)
    action = modes.MODES[mode](sampler.__call__)(tf.zeros([DRAWS], tf.int32))
    assert action.dtype == dtype
    known = table._candidates.numpy().astype(np.float32)
    found = picks(tf.cast(action, tf.float32).numpy(), known)
    nets.assert_frequencies(np.bincount(found[0], minlength=8), probs[0])
