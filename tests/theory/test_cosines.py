"""Lemma 1: compare expected cosines with every pair of inputs, and with random pairs."""

import itertools
import math

import numpy as np
import pytest

from unspur.theory import cosines


def cosine_by_loops(w, first, second):
    """Return E cos(W x, W x') over all pairs of inputs of class 1."""
    d, total = w.shape[1] - 1, 0.0
    for a, b in itertools.product(itertools.product((-1, 1), repeat=d), repeat=2):
        chance = math.prod(first if bit == 1 else 1 - first for bit in a)
        chance *= math.prod(second if bit == 1 else 1 - second for bit in b)
        h, g = w @ np.array([1, *a]), w @ np.array([1, *b])
        total += chance * float(h @ g) / math.sqrt(float(h @ h) * float(g @ g))
    return total


@pytest.mark.parametrize("kept", [0, 1, 3, None])
@pytest.mark.parametrize("p", [0.6, 0.9, 1.0])
def test_the_lemma_against_every_pair(p, kept):
    w = cosines.semi_orthogonal(np.random.default_rng(0), 6, 3)
    used = w * (np.arange(4) <= (3 if kept is None else kept))
    expected = cosines.expected_cosines(3, p, kept=kept)
    assert expected.among == pytest.approx(cosine_by_loops(used, p, p))
    assert expected.across == pytest.approx(cosine_by_loops(used, p, 0.5))


def test_the_formula_of_the_lemma():
    found = cosines.expected_cosines(15, 0.9)
    assert found.across == pytest.approx(1 / 16)
    assert found.among == pytest.approx((1 + 15 * 0.8**2) / 16)
    assert found.gap == pytest.approx(15 * 0.8**2 / 16)


def test_masking_all_but_the_first_column_removes_the_gap():
    expected = cosines.expected_cosines(15, 0.9, kept=0)
    assert (expected.among, expected.across, expected.gap) == (1, 1, 0)
    rng = np.random.default_rng(1)
    drawn = cosines.sampled_cosines(rng, cosines.semi_orthogonal(rng, 20, 15), 0.9, n=200, kept=0)
    assert (drawn.among, drawn.across) == pytest.approx((1, 1))
    assert drawn.among_spread < 1e-12


def test_the_gap_grows_with_the_columns_kept():
    gaps = [cosines.expected_cosines(15, 0.9, kept=k).gap for k in range(16)]
    assert gaps[0] == 0
    assert all(a < b for a, b in itertools.pairwise(gaps))


@pytest.mark.parametrize("kept", [None, 4])
@pytest.mark.parametrize("p", [0.6, 0.95])
def test_random_pairs_agree(p, kept):
    rng = np.random.default_rng(2)
    w = cosines.semi_orthogonal(rng, 40, 15)
    drawn = cosines.sampled_cosines(rng, w, p, n=20_000, kept=kept)
    expected = cosines.expected_cosines(15, p, kept=kept)
    assert abs(drawn.among - expected.among) < 5 * drawn.among_spread
    assert abs(drawn.across - expected.across) < 5 * drawn.across_spread
    assert 0 < drawn.across_spread < 0.01


def test_without_orthogonal_columns_the_lemma_does_not_hold():
    """This shows that the tests above depend on W."""
    w = np.column_stack([np.eye(4)[:, 0], 3 * np.eye(4)[:, 1:]])
    assert cosine_by_loops(w, 0.9, 0.9) != pytest.approx(
        cosines.expected_cosines(3, 0.9).among, rel=0.05
    )


@pytest.mark.parametrize(("q", "d"), [(16, 15), (40, 15), (2, 1)])
def test_columns_are_orthonormal_and_random(q, d):
    one, two = (cosines.semi_orthogonal(np.random.default_rng(seed), q, d) for seed in (0, 1))
    assert one.shape == (q, d + 1)
    np.testing.assert_allclose(one.T @ one, np.eye(d + 1), atol=1e-12)
    assert np.abs(one - two).max() > 0.1


def test_wrong_parameters():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="Q of at least D \\+ 1 = 16 rows, not 15"):
        cosines.semi_orthogonal(rng, 15, 15)
    with pytest.raises(ValueError, match="D must be"):
        cosines.expected_cosines(-1, 0.9)
    with pytest.raises(ValueError, match="p must be above"):
        cosines.expected_cosines(3, 0.5)
    with pytest.raises(ValueError, match="kept = 4 is more than the D = 3"):
        cosines.expected_cosines(3, 0.9, kept=4)
    with pytest.raises(ValueError, match="kept must be"):
        cosines.sampled_cosines(rng, np.eye(4), 0.9, kept=-1)
    with pytest.raises(ValueError, match=r"W must have shape \(Q, D \+ 1\)"):
        cosines.sampled_cosines(rng, np.ones(4), 0.9)
