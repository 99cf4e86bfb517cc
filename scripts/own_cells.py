"""Compare the sampling of suspects by flag with a balance over cells: (class, class that the miner saw).

    python scripts/own_cells.py --out results/own-cells.json.gz --data-root DIR

DIR holds MNIST and CIFAR-10. The sets are those of `own_augmentation.py` that have a planted shortcut. The
preset samples suspects of a class in proportion to the evidence against their label. Here the suspects of a
class are also grouped by the class that the miner predicts for them, which is a guess of the shortcut that
they show. Every such cell then has the same share of the draws (`equal`), or a share in proportion to the
square root of the one it has in the preset (`root`). A run takes about a minute of a CPU core. Runs that are
already in the record are not repeated. `make pages` writes the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from gain_check import measure
from own_trials import trials
from torch import Tensor

from unspur.report import terminal
from unspur.stages import trainings
from unspur.stages.place import temporary_place

POWER = {"flag": 1.0, "root": 0.5, "equal": 0.0}  # of the share that a cell has in the preset
GRADED = 2.0  # as in the preset


def balance(odds: Tensor, targets: Tensor, suspects: Tensor, seen: Tensor, power: float) -> Tensor:
    """Return odds in which the cells of a class share the draws of its suspects in another way."""
    odds = odds.clone()
    for label in targets.unique().tolist():
        members = suspects & (targets == label) & (odds > 0)
        cells = [members & (seen == other) for other in seen[members].unique().tolist()]
        before = torch.tensor([float(odds[cell].sum()) for cell in cells], dtype=torch.float64)
        if not cells:
            continue
        after = before.sum() * before**power / (before**power).sum()
        for cell, factor in zip(cells, (after / before).tolist(), strict=True):
            odds[cell] *= factor
    return odds


@contextmanager
def sampled_by_cells(power: float) -> Iterator[None]:
    """Let the stages after mining sample suspects by cells."""
    usual: Callable[..., Tensor] = trainings._odds

    def odds(context, settings, suspects):  # type: ignore[no-untyped-def]
        found = usual(context, settings, suspects)
        targets = context.splits.train.targets.cpu()
        return balance(found, targets, suspects.conflict, suspects.predicted, power)

    trainings._odds = odds
    try:
        yield
    finally:
        trainings._odds = usual


def main() -> None:
    for trial in trials(__doc__, "results/own-cells.json.gz", [*POWER]):
        with temporary_place("cpu", terminal.show(quiet=True)) as place:  # stages are shared
            for variant in trial.variants:
                # The key of a stage does not know of the cells: a tiny change of a setting tells them apart.
                graded = GRADED + 1e-9 * [*POWER].index(variant)
                changes = {"prune.graded": graded, "finetune.graded": graded}
                with sampled_by_cells(POWER[variant]):
                    trial.record(variant, measure(trial.pair, trial.seed, place, changes))


if __name__ == "__main__":
    main()
