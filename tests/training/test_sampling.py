"""Samples of batches: complete passes, the given odds, and the same batches for any block size."""

import math

import pytest
import torch

from unspur import noise
from unspur.training.sampling import Passes, Weighted, derived_odds, fixed_odds

SUSPECTS = torch.tensor([True, True, False, False])


def chi_square_z(counts, expected):
    freedom = len(counts) - 1
    statistic = float(((counts.double() - expected) ** 2 / expected).sum())
    return (statistic - freedom) / math.sqrt(2 * freedom)


# Passes


@pytest.mark.parametrize(("size", "batch"), [(12, 4), (13, 4), (5, 8), (3, 10), (7, 7), (1, 2)])
def test_each_pass_visits_each_sample_once(size, batch):
    among = torch.arange(100, 100 + size)
    steps = math.ceil(6 * size / batch)
    line = Passes(among, batch=batch, seed=3).draw(0, steps).flatten()
    for start in range(0, 6 * size, size):
        assert sorted(line[start : start + size].tolist()) == among.tolist()


def test_only_the_given_samples_are_visited():
    among = torch.tensor([4, 9, 2, 77])
    assert set(Passes(among, batch=3, seed=0).draw(5, 20).flatten().tolist()) == {2, 4, 9, 77}


def test_every_pass_and_every_seed_has_its_own_permutation():
    lines = Passes(torch.arange(50), batch=50, seed=3).draw(0, 4)
    lines = torch.cat([lines, Passes(torch.arange(50), batch=50, seed=4).draw(0, 1)])
    assert len({tuple(line) for line in lines.tolist()}) == 5
    assert (lines == torch.arange(50)).double().mean() < 0.15


def test_permutations_are_uniform():
    lines = Passes(torch.arange(8), batch=8, seed=1).draw(0, 8000)
    for place in range(8):
        assert abs(chi_square_z(torch.bincount(lines[:, place]), 1000)) < 4


@pytest.mark.parametrize(("size", "batch"), [(13, 4), (5, 8), (12, 4)])
def test_passes_block_equals_single_draws(size, batch):
    def fresh():
        return Passes(torch.arange(size), batch=batch, seed=7)

    block = fresh().draw(3, 11)
    assert block.shape == (11, batch)
    one_by_one, shared = [fresh().draw(t, 1) for t in range(3, 14)], fresh()
    assert torch.equal(torch.cat(one_by_one), block)
    assert torch.equal(torch.cat([shared.draw(t, 1) for t in range(3, 14)]), block)
    backwards = [shared.draw(t, 1) for t in range(13, 2, -1)]
    assert torch.equal(torch.cat(backwards).flip(0), block)


def test_a_permutation_is_computed_once_per_pass(monkeypatch):
    made, bits = [], noise.bits
    monkeypatch.setattr(noise, "bits", lambda *a, **k: made.append(a[1]) or bits(*a, **k))
    order = Passes(torch.arange(40), batch=4, seed=0)
    for step in range(20):
        order.draw(step, 1)
    assert made == [0, 1]


# Weighted


def test_draws_follow_the_odds():
    odds = torch.tensor([0.5, 0.0, 3.0, 1.0, 80.0, 0.0, 10.0, 0.0])
    drawn = Weighted(odds, batch=256, seed=2).draw(0, 1000)
    assert drawn.shape == (1000, 256)
    counts = torch.bincount(drawn.flatten(), minlength=8)
    assert counts[odds == 0].tolist() == [0, 0, 0]
    expected = (odds / odds.sum())[odds > 0].double() * drawn.numel()
    assert abs(chi_square_z(counts[odds > 0], expected)) < 4


@pytest.mark.parametrize("place", [0, 3, 6])
def test_the_one_sample_with_odds_is_always_drawn(place):
    odds = torch.zeros(7).index_fill(0, torch.tensor([place]), 0.1)
    assert Weighted(odds, batch=64, seed=0).draw(0, 50).unique().tolist() == [place]


@pytest.mark.parametrize("word", [-(2**31), -1, 0, 2**31 - 1])
def test_extreme_words_stay_inside_the_odds(word, monkeypatch):
    words = torch.full((1, 1), word, dtype=torch.int32)
    monkeypatch.setattr(noise, "bits", lambda *args, **kwargs: words)
    odds = torch.tensor([0.0, 1.0, 0.0, 1.0, 0.0])
    drawn = Weighted(odds, batch=1, seed=0).draw(0, 1).item()
    assert drawn == (1 if word < 0 else 3)


def test_rare_samples_of_a_large_set_follow_the_odds():
    odds = torch.ones(60_000)
    odds[::200] = 80.0
    drawn = Weighted(odds, batch=256, seed=5).draw(0, 400).flatten()
    share = 300 * 80 / (300 * 80 + 59_700)
    found = float((drawn % 200 == 0).double().mean())
    assert abs(found - share) < 4 * math.sqrt(share * (1 - share) / len(drawn))


def test_weighted_block_equals_single_draws():
    order = Weighted(torch.rand(30, generator=torch.Generator().manual_seed(0)), batch=9, seed=4)
    block = order.draw(17, 6)
    assert torch.equal(torch.cat([order.draw(t, 1) for t in range(17, 23)]), block)
    assert len({tuple(row) for row in block.tolist()}) == 6


def test_another_seed_draws_other_samples():
    odds = torch.ones(1000)
    first, second = (Weighted(odds, batch=100, seed=s).draw(0, 10) for s in (0, 1))
    assert (first == second).double().mean() < 0.02


# Odds


def labelled(*classes):
    """Return shuffled targets and flags of classes, each given as (members, suspects)."""
    targets = torch.cat([torch.full((n,), c) for c, (n, _) in enumerate(classes)])
    conflict = torch.cat([torch.arange(n) < k for n, k in classes])
    order = torch.randperm(len(targets), generator=torch.Generator().manual_seed(1))
    return conflict[order], targets[order]


def class_shares(odds, targets):
    return torch.bincount(targets, weights=odds) / odds.sum()


def test_a_third_of_the_draws_of_each_class_are_suspects():
    conflict, targets = labelled((300, 9), (500, 50), (120, 30))
    odds = derived_odds(conflict, targets)
    for c in range(3):
        of_class = odds[targets == c]
        suspects = odds[(targets == c) & conflict]
        assert float(suspects.sum() / of_class.sum()) == pytest.approx(1 / 3)
    torch.testing.assert_close(
        class_shares(odds, targets), torch.tensor([300, 500, 120]).double() / 920
    )


def test_batches_contain_the_requested_share_of_suspects():
    conflict, targets = labelled((3000, 30), (2000, 100))
    odds = derived_odds(conflict, targets, share=0.4)
    drawn = Weighted(odds, batch=256, seed=0).draw(0, 200).flatten()
    for c in (0, 1):
        mine = drawn[targets[drawn] == c]
        found = float(conflict[mine].double().mean())
        assert abs(found - 0.4) < 4 * math.sqrt(0.4 * 0.6 / len(mine))


def test_the_cap_limits_how_often_a_suspect_is_drawn():
    conflict, targets = labelled((10_000, 2), (100, 10))
    odds = derived_odds(conflict, targets, cap=50.0)
    first, second = targets == 0, targets == 1
    ratio = odds[first & conflict].unique() / odds[first & ~conflict].unique()
    assert ratio.tolist() == pytest.approx([50.0])
    ratio = odds[second & conflict].unique() / odds[second & ~conflict].unique()
    assert ratio.tolist() == pytest.approx([4.5])
    torch.testing.assert_close(
        class_shares(odds, targets), torch.tensor([10_000, 100]).double() / 10_100
    )


def test_classes_without_suspects_or_with_nothing_else_are_drawn_evenly():
    conflict, targets = labelled((40, 0), (20, 20), (60, 3))
    odds = derived_odds(conflict, targets)
    assert odds[targets == 0].unique().tolist() == [1.0]
    assert odds[targets == 1].unique().tolist() == [1.0]
    assert odds.isfinite().all()
    torch.testing.assert_close(
        class_shares(odds, targets), torch.tensor([40, 20, 60]).double() / 120
    )


def test_many_suspects_are_not_drawn_less_than_others():
    conflict, targets = labelled((100, 70))
    assert derived_odds(conflict, targets).unique().tolist() == [1.0]


def test_class_numbers_may_have_gaps():
    conflict, targets = labelled((300, 9), (500, 50))
    assert torch.equal(derived_odds(conflict, targets), derived_odds(conflict, targets * 7 + 2))


def test_fixed_odds():
    odds = fixed_odds(SUSPECTS, up=80)
    assert odds.tolist() == [80.0, 80.0, 1.0, 1.0]
    assert odds.dtype == torch.float64


def test_graded_suspects_are_drawn_in_proportion_to_their_grades():
    """Each class keeps its share of suspects; within a class only the ratio of grades matters."""
    targets = torch.tensor([0] * 50 + [1] * 50)
    conflict = torch.zeros(100, dtype=torch.bool)
    conflict[[0, 1, 50, 51, 52]] = True
    grades = torch.ones(100, dtype=torch.float64)
    grades[[0, 1]] = torch.tensor([1.0, 4.0], dtype=torch.float64)
    grades[[50, 51, 52]] = torch.tensor([20.0, 30.0, 50.0], dtype=torch.float64)
    flat, odds = (derived_odds(conflict, targets, share=0.4, grades=g) for g in (None, grades))
    assert odds[1] / odds[0] == pytest.approx(4)
    assert odds[52] / odds[50] == pytest.approx(2.5)
    for label in (0, 1):
        among = (targets == label) & conflict
        assert odds[among].sum() == pytest.approx(flat[among].sum())
        assert torch.allclose(
            odds[~conflict & (targets == label)], flat[~conflict & (targets == label)]
        )
