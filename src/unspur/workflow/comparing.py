"""Train several methods on a user's images, and compare their scores.

Stages that methods share (mining, the ordinary model) are trained once and found in the store. All methods
have the same network, seed, number of steps and held-out images, so that only the method differs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from .. import stages
from ..data.custom.assembly import UserImages
from ..errors import RecipeError
from ..parallel import is_first
from ..recipes.own_methods import own_methods
from ..report import comparison_page
from ..runs.comparison_record import (
    PARTS,
    ComparedMethod,
    MethodComparison,
    gains,
    scores_together,
    unseen_gains,
    unseen_shares,
)
from ..runs.result_folder import refuse_folder, refuse_source
from ..stages.evaluate import Scorer
from ..stages.place import Place
from ..store import environment, make_folder, write_bytes
from .debiasing import carry_out, open_debias
from .outcome import Outcome

METHODS = ("erm", "jtt", "dfr-mined", "unspur")
RECORD = "comparison.json"


def open_comparison(
    images: UserImages,
    place: Place,
    methods: Sequence[str] = METHODS,
    *,
    model: nn.Module | str | None = None,
    init: str = "",
    pretrained: bool = False,
    size: int = 0,
    settings: Mapping[str, Any] | None = None,
    suspects: Path | str | None = None,
) -> dict[str, stages.Run]:
    """Prepare a run of each method; raise before any training begins if one of them cannot be run."""
    if isinstance(methods, str):
        raise RecipeError(f"methods is a list of names, as in ['erm', 'jtt'], not {methods!r}.")
    if len(set(methods)) < len(methods) or not methods:
        raise RecipeError(
            f"the methods must be different, and at least one; given: {', '.join(methods) or 'none'}."
        )
    runs_by_method = {
        name: open_debias(
            images,
            place,
            model=model,
            init=init,
            pretrained=pretrained,
            size=size,
            settings=settings,
            suspects=suspects,
            method=name,
            anyway=True,
        )
        for name in methods
    }
    for run in runs_by_method.values():
        run.check()
    return runs_by_method


def refuse_folders(out: Path, methods: Iterable[str], source: str = "") -> None:
    """Raise StoreError if the results of a comparison cannot be written to a folder."""
    refuse_source(out, source)
    for name in methods:
        refuse_folder(out / name, "run")


def carry_out_comparison(
    runs_by_method: Mapping[str, stages.Run],
    out: Path | None = None,
    *,
    command: str = "",
    source: str = "",
) -> MethodComparison:
    """Run every method and compare the scores; with `out`, write a folder for each method and a page."""
    if out is not None:
        refuse_folders(out, runs_by_method, source)
    outcomes = {
        name: carry_out(run, out / name if out else None, command=command, source=source)
        for name, run in runs_by_method.items()
    }
    found = compare_outcomes(outcomes, command=command)
    return found if out is None or not is_first() else _save(found, out)


def _save(found: MethodComparison, out: Path) -> MethodComparison:
    """Write comparison.json and comparison.html."""
    make_folder(out)
    write_bytes(out / RECORD, (json.dumps(found.as_json(), indent=1) + "\n").encode())
    return replace(found, out=out, page=comparison_page.write_if_possible(found, out))


def compare_outcomes(outcomes: Mapping[str, Outcome], *, command: str = "") -> MethodComparison:
    """Compare the scores of all methods; the baseline is ERM or, without it, the first method."""
    first = next(iter(outcomes.values()))
    baseline = "erm" if "erm" in outcomes else next(iter(outcomes))
    scored = {name: each.scores for name, each in outcomes.items()}
    scores, gain = scores_together(scored), gains(scored, baseline)
    suspects, right = _unseen(outcomes)
    methods = []
    for name, outcome in outcomes.items():
        entry, shares, unseen_gain = own_methods()[name], {}, {}
        if suspects is not None:
            shares = unseen_shares(right[name], suspects)
            if name != baseline:
                unseen_gain = unseen_gains(
                    right[name], right[baseline], suspects, comparisons=len(outcomes) - 1
                )
        methods.append(
            ComparedMethod(
                name,
                entry.title,
                entry.supervision,
                entry.networks,
                entry.source,
                scores[name],
                shares,
                gain[name],
                unseen_gain,
                outcome.numbers["density"]["overall"],
                _seconds(outcome),
            )
        )
    counts = [] if suspects is None else [int(suspects.sum()), int((~suspects).sum())]
    return MethodComparison(
        data=first.context.splits.name,
        evaluated_on=first.numbers["evaluated_on"],
        images=len(first.scores.tensors["targets"]),
        baseline=baseline,
        methods=tuple(methods),
        unseen_counts=dict(zip(PARTS, counts, strict=False)),
        about=_about(first, command),
    )


def _unseen(outcomes: Mapping[str, Outcome]) -> tuple[Tensor | None, dict[str, Tensor]]:
    """Return which held-out images are suspects, and which of all held-out images each method gets right."""
    mined = next((each for each in outcomes.values() if "mine" in each.results), None)
    if mined is None or mined.context.unseen is None:
        return None, {}
    split, among = mined.context.unseen
    right = {name: _right(each, split, among) for name, each in outcomes.items()}
    return mined.results.suspects(split).conflict[among], right


def _right(outcome: Outcome, split: str, among: Tensor) -> Tensor:
    context = outcome.context
    source = context.resident(split)
    predicted = Scorer(context).predicted(outcome.results.final_weights, source, among)
    return predicted == source.targets.cpu()[among]


def _seconds(outcome: Outcome) -> float:
    """Return the total seconds of the stages of a method; a shared stage counts for every method."""
    return round(sum(float(each.about["seconds"]) for each in outcome.results.values()), 1)


def _about(outcome: Outcome, command: str) -> dict[str, Any]:
    context = outcome.context
    return {
        "network": dict(context.builder.how),
        "seed": context.recipe.seed,
        "device": context.device.type,
        "digest": context.splits.digest,
        "command": command,
        "with": environment(),
    }
