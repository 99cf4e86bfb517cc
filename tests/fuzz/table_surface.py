"""Tables of images and suspects.csv give the rows that were written, or an error that names the file."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path
from typing import Any

import torch

from unspur.data.csv_text import escape_cell
from unspur.data.custom import table
from unspur.data.splits import Split
from unspur.runs.suspects_csv import read_suspects, write_suspects
from unspur.stages.suspects import Suspects

from .desk import Desk
from .mutators import ODD_TEXT, damage, damage_text
from .oracle import Case

LETTERS = [*"ab.0", *ODD_TEXT]
CELLS = ["", "nan", "=1", "'", '"', "x" * 200_000, "cat,,,", "train", "dev", "\x00", "a\nb", '"a']


def make(rng: random.Random, desk: Desk) -> Case:
    return rng.choice([_written_table, _damaged_table, _written_flags, _damaged_flags])(rng, desk)


def _written_table(rng: random.Random, desk: Desk) -> Case:
    """Return a case in which a table of any CSV dialect must give the rows that were written."""
    rows = [(_name(rng, i), rng.choice(["cat", "dog"])) for i in range(rng.randrange(1, 6))]
    path = desk.root / rng.choice(["t.csv", "t.tsv"])
    mark = "\t" if path.suffix == ".tsv" else rng.choice(",;")
    path.write_bytes(_render(rng, [("path", "label"), *rows], mark))
    wanted = [(str(path.parent / name), label) for name, label in rows]

    def right(found: Any, warned: list[str]) -> bool:
        return [(str(row.path), row.label) for row in found.rows] == wanted

    return Case(f"table {rows}", lambda: table.list_images(path), right, (path.name,))


def _render(rng: random.Random, rows: list[tuple[str, str]], mark: str) -> bytes:
    text = io.StringIO(newline="")
    end = rng.choice(["\n", "\r\n"])
    quoting = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    writer = csv.writer(text, delimiter=mark, lineterminator=end, quoting=quoting)
    writer.writerows([[escape_cell(cell) for cell in row] for row in rows])
    return (rng.choice(["", "\ufeff"]) + text.getvalue()).encode()


def _name(rng: random.Random, number: int) -> str:
    """Return a unique name without spaces at its ends, which tables do not preserve."""
    odd = "".join(rng.choices(LETTERS, k=rng.randrange(4)))
    return f"{rng.choice(['', '=', '-', '@'])}{number}{odd.replace(chr(0), '')}z.png"


def _damaged_table(rng: random.Random, desk: Desk) -> Case:
    """Return a case in which a damaged table must give complete rows, or be refused."""
    path = desk.root / rng.choice(["d.csv", "d.tsv", "d.parquet"])
    path.write_bytes(_spoiled(rng, "path,label,split,group\na.png,cat,train,x\nb.png,dog,test,y\n"))

    def right(found: Any, warned: list[str]) -> bool:
        return all(row.label and row.part in ("train", "valid", "test") for row in found.rows)

    return Case("damaged table", lambda: table.list_images(path), right, (path.name,))


def _spoiled(rng: random.Random, text: str) -> bytes:
    if rng.random() < 0.5:
        return damage(rng, text.encode())
    return damage_text(rng, text, CELLS).encode("utf-8", "replace")


def _written_flags(rng: random.Random, desk: Desk) -> Case:
    """Return a case in which suspects.csv must give the flags that were written, for any names."""
    count = rng.randrange(1, 6)
    names = tuple(_name(rng, i) for i in range(count))
    path, conflict = desk.root / "suspects.csv", torch.rand(count).gt(0.5)
    conflict = torch.tensor([rng.random() < 0.5 for _ in range(count)])
    part = Split(torch.zeros(count, 3, 2, 2, dtype=torch.uint8), torch.zeros(count).long(), names)
    path.unlink(missing_ok=True)
    score, guess = torch.rand(count), torch.zeros(count).long()
    write_suspects(path, part, ("a", "b"), Suspects(score, conflict, guess))

    def right(found: Any, warned: list[str]) -> bool:
        return torch.equal(found.conflict, conflict) and not bool(found.excluded.any())

    return Case(f"suspects {names}", lambda: read_suspects(path, names), right, ("no error",))


def _damaged_flags(rng: random.Random, desk: Desk) -> Case:
    path: Path = desk.root / "flags.csv"
    names = ("a.png", "b.png")
    text = (
        "path,label,score,predicted,flag,note\na.png,cat,0.5,dog,suspect,\nb.png,dog,0.1,dog,,n\n"
    )
    path.write_bytes(_spoiled(rng, text))

    def right(found: Any, warned: list[str]) -> bool:
        return len(found.conflict) == 2 and not bool((found.conflict & found.excluded).any())

    return Case("damaged suspects", lambda: read_suspects(path, names), right, (path.name,))
