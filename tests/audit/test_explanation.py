"""Columns that explain the suspects: exact advantages, no explanation by chance, few kinds."""

import numpy as np
import pytest
import torch

from unspur.audit.explanation import Explanation, _rule, _strata, explain
from unspur.audit.explanation_columns import NONE, OTHER, column, pixel_values
from unspur.data.splits import Split

CLASSES = ("cat", "dog")


def case(n=600, share=0.05, seed=0):
    """Return targets and random suspects of both classes."""
    g = torch.Generator().manual_seed(seed)
    targets = torch.randint(2, (n,), generator=g)
    suspects = torch.rand(n, generator=g) < share
    return targets, suspects, g


def explained(targets, suspects, cells):
    columns = [column(name, "table", values) for name, values in cells.items()]
    return explain(suspects, targets, CLASSES, [c for c in columns if c], seed=0)


def test_the_column_that_separates_the_suspects_is_the_explanation():
    targets, suspects, g = case()
    site = ["north" if c else "south" for c in (targets ^ suspects.long()).tolist()]
    cells = {f"noise {i}": torch.rand(600, generator=g).tolist() for i in range(20)} | {
        "site": site
    }
    found = explained(targets, suspects, cells)
    assert [each.name for each in found.named] == ["site"]
    best = found.columns[0]
    assert best.advantage == pytest.approx(1)
    assert (best.found, best.picked) == (1, 0)
    assert best.example.kind == ("north" if best.example.label == "cat" else "south")
    assert (best.example.suspects, best.example.others) == (1, 0)


def test_a_seed_may_be_negative():
    targets, suspects, g = case()
    noise = column("noise", "table", torch.rand(600, generator=g).tolist())
    assert len(explain(suspects, targets, CLASSES, [noise], seed=-1).columns) == 1


@pytest.mark.parametrize("seed", range(5))
def test_random_columns_explain_nothing(seed):
    targets, suspects, g = case(seed=seed)
    numbers = {f"number {i}": torch.rand(600, generator=g).tolist() for i in range(20)}
    words = {
        f"word {i}": [f"w{w}" for w in torch.randint(40, (600,), generator=g).tolist()]
        for i in range(20)
    }
    assert explained(targets, suspects, numbers | words).named == []


@pytest.mark.parametrize("missing", ["", "NA", "nan", "n/a"])
def test_numbers_with_missing_cells_are_still_cut_at_their_deciles(missing):
    numbers = [f"{number:.2f}" for number in np.random.default_rng(0).random(200)]
    found = column("age", "table", [missing, *numbers])
    assert found is not None
    assert sum(" to " in name for name in found.kind_names) == 10
    assert found.kind_names[found.kinds[0]] == NONE
    words = column("word", "table", ["NA", "north", "none"] * 20)
    assert words is not None
    assert {"NA", "none", "north"} <= set(words.kind_names)


def test_a_column_among_very_many_is_found():
    targets, suspects, _ = case()
    words = np.random.default_rng(0).integers(5, size=(150, 600)).astype(str)
    cells = {f"word {i}": column for i, column in enumerate(words.tolist())}
    cells["site"] = ["north" if each else "south" for each in suspects.tolist()]
    assert [each.name for each in explained(targets, suspects, cells).named] == ["site"]


def test_a_column_that_depends_only_on_the_class_is_no_explanation():
    """All suspects are cats, and so are all images with the value 'indoors'."""
    targets, suspects, _ = case(share=0.2)
    suspects &= targets == 0
    where = ["indoors" if c == 0 else "outdoors" for c in targets.tolist()]
    assert explained(targets, suspects, {"where": where}).columns == ()


def test_suspects_at_both_ends_of_a_number_are_found():
    targets, suspects, g = case()
    values = torch.where(suspects, torch.sign(torch.randn(600, generator=g)) * 3, 0.0)
    values += torch.randn(600, generator=g) / 2
    assert explained(targets, suspects, {"light": values.tolist()}).named[0].name == "light"


def test_the_rule_equals_a_plain_loop():
    targets, suspects, g = case(n=120, share=0.3)
    kinds = torch.randint(4, (120,), generator=g)
    col = column("kind", "table", [f"k{k}" for k in kinds.tolist()])
    found = picked = 0.0
    for c in (0, 1):
        ones = [k for k, t, s in zip(kinds, targets, suspects, strict=True) if t == c and s]
        others = [k for k, t, s in zip(kinds, targets, suspects, strict=True) if t == c and not s]
        for kind in range(4):
            a = sum(k == kind for k in ones) / len(ones)
            b = sum(k == kind for k in others) / len(others)
            if a > b:
                found += float(a) * len(ones) / int(suspects.sum())
                picked += float(b) * len(ones) / int(suspects.sum())
    strata = list(_strata(col, suspects.numpy(), targets.numpy(), [0, 1]))
    assert _rule(strata) == pytest.approx((found, picked))


def test_too_few_suspects_are_not_explained():
    targets, suspects, _ = case()
    suspects[:] = False
    suspects[:9] = True
    assert explained(targets, suspects, {"x": list(map(str, range(600)))}).columns == ()


def test_p_values_are_corrected_for_the_number_of_columns():
    """With 50 random columns, the p-value of a column is 51 times that of the column alone."""
    targets, suspects, g = case()
    site = [str(int(c)) for c in targets ^ suspects.long()]
    alone = explained(targets, suspects, {"site": site}).columns[0].p_value
    many = {f"n{i}": torch.rand(600, generator=g).tolist() for i in range(50)} | {"site": site}
    assert explained(targets, suspects, many).columns[0].p_value == pytest.approx(51 * alone)


def test_the_largest_p_value_is_not_corrected():
    """Holm's method, unlike Bonferroni's, corrects the largest of two p-values for one column only."""
    targets, suspects, g = case()
    weak = torch.rand(600, generator=g) + 0.1 * suspects
    site = [str(int(c)) for c in targets ^ suspects.long()]
    alone = explained(targets, suspects, {"weak": weak.tolist()}).columns[0].p_value
    strong, same = explained(targets, suspects, {"weak": weak.tolist(), "site": site}).columns
    assert (strong.name, same.name) == ("site", "weak")
    assert same.p_value == alone > strong.p_value
    assert alone < 0.5


def test_an_explanation_survives_json():
    targets, suspects, _ = case()
    site = [str(int(c)) for c in targets ^ suspects.long()]
    found = explained(targets, suspects, {"site": site})
    assert Explanation.from_json(found.as_json()) == found
    assert found.as_json()["named"] == ["site"]


def test_columns_have_few_kinds():
    words = column("word", "table", [f"w{i % 50}" for i in range(500)] + ["", None])
    assert len(words.kind_names) == 12
    assert words.kind_names[-2:] == (OTHER, NONE)
    assert words.kinds[-1] == words.kinds[-2] == 11
    numbers = column("number", "table", [float(i) for i in range(1000)])
    assert np.bincount(numbers.kinds).tolist() == [100] * 10
    assert column("same", "table", ["a"] * 10) is None


@pytest.mark.parametrize(("first", "step"), [(20240101, 1), (1_700_000_000, 60), (1.0, 1e-7)])
def test_numbers_that_differ_only_in_late_digits_are_different_kinds(first: float, step: float):
    """Dates and times differ by less than a thousandth of their value."""
    many = column("taken", "file", [first + step * float(i) for i in range(1000)])
    assert many is not None
    assert np.bincount(many.kinds).tolist() == [100] * 10
    assert len(set(many.kind_names)) == len(many.kind_names)


def test_days_of_a_few_photographs_are_different_kinds():
    days = column("EXIF date", "file", [20240531.0, 20240601.0, 20240602.0])
    assert days is not None
    assert days.kind_names[:3] == ("20240531", "20240601", "20240602")


def test_texts_of_a_column_are_short():
    long = column("x", "table", ["a" * 10_000, "b"])
    assert max(map(len, long.kind_names)) <= 60


def test_brightness_and_colour_are_measured_from_pixels():
    images = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
    images[1, 0] = 255
    values = pixel_values(Split(images, torch.tensor([0, 1])))
    assert values["brightness"] == pytest.approx([0, 1 / 3])
    assert values["red"] == pytest.approx([0, 2 / 3])
    assert values["saturation"] == pytest.approx([0, 1])
