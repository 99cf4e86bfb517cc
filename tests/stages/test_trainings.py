"""The order of samples in debiasing: how often each suspect is sampled."""

from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor

import toys
from unspur.stages.results import Results
from unspur.stages.suspects import Suspects
from unspur.stages.trainings import oversample

MINED, BY_PERSON = [0, 1, 2], [3, 4]  # samples of the first class


def odds_of(score: Tensor, flagged: list[int], store: Path, *changes: str) -> Tensor:
    """Return how often each sample is drawn, for suspects that are graded by their scores."""
    context = toys.context(store, ["prune.graded=2", "prune.up=0", "select.rule=last", *changes])
    targets = context.splits.train.targets
    conflict = torch.zeros(len(targets), dtype=torch.bool)
    conflict[(targets == 0).nonzero().squeeze(1)[flagged]] = True
    suspects = Suspects(score, conflict, targets)
    results: dict = {"mine": SimpleNamespace(tensors=suspects.tensors("train"))}
    _, order = oversample(context, "prune", context.recipe.prune, Results(results))
    drawn = order.draw(0, 2000).flatten()
    return torch.bincount(drawn, minlength=len(targets))[(targets == 0).nonzero().squeeze(1)]


def scores(store: Path, mined: list[float], other: float) -> Tensor:
    targets = toys.context(store).splits.train.targets
    score = torch.full((len(targets),), other)
    score[(targets == 0).nonzero().squeeze(1)[MINED]] = torch.tensor(mined)
    return score


def test_a_suspect_that_only_a_person_flags_is_sampled_like_the_average_suspect(tmp_path):
    """The miner is certain of its label, so that its own grade is 0."""
    score = scores(tmp_path, [0.6, 0.9, 0.99], other=0.0)
    drawn = odds_of(score, MINED + BY_PERSON, tmp_path).double()
    average = drawn[MINED].mean()
    assert torch.allclose(drawn[BY_PERSON], average, rtol=0.1)
    assert drawn[2] > 10 * drawn[0]  # mined suspects keep their grades
    assert average > 2 * drawn[5:].mean()


def test_suspects_of_a_class_that_only_a_person_flags_are_sampled_equally(tmp_path):
    score = scores(tmp_path, [0.0, 0.0, 0.0], other=0.0)
    drawn = odds_of(score, BY_PERSON, tmp_path).double()
    assert torch.allclose(drawn[BY_PERSON], drawn[BY_PERSON].mean(), rtol=0.1)
    assert (drawn[BY_PERSON] > 2 * drawn[:3].mean()).all()
    assert (drawn > 0).all()


def test_suspects_of_an_ensemble_with_a_low_threshold_keep_their_grades(tmp_path):
    score = scores(tmp_path, [0.25, 0.45, 0.9], other=0.0)
    drawn = odds_of(
        score, MINED, tmp_path, "mine.how=epoch-ensemble", "mine.threshold=0.2"
    ).double()
    grades = torch.log(1 - score[score > 0].double()) ** 2
    assert torch.allclose(drawn[MINED] / drawn[MINED].sum(), grades / grades.sum(), atol=0.02)
