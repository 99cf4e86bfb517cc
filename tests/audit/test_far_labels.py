"""Labels that a confident network finds unlikely: their count, for hard images and for wrong labels."""

from __future__ import annotations

import pytest
import torch

from unspur.audit.far_labels import FarLabels, count_far_labels, label_distance


def case(noise=0.0, n=4000, classes=10, seed=0, weak=()):
    """Return logits of a network that is often wrong, and labels; `noise` is the share of wrong labels."""
    g = torch.Generator().manual_seed(seed)
    truth = torch.randint(classes, (n,), generator=g)
    ring = (torch.arange(classes) - truth[:, None]).abs()
    logits = -1.0 * torch.minimum(ring, classes - ring) + 1.2 * torch.randn(n, classes, generator=g)
    for label in weak:
        logits[:, label] -= 20
    wrong = torch.rand(n, generator=g) < noise
    other = (truth + torch.randint(1, classes, (n,), generator=g)) % classes
    return logits, torch.where(wrong, other, truth)


def counted(logits, labels):
    found = label_distance(logits, labels)
    top = logits.topk(2, 1).values
    wrong, chance = logits.argmax(1) != labels, float(found["far_chance"])
    return count_far_labels(found["far"], top[:, 0] - top[:, 1], wrong, chance)


def test_hard_images_have_few_unlikely_labels_and_wrong_labels_have_many():
    hard, noisy = counted(*case()), counted(*case(0.25))
    assert float((case()[0].argmax(1) != case()[1]).double().mean()) > 0.4
    assert hard is None or hard.lower < 0.1
    assert noisy.lower > 0.38


def test_unlikely_labels_equal_a_plain_loop():
    logits, labels = case(0.2, n=3000)
    found = label_distance(logits, labels)
    for row, label, far in zip(
        logits.tolist(), labels.tolist(), found["far"].tolist(), strict=True
    ):
        better = sum(value > row[label] for value in row)
        assert far == (better >= 5)
    assert float(found["far_chance"]) == pytest.approx(5 / 9)


def test_classes_that_are_never_recognised_do_not_count():
    logits, labels = case(weak=(8, 9))
    found = label_distance(logits, labels)
    assert bool((found["far"][labels >= 8] == -1).all())
    assert float(found["far_chance"]) == pytest.approx(4 / 7)


def test_too_few_classes_or_mistakes_give_no_count():
    assert counted(*case(0.2, classes=4)) is None
    assert counted(*case(0.2, classes=5)) is not None
    assert counted(*case(0.2, n=200)) is None


def test_the_share_of_wrong_labels_corrects_for_chance():
    assert FarLabels(1000, 200, 25, 0.5).share == pytest.approx(0.25)
    assert 0 < FarLabels(1000, 200, 25, 0.5).lower < 0.25
