"""Several updates in one step, each on its part of the batch."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tree

from tests import strategies
from tests.learners import toy

COPY = {"period": 2, "count_this": True}


@pytest.mark.parametrize("replicas", [1, 2])
def test_minibatches(replicas):
    """Two SGD steps on halves are two updates; their metrics are averaged."""
    whole = next(toy.samples(1))
    rows = lambda start: tree.map_structure(lambda x: x[start : start + 4], whole)
    halves = [rows(0), rows(4)]
    expected = toy.ToyLearner(iter(halves), copy=COPY)
    metrics = toy.run(expected, 2)
    # A replica cuts its own share: its rows are the halves' first or second two.
    order = np.array([0, 1, 4, 5, 2, 3, 6, 7]) if replicas == 2 else np.arange(8)
    whole = tree.map_structure(lambda x: x[order], whole)
    strategy = strategies.mirrored() if replicas == 2 else None
    learner = toy.ToyLearner(iter([whole]), strategy, COPY, num_sgd_steps_per_step=2)
    (combined,) = toy.run(learner, 1)
    toy.assert_same(combined, {k: (metrics[0][k] + metrics[1][k]) / 2 for k in combined})
    toy.assert_same(learner.save(), expected.save())
    assert learner.num_updates == 2
    ((_, per_item),) = learner.seen
    errors = np.concatenate([x for _, (x,) in expected.seen])
    assert len(per_item) == replicas
    np.testing.assert_allclose(np.concatenate(per_item), errors[order], rtol=1e-5)


def test_the_graph_does_not_grow_with_the_minibatches():
    def nodes(several):
        learner = toy.ToyLearner(iter([]), num_sgd_steps_per_step=several)
        specs = tuple(tf.TensorSpec(x.shape) for x in next(toy.samples(1, 16)).data)
        return len(learner._update.get_concrete_function(specs).graph.as_graph_def().node)

    assert nodes(2) == nodes(16)


def test_uneven_batches_are_explained():
    learner = toy.ToyLearner(toy.samples(1, batch_size=7), strategies.mirrored())
    with pytest.raises(ValueError, match="7.*2 replicas.*multiple of 2"):
        learner.step()
    signature = tree.map_structure(
        lambda x: tf.TensorSpec([None, *x.shape[1:]], x.dtype), next(toy.samples(1))
    )
    dataset = tf.data.Dataset.from_generator(
        lambda: toy.samples(1, batch_size=7), output_signature=signature
    )
    learner = toy.ToyLearner(dataset, strategies.mirrored())
    with pytest.raises(ValueError, match=r"unequal shares, \[4, 3\].*multiple of 2"):
        learner.step()
    learner = toy.ToyLearner(toy.samples(1, batch_size=7), num_sgd_steps_per_step=2)
    with pytest.raises(ValueError, match="batch of 7.*num_sgd_steps_per_step = 2"):
        learner.step()


def test_minibatches_need_a_known_batch_size():
    learner = toy.ToyLearner(iter([]), num_sgd_steps_per_step=2)
    unknown = tuple(tf.TensorSpec([None, *x.shape[1:]]) for x in next(toy.samples(1)).data)
    with pytest.raises(ValueError, match="drop_remainder=True"):
        learner._update.get_concrete_function(unknown)
