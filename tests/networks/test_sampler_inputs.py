"""The samplers with nests, states of every kind, all forms of networks, and misfits."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp

from tests.networks import sampler_networks as nets
from tests.ops import modes
from tfagents_x.networks import cores, samplers, stochastic, tracing

tfd = tfp.distributions
B, N = 3, 5


# ---- States ----


class RecordingPolicy(snt.RNNCore):
    """Samples [B, 2], and its state tells which: every candidate has a state of its own."""

    def __call__(self, inputs, prev_state):
        rows = tf.shape(inputs["x"])[0]
        action = tf.random.normal([rows, 2])
        state = {
            "action": action,
            "matrix": prev_state["matrix"] + action[:, :, tf.newaxis],
            "count": prev_state["count"] + tf.cast(action[:, 0] * 1000, tf.int32),
            "flag": action[:, 1] > 0,
            "steps": prev_state["steps"] + 1,
        }
        return action, state

    def initial_state(self, batch_size):
        return {
            "action": tf.zeros([batch_size, 2]),
            "matrix": tf.zeros([batch_size, 2, 3]),
            "count": tf.zeros([batch_size], tf.int32),
            "flag": tf.zeros([batch_size], tf.bool),
            "steps": tf.constant(0),
        }


class RecordingCritic(snt.RNNCore):
    """Values and states that depend on the action."""

    def __call__(self, inputs, action, prev_state):
        return tf.reduce_sum(action, 1), (prev_state[0] + 2 * action, inputs["y"])

    def initial_state(self, batch_size):
        return tf.zeros([batch_size, 2]), tf.zeros([batch_size, 1, 1])


@modes.all_modes
def test_states_are_those_of_the_chosen_action(mode):
    sampler = samplers.RecurrentExpQWeightedPolicy(RecordingPolicy(), RecordingCritic(), 1.0, N)
    state = sampler.initial_state(B)
    before = tf.reshape(tf.range(18.0), [B, 2, 3])
    state.policy.update(matrix=before, count=tf.constant([10, 20, 30]), steps=tf.constant(7))
    state = state._replace(critic=(tf.constant([[1.0, 2], [3, 4], [5, 6]]), state.critic[1]))
    inputs = {"x": tf.zeros([B, 4]), "y": tf.reshape(tf.range(float(B)), [B, 1, 1])}
    action, after = modes.MODES[mode](sampler.__call__)(inputs, state)
    tf.nest.assert_same_structure(after, state)
    np.testing.assert_array_equal(after.policy["action"], action)
    np.testing.assert_allclose(
        after.policy["matrix"] - before, action[..., np.newaxis] + 0 * before, atol=1e-5
    )
    count = np.array([10, 20, 30]) + (action[:, 0].numpy() * np.float32(1000)).astype(np.int32)
    np.testing.assert_array_equal(after.policy["count"], count)
    np.testing.assert_array_equal(after.policy["flag"], action[:, 1] > 0)
    assert after.policy["steps"] == 8
    np.testing.assert_allclose(after.critic[0] - state.critic[0], 2 * action, atol=1e-5)
    np.testing.assert_array_equal(after.critic[1], inputs["y"])


def test_unrolls_like_any_core():
    sampler = samplers.RecurrentExpQWeightedPolicy(RecordingPolicy(), RecordingCritic(), 1.0, N)
    inputs = {"x": tf.zeros([4, B, 4]), "y": tf.zeros([4, B, 1, 1])}
    actions, state = snt.static_unroll(sampler, inputs, sampler.initial_state(B))
    np.testing.assert_array_equal(state.policy["action"], actions[-1])
    np.testing.assert_allclose(state.critic[0], 2 * tf.reduce_sum(actions, 0), rtol=1e-5)
    assert state.policy["steps"] == 4


# ---- Networks of all forms ----


def lstm_networks(head):
    policy = snt.DeepRNN([snt.Linear(4), tf.tanh, snt.LSTM(6), *head])
    first = lambda o, a: tf.concat([o, a], -1)
    layers = [first, snt.Linear(4), snt.LSTM(5), tf.tanh, snt.LSTM(7), snt.Linear(1)]
    return policy, cores.CriticDeepRNN(layers)


def normal(x):
    return tfd.MultivariateNormalDiag(x[:, :2], tf.exp(0.1 * x[:, 2:4]))


class Opaque(snt.Module):
    """Calls a network that can't be taken apart from outside."""

    def __init__(self, network):
        super().__init__()
        self._network = network

    def __call__(self, *args):
        return self._network(*args)

    def initial_state(self, batch_size):
        return self._network.initial_state(batch_size)


def random_state(network, batch=B):
    like = lambda x: tf.random.stateless_normal(x.shape, [1, x.shape[1]])
    return tf.nest.map_structure(like, network.initial_state(batch))


class CountingHead(snt.Module):
    """A distribution, and the numbers of rows that it was asked for."""

    def __init__(self):
        super().__init__()
        self.rows = []

    def __call__(self, x):
        self.rows.append(x.shape[0])
        return normal(x)


def rows_seen(mode, policy, head, num_calls=1):
    """Rows of each call of the head, those of traces included."""
    _, critic = lstm_networks([])
    sampler = samplers.RecurrentExpQWeightedPolicy(policy, critic, 1.0, N)
    arguments = tf.ones([B, 3]), sampler.initial_state(B)
    sampler(*arguments)  # makes the variables
    sampler = samplers.RecurrentExpQWeightedPolicy(policy, critic, 1.0, N)
    fn = modes.MODES[mode](sampler.__call__)
    head.rows.clear()
    for _ in range(num_calls):
        fn(*arguments)
    return head.rows


@modes.all_modes
def test_distributions_are_made_once_for_each_element(mode):
    head = CountingHead()
    policy, _ = lstm_networks([head])
    # The first call finds out what the policy is, in graphs by a trace of which nothing stays.
    expected = [N * B, B, B, B] if mode == "eager" else [N * B, B]
    assert rows_seen(mode, policy, head, 3) == expected
    assert rows_seen(mode, Opaque(policy), head, 3) == expected


@modes.all_modes
def test_layers_before_a_sampling_head_are_shared_in_graphs(mode):
    head = CountingHead()
    policy, _ = lstm_networks([snt.Sequential([head, stochastic.StochasticSamplingHead()])])
    assert rows_seen(mode, policy, head) == ([N * B] if mode == "eager" else [B, B])
    hidden = rows_seen(mode, Opaque(policy), head)
    assert hidden == ([N * B] if mode == "eager" else [N * B, N * B])


def noise(x):
    return x + tf.random.normal(tf.shape(x))


def stateless_noise(x):
    return x + tf.random.stateless_normal(tf.shape(x), [1, 2])


@tf.function
def hidden_noise(x):
    return tf.while_loop(lambda i, x: i < 1, lambda i, x: (i + 1, stateless_noise(x)), (0, x))[1]


class Counter(snt.Module):
    def __init__(self):
        super().__init__()
        self.calls = tf.Variable(0.0, trainable=False)

    def __call__(self, x):
        return x + 0 * self.calls.assign_add(1.0)


def python_noise(x):
    return tf.ensure_shape(tf.numpy_function(lambda x: x + 0, [x], tf.float32), x.shape)


NOISY = {
    "noise": noise,
    "dropout": lambda x: snt.Dropout(0.5)(x, is_training=True),
    "stateless": stateless_noise,
    "hidden": hidden_noise,
    "python": python_noise,
}


@pytest.mark.parametrize("name", NOISY)
def test_layers_with_noise_are_not_shared(name):
    head = CountingHead()
    policy, _ = lstm_networks([NOISY[name], head, stochastic.StochasticSamplingHead()])
    assert rows_seen("graph", policy, head) == [B, N * B]


@modes.all_modes
def test_layers_with_side_effects_run_once(mode):
    counter = Counter()
    policy, critic = lstm_networks([counter, normal, stochastic.StochasticSamplingHead()])
    sampler = samplers.RecurrentExpQWeightedPolicy(policy, critic, 1.0, N)
    fn = modes.MODES[mode](sampler.__call__)
    for call in (1, 2, 3):
        fn(tf.ones([B, 3]), sampler.initial_state(B))
        assert counter.calls == call


def test_trace_tells_determinism():
    x = tf.zeros([2, 4])
    assert tracing.trace(snt.nets.MLP([4, 4]), x).deterministic
    assert tracing.trace(lambda x: tf.cond(x[0, 0] > 0, lambda: x, lambda: -x), x).deterministic
    assert not any(tracing.trace(fn, x).deterministic for fn in (*NOISY.values(), Counter()))
    assert tracing.trace(lambda x: x.numpy(), x) is None


@pytest.mark.parametrize("kind", ["distribution", "sampling head", "samples"])
def test_all_forms_of_policies_agree(kind):
    """The mean picked action of a policy, and its next state, don't depend on its form."""
    tf.random.set_seed(0)
    head = [] if kind == "distribution" else [stochastic.StochasticSamplingHead()]
    policy, _ = lstm_networks([normal, *head])
    inputs = tf.ones([B, 3])
    policy(inputs, policy.initial_state(B))
    for i, variable in enumerate(policy.variables):
        variable.assign(tf.random.stateless_normal(variable.shape, [i, 0]))
    policy = Opaque(policy) if kind == "samples" else policy
    value = lambda o, a, s: (2 * a[:, 0], s)
    sampler = samplers.RecurrentExpQWeightedPolicy(policy, value, 1.0, N)
    state = samplers.PolicyCriticRNNState(policy.initial_state(20_000), tf.zeros([20_000]))
    action, state = tf.function(sampler)(tf.ones([20_000, 3]), state)
    x, expected_state = snt.DeepRNN(getattr(policy, "_network", policy)._layers[:3])(
        inputs, policy.initial_state(B)
    )
    np.testing.assert_allclose(state.policy[0].hidden[:B], expected_state[0].hidden, rtol=1e-5)
    # Moments of the picks by direct simulation in numpy.
    rng, loc, scale = np.random.default_rng(0), x[0, :2].numpy(), np.exp(0.1 * x[0, 2:4].numpy())
    drawn = loc + scale * rng.normal(size=[20_000, N, 2])
    weight = np.exp(2 * drawn[..., 0])
    weight /= weight.sum(1, keepdims=True)
    mean = (weight[..., np.newaxis] * drawn).sum(1).mean(0)
    square = (weight[..., np.newaxis] * drawn**2).sum(1).mean(0)
    np.testing.assert_allclose(np.mean(action, 0), mean, atol=0.04)
    np.testing.assert_allclose(np.std(action, 0), np.sqrt(square - mean**2), atol=0.04)


@modes.all_modes
def test_one_candidate_is_the_policy(mode):
    policy, critic = lstm_networks([lambda x: x[:, :2]])
    sampler = samplers.RecurrentExpQWeightedPolicy(policy, critic, 1.0, 1)
    state = samplers.PolicyCriticRNNState(random_state(policy), random_state(critic))
    inputs = tf.ones([B, 3])
    action, after = modes.MODES[mode](sampler.__call__)(inputs, state)
    wanted, policy_state = policy(inputs, state.policy)
    _, critic_state = critic(inputs, wanted, state.critic)
    found = tf.nest.flatten((action, after))
    for actual, expected in zip(found, tf.nest.flatten((wanted, policy_state, critic_state))):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


# ---- Actions and values ----


class Pair(NamedTuple):
    left: object
    right: object


ACTORS = {
    "scalar": lambda x: tfd.Normal(x[:, 0], 1.0),
    "discrete": lambda x: tfd.Categorical(logits=x),
    "vector": normal,
    "matrix": lambda x: tfd.Independent(tfd.Normal(x[:, :, tf.newaxis] * tf.ones([2]), 1.0), 2),
    "nest": lambda x: Pair(tfd.Categorical(logits=x), {"torque": normal(x)}),
    "joint": lambda x: tfd.JointDistributionNamed(
        {"a": tfd.Normal(x[:, 0], 1.0), "b": lambda a: tfd.Normal(a[..., tf.newaxis], tf.ones([2]))}
    ),
}


def first_numbers(action):
    leaf = tf.cast(tf.nest.flatten(action)[0], tf.float32)
    return tf.reshape(leaf, [tf.shape(leaf)[0], -1])[:, 0]


@pytest.mark.parametrize(
    ("form", "mode"), [("distribution", "eager"), ("distribution", "xla"), ("samples", "graph")]
)
@pytest.mark.parametrize("kind", ACTORS)
def test_actions_of_every_rank_and_nest(kind, form, mode):
    """The best candidate is picked as a whole."""
    seen = {}
    sample = lambda d: d.sample()

    def actor(observation):
        made = ACTORS[kind](observation["x"])
        return made if form == "distribution" else tf.nest.map_structure(sample, made)

    def critic(observation, action):
        assert observation["y"][0].shape == [N * B, 2, 2]
        seen["action"] = action
        return first_numbers(action)

    def fn(observation):
        action = samplers.ExpQWeightedPolicy(actor, critic, 1e-6, N)(observation)
        return action, seen["action"]

    observation = {"x": tf.random.normal([B, 4]), "y": (tf.zeros([B, 2, 2]),)}
    action, drawn = modes.MODES[mode](fn)(observation)
    tf.nest.assert_same_structure(action, drawn)
    values = first_numbers(drawn).numpy().reshape(N, B)
    for picked, rows in zip(tf.nest.flatten(action), tf.nest.flatten(drawn)):
        table = rows.numpy().reshape(N, B, *rows.shape[1:])
        assert picked.dtype == rows.dtype and picked.shape == table.shape[1:]
        for b in range(B):
            best = table[values[:, b] == values[:, b].max(), b]
            assert (best == picked[b].numpy()).reshape(len(best), -1).all(axis=1).any()


CRITICS = {
    "vector": lambda q: q,
    "column": lambda q: q[:, tf.newaxis],
    "distribution": lambda q: tfd.Normal(q, 1.0),
    "column distribution": lambda q: tfd.Normal(q[:, tf.newaxis], 1.0),
    "half": lambda q: tf.cast(q, tf.float16),
}


@modes.all_modes
@pytest.mark.parametrize("kind", CRITICS)
def test_values_of_every_form(kind, mode):
    table = np.random.default_rng(0).permutation(B * N).reshape(B, N).astype(np.float32)
    networks = nets.Table(np.arange(B * N, dtype=np.float32).reshape(B, N, 1), table)
    critic = lambda o, a: CRITICS[kind](networks.critic(o, a))
    index = tf.range(B)
    action = modes.MODES[mode](
        samplers.ExpQWeightedPolicy(networks.actor, critic, 1e-4, N).__call__
    )(index)
    np.testing.assert_array_equal(action[:, 0], np.arange(B) * N + table.argmax(1))
    # The recurrent sampler uses the same selection.
    policy = lambda o, s: (networks.actor(o), s)
    recurrent = samplers.RecurrentExpQWeightedPolicy(
        policy, lambda o, a, s: (critic(o, a), s), 1e-4, N
    )
    again, _ = modes.MODES[mode](recurrent.__call__)(index, samplers.PolicyCriticRNNState((), ()))
    np.testing.assert_array_equal(again, action)


# ---- How they are called ----


SAMPLING_HEAD, SAMPLES = [stochastic.StochasticSamplingHead()], [lambda d: d.sample()]


@pytest.mark.parametrize(
    ("head", "jit"), [([], True), (SAMPLING_HEAD, False), (SAMPLING_HEAD, True), (SAMPLES, False)]
)
def test_unknown_batch_size(head, jit):
    policy, critic = lstm_networks([normal, *head])
    sampler = samplers.RecurrentExpQWeightedPolicy(policy, critic, 1.0, N)
    unknown = lambda x: tf.TensorSpec([None, *x.shape[1:]], x.dtype)
    signature = tf.nest.map_structure(unknown, (tf.zeros([1, 3]), sampler.initial_state(1)))
    fn = tf.function(sampler.__call__, input_signature=signature, jit_compile=jit)
    for batch in (1, 4):
        action, state = fn(tf.ones([batch, 3]), sampler.initial_state(batch))
        assert action.shape == [batch, 2] and state.critic[1].cell.shape == [batch, 7]
    assert fn.get_concrete_function().structured_outputs[0].shape.as_list() == [None, 2]


def test_saved_model(tmp_path):
    policy, critic = lstm_networks([normal, stochastic.StochasticSamplingHead()])
    sampler = samplers.RecurrentExpQWeightedPolicy(policy, critic, 1.0, N)
    unknown = lambda x: tf.TensorSpec([None, *x.shape[1:]], x.dtype)
    signature = tf.nest.map_structure(unknown, (tf.zeros([1, 3]), sampler.initial_state(1)))
    module = tf.Module()
    module.call = tf.function(sampler.__call__, input_signature=signature)
    state = samplers.PolicyCriticRNNState(random_state(policy), random_state(critic))
    _, expected = module.call(tf.ones([B, 3]), state)
    module.variables_ = sampler.variables
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    action, after = loaded.call(tf.ones([B, 3]), state)
    assert action.shape == [B, 2]
    np.testing.assert_allclose(after.policy[0].cell, expected.policy[0].cell, rtol=1e-5)


@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_variables_are_made_inside_a_function(mode):
    policy, critic = lstm_networks([normal, stochastic.StochasticSamplingHead()])
    sampler = samplers.RecurrentExpQWeightedPolicy(policy, critic, 1.0, N)
    modes.MODES[mode](sampler.__call__)(tf.ones([B, 3]), sampler.initial_state(B))
    assert len(sampler.trainable_variables) == 2 + 3 + 2 + 3 + 3 + 2
    assert all(np.ptp(v) > 0 for v in sampler.trainable_variables if v.shape.rank == 2)


def test_copies_have_networks_of_their_own():
    policy, critic = lstm_networks([normal])
    sampler = samplers.RecurrentExpQWeightedPolicy(policy, critic, 1e-6, N)
    inputs = tf.ones([B, 3]), sampler.initial_state(B)
    sampler(*inputs)
    twin = copy.deepcopy(sampler)
    before = sampler(*inputs)[1].policy[0].hidden
    for variable in twin.trainable_variables:
        variable.assign(tf.zeros_like(variable))
    assert not twin(*inputs)[1].policy[0].hidden.numpy().any()
    np.testing.assert_array_equal(sampler(*inputs)[1].policy[0].hidden, before)


def test_gradients_reach_the_policy():
    actor = snt.Sequential([snt.Linear(4), normal])
    sampler = samplers.ExpQWeightedPolicy(actor, lambda o, a: a[:, 0], 1.0, N)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(sampler(tf.ones([B, 3])))
    gradients = tape.gradient(total, sampler.trainable_variables)
    np.testing.assert_allclose(gradients[0][:2], [B, B], rtol=1e-5)  # of the means' biases


@modes.all_modes
def test_temperature_may_be_a_variable(mode):
    table = nets.Table(np.zeros([1, 2, 1], np.float32) + [[[0.0], [1.0]]], np.array([[0.0, 1.0]]))
    beta = tf.Variable(1e-3)
    sampler = samplers.ExpQWeightedPolicy(table.actor, table.critic, beta, 2)
    fn, index = modes.MODES[mode](sampler.__call__), tf.zeros([1000], tf.int32)
    assert np.mean(fn(index)) == 1
    beta.assign(1e6)
    assert 0.4 < np.mean(fn(index)) < 0.6
    if mode != "xla":  # which leaves assertions out
        beta.assign(-1.0)
        with pytest.raises(tf.errors.InvalidArgumentError, match="temperature must be above 0"):
            fn(index)


def test_seeds_repeat_a_run():
    actor = lambda x: tfd.Normal(x[:, 0], 1.0)
    sampler = samplers.ExpQWeightedPolicy(actor, lambda o, a: a, 1.0, N)
    fn = tf.function(sampler)
    found = []
    for seed in (1, 1, 2):
        tf.random.set_seed(seed)
        found.append(np.asarray(tf.function(sampler)(tf.zeros([20, 1]))))
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).all() and (
        fn(tf.zeros([20, 1])) != fn(tf.zeros([20, 1]))
    ).numpy().all()


# ---- Errors ----

ARGUMENTS = {
    "zero": ({"beta": 0.0}, ValueError, "beta is 0.0, but must be a single number above 0"),
    "negative": ({"beta": -1}, ValueError, "beta is -1"),
    "nan": ({"beta": float("nan")}, ValueError, "beta is nan"),
    "vector": ({"beta": [1.0, 2.0]}, ValueError, "single number"),
    "text": ({"beta": "1"}, ValueError, "single number"),
    "none": ({"beta": None}, ValueError, "beta is None"),
    "tensor": ({"beta": tf.constant(-1.0)}, ValueError, "single number above 0"),
    "variable": ({"beta": tf.Variable([1.0])}, ValueError, "single number above 0"),
    "overflow": ({"beta": 1e300}, ValueError, "beta is 1e.300, which is more than float32 can"),
    "no sample": ({"num": 0}, ValueError, "num_action_samples is 0, but must be an integer"),
    "float": ({"num": 2.0}, ValueError, "num_action_samples is 2.0"),
    "bool": ({"num": True}, ValueError, "num_action_samples is True"),
    "policy": ({"policy": None}, TypeError, "network is a NoneType, but must be a network"),
    "critic": ({"critic": 3}, TypeError, "critic_network is a int"),
}


@pytest.mark.parametrize(
    "kind", [samplers.ExpQWeightedPolicy, samplers.RecurrentExpQWeightedPolicy]
)
@pytest.mark.parametrize("name", ARGUMENTS)
def test_bad_arguments(name, kind):
    changes, error, message = ARGUMENTS[name]
    arguments = {"policy": len, "critic": len, "beta": 1.0, "num": 2, **changes}
    with pytest.raises(error, match=message):
        kind(*arguments.values())


def test_numpy_numbers_are_numbers():
    samplers.ExpQWeightedPolicy(len, len, np.float32(0.5), np.int64(3))
    samplers.RecurrentExpQWeightedPolicy(len, len, np.array(2), np.int32(3))


def test_defaults_are_those_of_the_original():
    first = samplers.ExpQWeightedPolicy(actor_network=len, critic_network=len)
    second = samplers.RecurrentExpQWeightedPolicy(policy_network=len, critic_network=len)
    assert (first._beta, first._num_action_samples) == (1.0, 16)
    assert (second._temperature_beta, second._num_action_samples) == (1.0, 16)
    assert samplers.PolicyCriticRNNState._fields == ("policy", "critic")


X = {"x": tf.zeros([B, 4]), "y": tf.zeros([B, 1, 1])}
VECTOR = lambda o: o["x"][:, :2]
VALUE = lambda o, a: a[:, 0]
CALLS = {
    "wide values": ((VECTOR, lambda o, a: a), ValueError, r"\(15, 2\) for 15 candidates.*\[15\]"),
    "few values": ((VECTOR, lambda o, a: a[:B, 0]), ValueError, r"values of shape \(3,\)"),
    "scalar value": ((VECTOR, lambda o, a: a[0, 0]), ValueError, r"values of shape \(\)"),
    "matrix values": ((VECTOR, lambda o, a: tfd.Normal(a, 1.0)), ValueError, r"shape \(15, 2\)"),
    "integers": ((VECTOR, lambda o, a: tf.cast(a[:, 0], tf.int32)), TypeError, "critic.* int32"),
    "no values": ((VECTOR, lambda o, a: None), TypeError, "output of critic_network is a NoneType"),
    "few actions": (
        (lambda o: o["x"][:B], VALUE),
        ValueError,
        r"action of actor_network has shape",
    ),
    "one action": ((lambda o: o["x"][0, 0], VALUE), ValueError, "must have 15 rows on axis 0"),
    "nested action": (
        (lambda o: {"a": o["x"], "b": (o["x"][:2],)}, VALUE),
        ValueError,
        r"action of actor_network\['b'\]\[0\] has shape \(2, 4\)",
    ),
    "unbatched": ((lambda o: tfd.Normal(0.0, 1.0), VALUE), ValueError, "batch shape must begin"),
    "batch of 1": ((lambda o: normal(tf.zeros([1, 4])), VALUE), ValueError, r"shape \(1, 2\)"),
    "mixed": ((lambda o: (o["x"], normal(o["x"])), VALUE), TypeError, "distributions beside"),
}


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("name", CALLS)
def test_networks_that_do_not_fit(name, mode):
    networks, error, message = CALLS[name]
    with pytest.raises(error, match=message):
        modes.MODES[mode](samplers.ExpQWeightedPolicy(*networks, 1.0, N).__call__)(X)


def test_feed_forward_networks_have_no_state():
    for networks, name in (((snt.Linear(2), len), "policy"), ((len, snt.Linear(1)), "critic")):
        with pytest.raises(TypeError, match=f"{name}_network is a feed-forward Linear, but must"):
            samplers.RecurrentExpQWeightedPolicy(*networks)


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_leaves_that_are_no_tensors(mode):
    sampler = samplers.ExpQWeightedPolicy(VECTOR, VALUE, 1.0, N)
    with pytest.raises(TypeError, match=r"the observation\['y'\] is a NoneType"):
        modes.MODES[mode](lambda x: sampler({"x": x, "y": None}))(X["x"])
    sampler = samplers.ExpQWeightedPolicy(lambda o: None, VALUE, 1.0, N)
    with pytest.raises(TypeError, match="an action of actor_network is a NoneType"):
        modes.MODES[mode](sampler.__call__)(X)


OBSERVATIONS = {
    "scalar": ({**X, "y": tf.constant(1.0)}, "must have a batch axis"),
    "empty": ({}, "must have a batch axis"),
    "sizes": ({**X, "y": tf.zeros([2, 1])}, r"observation\['y'\] has shape \(2, 1\).* 3 rows"),
}


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_observations_that_do_not_fit(name):
    observation, message = OBSERVATIONS[name]
    with pytest.raises(ValueError, match=message):
        samplers.ExpQWeightedPolicy(VECTOR, VALUE, 1.0, N)(observation)


State = samplers.PolicyCriticRNNState
POLICY = RecordingPolicy().initial_state(B)
CRITIC = RecordingCritic().initial_state(B)
STATES = {
    "tuple": ((POLICY, CRITIC), TypeError, "prev_state is a tuple.*PolicyCriticRNNState"),
    "structure": (State(POLICY["action"], CRITIC), ValueError, "prev_state.policy does not have"),
    "critic": (State(POLICY, CRITIC[:1]), ValueError, "prev_state.critic does not have"),
    "rows": (
        State({**POLICY, "matrix": tf.zeros([2, 2, 3])}, CRITIC),
        ValueError,
        r"prev_state.policy\['matrix'\] has shape \(2, 2, 3\), but must have 3 rows",
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_states_that_do_not_fit(name):
    state, error, message = STATES[name]
    sampler = samplers.RecurrentExpQWeightedPolicy(RecordingPolicy(), RecordingCritic(), 1.0, N)
    with pytest.raises(error, match=message):
        sampler(X, state)


CORES = {
    "policy pair": (lambda o, s: o["x"], None, TypeError, "policy_network returned a .*the pair"),
    "critic pair": (None, lambda o, a, s: a[:, 0], TypeError, "critic_network returned a .*pair"),
    "policy rows": (lambda o, s: (o["x"], o["x"][:2]), None, ValueError, "state of policy_network"),
    "critic rows": (
        None,
        lambda o, a, s: (a[:, 0], (a[:2], a)),
        ValueError,
        r"a next state of critic_network\[0\] has shape \(2, 2\), but must have 15 rows",
    ),
}


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("name", CORES)
def test_cores_that_do_not_fit(name, mode):
    policy, critic, error, message = CORES[name]
    policy, critic = policy or RecordingPolicy(), critic or RecordingCritic()
    sampler = samplers.RecurrentExpQWeightedPolicy(policy, critic, 1.0, N)
    with pytest.raises(error, match=message):
        modes.MODES[mode](sampler.__call__)(X, State(POLICY, CRITIC))


def test_networks_without_initial_state():
    for networks, name in (
        ((len, RecordingCritic()), "policy"),
        ((RecordingPolicy(), len), "critic"),
    ):
        with pytest.raises(TypeError, match=f"{name}_network has no initial_state"):
            samplers.RecurrentExpQWeightedPolicy(*networks).initial_state(2)


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_no_numbers(bad, mode):
    """NaN and infinity stop the program; minus infinity does only if nothing else is there."""
    values = np.zeros([2, 3], np.float32)
    table = nets.Table(np.zeros([2, 3, 1], np.float32), values)
    fn = modes.MODES[mode](samplers.ExpQWeightedPolicy(table.actor, table.critic, 1.0, 3).__call__)
    values[1, 2] = bad
    with pytest.raises(tf.errors.InvalidArgumentError, match="critic_network returned NaN"):
        fn(tf.range(2))
    values[1] = -np.inf
    with pytest.raises(tf.errors.InvalidArgumentError, match="critic_network returned NaN"):
        modes.MODES[mode](
            lambda x: samplers.ExpQWeightedPolicy(table.actor, table.critic, 1.0, 3)(x)
        )(tf.range(2))


def test_temperatures_below_the_smallest_float():
    table = nets.Table(
        np.arange(3, dtype=np.float32)[np.newaxis, :, np.newaxis], np.array([[0.0, 1, 0]])
    )
    sampler = samplers.ExpQWeightedPolicy(table.actor, table.critic, 1e-60, 3)
    assert (sampler(tf.zeros([100], tf.int32)) == 1).numpy().all()
