"""What the scripts that compare variants on own images share: options, sets, records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gain_check import CASES, Pair, trial_options, wanted
from own_augmentation import SETS

from unspur.data.benchmarks import mnist
from unspur.store import environment, read_document, write_document


@dataclass(frozen=True)
class Trial:
    """A set with a seed, the variants that have no record yet, and a function that records one."""

    name: str
    seed: int
    pair: Pair
    variants: Sequence[str]
    record: Callable[[str, dict[str, Any]], None]


def trials(about: str | None, out: str, variants: Sequence[str]) -> Iterator[Trial]:
    """Parse the command line and yield every set that has variants without a record."""
    options = trial_options(about, out, only="*: *")
    runs = read_document(options.out)["runs"] if options.out.exists() else []
    root = mnist.find_root(options.data_root)
    for name, seed in wanted(SETS, options.only, options.seeds):
        done = {run["variant"] for run in runs if (run["set"], run["seed"]) == (name, seed)}
        missing = [each for each in variants if each not in done]
        if not missing:
            continue

        def record(variant: str, found: dict[str, Any], name: str = name, seed: int = seed) -> None:
            runs.append({"set": name, "seed": seed, "variant": variant, **found})
            write_document(options.out, {"with": environment(), "runs": runs})
            print(name, seed, variant, found["test"], found["mining"], flush=True)

        make, which = CASES[name]
        yield Trial(name, seed, make(root, which, seed), missing, record)
