"""Theorems 1 and 2: environments, exact errors and bounds equal plain loops; where the bound fails."""

import itertools
import math

import numpy as np
import pytest

from unspur.theory import bounds, corners, environments, error_rates
from unspur.theory.environments import Environment, biased, fair, mixture, φ_limit
from unspur.theory.error_rates import exact_error, sampled_error
from unspur.theory.sweep import mask_patterns, ratio_patterns, sweep


def error_by_loops(w, π, agree):
    """Return P(O < 0) and P(O = 0) given Y = 1, over every mask and every input."""
    below = tie = 0.0
    d = len(w) - 1
    for mask in itertools.product((0, 1), repeat=d + 1):
        for z in itertools.product((-1, 1), repeat=d):
            chance = 1.0
            for m, keep in zip(mask, π, strict=True):
                chance *= keep if m else 1 - keep
            for bit in z:
                chance *= agree if bit == 1 else 1 - agree
            value = w[0] * mask[0] + sum(w[i + 1] * mask[i + 1] * z[i] for i in range(d))
            if abs(value) < 1e-9:
                tie += chance
            elif value < 0:
                below += chance
    return below, tie


# Environments


@pytest.mark.parametrize("agree", [0.0, 0.3, 0.5, 0.9, 1.0])
def test_enumeration_against_loops(agree):
    x, y, odds = Environment(agree).enumerate(3)
    listed = {(*row, label): chance for row, label, chance in zip(x, y, odds, strict=True)}
    assert len(listed) == 16
    for label in (-1.0, 1.0):
        for bits in itertools.product((-1.0, 1.0), repeat=3):
            same = sum(bit == label for bit in bits)
            expected = 0.5 * agree**same * (1 - agree) ** (3 - same)
            assert listed[(label, *bits, label)] == pytest.approx(expected, abs=1e-15)


def test_enumeration_is_a_distribution_at_full_width():
    x, y, odds = biased(0.9).enumerate(15)
    assert odds.sum() == pytest.approx(1)
    assert odds @ (x[:, 1] * y) == pytest.approx(0.8)
    assert odds @ (x[:, 1] * y * x[:, 15] * y) == pytest.approx(0.64)
    assert (x[:, 0] == y).all()


@pytest.mark.parametrize(
    ("where", "agree"), [(biased(0.9), 0.9), (fair(), 0.5), (mixture(0.9, 0.2), 0.72)]
)
def test_samples_follow_the_environment(where, agree):
    assert where.agree == pytest.approx(agree)
    x, y = where.sample(np.random.default_rng(0), 40_000, 4)
    assert x.shape == (40_000, 5)
    assert set(np.unique(x)) == {-1.0, 1.0}
    assert (x[:, 0] == y).all()
    assert y.mean() == pytest.approx(0, abs=0.025)
    means = (x[:, 1:] * y[:, None]).mean(axis=0)
    np.testing.assert_allclose(means, where.mean, atol=0.025)
    apart = np.corrcoef((x[:, 1:] * y[:, None]).T) - np.eye(4)
    assert abs(apart).max() < 0.025  # independent given the label


def test_samples_are_a_function_of_the_generator():
    draws = [biased(0.8).sample(np.random.default_rng(seed), 50, 3)[0] for seed in (1, 1, 2)]
    assert (draws[0] == draws[1]).all()
    assert (draws[0] != draws[2]).any()


@pytest.mark.parametrize("p", [0.51, 0.7, 0.9, 1.0])
def test_the_mixture_is_a_mixture(p):
    """With probability φ the bit contradicts the label, otherwise it is a biased bit."""
    for φ in np.linspace(0, float(φ_limit(p)), 5):
        against = φ * 1 + (1 - φ) * (1 - p)
        where = mixture(p, float(φ))
        assert 1 - where.agree == pytest.approx(against)
        assert where.mean == pytest.approx(2 * p * (1 - φ) - 1, abs=1e-12)
        assert where.agree >= 0.5
    assert mixture(p, float(φ_limit(p))).agree == pytest.approx(0.5, abs=1e-15)


# The exact error


@pytest.mark.parametrize("agree", [0.5, 0.9, 1.0])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_exact_error_against_loops(d, agree):
    rng = np.random.default_rng(d)
    for π in mask_patterns(d, rng).values():
        for α in ratio_patterns(d, rng).values():
            for w_inv in (1.0, -0.7, 0.0):
                w = np.concatenate([[w_inv], α])
                error = exact_error(w, π, Environment(agree))
                below, tie = error_by_loops(w, π, agree)
                assert error.below == pytest.approx(below, abs=1e-12)
                assert error.tie == pytest.approx(tie, abs=1e-12)
                assert error.loss == pytest.approx(below + tie / 2, abs=1e-12)
                assert error.at_most == pytest.approx(below + tie, abs=1e-12)


def test_exact_error_at_full_width_against_the_binomial():
    """All weights are equal and kept: O < 0 if fewer than 7 of 15 bits agree."""
    error = exact_error(np.ones(16), np.ones(16), biased(0.9))
    odds = [math.comb(15, k) * 0.9**k * 0.1 ** (15 - k) for k in range(16)]
    assert error.below == pytest.approx(sum(odds[:7]), rel=1e-9)
    assert error.tie == pytest.approx(odds[7], rel=1e-6)


def test_tiny_errors_are_not_lost_in_rounding():
    """O < 0 only if all bits disagree: (1 - p)^15."""
    w = np.concatenate([[1.0], np.full(15, 1 / 14.5)])
    assert exact_error(w, np.ones(16), biased(0.99)).below == pytest.approx(1e-30, rel=1e-6)


def test_loss_is_the_expected_sign_loss():
    """½ E[1 - Y sgn(wᵀ(X ⊙ m))] over all inputs and labels, with sgn(0) = 0, or 1, or -1."""
    w, where = np.array([1.0, 1.0, -0.5]), biased(0.8)
    x, y, odds = where.enumerate(2)
    π = np.array([0.3, 0.6, 0.9])
    for at_zero in (0.0, 1.0, -1.0):
        total = 0.0
        for mask in itertools.product((0, 1), repeat=3):
            chance = math.prod(k if m else 1 - k for m, k in zip(mask, π, strict=True))
            output = (x * mask) @ w
            sign = np.where(np.abs(output) < 1e-12, at_zero, np.sign(output))
            total += chance * float(odds @ (0.5 * (1 - y * sign)))
        assert exact_error(w, π, where).loss == pytest.approx(total, abs=1e-12)


def test_sampled_error_agrees_with_the_exact_one():
    rng = np.random.default_rng(3)
    for π in mask_patterns(15, rng).values():
        for α in (np.ones(15), rng.normal(size=15), np.full(15, 0.1)):
            for where in (biased(0.7), fair(), mixture(0.9, 0.3)):
                w = np.concatenate([[1.0], α])
                exact, drawn = exact_error(w, π, where), sampled_error(w, π, where, rng, n=4000)
                assert abs(drawn.loss - exact.loss) <= 5 * drawn.spread + 2e-3
                assert abs(drawn.tie - exact.tie) < 0.05


def test_the_standard_error_equals_the_spread_of_repeated_draws():
    rng, w, π = np.random.default_rng(0), np.ones(3), np.full(3, 0.5)
    draws = [sampled_error(w, π, biased(0.7), rng, n=200) for _ in range(400)]
    spread = np.std([draw.loss for draw in draws])
    assert np.mean([draw.spread for draw in draws]) == pytest.approx(spread, rel=0.12)


# The bounds


def bound_by_loops(π, α, lean):
    mean = π[0] + lean * sum(a * k for a, k in zip(α, π[1:], strict=True))
    return 2 * math.exp(-2 * mean**2 / (4 * sum(a * a for a in α) + 1))


def test_bounds_against_loops():
    rng = np.random.default_rng(0)
    for _ in range(50):
        d = int(rng.integers(1, 8))
        π, α, p = rng.random(d + 1), rng.normal(size=d), rng.uniform(0.51, 1)
        φ = rng.uniform(0, φ_limit(p))
        assert bounds.train_bound(π, α, p) == pytest.approx(bound_by_loops(π, α, 2 * p - 1))
        assert bounds.test_bound(π, α) == pytest.approx(bound_by_loops(π, α, 0))
        mixed = bound_by_loops(π, α, 2 * p * (1 - φ) - 1)
        assert bounds.mixture_bound(π, α, p, φ) == pytest.approx(mixed)


def test_bounds_broadcast():
    rng = np.random.default_rng(1)
    π, α, p = rng.random((5, 1, 4)), rng.normal(size=(3, 3)), np.array([0.6, 0.8, 1.0])
    whole = bounds.train_bound(π, α, p)
    assert whole.shape == (5, 3)
    for i, j in itertools.product(range(5), range(3)):
        assert whole[i, j] == pytest.approx(float(bounds.train_bound(π[i, 0], α[j], p[j])))


@pytest.mark.parametrize("p", [0.51, 0.6, 0.9, 0.999, 1.0])
def test_the_mixture_bound_ends_at_the_training_and_the_test_bound(p):
    rng = np.random.default_rng(2)
    for _ in range(20):
        π, α = rng.random(6), rng.normal(size=5)
        limit = float(φ_limit(p))
        assert limit == pytest.approx(1 - 1 / (2 * p))
        assert bounds.mixture_bound(π, α, p, 0.0) == bounds.train_bound(π, α, p)
        end, test = bounds.mixture_bound(π, α, p, limit), bounds.test_bound(π, α)
        assert float(end) == pytest.approx(float(test), rel=1e-13)
        positive = bounds.mixture_bound(π, np.abs(α), p, np.linspace(0, limit, 9))
        assert (np.diff(positive) >= 0).all()  # more contradicting samples raise the bound


def test_the_gap_closes_as_the_ratio_goes_to_zero():
    π = np.full(16, 0.9)
    gaps = []
    for ratio in (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 0.0):
        α = np.full(15, ratio)
        gaps.append(float(bounds.test_bound(π, α) - bounds.train_bound(π, α, 0.9)))
    assert gaps[0] > 0.1
    assert all(later < earlier for earlier, later in itertools.pairwise(gaps))
    assert gaps[4] < 1e-4
    assert gaps[5] == 0


def test_keeping_positive_spurious_weights_lowers_the_training_bound_alone():
    kept = np.linspace(0, 1, 11)
    π = np.column_stack([np.full(11, 0.9), kept, kept])
    α = np.array([0.4, 0.2])
    assert (np.diff(bounds.train_bound(π, α, 0.8)) < 0).all()
    assert np.ptp(bounds.test_bound(π, α)) == 0


# Where the bound holds


@pytest.fixture(scope="module")
def cases():
    return sweep(widths=(1, 2, 3, 8, 15), ps=(0.51, 0.75, 0.95, 1.0))


def test_the_grid_contains_every_special_case(cases):
    assert {case.d for case in cases} == {1, 2, 3, 8, 15}
    assert any(case.mean < 0 for case in cases)
    assert any(case.error.tie == 1 for case in cases)
    assert any(0 < case.error.tie < 1 for case in cases)
    assert any(case.error.below == 1 for case in cases)
    assert any(case.bound < 1e-3 for case in cases)
    assert {case.φ is None for case in cases} == {True, False}


def test_the_bound_holds_wherever_the_mean_is_not_negative(cases):
    good = [case for case in cases if case.mean >= 0]
    assert len(good) > 3000
    assert all(case.holds for case in good)


def test_the_bound_holds_with_ties_counted_as_errors(cases):
    tied = [case for case in cases if case.mean >= 0 and case.error.tie > 0]
    assert len(tied) > 1000
    assert all(case.holds_with_ties for case in tied)


def test_the_test_bound_holds_for_all_signs(cases):
    fair_cases = [case for case in cases if case.φ is None]
    assert len(fair_cases) > 300
    assert all(case.holds_with_ties for case in fair_cases)


def test_the_one_sided_bound_holds_everywhere(cases):
    assert all(case.holds_one_sided for case in cases)
    good = [case for case in cases if case.mean >= 0]
    assert all(case.bound == pytest.approx(2 * case.one_sided) for case in good)


def test_the_bound_fails_only_for_a_negative_mean(cases):
    """With a negative mean the two-sided inequality bounds the wrong side."""
    failing = [case for case in cases if not case.holds]
    assert len(failing) > 20
    assert all(case.mean < 0 for case in failing)
    assert all(case.d > 1 for case in failing)  # with one bit it never gets below 2/√e > 1


def test_with_one_spurious_bit_the_bound_cannot_fail():
    α = -np.geomspace(1e-3, 1e6, 200)[:, None]
    assert bounds.train_bound(np.array([0.0, 1.0]), α, 1.0).min() > 1


def test_the_sufficient_condition_for_failure():
    """μ < 0 and 2 μ² / (4 Σ α² + 1) > log 3 is sufficient, and some cases satisfy it."""
    rng, met = np.random.default_rng(4), 0
    for _ in range(300):
        d = int(rng.integers(1, 12))
        π, α, p = rng.uniform(0.7, 1, d + 1), rng.uniform(-3, 0.5, d), float(rng.uniform(0.8, 1))
        error = exact_error(np.concatenate([[1.0], α]), π, biased(p))
        if corners.surely_fails(π, α, p):
            met += 1
            assert error.below > bounds.train_bound(π, α, p)
        elif float(bounds.mean_output(π, α, p)) >= 0:
            assert error.below <= bounds.train_bound(π, α, p)
    assert met > 10


def test_the_bound_fails_for_a_negative_invariant_weight():
    """α lacks the sign of w_inv: every output is wrong, but the bound is that of a perfect model."""
    error = exact_error([-1.0, 0.0], np.ones(2), biased(0.9))
    assert error.below == 1
    assert bounds.train_bound(np.ones(2), np.zeros(1), 0.9) == pytest.approx(2 * math.exp(-2))


def test_if_all_weights_are_removed_every_output_is_a_tie():
    error = exact_error([1.0, 1.0], np.zeros(2), biased(0.9))
    assert (error.below, error.tie, error.loss) == (0, 1, 0.5)


def test_a_lower_bound_is_not_a_lower_error():
    """α = 2, w_inv always kept: keeping the spurious weight lowers the bound but raises the error."""
    removed, kept = np.array([1.0, 0.0]), np.array([1.0, 1.0])
    assert bounds.train_bound(kept, [2.0], 0.95) < bounds.train_bound(removed, [2.0], 0.95)
    assert exact_error([1.0, 2.0], removed, biased(0.95)).loss == 0
    assert exact_error([1.0, 2.0], kept, biased(0.95)).loss == pytest.approx(0.05)


def test_when_the_test_bound_is_informative():
    most = corners.informative_ratios(1.0)
    assert most == pytest.approx((1 / math.log(2) - 1) / 4)
    for total, above in ((most * 0.99, False), (most * 1.01, True)):
        α = np.full(15, math.sqrt(total / 15))
        assert (bounds.test_bound(np.ones(16), α) > 0.5) == above
    assert corners.informative_ratios(0.5) == 0


# Wrong parameters


@pytest.mark.parametrize("p", [0.5, 0.2, 1.01, -1.0, math.nan])
def test_p_must_be_above_a_half(p):
    for call in (
        biased,
        φ_limit,
        lambda p: mixture(p, 0.0),
        lambda p: bounds.train_bound([1, 1], [1], p),
    ):
        with pytest.raises(ValueError, match=r"p must be above 0\.5 and at most 1"):
            call(p)


@pytest.mark.parametrize("φ", [-0.01, 0.45, 1.0, math.nan])
def test_φ_has_a_limit(φ):
    with pytest.raises(ValueError, match=r"φ must be between 0 and 1 - 1/\(2p\) = 0.444444"):
        mixture(0.9, φ)
    with pytest.raises(ValueError, match="φ must be"):
        bounds.mixture_bound([1, 1], [1], [0.99, 0.9], [0.1, φ])


@pytest.mark.parametrize("d", [-1, 0, 2.5, True])
def test_d_must_be_a_positive_number_of_bits(d):
    with pytest.raises(ValueError, match="D must be"):
        fair().sample(np.random.default_rng(0), 3, d)
    with pytest.raises(ValueError, match="D must be"):
        fair().enumerate(d)


def test_other_wrong_parameters():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"agree must be between 0 and 1, not 1\.5"):
        Environment(1.5)
    with pytest.raises(ValueError, match="too many inputs"):
        fair().enumerate(environments.MOST_BITS + 1)
    with pytest.raises(ValueError, match="n must be"):
        fair().sample(rng, 0, 3)
    with pytest.raises(ValueError, match=r"π must be between 0 and 1, not -0\.1"):
        exact_error([1, 1], [1, -0.1], fair())
    with pytest.raises(ValueError, match=r"π must have 3 entries .* not shape \(2,\)"):
        bounds.train_bound([1, 1], [1, 1], 0.9)
    with pytest.raises(ValueError, match="α must have at least one entry"):
        bounds.test_bound([1], [])
    with pytest.raises(ValueError, match="α must be finite, not inf"):
        bounds.test_bound([1, 1], [math.inf])
    with pytest.raises(ValueError, match="D of 1 or more"):
        exact_error([1.0], [1.0], fair())
    with pytest.raises(ValueError, match="π must have one axis"):
        exact_error([1.0, 1.0], np.ones((2, 2)), fair())
    with pytest.raises(ValueError, match="too large"):
        exact_error(np.ones(22), np.ones(22), fair())
    with pytest.raises(ValueError, match="n must be"):
        sampled_error([1, 1], [1, 1], fair(), rng, n=-5)
    assert error_rates.MOST_BITS >= 15
