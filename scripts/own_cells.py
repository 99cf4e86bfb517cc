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

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from gain_check import CASES, measure
from own_augmentation import wanted
from torch import Tensor

from unspur.data.benchmarks import mnist
from unspur.report import terminal
from unspur.stages import trainings
from unspur.stages.place import temporary_place
from unspur.store import environment, read_document, write_document

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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/own-cells.json.gz"))
    parser.add_argument("--data-root", type=Path, help="folder with the data")
    parser.add_argument("--only", default="*: *", help="names of sets, such as 'digits: *'")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = read_document(options.out)["runs"] if options.out.exists() else []
    root = mnist.find_root(options.data_root)
    for name, seed in wanted(options.only, options.seeds):
        done = {run["variant"] for run in runs if (run["set"], run["seed"]) == (name, seed)}
        if done == POWER.keys():
            continue
        make, which = CASES[name]
        pair = make(root, which, seed)
        with temporary_place("cpu", terminal.show(quiet=True)) as place:  # stages are shared
            for number, (variant, power) in enumerate(POWER.items()):
                if variant in done:
                    continue
                # The key of a stage does not know of the cells: a tiny change of a setting tells them apart.
                graded = GRADED + 1e-9 * number
                changes = {"prune.graded": graded, "finetune.graded": graded}
                with sampled_by_cells(power):
                    found = measure(pair, seed, place, changes)
                runs.append({"set": name, "seed": seed, "variant": variant, **found})
                write_document(options.out, {"with": environment(), "runs": runs})
                print(runs[-1]["set"], seed, variant, found["test"], found["mining"], flush=True)


if __name__ == "__main__":
    main()
