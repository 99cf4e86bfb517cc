"""The tables of the theory report, and descriptions of its figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Numbers = dict[str, Any]
Table = dict[str, list[Any]]


def tables(n: Numbers) -> dict[str, Table]:
    """Return every table of the page, with its header (`head`) and rows of text (`rows`)."""
    return {
        "bounds": _bounds(n["bounds"]),
        "mixtures": _mixtures(n["mixtures"]),
        "corners": _corners(n["corners"]["examples"]),
        "flows": _flows(n["flows"]),
        "simulation": _simulation(n["simulation"]),
        "pruning": _pruning(n["pruning"]),
        "cosines": _cosines(n["cosines"]),
    }


def describe(n: Numbers) -> dict[str, str]:
    """Describe each figure, for screen readers."""
    over, mixed, corner = n["bounds"]["over_ratio"], n["mixtures"], n["corners"]
    runs = n["simulation"]["runs"]
    return {
        "bounds": "Two panels on a logarithmic axis. Left, over the weight ratio: the exact test error "
        f"rises to {number(over['test']['loss'][-1])} at ratio 1 while the training error stays below "
        f"{number(max(over['train']['loss']) + 1e-7)}; each lies below its dashed bound. Right, over the "
        "probability to keep a spurious weight: the training bound falls, the test bound is flat.",
        "mixtures": "Two panels over the share of spurious bits that contradict the label. Bound and exact "
        "error rise with the share; at its limit each curve meets the dotted line of the test "
        f"environment, bound {number(mixed['test']['bound'])}, error {number(mixed['test']['loss'])}.",
        "corners": "Error and bounds over weight ratios from -1 to 1. Left of ratio "
        f"{number(corner['fails_up_to'])} the paper's bound falls towards 0 while the error is near 1; "
        "the one-sided bound stays above the error everywhere.",
        "flows": "Left: over logarithmic time, the invariant weight grows without limit between its two "
        "bounds, the spurious weight rises to a dotted limit above its lower bound. Right: the weight "
        "ratio over time; at time "
        f"{n['flows']['t'][-1]:g} it is "
        + _joined(f"{number(r['ratio'][-1])} for p = {r['p']:g}" for r in n["flows"]["runs"])
        + "; every curve lies above its dashed lower bound.",
        "simulation": "Left: the weight ratio rises with p, "
        + _joined(_from_to(run["rule"], run["ratio"]["mean"]) for run in runs)
        + ". Right: unbiased accuracy falls, "
        + _joined(_from_to(run["rule"], run["accuracy"]["mean"]) for run in runs)
        + ". Bands show one standard deviation over seeds.",
        "pruning": "Left: the share of spurious weights that are kept, over the share of spurious bits that "
        "contradict the label, for four objectives; all reach "
        f"{number(max(run['spurious']['mean'][-1] for run in n['pruning']['runs']))} or less at the limit. "
        "Right: the unbiased accuracy of the pruned classifier jumps to 1 where the spurious weights are "
        "removed.",
        "cosines": "Left, over p: the cosine of two biased samples rises from near "
        f"{number(n['cosines']['over_p'][0]['among'])} to 1, that of a biased and an unbiased one stays at "
        f"{number(n['cosines']['over_p'][0]['across'])}. Right, over the number of spurious columns kept: "
        "both are 1 if none is kept, and differ otherwise. Sampled dots lie on the lines.",
    }


def number(value: float | None) -> str:
    """Format a number with three significant digits."""
    if value is None:
        return "–"
    if value != 0 and abs(value) < 1e-3:
        return f"{value:.1e}".replace("e-0", "e-").replace("-", "−")
    return f"{value:.3g}".replace("-", "−")


def _bounds(n: Numbers) -> Table:
    parts = n["over_ratio"]
    rows = [
        [number(n["ratio"][i]), *(_cell(parts[where], i) for where in ("train", "test"))]
        for i in _spread_indices(len(n["ratio"]), 6)
    ]
    flat = [[row[0], *row[1], *row[2]] for row in rows]
    columns = ("exact loss", "sampled ± s.e.", "bound")
    return {"head": ["α", *(f"{w}: {c}" for w in ("train", "test") for c in columns)], "rows": flat}


def _cell(part: Numbers, i: int) -> list[str]:
    sampled = f"{number(part['sampled'][i])} ± {number(part['sampled_spread'][i])}"
    return [number(part["loss"][i]), sampled, number(part["bound"][i])]


def _mixtures(n: Numbers) -> Table:
    head = [
        "p",
        "limit of φ",
        "bound at φ = 0",
        "bound at the limit",
        "loss at φ = 0",
        "loss at the limit",
    ]
    rows = [
        [f"{c['p']:g}", *map(number, (c["limit"], *_ends(c["bound"]), *_ends(c["loss"])))]
        for c in n["curves"]
    ]
    rows.append(["test", "–", "–", number(n["test"]["bound"]), "–", number(n["test"]["loss"])])
    return {"head": head, "rows": rows}


def _corners(examples: list[Numbers]) -> Table:
    head = [
        "corner",
        "w = (w_inv, w_sp)",
        "π",
        "P(O < 0)",
        "P(O = 0)",
        "ℓ",
        "bound",
        "holds",
        "note",
    ]
    rows = [
        [
            *(e["name"], _vector(e["w"]), _vector(e["pi"])),
            *map(number, (e["below"], e["tie"], e["loss"], e["bound"])),
            *("yes" if e["holds"] else "no", e["note"]),
        ]
        for e in examples
    ]
    return {"head": head, "rows": rows}


def _flows(n: Numbers) -> Table:
    head = [
        *("p", "largest α", "α at the end", "its lower bound"),
        *("smallest distance to a bound", "drift of e^w_inv h(w_i)", "distance to closed form"),
    ]
    rows = [
        [
            f"{r['p']:g}",
            *map(number, (max(r["ratio"]), r["ratio"][-1], r["ratio_lower"][-1])),
            *map(number, (min(r["slack"].values()), r["drift"], r["off_closed_form"])),
        ]
        for r in n["runs"]
    ]
    return {"head": head, "rows": rows}


def _simulation(n: Numbers) -> Table:
    runs = n["runs"]
    head = ["p", *(f"{r['rule']}: {what}" for what in ("ratio", "accuracy") for r in runs)]
    rows = [
        [f"{p:g}", *(_plus_minus(r[what], i) for what in ("ratio", "accuracy") for r in runs)]
        for i, p in enumerate(n["p"])
    ]
    return {"head": head, "rows": rows}


def _pruning(n: Numbers) -> Table:
    runs = n["runs"]
    names = {"spurious": "kept", "accuracy": "accuracy"}
    head = ["φ", *(f"{r['objective']}: {names[what]}" for what in names for r in runs)]
    rows = [
        [number(share), *(f"{r[what]['mean'][i]:.2f}" for what in names for r in runs)]
        for i, share in enumerate(n["phi"])
    ]
    return {"head": head, "rows": rows}


def _cosines(n: Numbers) -> Table:
    head = [
        "p",
        "columns kept",
        "two biased",
        "sampled ± s.e.",
        "biased, unbiased",
        "sampled ± s.e.",
    ]
    some = [*n["over_p"][::3], *(n["over_kept"][k] for k in (0, 1, len(n["over_kept"]) // 2))]
    rows = [
        [
            *(f"{row['p']:.2f}", str(row["kept"])),
            *(number(row["among"]), _sampled(row["sampled_among"])),
            *(number(row["across"]), _sampled(row["sampled_across"])),
        ]
        for row in some
    ]
    return {"head": head, "rows": rows}


def _sampled(pair: Sequence[float]) -> str:
    return f"{pair[0]:.4f} ± {pair[1]:.4f}"


def _plus_minus(values: Numbers, i: int) -> str:
    return f"{values['mean'][i]:.3f} ± {values['sd'][i]:.3f}"


def _vector(values: Sequence[float]) -> str:
    return "(" + ", ".join(f"{value:g}".replace("-", "−") for value in values) + ")"


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return values[0], values[-1]


def _from_to(name: str, values: Sequence[float]) -> str:
    return f"from {number(values[0])} to {number(values[-1])} with {name}"


def _joined(items: Any) -> str:
    return ", ".join(items)


def _spread_indices(count: int, number: int) -> list[int]:
    """Return about `number` evenly spread indices below `count`, with the first and the last."""
    return sorted({round(k * (count - 1) / (number - 1)) for k in range(number)})
