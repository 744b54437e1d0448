"""The skeleton, on a toy: strategies, target copies, state, errors."""

from __future__ import annotations

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tree

from tests import strategies
from tests.learners import toy
from tfagents_x.learners import base
from tfagents_x.utils import counting, distribute, loggers

STEPS = 4
KINDS = {"mirrored": tf.distribute.MirroredStrategy, "replicator": snt.distribute.Replicator}
COPY = {"period": 2, "count_this": True}


def reference():
    learner = toy.ToyLearner(toy.samples(STEPS), copy=COPY)
    return learner, toy.run(learner)


@pytest.mark.parametrize("jit", [False, True], ids=["graph", "xla"])
@pytest.mark.parametrize("kind", KINDS)
def test_two_replicas_equal_one(kind, jit):
    expected, expected_metrics = reference()
    strategy = strategies.mirrored(KINDS[kind])
    learner = toy.ToyLearner(toy.samples(STEPS), strategy, COPY, jit_compile=jit)
    toy.assert_same(toy.run(learner), expected_metrics)
    toy.assert_same(learner.save(), expected.save())
    for network in learner._networks.values():
        for variable in network.variables:
            first, second = strategy.experimental_local_results(variable)
            np.testing.assert_array_equal(first, second)


def test_datasets_are_distributed_like_iterators():
    expected, expected_metrics = reference()
    signature = tree.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), next(toy.samples(1)))
    for strategy in (None, strategies.mirrored()):
        dataset = tf.data.Dataset.from_generator(
            lambda: toy.samples(STEPS), output_signature=signature
        )
        learner = toy.ToyLearner(dataset, strategy, COPY)
        toy.assert_same(toy.run(learner), expected_metrics)
        toy.assert_same(learner.save(), expected.save())


def test_variables_of_a_plain_mirrored_scope_are_trained_too():
    """Networks that a user made in `strategy.scope()`, whose variables refuse replica updates."""
    expected, expected_metrics = reference()
    strategy = strategies.mirrored()

    class PlainScope(toy.ToyLearner):
        @staticmethod
        def _layer(index):
            with strategy.scope():
                return toy.ToyLearner._layer(index)

    # Leave distribute.scope, so that nothing makes the variables replica-local.
    scope, distribute.scope = distribute.scope, lambda s=None: strategy.scope()
    try:
        learner = PlainScope(toy.samples(STEPS), strategy, COPY)
    finally:
        distribute.scope = scope
    assert learner.online.w.synchronization != tf.VariableSynchronization.ON_READ
    toy.assert_same(toy.run(learner), expected_metrics)
    toy.assert_same(learner.save(), expected.save())


def test_eager_equals_graph():
    expected, expected_metrics = reference()
    tf.config.run_functions_eagerly(True)
    try:
        learner = toy.ToyLearner(toy.samples(STEPS), copy=COPY)
        toy.assert_same(toy.run(learner), expected_metrics)
    finally:
        tf.config.run_functions_eagerly(False)
    toy.assert_same(learner.save(), expected.save())


def test_keys_stay_on_the_host_at_full_width():
    learner = toy.ToyLearner(toy.samples(1))
    learner.step()
    ((keys, (errors,)),) = learner.seen
    assert np.asarray(keys).dtype == np.uint64 and int(keys[0]) == 2**40
    assert errors.shape == (8,)


@pytest.mark.parametrize(
    ("copy", "copied_after"),
    [
        ({"period": 2}, [1, 3]),
        ({"period": 2, "count_this": True}, [2, 4]),
        ({"period": 3, "count_this": True}, [3]),
    ],
)
def test_target_copies_after_the_update(copy, copied_after):
    learner = toy.ToyLearner(toy.samples(STEPS), copy=copy)
    equal = []
    for k in range(1, STEPS + 1):
        learner.step()
        if np.array_equal(learner.online.w, learner.target.w):
            equal.append(k)
    assert equal == copied_after


def test_target_copy_at_the_start():
    """The first update already regresses on the copied (online) weights."""
    learner = toy.ToyLearner(toy.samples(3), copy={"period": 2, "at_start": True})
    start = learner.online.w.numpy()
    expected = []
    for k in range(3):
        if k % 2 == 0:
            start = learner.online.w.numpy()
        expected.append(start)
        learner.step()
        np.testing.assert_array_equal(learner.target.w, expected[-1])
    frozen = toy.ToyLearner(toy.samples(1))
    copied = toy.ToyLearner(toy.samples(1), copy={"period": 2, "at_start": True})
    assert float(frozen.step()["other_loss"]) != float(copied.step()["other_loss"])


def test_nothing_is_retraced():
    learner = toy.ToyLearner(toy.samples(6), copy=COPY)
    toy.run(learner, 6)
    assert learner.traces == 1


def test_clipping_limits_the_update():
    free, clipped = (toy.ToyLearner(toy.samples(1), max_norm=m) for m in (None, 1e-3))
    data = tree.map_structure(tf.constant, next(toy.samples(1)).data)
    gradients, _ = clipped._gradients(data)
    assert float(tf.linalg.global_norm(gradients["online"])) > 1e-3
    free.step(), clipped.step()
    slots = lambda learner: tf.linalg.global_norm(learner._trained["online"].optimizer.m)
    np.testing.assert_allclose(slots(clipped), 1e-3 * 0.1, rtol=1e-4)
    assert float(slots(free)) > float(slots(clipped))


@pytest.mark.parametrize("restored_on", [1, 2])
def test_save_and_restore_continue_exactly(restored_on):
    whole = toy.ToyLearner(toy.samples(STEPS), copy=COPY)
    toy.run(whole)
    stream = toy.samples(STEPS)
    first = toy.ToyLearner(stream, strategies.mirrored() if restored_on == 1 else None, COPY)
    toy.run(first, 2)
    state = first.save()
    assert all(isinstance(x, (np.ndarray, np.generic)) for x in tree.flatten(state))
    second = toy.ToyLearner(stream, strategies.mirrored() if restored_on == 2 else None, COPY)
    second.restore(state)
    assert second.num_updates == 2
    toy.run(second, 2)
    toy.assert_same(second.save(), whole.save())


@pytest.mark.parametrize("restored_on", [1, 2])
def test_checkpoints_continue_exactly(tmp_path, restored_on):
    whole = toy.ToyLearner(toy.samples(STEPS), copy=COPY)
    toy.run(whole)
    stream = toy.samples(STEPS)
    first = toy.ToyLearner(stream, strategies.mirrored() if restored_on == 1 else None, COPY)
    toy.run(first, 2)
    first.checkpointable.write(str(tmp_path / "c"))
    second = toy.ToyLearner(stream, strategies.mirrored() if restored_on == 2 else None, COPY)
    second.checkpointable.read(str(tmp_path / "c")).assert_consumed()
    toy.run(second, 2)
    toy.assert_same(second.save(), whole.save())


def test_get_variables():
    learner = toy.ToyLearner(toy.samples(1))
    (online, target) = learner.get_variables(["online", "target"])
    np.testing.assert_array_equal(online[1], learner.online.w)
    np.testing.assert_array_equal(target[1], learner.target.w)
    with pytest.raises(ValueError, match=r"policy.*online"):
        learner.get_variables(["policy"])
    with pytest.raises(TypeError, match="list of network names.*'online'"):
        learner.get_variables("online")


def test_counts_and_logs_tensors():
    logger = loggers.InMemoryLogger()
    counter = counting.Counter(prefix="learner")
    learner = toy.ToyLearner(toy.samples(2), logger=logger, counter=counter)
    toy.run(learner, 2)
    assert learner.num_updates == 2
    counts = counter.get_counts()
    assert counts["learner_steps"] == 2 and counts["learner_time_elapsed"] > 0
    names = {"online_loss", "other_loss", "param_norm", "param_updates_norm", "learner_steps"}
    assert names <= set(logger.data[-1])


class Unreadable(loggers.Logger):
    """A logger that wants nothing: no value may be converted for it."""

    def write(self, data):
        assert all(tf.is_tensor(v) for k, v in data.items() if k.endswith("loss"))

    def close(self):
        pass


def test_metrics_reach_the_logger_as_tensors():
    toy.ToyLearner(toy.samples(1), logger=Unreadable()).step()


def test_not_finite_stops_with_step_and_metric():
    good, bad = toy.samples(2)
    bad = bad._replace(data=(bad.data[0], bad.data[1] * np.inf))
    learner = toy.ToyLearner(iter([good, bad]))
    learner.step()
    with pytest.raises(base.NonFiniteError, match="Update 2 gave online_loss = inf") as caught:
        learner.step()
    assert caught.value.step == 2 and "online_loss" in caught.value.metrics


def test_run_takes_that_many_steps():
    learner = toy.ToyLearner(toy.samples(3))
    learner.run(3)
    assert learner.num_updates == 3
    with pytest.raises(StopIteration):
        learner.step()


def test_variables_outside_the_scope_are_refused():
    strategy = strategies.mirrored()
    made = [toy.ToyLearner._layer(i) for i in range(3)]

    class Outside(toy.ToyLearner):
        @staticmethod
        def _layer(index):
            return made[index]

    with pytest.raises(
        ValueError, match=r"online .*outside the scope of the MirroredStrategy.*with"
    ):
        Outside(toy.samples(1), strategy)


def test_restore_refuses_other_states():
    learner = toy.ToyLearner(toy.samples(1))
    state = learner.save()
    with pytest.raises(ValueError, match=r"not saved by a learner like this.*lacks \['counters"):
        learner.restore({"networks": state["networks"]})
    wrong = tree.map_structure(lambda x: np.zeros([7]) if np.ndim(x) else x, state)
    with pytest.raises(ValueError, match=r"networks/.*\(7,\).*another size"):
        learner.restore(wrong)


def test_wrong_kinds_are_explained():
    with pytest.raises(TypeError, match="dataset must be"):
        toy.ToyLearner(3)
    with pytest.raises(ValueError, match="period must be at least 1"):
        toy.ToyLearner(toy.samples(1), copy={"period": 0})
    with pytest.raises(TypeError, match="accelerator_strategy"):
        toy.ToyLearner(toy.samples(1), "two gpus")


def test_networks_without_variables_are_refused():
    class Empty(toy.ToyLearner):
        @staticmethod
        def _layer(index):
            layer = toy.ToyLearner._layer(index)
            return snt.Linear(1) if index == 1 else layer

    with pytest.raises(ValueError, match="target has no variables"):
        Empty(toy.samples(1))


def as_dataset(count, batch_size=8):
    signature = tree.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), next(toy.samples(1)))
    generate = lambda: toy.samples(count, batch_size)
    return tf.data.Dataset.from_generator(generate, output_signature=signature)


@pytest.mark.parametrize("jit", [False, True], ids=["graph", "xla"])
@pytest.mark.parametrize("several", [1, 4])
def test_the_end_of_a_dataset_changes_nothing(several, jit):
    learner = toy.ToyLearner(as_dataset(2), num_sgd_steps_per_step=several, jit_compile=jit)
    toy.run(learner, 2)
    state = learner.save()
    for _ in range(3):
        with pytest.raises(StopIteration):
            learner.step()
    assert learner.num_updates == 2 * several and learner.counter.get_counts()["steps"] == 2
    for before, after in zip(tree.flatten(state), tree.flatten(learner.save())):
        np.testing.assert_array_equal(before, after)


def test_keys_of_a_dataset_stay_on_the_host_as_they_are():
    learner = toy.ToyLearner(as_dataset(2))
    toy.run(learner, 2)
    for (keys, _), sample in zip(learner.seen, toy.samples(2)):
        assert keys.dtype == tf.uint64
        np.testing.assert_array_equal(keys, sample.info)


def test_errors_of_a_dataset_are_its_own():
    def check(sample):
        with tf.control_dependencies([tf.debugging.assert_less(sample.data[1], -9.0, "my check")]):
            return tf.nest.map_structure(tf.identity, sample)

    learner = toy.ToyLearner(as_dataset(1).map(check))
    with pytest.raises(tf.errors.InvalidArgumentError, match="my check"):
        learner.step()
    assert learner.num_updates == 0


def test_an_update_that_fails_changes_nothing():
    class Failing(toy.ToyLearner):
        def _losses(self, data):
            bad = tf.reduce_any(data[1] > 100.0)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                tf.cast(bad, tf.int32)[None] * 9, [[0.0, 0.0]]
            )
            result = super()._losses(data)
            scaled = {name: loss * losses[0] for name, loss in result.losses.items()}
            return result._replace(losses=scaled)

    sample = next(toy.samples(1))
    wrong = sample._replace(data=(sample.data[0], sample.data[1] + 1000.0))
    learner = Failing(iter([sample, wrong]))
    learner.step()
    state = learner.save()
    with pytest.raises(ValueError, match="Update 2 failed"):
        learner.step()
    for before, after in zip(tree.flatten(state), tree.flatten(learner.save())):
        np.testing.assert_array_equal(before, after)
    assert learner.num_updates == 1


def test_only_metrics_that_must_be_finite_stop_a_learner():
    class Reporting(toy.ToyLearner):
        _must_be_finite = ("online_loss",)

        def _losses(self, data):
            result = super()._losses(data)
            return result._replace(metrics={**result.metrics, "rows": np.nan * data[1]})

    learner = Reporting(toy.samples(1))
    assert learner.step()["rows"].shape == (8,)
    learner = Reporting(
        iter([next(toy.samples(1))._replace(data=(np.ones([8, 3]), np.inf * np.ones(8)))])
    )
    with pytest.raises(base.NonFiniteError, match="online_loss = inf") as error:
        learner.step()
    assert error.value.metrics == ("online_loss",)
