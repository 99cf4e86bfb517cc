"""python -m fuzz: fuzz every surface and print counts; the exit code is 1 if a fault was found."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import torch

from .campaign import SHARES, attack
from .desk import build
from .oracle import FAULTS, Tally, limit_memory


def main() -> int:
    options = _options()
    torch.set_num_threads(1)
    whole = Tally()
    with tempfile.TemporaryDirectory() as folder:
        desk = build(Path(folder))
        limit_memory()
        for name in [options.surface] if options.surface else SHARES:
            share = 1.0 if options.surface else SHARES[name]
            count, began = max(1, round(options.number * share)), time.monotonic()
            tally = attack(name, desk, options.seed, range(options.first, options.first + count))
            _say(name, tally, time.monotonic() - began)
            whole.join(tally)
    _say("all", whole, 0)
    return 1 if whole.faults else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--number", type=int, default=20_000, help="inputs in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--surface", choices=SHARES, help="one surface alone")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    return parser.parse_args()


def _say(name: str, tally: Tally, seconds: float) -> None:
    counts = ", ".join(f"{tally.counts[kind]} {kind}" for kind in ("right", "refused", *FAULTS))
    print(f"{name:8} {tally.inputs:7} inputs: {counts}; {seconds:.0f} s", flush=True)
    if name != "all":
        for text in tally.faults[:40]:
            print("   ", text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
