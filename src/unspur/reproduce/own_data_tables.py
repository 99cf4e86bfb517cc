"""Tables about users' own images: coverage of the gain, clean data, the preset, the network.

The records are written by scripts of the same names: gain_coverage, clean_sets, gain_check, gain_criteria,
own_preset, own_methods, own_augmentation, own_network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from ..runs.tables import markdown_table
from ..stages.gain_check import GainCheck
from .item import DASH

Run = Mapping[str, Any]
RELIES = 0.5  # accuracy on conflicting images below which a model relies on the shortcut


def percent(share: float) -> str:
    """Format a share in per cent."""
    return f"{100 * share:z.1f}".replace("-", "−")


def true_gain(run: Run, part: str) -> float:
    """Return the gain on conflicting test images (`suspects`) or on aligned ones (`others`)."""
    truth = run["truth"][part]
    return float(truth["debiased"] - truth["ordinary"])


def is_covered(run: Run, part: str) -> bool:
    """Return whether the interval of the gain contains the true gain."""
    about = run["gain"][part]
    return bool(about["low"] <= true_gain(run, part) <= about["high"])


def covered(runs: Sequence[Run], part: str) -> str:
    """Count the runs whose interval contains the true gain, among those with a measured gain."""
    measured = [run for run in runs if run["gain"]]
    return f"{sum(is_covered(run, part) for run in measured)} of {len(measured)}"


def mean_error(runs: Sequence[Run], part: str) -> str:
    """Return the mean difference between measured and true gain, in points."""
    errors = [run["gain"][part]["gain"] - true_gain(run, part) for run in runs if run["gain"]]
    return f"{100 * mean(errors):+.1f}".replace("-", "−")


def coverage_table(runs: Sequence[Run]) -> str:
    """Format the runs by kind of shortcut and share of conflicting images."""
    header = ["shortcut", "conflicting, %", "suspects measured", "precision, recall of suspects, %"]
    header += ["true gain, points", "measured gain", "interval contains the true gain"]
    header.append("interval of the cost contains the true cost")
    kinds = dict.fromkeys((run["kind"], run["share"]) for run in runs)
    rows = [_coverage_row([r for r in runs if (r["kind"], r["share"]) == key]) for key in kinds]
    return "\n".join(markdown_table(header, rows))


def _coverage_row(runs: Sequence[Run]) -> list[str]:
    measured = [run for run in runs if run["gain"]]
    if not measured:
        return [runs[0]["kind"], percent(runs[0]["share"]), *[DASH] * 6]
    suspects = [run["gain"]["suspects"] for run in measured]
    quality = [mean(run["mining"][name] for run in measured) for name in ("precision", "recall")]
    return [
        runs[0]["kind"],
        percent(runs[0]["share"]),
        f"{mean(each['count'] for each in suspects):.0f}",
        ", ".join(map(percent, quality)),
        percent(mean(true_gain(run, "suspects") for run in measured)),
        percent(mean(each["gain"] for each in suspects)),
        covered(measured, "suspects"),
        covered(measured, "others"),
    ]


def clean_table(sets: Mapping[str, Run]) -> str:
    """Format data sets without a shortcut: the verdict, and both accuracies."""
    header = ["set", "images", "verdict", "debiased, %", "ordinary model, %", "result, %"]
    rows = [_clean_row(name, found) for name, found in sets.items()]
    return "\n".join(markdown_table([*header, "difference, points"], rows))


def _clean_row(name: str, found: Run) -> list[str]:
    scores = [found["ordinary"], found["result"]]
    difference = f"{100 * (scores[1] - scores[0]):+.1f}".replace("-", "−")
    tried = DASH if found.get("tried") is None else percent(found["tried"])
    return [
        name,
        f"{found['images']:,}",
        found["verdict"],
        tried,
        *map(percent, scores),
        difference,
    ]


def check_table(runs: Sequence[Run]) -> str:
    """Format the runs by which the rule of the gain check was chosen and checked."""
    header = ["run for", "set", "suspects measured", "ordinary → debiased on suspects, %"]
    header += [
        "on other samples, %",
        "gain / cost",
        "result",
        "test images: ordinary → debiased, %",
    ]
    order = sorted(runs, key=lambda run: (run["use"] == "check", run["mining"] is not None))
    return "\n".join(markdown_table(header, [_check_row(run) for run in order]))


def _check_row(run: Run) -> list[str]:
    gain, scored = run["gain"], _scored(run)
    first = [run["use"], f"{run['case']}, seed {run['seed']}"]
    if not gain:
        return [*first, *[DASH] * 4, _result(run), scored]
    parts = [gain[name] for name in ("suspects", "others")]
    changes = [_change(part["ordinary"], part["debiased"]) for part in parts]
    cost = -parts[1]["gain"]
    ratio = f"{parts[0]['gain'] / cost:.1f}" if cost > 0 else DASH
    return [*first, str(parts[0]["count"]), *changes, ratio, _result(run), scored]


def _scored(run: Run) -> str:
    """Return both accuracies on the test images, or on aligned and conflicting ones if these are known."""
    test = run["test"]
    metrics = [name for name in ("aligned", "conflicting") if name in test["ordinary"]]
    return ", ".join(
        f"{name} {_change(test['ordinary'][name], test['debiased'][name])}"
        for name in metrics or ["average"]
    )


CRITERIA = ("class cost", "look-alike cost", "worst class", "coherence")


def criteria_table(runs: Sequence[Run]) -> str:
    """Format runs with criteria of the suspects, those in which debiasing helps most first."""
    header = ["set", "suspects", "precision, %", "measured", "gain", "cost", *CRITERIA, "result"]
    header += ["test images: ordinary → debiased, %"]
    order = sorted(runs, key=_helps, reverse=True)
    return "\n".join(markdown_table(header, [_criteria_row(run) for run in order]))


def _helps(run: Run) -> float:
    """Return the change on test images, as a mean of aligned and conflicting ones."""
    before, after = (run["test"][name] for name in ("ordinary", "debiased"))
    return float(mean(after[part] - before[part] for part in ("aligned", "conflicting")))


def _criteria_row(run: Run) -> list[str]:
    gain, found = run["gain"], run["criteria"] or {}
    precision = DASH if run["mining"] is None else percent(run["mining"]["precision"])
    first = [f"{run['case']}, seed {run['seed']}", f"{run['suspects']:,}", precision]
    measured = [DASH] * 3
    if gain:
        changes = (gain["suspects"]["gain"], -gain["others"]["gain"])
        measured = [str(gain["suspects"]["count"]), *map(percent, changes)]
    criteria = [DASH if found.get(name) is None else percent(found[name]) for name in CRITERIA]
    return [*first, *measured, *criteria, _result(run), _scored(run)]


def _result(run: Run) -> str:
    """Return which model the rule of the gain check hands back."""
    gain, test = run["gain"], run["test"]
    if test["ordinary"] == test["debiased"]:
        return "ordinary: no suspects"
    check = _check(gain)
    if check.is_open:
        return "debiased, left open"
    return "debiased" if check.keep else "ordinary"


def _check(gain: Mapping[str, Any] | None) -> GainCheck:
    return GainCheck(gain, gain["suspects"]["count"] if gain else 0)


def rejected(runs: Sequence[Run]) -> str:
    """Count the runs whose debiased model the rule of the gain check rejects."""
    return f"{sum(not _check(run['gain']).keep for run in runs)} of {len(runs)}"


def _change(before: float, after: float) -> str:
    return f"{percent(before)} → {percent(after)}"


def method_comparison(runs: Sequence[Run]) -> str:
    """Format methods on the same suspects: accuracy on aligned and conflicting images by shortcut."""
    kinds = list(dict.fromkeys((run["kind"], run["seed"]) for run in runs))
    methods = list(dict.fromkeys(run["method"] for run in runs))
    found = {(run["kind"], run["seed"], run["method"]): run for run in runs}
    header = ["shortcut", "seed", "ordinary model", *methods]
    rows = []
    for kind, seed in kinds:
        of_kind = [found.get((kind, seed, name)) for name in methods]
        ordinary = next((run["ordinary"] for run in of_kind if run and run["ordinary"]), None)
        cells = [_both(run["result"]) if run else DASH for run in of_kind]
        rows.append([kind, str(seed), _both(ordinary) if ordinary else DASH, *cells])
    return "\n".join(markdown_table(header, rows))


def variants_table(runs: Sequence[Run], views: Sequence[Run] = ()) -> str:
    """Format variants by set: the audit's views, if given, and accuracies as means over the seeds."""
    variants = list(dict.fromkeys(run["variant"] for run in runs))
    of_audit = ["views of the audit"] if views else []
    header = ["set", "seeds", *of_audit, "ordinary model", *variants]
    rows = []
    for name in dict.fromkeys(run["set"] for run in runs):
        of_set = [run for run in runs if run["set"] == name]
        seeds = sorted({run["seed"] for run in of_set})
        by_variant = {
            v: [r["test"]["debiased"] for r in of_set if r["variant"] == v] for v in variants
        }
        ordinary = [r["test"]["ordinary"] for r in of_set if r["variant"] == variants[0]]
        shown = [
            ", ".join(v["views"]) or DASH for v in views if v["set"] == name and v["seed"] in seeds
        ]
        cells = [_mean_accuracies(found) for found in (ordinary, *by_variant.values())]
        seen = ["; ".join(dict.fromkeys(shown))] if views else []
        rows.append([name, str(len(seeds)), *seen, *cells])
    return "\n".join(markdown_table(header, rows))


def _mean_accuracies(runs: Sequence[Mapping[str, float]]) -> str:
    """Format the mean accuracy on aligned / conflicting images, or on all if there is no shortcut."""
    if not runs:
        return DASH
    parts = [part for part in ("aligned", "conflicting") if part in runs[0]] or ["average"]
    return " / ".join(percent(mean(run[part] for run in runs)) for part in parts)


def preset_table(runs: Sequence[Run]) -> str:
    """Format variants of the preset: accuracy on aligned and conflicting images by kind of shortcut."""
    kinds = list(dict.fromkeys(run["kind"] for run in runs))
    found = {(run["variant"], run["kind"]): run for run in runs}
    ordinary = ["ordinary model", *(_both(_any_ordinary(runs, kind)) for kind in kinds), "100"]
    rows = [_preset_row(name, kinds, found) for name in dict.fromkeys(r["variant"] for r in runs)]
    return "\n".join(markdown_table(["", *kinds, "multiply–adds, %"], [ordinary, *rows]))


def _preset_row(name: str, kinds: Sequence[str], found: Mapping[tuple[str, str], Run]) -> list[str]:
    runs = [found.get((name, kind)) for kind in kinds]
    macs = mean(run["macs"] for run in runs if run)
    cells = (_both(run["result"]) if run else DASH for run in runs)
    return [name, *cells, f"{100 * macs:.0f}"]


def _any_ordinary(runs: Sequence[Run], kind: str) -> Mapping[str, float]:
    """Return the accuracies of the ordinary model for a kind of shortcut; all variants share it."""
    plain = (run for run in runs if run["kind"] == kind and run["variant"] != "ERM, mixed")
    return next(run["ordinary"] for run in plain if "ordinary" in run)


def _both(accuracy: Mapping[str, float]) -> str:
    return f"{percent(accuracy['aligned'])} / {percent(accuracy['conflicting'])}"


def lead_of_preset(runs: Sequence[Run]) -> str:
    """Return the least and the largest lead of the preset on conflicting images, in points.

    Runs whose ordinary model gets half of the conflicting images right do not rely on the shortcut.
    """
    found = [
        run["result"]["conflicting"] - _best_other(runs, run)
        for run in runs
        if run["method"] == "unspur" and run["ordinary"]["conflicting"] < RELIES
    ]
    return f"{percent(min(found))} to {percent(max(found))}"


def _best_other(runs: Sequence[Run], ours: Run) -> float:
    """Return the highest accuracy on conflicting images of the other methods on the same images."""
    same = [run for run in runs if (run["kind"], run["seed"]) == (ours["kind"], ours["seed"])]
    return max((run["result"]["conflicting"] for run in same if run is not ours), default=0.0)


def network_table(runs: Sequence[Run]) -> str:
    """Format the networks for small images: accuracy on all test images, and CPU seconds."""
    header = ["images", "network", "steps", "ordinary, %", "debiased, %", "CPU seconds"]
    return "\n".join(markdown_table(header, [_network_row(run) for run in runs]))


def _network_row(run: Run) -> list[str]:
    natural = run["kind"] == "cifar10"
    what = "CIFAR-10, 32 px" if natural else f"digits, 28 px, {run['kind']}"
    steps = str(run["steps"]) if run["steps"] else "default"
    debiased = DASH if natural else percent(run["result"]["all"])
    cells = [f"{run['images']:,} ({what})", run["network"], steps, percent(run["ordinary"]["all"])]
    return [*cells, debiased, str(run["cpu_seconds"])]
