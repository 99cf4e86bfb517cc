"""Hostile folders with a valid seal: loading them runs no code and needs limited memory and time."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import torch

import unspur
from sealing import reseal
from unspur.report import page

from .desk import Desk
from .mutators import ODD_VALUES, damage_json, damage_text
from .oracle import Case

NETWORKS = ["convnet", "flatnet", "mlp", "resnet18", "bagnet18", "mobilenet_v2", "evil.py:make"]
NAMES = [*NETWORKS, "timm:resnet18", "timm:hf-hub:a/b", "os:system", "", "../evil.py:make", "x"]
OPTIONS = [
    "width",
    "hidden",
    "depth",
    "layers",
    "size",
    "pretrained",
    "channels",
    "checkpoint_path",
]
SIZES: list[Any] = [0, -1, 0.5, 1, 3, 7, 1000, 20_000, 10**6, 10**9, 2**62, "x", [4] * 50, None]
EVIL = "from pathlib import Path\nPath({canary!r}).write_text('ran')\ndef make(classes): ...\n"


def make(rng: random.Random, desk: Desk) -> Case:
    return rng.choice([_network, _network, _record, _page])(rng, desk)


def _network(rng: random.Random, desk: Desk) -> Case:
    """Return a case in which model.json names another network, or other options, classes or input."""
    path = desk.run / "model.json"
    about = json.loads(path.read_bytes())
    about["builder"]["name"] = rng.choice(NAMES)
    options = {rng.choice(OPTIONS): rng.choice(SIZES) for _ in range(rng.randrange(3))}
    about["builder"]["options"] = options
    if rng.random() < 0.3:
        about["input"]["shape"] = [rng.choice([1, 3, 65536]) for _ in range(3)]
    if rng.random() < 0.2:
        about["classes"] = [str(i) for i in range(rng.choice([1, 3, 100_000]))]
    if rng.random() < 0.2:
        about["slim"] = {"heads": {rng.choice(["a", "0", ""]): rng.choice([1, 65536])}}
    return _case(rng, desk, path, json.dumps(about).encode(), f"{about['builder']}")


def _record(rng: random.Random, desk: Desk) -> Case:
    """Return a case in which model.json has unusual values anywhere."""
    path = desk.run / "model.json"
    data = damage_json(rng, path.read_bytes())
    return _case(rng, desk, path, data, f"model.json {data[:300]!r}")


def _case(rng: random.Random, desk: Desk, path: Path, data: bytes, what: str) -> Case:
    canary = desk.root / "canary"
    (desk.run / "evil.py").write_text(EVIL.format(canary=str(canary)))
    undo = _replace(path, data)

    def call() -> Any:
        model = unspur.load(desk.run)
        channels, high, wide = model.shape
        if channels * high * wide < 10**6:
            with torch.no_grad():
                model(torch.zeros(1, channels, high, wide, dtype=torch.uint8))
        image = desk.root / "pixel.png"
        if not image.exists():
            _write_image(image)
        return model.predict([image])

    def right(found: Any, warned: list[str]) -> bool:
        return not canary.exists() and isinstance(found[0][0], str)

    # A network that takes other images than the record says can be built, and fails when it is called.
    names = ("model.json", str(desk.run), "the network failed")
    return Case(f"hostile {what}", call, right, names, undo)


def _page(rng: random.Random, desk: Desk) -> Case:
    """Return a case in which a page is written from records with unusual values."""
    folder, names = rng.choice(
        [(desk.run, ("run.json", "scores.json", "recipe.toml")), (desk.audit, ("audit.json",))]
    )
    path = folder / rng.choice(names)
    whole = path.read_bytes()
    if path.suffix == ".json":
        data = damage_json(rng, whole)
    else:
        data = damage_text(rng, whole.decode(), [str(v)[:99] for v in ODD_VALUES]).encode()
    undo, out = _replace(path, data), desk.root / "page.html"

    def right(found: Any, warned: list[str]) -> bool:
        return "</html>" in out.read_text()

    what = f"page of {folder.name}/{path.name}"
    return Case(what, lambda: page.write(folder, out=out), right, (path.name, str(folder)), undo)


def _replace(path: Path, data: bytes) -> Any:
    """Change a file and seal its folder; return a function that undoes it."""
    whole = path.read_bytes()
    path.write_bytes(data)
    reseal(path.parent)

    def undo() -> None:
        path.write_bytes(whole)
        reseal(path.parent)

    return undo


def _write_image(path: Path) -> None:
    from PIL import Image

    Image.new("RGB", (5, 4), "red").save(path)
