"""Compare accuracies with the reference implementations, and test missing labels."""

import math

import pytest
import torch

from golden_values import cases, close
from unspur.training.metrics import (
    accuracy,
    group_counts,
    group_matrix,
    mean_sd,
    mining_quality,
    scores,
)


def golden_scores(inputs):
    targets, bias = torch.tensor(inputs["labels"]), torch.tensor(inputs["bias"])
    return scores(
        torch.tensor(inputs["predictions"]),
        targets,
        classes=inputs["n_classes"],
        bias=bias,
        conflict=targets != bias,
        train_counts=torch.tensor(inputs["train_group_counts"]),
    )


@pytest.mark.parametrize(("inputs", "outputs"), cases("group_metrics"))
def test_scores_golden(inputs, outputs):
    found = golden_scores(inputs)
    # Every group with samples counts the same in `unbiased`. The reference uses this name for the accuracy
    # over an unbiased test set, which is our `average`.
    close(found.unbiased, outputs["cell_mean_accuracy"])
    close(found.aligned, outputs["sample_weighted_align"])
    close(found.conflicting, outputs["sample_weighted_conflict"])
    # An empty group is left out; group_DRO counts it as 0, so that its worst group is 0.
    close(found.worst_group, outputs["worst_nonempty_group"])
    close(found.average, outputs["jtt_average"])
    close(found.average, outputs["groupdro_average"])
    close(found.average, outputs["dcwp_total"], rtol=0, atol=1e-6)
    close(found.average_train_weighted, outputs["groupdro_train_weighted_average"])


@pytest.mark.parametrize(("inputs", "outputs"), cases("group_metrics"))
def test_group_matrix_golden(inputs, outputs):
    targets, bias = torch.tensor(inputs["labels"]), torch.tensor(inputs["bias"])
    n = inputs["n_classes"]
    correct = torch.tensor(inputs["predictions"]) == targets
    matrix = group_matrix(correct, targets, bias, classes=n, biases=n)
    counts = group_counts(targets, bias, classes=n, biases=n)
    assert counts.tolist() == outputs["group_counts"]
    torch.testing.assert_close(
        matrix.nan_to_num(-1.0),
        torch.tensor(
            [[-1.0 if a is None else a for a in row] for row in outputs["group_accuracy"]],
            dtype=torch.float64,
        ),
        rtol=1e-9,
        atol=1e-12,
    )
    assert golden_scores(inputs).groups == [
        [None if a is None else pytest.approx(a) for a in row] for row in outputs["group_accuracy"]
    ]
    # The released code takes means over groups, ours are over samples; an empty group is NaN there.
    # Its numbers follow from the matrix.
    own = torch.eye(n, dtype=torch.bool)
    close_or_nan(matrix[own].mean(), outputs["dcwp_align"])
    close_or_nan(matrix[~own].mean(), outputs["dcwp_conflict"])


def close_or_nan(actual, expected):
    if expected is None:
        assert actual.isnan()
    else:
        close(actual, expected, rtol=0, atol=1e-6)


def test_empty_groups_are_left_out():
    targets, bias = torch.tensor([0, 0, 1]), torch.tensor([0, 0, 2])
    found = scores(
        torch.tensor([0, 1, 1]),
        targets,
        classes=3,
        bias=bias,
        conflict=bias != targets,
        train_counts=torch.tensor([[6, 100, 0], [0, 100, 2], [100, 100, 100]]),
    )
    assert found.groups == [[0.5, None, None], [None, None, 1.0], [None, None, None]]
    assert found.unbiased == 0.75
    assert found.worst_group == 0.5
    assert found.average == pytest.approx(2 / 3)
    assert found.average_train_weighted == pytest.approx((6 * 0.5 + 2 * 1.0) / 8)


def test_without_aligned_or_conflicting_samples_that_accuracy_is_none():
    targets = torch.tensor([0, 1, 1])
    found = scores(
        torch.tensor([0, 1, 0]),
        targets,
        classes=2,
        bias=targets,
        conflict=torch.zeros(3, dtype=torch.bool),
    )
    assert found.conflicting is None
    assert found.aligned == pytest.approx(2 / 3)
    assert found.average_train_weighted is None


def test_test_data_without_any_group_of_the_training_data():
    bias = torch.tensor([1, 1])
    found = scores(
        torch.tensor([0, 0]),
        torch.tensor([0, 0]),
        classes=2,
        bias=bias,
        conflict=bias == 1,
        train_counts=torch.tensor([[5, 0], [0, 5]]),
    )
    assert found.average_train_weighted is None
    assert found.unbiased == 1


def test_without_bias_labels_only_the_average_is_known():
    found = scores(torch.tensor([0, 1, 1, 0]), torch.tensor([0, 1, 0, 0]), classes=2)
    assert found.average == 0.75
    rest = {name: value for name, value in found.as_json().items() if name != "average"}
    assert set(rest.values()) == {None}
    assert len(rest) == 6


@pytest.mark.parametrize(("inputs", "outputs"), cases("group_metrics")[1:2])
def test_inverted_conflict_swaps_aligned_and_conflicting(inputs, outputs):
    """On CelebA a sample contradicts the shortcut if target and bias are equal."""
    targets, bias = torch.tensor(inputs["labels"]), torch.tensor(inputs["bias"])
    turned = scores(
        torch.tensor(inputs["predictions"]),
        targets,
        classes=2,
        bias=bias,
        conflict=targets == bias,
        train_counts=torch.tensor(inputs["train_group_counts"]),
    )
    plain = golden_scores(inputs).as_json()
    plain["aligned"], plain["conflicting"] = plain["conflicting"], plain["aligned"]
    assert turned.as_json() == plain
    close(turned.conflicting, outputs["sample_weighted_align"])


def test_more_bias_values_than_classes():
    targets, bias = torch.tensor([0, 1, 1, 0]), torch.tensor([3, 0, 3, 1])
    found = scores(targets, targets, classes=2, bias=bias, conflict=bias != targets)
    assert found.groups == [[None, 1.0, None, 1.0], [1.0, None, None, 1.0]]


@pytest.mark.parametrize(("inputs", "outputs"), cases("ecs_scores"))
def test_mining_quality_golden(inputs, outputs):
    flagged = torch.tensor(outputs["flags"], dtype=torch.bool)
    truth = torch.tensor(inputs["labels"]) != torch.tensor(inputs["bias"])
    found = mining_quality(flagged, truth)
    assert found["precision"] == pytest.approx(outputs["precision"])
    assert found["recall"] == pytest.approx(outputs["recall"])


def test_mining_quality_without_suspects_or_conflicting_samples():
    none, some = torch.zeros(3, dtype=torch.bool), torch.tensor([True, False, True])
    assert mining_quality(none, some) == {"precision": None, "recall": 0.0}
    assert mining_quality(some, none) == {"precision": 0.0, "recall": None}
    assert mining_quality(some, some) == {"precision": 1.0, "recall": 1.0}


def test_accuracy_of_nothing_is_none():
    assert accuracy(torch.zeros(0, dtype=torch.bool)) is None
    assert accuracy(torch.tensor([True, False, False, False])) == 0.25


def test_mean_and_sample_deviation():
    assert mean_sd([1.0, 2.0, 4.0]) == pytest.approx((7 / 3, math.sqrt(7 / 3)))
    assert mean_sd([0.5]) == (0.5, None)
