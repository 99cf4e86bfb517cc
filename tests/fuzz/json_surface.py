"""Damaged JSON and manifests: strict reading gives what Python's json gives, or an error."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from unspur.store import parse_json
from unspur.store.json_lines import parse_rows
from unspur.store.manifest import MANIFEST, check_folder

from .desk import Desk
from .mutators import damage_json
from .oracle import Case

RECORDS = ("model.json", "scores.json", "run.json", MANIFEST)


def make(rng: random.Random, desk: Desk) -> Case:
    """Return a case with a damaged record, a damaged log or a damaged manifest."""
    return rng.choice([_parse, _parse, _rows, _manifest])(rng, desk)


def _parse(rng: random.Random, desk: Desk) -> Case:
    name = rng.choice(RECORDS)
    data = damage_json(rng, (desk.run / name).read_bytes())

    def right(found: Any, warned: list[str]) -> bool:
        return bool(json.dumps(found) == json.dumps(json.loads(data)))

    return Case(f"JSON of {name}", lambda: parse_json(data, name), right, (name,))


def _rows(rng: random.Random, desk: Desk) -> Case:
    log = rng.choice(sorted(desk.store.glob("*/log.jsonl")))
    data = damage_json(rng, log.read_bytes()) if rng.random() < 0.2 else _lines(rng, log)

    def right(found: tuple[list[dict[str, Any]], int], warned: list[str]) -> bool:
        rows, damaged = found
        count = len([line for line in data.split(b"\n") if line])
        return len(rows) + damaged == count and all(map(_is_numeric, rows))

    return Case(f"rows of {log.parent.name}", lambda: parse_rows(data), right)


def _lines(rng: random.Random, log: Path) -> bytes:
    lines = log.read_bytes().split(b"\n")
    place = rng.randrange(len(lines))
    lines[place] = damage_json(rng, lines[place] or b"{}")
    return b"\n".join(lines)


def _is_numeric(row: dict[str, Any]) -> bool:
    return all(isinstance(value, int | float) for value in row.values())


def _manifest(rng: random.Random, desk: Desk) -> Case:
    path = desk.run / MANIFEST
    whole = path.read_bytes()
    path.write_bytes(damaged := damage_json(rng, whole))

    def right(found: bool, warned: list[str]) -> bool:
        return found and damaged == whole

    return Case(
        "manifest",
        lambda: check_folder(desk.run, "model.json"),
        right,
        (MANIFEST,),
        lambda: path.write_bytes(whole),
    )
