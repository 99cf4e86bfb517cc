"""Measure how often `unspur check` raises a false alarm when only the sample of images has changed.

    python scripts/check_false_alarms.py --out results/check.json.gz

There are four clean sets of the digits that come with unspur: unchanged, in random colours, partly
spoiled, and with classes of different size. Random samples of each set are audited with short trainings
(STEPS) on small images (SIZE). Every sample is checked against every other sample of its set as the
baseline, so six samples of four sets give 120 checks. The accuracy of a model, by class, is checked on
100 pairs of samples of images that it was not trained on. As a control, further samples get a planted
shortcut or wrong labels, which should raise an alarm. Samples that are already in the record are not
audited again. It takes about five minutes on one CPU core.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from unspur import models, workflow
from unspur.check.alarms import compare_with_baseline
from unspur.check.baseline import (
    Baseline,
    CheckedData,
    CheckedModel,
    CheckSettings,
    CountedGroup,
)
from unspur.check.checking import summarise
from unspur.data.benchmarks import embedded, planted
from unspur.data.benchmarks.planted import Base
from unspur.data.custom.assembly import UserImages
from unspur.data.splits import Splits
from unspur.report import terminal
from unspur.stages.place import temporary_place
from unspur.store import environment, read_document, write_document

IMAGES, SIZE, STEPS, SAMPLES = 600, 16, 100, 6
SCORED, PAIRS = 500, 100
SETTINGS = CheckSettings(steps=STEPS, size=SIZE)
CLEAN: dict[str, Callable[[Base, int], Splits]] = {
    "plain": lambda base, seed: planted.plain(base),
    "any colour": lambda base, seed: planted.unrelated(base, "colour", seed=seed),
    "spoiled": lambda base, seed: planted.spoiled(base, seed=seed),
    "imbalanced": lambda base, seed: planted.imbalanced(base, seed=seed),
}
WRONG = 0.05  # share of images that get the label 3 in the control with wrong labels


def mislabel(base: Base, seed: int) -> Splits:
    """Give a random share of the images the label 3."""
    labels = base.labels.clone()
    wrong = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    labels[wrong[: round(WRONG * len(labels))]] = 3
    return planted.plain(Base(base.images, labels, base.name))


PLANTED: dict[str, Callable[[Base, int], Splits]] = {
    "colour": lambda base, seed: planted.planted(base, "colour", share=0.05, seed=seed),
    "wrong labels": mislabel,
}
CONTROLS = 2  # samples of each control


def pool() -> Base:
    """Return all training digits that come with unspur."""
    digits = embedded.digits()
    return planted.from_digits(digits.train_images, digits.train_labels, name="digits")


def audit(splits: Splits) -> dict[str, Any]:
    """Audit a sample as `unspur check` does, and return what a baseline stores."""
    blind = Splits(train=splits.train, classes=splits.classes, name=splits.name)
    began, cpu = time.perf_counter(), time.process_time()
    with temporary_place("cpu", terminal.show(quiet=True)) as place:
        images = UserImages(blind)
        context = workflow.open_audit(images, place, model="convnet", size=SIZE, steps=STEPS)
        found, _ = workflow.carry_out_audit(context)
    data = summarise(found, context.splits, "0" * 64)
    seconds = {"seconds": round(time.perf_counter() - began, 1)}
    return {**data.model_dump(mode="json"), **seconds, "cpu": round(time.process_time() - cpu, 1)}


def wanted() -> Iterator[tuple[str, str, int]]:
    """Yield the samples, alternating between the sets."""
    for seed in range(SAMPLES):
        yield from (("clean", name, seed) for name in CLEAN)
        if seed < CONTROLS:
            yield from (("planted", name, seed) for name in PLANTED)


def measurement(sample: dict[str, Any]) -> Baseline:
    """Return a stored sample as a baseline."""
    kept = {name: sample[name] for name in CheckedData.model_fields}
    return Baseline(settings=SETTINGS, data=CheckedData.model_validate(kept))


def count(samples: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Count alarms: clean samples against others of their set, planted samples against clean ones."""
    audits = sum(key.startswith("clean/") for key in samples)
    checks = {"audits": audits, "clean": 0, "shortcut": 0, "suspects": 0, "any": 0}
    for name in CLEAN:
        keys = [f"clean/{name}/{seed}" for seed in range(SAMPLES)]
        there = [measurement(samples[key]) for key in keys if key in samples]
        for before, now in permutations(there, 2):
            kinds = {alarm.kind for alarm in compare_with_baseline(before, now).alarms}
            checks["clean"] += 1
            checks["any"] += bool(kinds)
            for kind in kinds:
                checks[kind] += 1
    return {"checks": checks, "planted": {name: planted_alarms(samples, name) for name in PLANTED}}


def planted_alarms(samples: dict[str, dict[str, Any]], name: str) -> dict[str, int]:
    """Compare the samples of a control with every clean sample of plain digits."""
    clean = [measurement(s) for key, s in samples.items() if key.startswith("clean/plain/")]
    there = [measurement(s) for key, s in samples.items() if key.startswith(f"planted/{name}/")]
    found = [compare_with_baseline(before, now).alarms for before in clean for now in there]
    return {"checks": len(found), "alarms": sum(bool(alarms) for alarms in found)}


# -- the accuracy of a model --------------------------------------------------------------------------


def model_alarms() -> dict[str, int]:
    """Score one model on pairs of samples from the same images, and count the alarms."""
    digits, base = embedded.digits(), pool()
    torch.manual_seed(0)
    network = models.builder("convnet", 10, {"width": 8}).make()
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(150):
        some = torch.randint(len(base.labels), (32,))
        optimiser.zero_grad()
        F.cross_entropy(network(base.images[some] / 255), base.labels[some]).backward()
        optimiser.step()
    test = planted.from_digits(digits.test_images, digits.test_labels, name="digits")
    right = _right(network.eval(), test)
    alarms = 0
    for seed in range(PAIRS):
        order = torch.randperm(len(right), generator=torch.Generator().manual_seed(seed))
        halves = order[: len(order) // 2], order[len(order) // 2 :]
        before, now = (_scored(right, test.labels, half[:SCORED]) for half in halves)
        alarms += bool(compare_with_baseline(before, now).alarms)
    return {
        "checks": PAIRS,
        "alarms": alarms,
        "images": min(SCORED, len(right) // 2),
        "right": round(100 * float(right.double().mean())),
    }


@torch.no_grad()
def _right(network: nn.Module, test: Base) -> torch.Tensor:
    parts = torch.split(test.images, 500)
    return torch.cat([network(some / 255).argmax(1) for some in parts]) == test.labels


def _scored(right: torch.Tensor, labels: torch.Tensor, some: torch.Tensor) -> Baseline:
    groups = []
    for label in range(10):
        members = some[labels[some] == label]
        counted = int(right[members].sum())
        groups.append(CountedGroup(name=str(label), images=len(members), counted=counted))
    data = CheckedData(digest="0" * 64, images=0, verdict="nothing", text="", classes=[])
    scored = CheckedModel(digest="0" * 64, groups=groups)
    return Baseline(settings=SETTINGS, data=data, model=scored)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/check.json.gz"))
    parser.add_argument("--only", default="", help="run only samples whose name contains this")
    options = parser.parse_args()
    torch.set_num_threads(1)
    samples = read_document(options.out)["samples"] if options.out.exists() else {}
    base = pool()
    for truth, name, seed in wanted():
        key = f"{truth}/{name}/{seed}"
        if key in samples or options.only not in key:
            continue
        make = (CLEAN if truth == "clean" else PLANTED)[name]
        offset = 1000 if truth == "planted" else 0
        samples[key] = audit(make(base.some(IMAGES, seed=offset + seed), offset + seed))
        print(
            key, samples[key]["verdict"], samples[key]["cpu"], samples[key]["seconds"], flush=True
        )
        about = {"images": IMAGES, "size": SIZE, "steps": STEPS}
        write_document(options.out, {"with": environment(), **about, "samples": samples})
    found = {**read_document(options.out), **count(samples), "model": model_alarms()}
    write_document(options.out, found)
    print({name: found[name] for name in ("checks", "planted", "model")})


if __name__ == "__main__":
    main()
