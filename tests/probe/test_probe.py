"""Probes: the cue that a model uses is found, others are not claimed, and the statistics are exact."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import unspur
from unspur.data.splits import Split
from unspur.errors import DataError, ModelError, UsageError
from unspur.probe import wording
from unspur.probe.cues import Border
from unspur.probe.donors import choose_donors
from unspur.probe.findings import Probe
from unspur.probe.image_changes import StyleOf, hide
from unspur.probe.measuring import ProbedImages, measure
from unspur.probe.paired import compare, interval, sign_test
from unspur.report.probe_page import render

CLASSES = ("wolf", "husky", "fox")


def test_a_difference_of_about_nothing_has_no_negative_zero() -> None:
    assert [wording.points(value) for value in (-0.0004, 0.0, -0.0006)] == ["+0.0", "+0.0", "−0.1"]
    assert wording.percent(0.62) == "62.0\N{NO-BREAK SPACE}%"


def pictures(count: int = 150, *, cue: str = "border", seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return noise of three classes: the class is the brightest channel in the middle and at the cue."""
    g = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 60, (count, 3, 16, 16), generator=g, dtype=torch.uint8)
    labels = torch.randint(3, (count,), generator=g)
    rows = torch.arange(count)
    images[rows, labels, 6:10, 6:10] += 100
    if cue == "border":
        images[rows, labels, :2] += 150
    return images, labels


class Middle(nn.Module):
    """A model that uses only the middle of an image."""

    def forward(self, images: Tensor) -> Tensor:
        return images[:, :, 6:10, 6:10].float().mean((2, 3))


class Frame(nn.Module):
    """A model that uses only the upper rows of an image."""

    def forward(self, images: Tensor) -> Tensor:
        return images[:, :, :2].float().mean((2, 3))


CHEAP = ["border", "corners", "colour", "light", "detail"]


def probe(
    model: nn.Module | dict[str, nn.Module], change: object = None, **options: object
) -> Probe:
    images, labels = pictures()
    arguments = {"labels": labels, "classes": CLASSES, **options}
    return unspur.probe(model, images, CHEAP if change is None else change, **arguments)  # type: ignore[arg-type]


def test_the_cue_that_a_model_relies_on_is_ranked_first() -> None:
    found = probe(Frame())
    assert found.changes[0].name == "border"
    assert found.changes[0].first.pull.difference > 0.9
    assert "the border" in wording.headline(found)
    assert "the model" in wording.effect_sentence(found.changes[0], "model")


def test_nothing_is_claimed_of_a_model_that_ignores_the_cues() -> None:
    found = probe(Middle(), ["border", "corners", "region 0,0,4,4"])
    assert found.claims == []
    assert all(change.first.pull.p_value > 0.05 for change in found.changes)
    assert wording.headline(found).startswith("No sign")
    assert probe(Middle(), "region 6,6,4,4").claims[0].name == "region 6,6,4,4"


def test_both_models_are_scored_on_the_same_images() -> None:
    found = probe({"ordinary": Frame(), "debiased": Middle()}, "border")
    change = found.changes[0]
    assert change.models["ordinary"].is_claimed
    assert not change.models["debiased"].is_claimed
    assert change.gap is not None
    assert change.gap[1][0] > 0.8
    assert found.comparisons == 2
    assert "less than on the ordinary" in wording.gap_sentence(change)


def test_the_interval_between_two_models_has_a_width_for_few_images() -> None:
    """All effects are 1 on one model and 0 on the other, but 20 images cannot show that."""
    images, labels = pictures(20)
    models = {"ordinary": Frame(), "debiased": Middle()}
    found = unspur.probe(models, images, "border", labels=labels, classes=CLASSES)
    value, (low, high) = found.changes[0].gap or (0.0, (0.0, 0.0))
    assert value == 1
    assert low < 0.95
    assert 1 <= high <= 2


class TwoClasses(nn.Module):
    """A model that uses only the middle of an image, and never predicts the last class."""

    def forward(self, images: Tensor) -> Tensor:
        return images[:, :, 6:10, 6:10].float().mean((2, 3)) - torch.tensor([0.0, 0.0, 1e9])


def test_a_change_that_cannot_be_measured_is_ranked_last() -> None:
    """No image is predicted as a fox, so there is no style of foxes."""
    styles: list[object] = [StyleOf(name) for name in ("husky", "fox", "wolf")]
    found = probe(TwoClasses(), [*styles, "region 6,6,4,4"])
    effects = [change.first.pull.difference for change in found.changes]
    assert math.isnan(effects[-1])
    assert effects[:-1] == sorted(effects[:-1], reverse=True)
    assert found.changes[-1].first.pull.count == 0


def test_flips_are_counted_and_shown() -> None:
    change = probe(Frame(), "border").changes[0]
    row = wording.flipped_classes(change.first)[0]
    assert 0 < row.taken <= row.recognised
    sentence = wording.flip_sentence(change, row)
    assert sentence.startswith(f"{row.taken} of {row.recognised} ")
    assert sentence.endswith("without the border.")
    flip = change.flips[0]
    assert flip.before == flip.label != flip.after
    assert not torch.equal(flip.picture, flip.changed)


def test_images_need_no_labels() -> None:
    found = probe(Frame(), "border", labels=None)
    assert found.claims
    assert not found.labelled
    assert found.changes[0].first.right.before == 1


def test_a_patch_moves_predictions_to_its_class(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from PIL import Image

    from unspur.probe.patches import read_patch

    Image.new("RGB", (4, 4), (0, 255, 0)).save(tmp_path / "green.png")
    patch = read_patch(tmp_path / "green.png", "top")
    images, labels = pictures(cue="none")
    found = unspur.probe(Frame(), images, patch, labels=labels, classes=CLASSES)
    assert found.claims
    assert found.changes[0].first.towards == "husky"
    assert not probe(Middle(), patch).claims


def test_the_style_of_a_class_is_given_to_the_others() -> None:
    class Reddest(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return images.float().mean((2, 3))

    change = probe(Reddest(), StyleOf("husky")).changes[0]
    assert change.first.pull.after > 0.9
    assert change.first.pull.count == int((pictures()[1] != 1).sum())
    with pytest.raises(UsageError, match="no class 'cat'"):
        probe(Reddest(), StyleOf("cat"))


def test_a_function_without_a_control_claims_nothing() -> None:
    def reddish(image: Tensor) -> Tensor:
        image[0, :2] = 255
        return image

    def covered(image: Tensor) -> Tensor:
        image[:, :2] = image[:, 7:9]
        return image

    alone = probe(Frame(), reddish).changes[0]
    assert not alone.is_claimed
    assert "no control" in alone.doubt
    assert alone.first.towards == "wolf"
    assert probe(Frame(), reddish, control=covered).changes[0].is_claimed


def test_the_same_seed_gives_the_same_numbers() -> None:
    first, second, other = (wording.as_json(probe(Frame(), seed=seed)) for seed in (1, 1, 2))
    assert first == second != other


def test_a_split_can_be_probed_with_fewer_images() -> None:
    images, labels = pictures()
    found = unspur.probe(Frame(), Split(images, labels), "border", most=60)
    assert (found.images, found.classes) == (60, ("0", "1", "2"))
    assert found.claims


def test_invalid_inputs_are_refused() -> None:
    images, labels = pictures()
    with pytest.raises(DataError, match="at least 20"):
        unspur.probe(Frame(), images[:10], "border", labels=labels[:10])
    with pytest.raises(UsageError, match="image size"):
        unspur.probe(Frame(), "photos", "border")
    with pytest.raises(DataError, match="as many labels"):
        unspur.probe(Frame(), images, "border", labels=labels[:10])
    with pytest.raises(DataError, match="batch"):
        unspur.probe(Frame(), images[0], "border")
    with pytest.raises(ModelError, match="logit"):
        unspur.probe(Frame(), images, "border", classes=("a", "b"))
    with pytest.raises(UsageError, match="no change"):
        unspur.probe(Frame(), images, [])


def test_the_page_escapes_names() -> None:
    nasty = ("<script>wolf</script>", "husky", "fox")
    text = render(probe({"ordinary": Frame(), "debiased": Middle()}, ["border"], classes=nasty))
    assert "<script>wolf" not in text
    assert "&lt;script&gt;wolf" in text
    assert "data:image/png" in text


# Statistics


def test_one_donor_has_the_same_class_and_one_another_class() -> None:
    predicted = torch.tensor([0, 0, 0, 1, 1, 2])
    donors = choose_donors(predicted, seed=0)
    assert donors.usable.tolist() == [True] * 5 + [False]  # the last is the only image of its class
    index = donors.usable.nonzero().squeeze(1)
    assert torch.equal(predicted[donors.own[index]], predicted[index])
    assert bool((donors.own[index] != index).all())
    assert torch.equal(predicted[donors.other[index]], donors.towards[index])
    assert bool((donors.towards[index] != predicted[index]).all())
    only = choose_donors(predicted, seed=0, towards=1)
    assert only.usable.tolist() == [True, True, True, False, False, False]


def test_the_sign_test_is_exact() -> None:
    assert sign_test(0, 0) == 1
    assert sign_test(5, 0, one_sided=True) == pytest.approx(1 / 32)
    assert sign_test(5, 0) == pytest.approx(1 / 16)
    assert sign_test(0, 5, one_sided=True) == 1
    assert sign_test(3, 3) == 1
    assert 0 < sign_test(3000, 100, one_sided=True) < 1e-300 or sign_test(3000, 100) == 0


def test_intervals_have_their_coverage() -> None:
    """About 95 % of the intervals of 2,000 simulated probes contain the true difference."""
    rng = np.random.default_rng(0)
    for gain, loss, count in ((0.05, 0.05, 100), (0.3, 0.02, 60), (0.01, 0.0, 200)):
        draws = rng.multinomial(count, [gain, loss, 1 - gain - loss], size=2000)
        ends = [interval(int(draw[0]), int(draw[1]), count) for draw in draws]
        covered = np.mean([low <= gain - loss <= high for low, high in ends])
        assert covered > 0.93


def test_more_comparisons_widen_intervals_and_raise_p_values() -> None:
    before = torch.zeros(50, dtype=torch.bool)
    after = before.clone()
    after[:12] = True
    one, many = compare(before, after), compare(before, after, comparisons=10)
    assert many.interval[0] < one.interval[0] < one.difference < one.interval[1] < many.interval[1]
    assert many.p_value == pytest.approx(10 * one.p_value)
    assert math.isnan(compare(before[:0], before[:0]).before)


class Unstable(nn.Module):
    """A model whose predictions change with the border, but not towards the class of the donor."""

    def forward(self, images: Tensor) -> Tensor:
        middle, border = images[:, :, 6:10, 6:10].double(), images[:, :, :2].double()
        middle, border = middle.mean((2, 3)), border.mean((2, 3))
        return middle + 30 * torch.sin(middle * border)


def test_a_cue_that_does_not_predict_the_class_is_rarely_significant() -> None:
    """The error rate of 200 probes with random borders is that of the level, 5 %."""
    significant = changed = 0
    for seed in range(200):
        g = torch.Generator().manual_seed(seed)
        images = torch.randint(0, 256, (40, 3, 16, 16), generator=g, dtype=torch.uint8)
        probed = ProbedImages(images, None, CLASSES)
        found = measure({"model": Unstable()}, probed, [Border()], torch.device("cpu"), seed=seed)
        significant += found.changes[0].first.pull.p_value <= 0.05
        changed += found.changes[0].first.right.after < 1
    assert significant <= 14
    assert changed > 150


def test_background_and_text_are_found() -> None:
    pytest.importorskip("cv2")
    pytest.importorskip("rapidocr")
    import cv2

    from unspur.probe.found_cues import background, text

    image = np.full((64, 64, 3), 40, np.uint8)
    image[20:44, 20:44] = (220, 60, 60)
    behind = background(image)
    assert behind[2, 2] == 1
    assert behind[32, 32] == 0
    assert 0.7 < behind.mean() < 0.95
    page = np.full((64, 64, 3), 200, np.uint8)
    assert text(page).sum() == 0
    cv2.putText(page, "CAT", (4, 14), 0, 0.4, (0, 0, 0), 1)
    area = text(page)
    assert area[:20].sum() > 50
    assert area[30:].sum() == 0
    some, labels = pictures(24)
    found = unspur.probe(Frame(), some, ["background", "text"], labels=labels, classes=CLASSES)
    assert found.claims == []
    assert all("segmentation" in change.doubt for change in found.changes)
    assert hide("background").exchange(some, some.flip(0)).shape == some.shape
