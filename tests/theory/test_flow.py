"""Proposition 1: compare the flow with Euler steps and closed forms; test its bounds."""

import itertools
import math

import numpy as np
import pytest

from pages import refuse
from unspur.theory import flow
from unspur.theory.flow import Start, equal_start

pytest.importorskip("scipy", reason="the flow is solved by scipy")

PS = (0.55, 0.6, 0.9, 0.99, 0.999999, 1.0)


def start_of(p, d, seed=0):
    """Return a start with unequal weights that satisfies the assumption of Proposition 1."""
    rng = np.random.default_rng([seed, d])
    top = min(float(flow.w_limit(p)), 0.5)
    return Start(p, float(rng.uniform(0.05, 1)), rng.uniform(0.1, 0.9, size=d) * top)


@pytest.fixture(scope="module")
def paths():
    t = np.concatenate([[0.0], np.geomspace(1e-3, 1e6, 40)])
    starts = [start_of(p, d) for p in PS for d in (1, 2, 15)]
    return [(start, flow.integrate(start, t)) for start in starts]


# The flow


def loss(w, p):
    """Return the exponential loss E e^{-Y wᵀX} over every input."""
    total = 0.0
    for bits in itertools.product((-1, 1), repeat=len(w) - 1):
        chance = math.prod(p if bit == 1 else 1 - p for bit in bits)
        total += chance * math.exp(-w[0] - sum(a * b for a, b in zip(w[1:], bits, strict=True)))
    return total


@pytest.mark.parametrize("p", [0.6, 0.9, 1.0])
def test_velocity_is_minus_the_gradient_of_the_loss(p):
    w = np.array([0.4, 0.2, -0.3, 0.1])
    velocity = flow._velocity(w, p)
    for j in range(4):
        step = 1e-5 * np.eye(4)[j]
        slope = (loss(w + step, p) - loss(w - step, p)) / 2e-5
        assert velocity[j] == pytest.approx(-slope, abs=1e-9)


def test_jacobian_is_the_derivative_of_the_velocity():
    w, p = np.array([0.4, 0.2, -0.3, 0.1]), 0.8
    for j in range(4):
        step = 1e-6 * np.eye(4)[j]
        column = (flow._velocity(w + step, p) - flow._velocity(w - step, p)) / 2e-6
        np.testing.assert_allclose(flow._jacobian(w, p)[:, j], column, atol=1e-8)


def test_integrate_against_euler():
    start = Start(0.85, 0.3, np.array([0.1, 0.4]))
    w, h = [0.3, 0.1, 0.4], 1e-4
    for _ in range(20_000):
        g = [0.85 * math.exp(-x) + 0.15 * math.exp(x) for x in w[1:]]
        r = [0.85 * math.exp(-x) - 0.15 * math.exp(x) for x in w[1:]]
        front = math.exp(-w[0])
        change = [front * g[0] * g[1], front * r[0] * g[1], front * g[0] * r[1]]
        w = [a + h * b for a, b in zip(w, change, strict=True)]
    path = flow.integrate(start, [1.0, 2.0])
    assert path.w_inv[1] == pytest.approx(w[0], abs=1e-4)
    np.testing.assert_allclose(path.w_sp[1], w[1:], atol=1e-4)


@pytest.mark.parametrize("d", [1, 4, 15])
def test_the_closed_form_at_p_one(d):
    t = np.geomspace(1e-3, 1e8, 30)
    start = start_of(1.0, d)
    path, closed = flow.integrate(start, t), flow.certain(start, t)
    np.testing.assert_allclose(path.w_inv, closed.w_inv, rtol=1e-8)
    np.testing.assert_allclose(path.w_sp, closed.w_sp, rtol=1e-8)


def test_at_p_one_the_ratio_rises_to_one():
    """The lower bound decays like 1/log t; the ratio does not."""
    start = equal_start(1.0, 15, w_inv=0.3, w_sp=0.1)
    ratio = flow.certain(start, np.geomspace(1, 1e300, 50)).ratio[:, 0]
    assert (np.diff(ratio) > 0).all()
    assert ratio[-1] > 0.99
    assert flow.ratio_lower_at_one(start, [1e300])[0, 0] < 1e-3


def test_the_quantity_of_each_bit_is_conserved(paths):
    for start, path in paths:
        constant = flow.conserved(start.p, path.w_inv, path.w_sp)
        assert constant.shape == path.w_sp.shape
        np.testing.assert_allclose(
            constant, np.broadcast_to(constant[0], constant.shape), rtol=1e-7
        )


def test_the_conserved_quantity_equals_the_formula():
    value = flow.conserved(0.8, 0.5, [0.2, 0.3])
    for got, s in zip(value, (0.2, 0.3), strict=True):
        expected = math.exp(0.5) * (0.8 * math.exp(-s) - 0.2 * math.exp(s))
        assert got == pytest.approx(expected)


def test_the_conserved_quantity_drifts_with_a_loose_tolerance():
    """This shows that the test of conservation can fail."""
    start = start_of(0.9, 5)
    path = flow.integrate(start, [1e6], rtol=1e-2, atol=1e-2)
    constant = flow.conserved(0.9, path.w_inv, path.w_sp)
    assert np.abs(constant / flow.conserved(0.9, start.w_inv, start.w_sp) - 1).max() > 1e-3


def test_spurious_weights_are_a_closed_form_of_the_invariant_one(paths):
    for start, path in paths:
        np.testing.assert_allclose(flow.spurious_at(start, path.w_inv), path.w_sp, atol=1e-9)


@pytest.mark.parametrize("w_sp", [-0.8, 2.5])
def test_the_closed_form_holds_outside_the_assumption_too(w_sp):
    start = equal_start(0.9, 3, w_inv=-0.4, w_sp=w_sp)
    path = flow.integrate(start, np.geomspace(1e-2, 1e5, 20))
    np.testing.assert_allclose(flow.spurious_at(start, path.w_inv), path.w_sp, atol=1e-9)


# The bounds


def test_weights_rise_to_their_limits(paths):
    for start, path in paths:
        assert (np.diff(path.w_inv) > 0).all()
        assert (np.diff(path.w_sp, axis=0) > -1e-10).all()
        assert (path.w_sp < flow.w_limit(start.p) + 1e-10).all()
    longest = flow.integrate(start_of(0.6, 2), [1e6])
    np.testing.assert_allclose(longest.w_sp[0], 0.5 * math.log(0.6 / 0.4), atol=1e-5)


def test_bounds_hold_along_the_flow(paths):
    for start, path in paths:
        most = float(path.w_inv[-1])
        lower, upper = flow.w_inv_bounds(start, path.t)
        assert (path.w_inv >= lower - 1e-9).all()
        assert (path.w_inv <= upper + 1e-9).all()
        assert (path.w_sp >= flow.w_sp_lower(start, path.t, most) - 1e-9).all()
        assert (path.ratio >= flow.ratio_lower(start, path.t, most) - 1e-9).all()
        assert (flow.ratio_lower(start, path.t, most) > 0).all()


def test_bounds_are_equalities_at_the_start(paths):
    for start, _ in paths:
        lower, upper = flow.w_inv_bounds(start, [0.0])
        assert lower[0] == pytest.approx(start.w_inv)
        assert upper[0] == pytest.approx(start.w_inv)
        np.testing.assert_allclose(flow.w_sp_lower(start, [0.0], 3.0)[0], start.w_sp, rtol=1e-9)


def test_bounds_against_plain_formulas():
    p, inv, sp, most = 0.85, 0.3, [0.1, 0.4, 0.7], 2.5
    start = Start(p, inv, np.array(sp))
    for t in (0.5, 3.0, 100.0):
        slow = math.log(math.exp(inv) + (4 * p * (1 - p)) ** 1.5 * t)
        product = math.prod(p * math.exp(-s) + math.sqrt(p * (1 - p)) for s in sp)
        fast = math.log(math.exp(inv) + t * product)
        lower, upper = flow.w_inv_bounds(start, [t])
        assert (lower[0], upper[0]) == pytest.approx((slow, fast))
        for i, s in enumerate(sp):
            first = math.atanh(math.sqrt((1 - p) / p) * math.exp(s))
            second = math.exp(-most) * 2**2 * (p * (1 - p)) ** 1.5 * t
            expected = 0.5 * math.log(p / (1 - p)) + math.log(math.tanh(first + second))
            assert flow.w_sp_lower(start, [t], most)[0, i] == pytest.approx(expected)
            assert flow.ratio_lower(start, [t], most)[0, i] == pytest.approx(expected / fast)


@pytest.mark.parametrize("d", [1, 2, 15])
def test_the_bounds_at_p_one_are_the_limits_for_p_to_one(d):
    t = np.geomspace(1e-2, 10, 7)
    one, near = (equal_start(p, d, w_inv=0.3, w_sp=0.1) for p in (1.0, 1 - 1e-10))
    for bound in (lambda s: flow.w_sp_lower(s, t, 2.0), lambda s: flow.w_inv_bounds(s, t)[1]):
        np.testing.assert_allclose(bound(one), bound(near), rtol=1e-3)
    expected = 0.1 / np.log(np.exp(0.3) + t * np.exp(-0.1 * d))
    np.testing.assert_allclose(flow.ratio_lower_at_one(one, t)[:, 0], expected)
    if d > 1:  # with one bit a term remains that the paper's limit omits
        np.testing.assert_allclose(flow.ratio_lower(one, t, 2.0)[:, 0], expected)
    assert (flow.ratio_lower(one, t, 2.0)[:, 0] >= expected - 1e-12).all()


def test_the_chain_of_bounds_at_p_one():
    horizon = 50.0
    start = Start(1.0, 0.4, np.array([0.1, 0.3, 0.2]))
    now = flow.ratio_lower_at_one(start, np.linspace(0, 0.999 * horizon, 20))
    end = flow.ratio_lower_at_one(start, [horizon])[0]
    floor = flow.ratio_floor_at_one(start, horizon)
    assert (now > end).all()
    assert (end >= floor).all()
    assert (floor > 0).all()
    total = 0.6
    plain = 0.3 / (math.log(horizon) + math.exp(0.4 + total) / horizon - total)
    assert floor[1] == pytest.approx(plain)
    assert (flow.certain(start, [horizon]).ratio[0] >= end).all()


def test_the_ratio_falls_like_one_over_log_t():
    """For p < 1 and late t: α log t tends to the spurious limit."""
    path = flow.integrate(equal_start(0.7, 2, w_inv=0.3, w_sp=0.1), [1e8, 1e12])
    late = path.ratio[:, 0] * np.log(path.t)
    np.testing.assert_allclose(late, flow.w_limit(0.7), rtol=0.02)


# Outside of the assumption


def test_the_spurious_bound_fails_after_its_horizon():
    start = equal_start(0.9, 1, w_inv=0.3, w_sp=0.1)
    t = np.array([1.0, 1e3])
    path = flow.integrate(start, t)
    bound = flow.w_sp_lower(start, t, float(path.w_inv[0]))  # the horizon is T = 1
    assert path.w_sp[0, 0] >= bound[0, 0]
    assert path.w_sp[1, 0] < bound[1, 0]


def test_the_upper_bound_fails_for_weights_above_their_limit():
    """w_i(0) > ½ log(p/(1-p)): the weight decreases, and w_inv grows faster than its bound."""
    p, s, t = 0.7, 2.0, 0.1
    path = flow.integrate(equal_start(p, 3, w_inv=0.3, w_sp=s), [t])
    promised = math.log(math.exp(0.3) + t * (p * math.exp(-s) + math.sqrt(p * (1 - p))) ** 3)
    assert path.w_sp[0, 0] < s
    assert path.w_inv[0] > promised


def test_with_a_negative_spurious_weight_the_ratio_bound_fails():
    """A negative bound divided by a larger denominator is closer to 0 than the ratio."""
    p, t, sp = 0.7, 0.02, [-0.7, *[0.3] * 14]
    path = flow.integrate(Start(p, 0.1, np.array(sp)), [t])
    product = math.prod(p * math.exp(-s) + math.sqrt(p * (1 - p)) for s in sp)
    upper = math.log(math.exp(0.1) + t * product)
    first = math.atanh(math.sqrt((1 - p) / p) * math.exp(sp[0]))
    rate = math.exp(-path.w_inv[0]) * 2**14 * (p * (1 - p)) ** 7.5
    lower = 0.5 * math.log(p / (1 - p)) + math.log(math.tanh(first + rate * t))
    assert path.w_inv[0] <= upper
    assert path.w_sp[0, 0] >= lower  # the bounds of the weights still hold
    assert path.ratio[0, 0] < lower / upper - 0.1


@pytest.mark.parametrize(
    ("w_inv", "w_sp"), [(-0.1, 0.1), (0.0, 0.1), (0.3, -0.1), (0.3, 0.0), (0.3, 1.2)]
)
def test_the_bounds_check_their_assumption(w_inv, w_sp):
    start = equal_start(0.9, 2, w_inv=w_inv, w_sp=w_sp)
    assert not start.assumed
    for call in (
        lambda: flow.w_inv_bounds(start, [1.0]),
        lambda: flow.w_sp_lower(start, [1.0], 2.0),
        lambda: flow.ratio_lower_at_one(start, [1.0]),
        lambda: flow.ratio_floor_at_one(start, 1.0),
    ):
        with pytest.raises(ValueError, match=r"Proposition 1 needs w_inv\(0\) > 0"):
            call()


# Wrong parameters


def test_wrong_parameters():
    start = equal_start(0.9, 2, w_inv=0.3, w_sp=0.1)
    for p in (0.5, 1.1):
        with pytest.raises(ValueError, match="p must be above"):
            Start(p, 0.3, np.array([0.1]))
    with pytest.raises(ValueError, match="D must be"):
        equal_start(0.9, -3, w_inv=0.3, w_sp=0.1)
    with pytest.raises(ValueError, match=r"w_sp\(0\) must have one axis"):
        Start(0.9, 0.3, np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"w_inv\(0\) must be finite"):
        Start(0.9, math.inf, np.ones(2))
    for t in ([-1.0], [2.0, 1.0], [], [1.0, 1.0], [math.nan], 3.0):
        with pytest.raises(ValueError, match="t must be"):
            flow.integrate(start, t)
    with pytest.raises(ValueError, match="T must be a positive number"):
        flow.ratio_floor_at_one(start, 0.0)


def test_without_scipy_the_error_says_what_to_install(monkeypatch):
    refuse(monkeypatch, "scipy")
    with pytest.raises(ModuleNotFoundError, match=r"needs scipy.*pip install 'unspur\[report\]'"):
        flow.integrate(equal_start(0.9, 2, w_inv=0.3, w_sp=0.1), [1.0])
