"""The numbers of the theory report: one function per figure, which returns lists and floats.

All randomness depends on `Settings.seed` and `Settings.seeds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import bounds as bounding
from . import cosines as cosining
from . import flow, pruning, simulation
from .checks import ROUNDING, Array
from .environments import Environment, agreement, biased, fair, φ_limit
from .error_rates import Error, exact_error, sampled_error
from .simulation import Progress, Rule

Numbers = dict[str, Any]

OBJECTIVES: tuple[pruning.Objective, ...] = ("bound", "exponential", "logistic", "error")


@dataclass(frozen=True)
class Settings:
    """The sizes of all studies: grids, draws, widths, seeds, samples and steps."""

    seed: int = 0
    d: int = 15
    p: float = 0.9
    points: int = 41
    draws: int = 100_000
    widths: tuple[int, ...] = (1, 2, 3, 6, 10, 15)
    flow_ps: tuple[float, ...] = (0.6, 0.9, 0.99, 0.9999, 1.0)
    horizon: float = 1e6
    seeds: tuple[int, ...] = tuple(range(15))
    ps: tuple[float, ...] = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99)
    samples: int = 10_000
    epochs: int = 500
    batch: int = 1024
    rules: tuple[Rule, ...] = simulation.RULES
    mixtures: int = 13
    mask_steps: int = 800
    mask_batch: int = 96
    pairs: int = 20_000


QUICK = Settings(
    points=21,
    draws=20_000,
    widths=(1, 3, 8),
    seeds=(0, 1, 2),
    ps=(0.6, 0.75, 0.9, 0.99),
    samples=4096,
    epochs=100,
    mixtures=9,
    mask_steps=400,
    pairs=4000,
)


def bounds(s: Settings) -> Numbers:
    """Compare Theorem 1 with the exact and the sampled error, over the ratio α and over π_sp."""
    rng = np.random.default_rng([s.seed, 1])
    ratios, kept = np.linspace(0, 1, s.points), np.linspace(0, 1, s.points)
    everything = np.ones(s.d + 1)
    fixed = np.full(s.d, 0.3)
    masks = [np.concatenate([[0.9], np.full(s.d, each)]) for each in kept]
    return {
        "d": s.d,
        "p": s.p,
        "ratio": ratios.tolist(),
        "over_ratio": {
            name: _errors([(everything, np.full(s.d, each)) for each in ratios], where, s, rng)
            for name, where in _train_and_test(s.p).items()
        },
        "kept": kept.tolist(),
        "kept_ratio": 0.3,
        "kept_invariant": 0.9,
        "over_kept": {
            name: _errors([(π, fixed) for π in masks], where, s, rng)
            for name, where in _train_and_test(s.p).items()
        },
    }


def mixtures(s: Settings, *, ratio: float = 0.3, kept: float = 0.9) -> Numbers:
    """Evaluate Theorem 2 over φ, up to the share at which the bits are fair coins."""
    rng = np.random.default_rng([s.seed, 2])
    π, α = np.full(s.d + 1, kept), np.full(s.d, ratio)
    curves = []
    for p in (0.7, 0.9, 0.99):
        φ = np.linspace(0, float(φ_limit(p)), s.points)
        environments = [Environment(float(each)) for each in agreement(p, φ)]
        parts = [_errors([(π, α)], each, s, rng) for each in environments]
        joined = {name: [part[name][0] for part in parts] for name in parts[0]}
        curves.append({"p": p, "limit": float(φ_limit(p)), "phi": φ.tolist(), **joined})
    test = {"bound": float(bounding.test_bound(π, α)), "loss": _exact(π, α, fair()).loss}
    apart = max(abs(curve["bound"][-1] - test["bound"]) for curve in curves)
    return {
        "d": s.d,
        "ratio": ratio,
        "kept": kept,
        "curves": curves,
        "test": test,
        "apart_at_the_limit": apart,
    }


def flows(s: Settings, *, w_inv: float = 0.3, w_sp: float = 0.1) -> Numbers:
    """Solve Proposition 1: weights, their bounds, and the drift of the conserved quantity."""
    t = np.concatenate([[0.0], np.geomspace(1e-2, s.horizon, 2 * s.points)])
    runs = [_flow(flow.equal_start(p, s.d, w_inv=w_inv, w_sp=w_sp), t) for p in s.flow_ps]
    start = flow.equal_start(1.0, s.d, w_inv=w_inv, w_sp=w_sp)
    return {
        "d": s.d,
        "w_inv": w_inv,
        "w_sp": w_sp,
        "t": t.tolist(),
        "runs": runs,
        "ratio_lower_at_one": flow.ratio_lower_at_one(start, t)[:, 0].tolist(),
        "ratio_floor_at_one": float(flow.ratio_floor_at_one(start, s.horizon)[0]),
    }


def simulate(s: Settings, progress: Progress | None = None) -> tuple[Numbers, Array]:
    """Return the numbers of the appendix figure, and its weights (rules, p, seeds, D + 1)."""
    weights = simulation.train(
        s.ps,
        seeds=s.seeds,
        d=s.d,
        samples=s.samples,
        epochs=s.epochs,
        batch=s.batch,
        rules=s.rules,
        progress=progress,
    )
    ratio, accuracy = simulation.weight_ratio(weights), simulation.accuracy(weights)
    runs = [
        {
            "rule": str(rule),
            "ratio": _spread(ratio[k]),
            "accuracy": _spread(accuracy[k]),
            "weights": weights[k].tolist(),
        }
        for k, rule in enumerate(s.rules)
    ]
    return {"d": s.d, "p": list(s.ps), "seeds": list(s.seeds), "runs": runs}, weights


def prune(s: Settings, weights: Array) -> Numbers:
    """Learn masks on weights (seeds, D + 1) trained at s.p: which are kept as φ grows, and the accuracy."""
    φ = np.linspace(0, float(φ_limit(s.p)), s.mixtures)
    runs = []
    for k, objective in enumerate(OBJECTIVES):
        π = pruning.learn(
            weights,
            agreement(s.p, φ),
            objective=objective,
            steps=s.mask_steps,
            rate=1.0,
            batch=s.mask_batch,
            rng=np.random.default_rng([s.seed, 3, k]),
        )
        runs.append(
            {
                "objective": objective,
                "spurious": _spread(π[..., 1:].mean(axis=-1)),
                "invariant": _spread(π[..., 0]),
                "accuracy": _spread(simulation.accuracy(weights * (π > 0.5))),
            }
        )
    critical = pruning.critical_φ(weights[:, 1:], s.p)
    return {
        "p": s.p,
        "phi": φ.tolist(),
        "runs": runs,
        "critical": critical.tolist(),
        "unpruned_accuracy": float(simulation.accuracy(weights).mean()),
        "settings": {"steps": s.mask_steps, "rate": 1.0, "batch": s.mask_batch, "sparsity": 1e-3},
    }


def cosines(s: Settings) -> Numbers:
    """Compare Lemma 1 with random pairs, over p and over the number of spurious columns kept."""
    rng = np.random.default_rng([s.seed, 4])
    w = cosining.semi_orthogonal(rng, 2 * (s.d + 1), s.d)
    ps, kept = np.linspace(0.55, 1.0, 10), range(s.d + 1)
    over_p = [_cosine(s, rng, w, float(p), s.d) for p in ps]
    over_kept = [_cosine(s, rng, w, s.p, k) for k in kept]
    return {"d": s.d, "q": len(w), "p": s.p, "over_p": over_p, "over_kept": over_kept}


def _cosine(s: Settings, rng: np.random.Generator, w: Array, p: float, kept: int) -> Numbers:
    exact = cosining.expected_cosines(s.d, p, kept=kept)
    sampled = cosining.sampled_cosines(rng, w, p, n=s.pairs, kept=kept)
    return {
        "p": p,
        "kept": kept,
        "among": exact.among,
        "across": exact.across,
        "gap": exact.gap,
        "sampled_among": [sampled.among, sampled.among_spread],
        "sampled_across": [sampled.across, sampled.across_spread],
    }


def _train_and_test(p: float) -> dict[str, Environment]:
    return {"train": biased(p), "test": fair()}


def _errors(
    cells: list[tuple[Array, Array]], where: Environment, s: Settings, rng: np.random.Generator
) -> dict[str, list[float]]:
    """Return exact error, sampled error and bounds of every (π, α)."""
    exact = [_exact(π, α, where) for π, α in cells]
    sampled = [sampled_error(np.r_[1.0, α], π, where, rng, n=s.draws) for π, α in cells]
    one_sided = [float(bounding.one_sided_bound(π, α, where.agree)) for π, α in cells]
    means = [float(bounding.mean_output(π, α, where.agree)) for π, α in cells]
    return {
        "below": [error.below for error in exact],
        "tie": [error.tie for error in exact],
        "loss": [error.loss for error in exact],
        "sampled": [error.loss for error in sampled],
        "sampled_spread": [error.spread for error in sampled],
        "mean": means,
        "bound": [float(bounding.two_sided_bound(π, α, where.agree)) for π, α in cells],
        "one_sided": one_sided,
    }


def _exact(π: Array, α: Array, where: Environment) -> Error:
    return exact_error(np.concatenate([[1.0], α]), π, where)


def _flow(start: flow.Start, t: Array) -> Numbers:
    path = flow.integrate(start, t)
    most = float(path.w_inv[-1])
    lower, upper = flow.w_inv_bounds(start, t)
    sp_lower, ratio_lower = flow.w_sp_lower(start, t, most), flow.ratio_lower(start, t, most)
    constant = flow.conserved(start.p, path.w_inv, path.w_sp)
    limit = float(flow.w_limit(start.p))
    return {
        "p": start.p,
        "w_inv": path.w_inv.tolist(),
        "w_inv_lower": lower.tolist(),
        "w_inv_upper": upper.tolist(),
        "w_sp": path.w_sp[:, 0].tolist(),
        "w_sp_lower": sp_lower[:, 0].tolist(),
        "w_sp_limit": limit if np.isfinite(limit) else None,
        "ratio": path.ratio[:, 0].tolist(),
        "ratio_lower": ratio_lower[:, 0].tolist(),
        "drift": float(np.abs(constant / constant[0] - 1).max()),
        "off_closed_form": float(np.abs(flow.spurious_at(start, path.w_inv) - path.w_sp).max()),
        "slack": {  # without t = 0, at which all bounds are equalities
            "w_inv_lower": float((path.w_inv - lower)[1:].min()),
            "w_inv_upper": float((upper - path.w_inv)[1:].min()),
            "w_sp_lower": float((path.w_sp - sp_lower)[1:].min()),
            "ratio_lower": float((path.ratio - ratio_lower)[1:].min()),
        },
        "rises": all(a <= b + ROUNDING for a, b in pairwise(path.w_sp[:, 0])),
    }


def _spread(values: ArrayLike) -> dict[str, list[float]]:
    """Return mean and standard deviation over the last axis, the seeds."""
    values = np.asarray(values, dtype=np.float64)
    return {
        "mean": values.mean(axis=-1).tolist(),
        "sd": values.std(axis=-1, ddof=1 if values.shape[-1] > 1 else 0).tolist(),
    }
