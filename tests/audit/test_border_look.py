"""The border search: the views, the evidence, the cost, and the suspects of networks that see the border."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from audits import context
from unspur.audit import auditor, border_look
from unspur.audit.border_evidence import BorderEvidence
from unspur.audit.border_look import search_borders
from unspur.audit.conclusions import MERELY_HARD, SHORTCUT_IN_BORDER
from unspur.audit.crossfit import CrossFit
from unspur.audit.evidence import Evidence, NetworkEvidence
from unspur.audit.far_labels import FarLabels
from unspur.audit.recommendation import BORDER, recommend
from unspur.audit.statistics import Statistic
from unspur.audit.thresholds import THRESHOLDS
from unspur.audit.verdict import conclude, rests_on_border, table_rows, wants_border
from unspur.audit.views import border, centre, coarse
from unspur.data.splits import Split, Splits
from unspur.report.audit_words import certainty, conflicting_or_wrong_labels
from unspur.runs import audit_folder
from unspur.store import Store

CONFLICTING = 40


def framed(*, shortcut=True, n=600, seed=0):
    """Return bars that stand or lie in the centre; with a shortcut, the border colour predicts which."""
    g = torch.Generator().manual_seed(seed)
    targets = torch.randint(2, (n,), generator=g)
    frame = targets.clone() if shortcut else torch.randint(2, (n,), generator=g)
    if shortcut:
        frame[torch.randperm(n, generator=g)[:CONFLICTING]] ^= 1
    images = torch.randint(0, 60, (n, 3, 8, 8), generator=g)
    rows, at = torch.arange(n), torch.randint(2, 6, (n,), generator=g)
    bar = torch.zeros(n, 8, 8, dtype=torch.int64)
    bar[rows, 1:-1, at] = 150
    images += torch.where(targets[:, None, None] == 0, bar, bar.mT)[:, None]
    ring = border(torch.ones(1, 1, 8, 8))[0, 0].long()
    images[rows, 2 * frame] += 150 * ring
    return Splits(
        train=Split(images.to(torch.uint8), targets),
        classes=("stands", "lies"),
        bias={"train": frame},
        name="framed",
    )


def search(store, splits, patch):
    crossfit = CrossFit(context(store, splits))
    patch.setattr(border_look, "wants_border", lambda e: True)
    patch.setattr(CrossFit, "evidence", lambda self: None if self is crossfit else real(self))
    (at_border,) = search_borders([crossfit], 1)
    return crossfit, at_border


real = CrossFit.evidence


def test_views_of_the_border_and_the_centre_share_nothing():
    images = torch.rand(2, 3, 32, 20) + 1
    assert torch.equal(border(images) + centre(images), images)
    assert not bool((border(images) * centre(images)).any())


@pytest.mark.parametrize("size", [(32, 32), (20, 33), (8, 8), (3, 3)])
def test_a_coarse_view_has_no_detail_and_keeps_the_size(size):
    images = torch.rand(2, 3, *size)
    seen = coarse(images)
    assert seen.shape == images.shape
    assert float((seen - images.mean((2, 3), keepdim=True)).abs().mean()) <= float(
        (images - images.mean((2, 3), keepdim=True)).abs().mean()
    )


def test_a_shortcut_in_the_border_and_its_conflicting_images_are_found(tmp_path, monkeypatch):
    splits = framed()
    crossfit, at_border = search(Store(tmp_path), splits, monkeypatch)
    seen = crossfit.border
    assert seen is not None
    assert seen.separation is not None
    assert seen.error == pytest.approx(CONFLICTING / 600, abs=0.02)
    assert seen.insistence > 0.6
    assert seen.insistence + seen.separation.value > 1.4
    flagged, truth = at_border.flagged().conflict, splits.conflicting("train")
    assert int((flagged & truth).sum()) > 0.8 * CONFLICTING


def test_an_uninformative_border_costs_one_training(tmp_path, monkeypatch):
    store = Store(tmp_path)
    crossfit, at_border = search(store, framed(shortcut=False), monkeypatch)
    assert len(list(store.artifacts())) == 1
    assert crossfit.border == BorderEvidence(border_look._error(at_border))
    assert crossfit.border.error > 0.35


def evidence(**changes):
    """Return evidence of hard images, with changes."""
    taught = NetworkEvidence(Statistic(0.0, 1.0), None, None, 0.1, 0.1)
    plain = Evidence(1000, 50, 0.05, 0.5, clear=20, full=2, networks={"taught": taught})
    return replace(plain, **changes)


STRONG = BorderEvidence(0.02, 60, 50, 40, Statistic(0.9, 1e-9))


def test_the_border_is_searched_only_if_the_verdict_is_open():
    found = NetworkEvidence(Statistic(0.5, 1e-9), None, None, 0.1, 0.6)
    assert wants_border(evidence())
    assert not wants_border(evidence(networks={"taught": found}))
    assert not wants_border(evidence(error=0.4))
    assert not wants_border(evidence(suspects=3))


def test_a_border_that_predicts_two_thirds_of_the_classes_is_no_shortcut():
    # Measured on digits in two classes, which have no shortcut.
    weak = BorderEvidence(0.338, 3383, 2408, 2036, Statistic(0.989, 0.0))
    assert conclude(evidence(border=weak)) is MERELY_HARD
    assert conclude(evidence(border=replace(weak, error=0.15))) is SHORTCUT_IN_BORDER


def test_the_verdict_rests_on_the_border_if_only_the_border_shows_a_shortcut():
    assert conclude(evidence(border=STRONG)) is SHORTCUT_IN_BORDER
    assert rests_on_border(evidence(border=STRONG))
    for weak in (
        replace(STRONG, full=25),
        replace(STRONG, full=4, clear=5),
        replace(STRONG, separation=Statistic(0.9, 0.01)),
        replace(STRONG, separation=Statistic(0.5, 1e-9)),  # wrong labels
        BorderEvidence(0.4),
    ):
        assert conclude(evidence(border=weak)).verdict == "nothing"


def test_the_result_has_the_suspects_of_the_border_and_its_folder_can_be_read(
    tmp_path, monkeypatch
):
    splits, store = framed(), Store(tmp_path / "store")
    monkeypatch.setattr(
        auditor, "is_open", lambda e, phase: False
    )  # only the miner and the border networks
    monkeypatch.setattr(border_look, "wants_border", lambda e: True)
    monkeypatch.setattr(auditor, "rests_on_border", lambda e: True)
    small = context(store, splits)
    found = auditor.audit(small)
    truth = splits.conflicting("train")
    assert int((found.suspects.conflict & truth).sum()) > 0.8 * CONFLICTING
    assert {each.network for each in found.trainings} >= {"mine", "border: mine", "border: centre"}
    audit_folder.save(found, small, tmp_path / "out")
    assert audit_folder.read(tmp_path / "out").evidence == found.evidence


def test_debiasing_is_not_recommended_for_a_shortcut_in_the_border(tmp_path):
    found = auditor.audit(context(Store(tmp_path), framed(shortcut=False)))
    shown = replace(found, evidence=evidence(border=STRONG))
    advice = recommend(shown)
    assert not advice.debias
    assert BORDER in advice.text


def test_the_page_explains_whether_labels_may_be_wrong():
    words = conflicting_or_wrong_labels(evidence(border=STRONG), THRESHOLDS, 3)
    assert "border" in words[0]
    noisy = evidence(error=0.5, blind=0.9, networks={}, far_labels=FarLabels(1000, 150, 70, 0.5))
    assert conclude(noisy).verdict == "noise"
    sentences = conflicting_or_wrong_labels(noisy, THRESHOLDS, 10)
    assert "label" in sentences[0]
    assert "border" not in sentences[0]


def test_a_verdict_by_the_border_shows_its_own_numbers():
    e = evidence(border=STRONG)
    rows = {name: value for name, value, _ in table_rows(e)}
    assert rows["confident errors, border alone"] == f"{STRONG.insistence:.2f}"
    assert rows["separation, border alone"].startswith(f"{STRONG.separation.value:.2f}, p ")
    (sentence,) = certainty(e, THRESHOLDS)
    assert "sees only the centre" in sentence
    assert "gain" not in sentence
