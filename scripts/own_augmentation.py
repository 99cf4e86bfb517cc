"""Compare mixing of all kinds with the kinds that the audit would choose.

    python scripts/own_augmentation.py --out results/own-augmentation.json.gz --data-root DIR

DIR holds MNIST and CIFAR-10. The sets are those of `gain_check.py`: 1,500 images with a planted shortcut that
5 % of them contradict, and sets without a shortcut, all debiased without asking the audit first. The views in
which the audit sees the shortcut are recorded, too; they say which kind of mixing would break it. A run takes
about a minute of a CPU core. Runs that are already in the record are not repeated. `make pages` writes the
table.
"""

from __future__ import annotations

from gain_check import CASES, measure, trial_options, wanted

import unspur
from unspur.audit.verdict import revealing_views
from unspur.data.benchmarks import mnist
from unspur.data.splits import Splits
from unspur.report import terminal
from unspur.stages.place import temporary_place
from unspur.store import environment, read_document, write_document

SETS = (
    *(f"digits: {kind}" for kind in ("colour", "texture", "light", "patch")),
    *(f"photographs: {kind}" for kind in ("tint", "corruption", "border")),
    *("digits", "CIFAR-10, first five classes"),
)
STYLE, SPECTRUM, MIX = ("data.style", "data.spectrum", "data.mix")
# The preset has all three; each variant names what it leaves out.
VARIANTS = {
    "all": (),
    "style, mix": (SPECTRUM,),
    "spectrum, mix": (STYLE,),
    "mix": (STYLE, SPECTRUM),
    "none": (STYLE, SPECTRUM, MIX),
}


def main() -> None:
    options = trial_options(__doc__, "results/own-augmentation.json.gz")
    record = read_document(options.out) if options.out.exists() else {"views": [], "runs": []}
    views, runs = record["views"], record["runs"]
    root = mnist.find_root(options.data_root)
    for name, seed in wanted(SETS, options.only, options.seeds):
        done = {run["variant"] for run in runs if (run["set"], run["seed"]) == (name, seed)}
        if len(done) == len(VARIANTS):
            continue
        make, which = CASES[name]
        pair = make(root, which, seed)
        if not any((each["set"], each["seed"]) == (name, seed) for each in views):
            own = Splits(train=pair.train.train, classes=pair.train.classes, name="own")
            seen = unspur.audit(own, seed=seed, device="cpu")
            found = {"verdict": seen.finding.code, "views": revealing_views(seen.evidence)}
            views.append({"set": name, "seed": seed, **found})
            print(views[-1], flush=True)
        with temporary_place("cpu", terminal.show(quiet=True)) as place:  # stages are shared
            for variant in (each for each in VARIANTS if each not in done):
                changes = dict.fromkeys(VARIANTS[variant], 0.0)
                found = measure(pair, seed, place, changes)
                runs.append({"set": name, "seed": seed, "variant": variant, **found})
                write_document(options.out, {"with": environment(), "views": views, "runs": runs})
                print(runs[-1], flush=True)


if __name__ == "__main__":
    main()
