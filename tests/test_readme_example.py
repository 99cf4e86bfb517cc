"""The Python example of the README runs: with few images, few steps and stand-ins for torchvision."""

from __future__ import annotations

import re
import sys
import types
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import unspur
from toys import SMALL, TinyNet
from unspur import recipes

README = Path(__file__).parents[1] / "README.md"
pytestmark = pytest.mark.skipif(not README.is_file(), reason="not run from a source tree")


class ImageFolder(torch.utils.data.Dataset[Any]):
    """What the example uses of torchvision's: classes, and transformed images with their labels."""

    def __init__(self, root: str, transform: Any):
        self.paths = sorted(Path(root).rglob("*.png"))
        self.classes = sorted({path.parent.name for path in self.paths})
        self.transform = transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path = self.paths[index]
        return self.transform(Image.open(path)), self.classes.index(path.parent.name)


def write_photos(root: Path) -> None:
    """Write two classes of thirty images each, bright above or below."""
    pixels = np.random.default_rng(0).integers(0, 100, (60, 8, 8), dtype=np.uint8)
    for number, image in enumerate(pixels):
        label = ("cat", "dog")[number % 2]
        image[:4] += 120 * (label == "cat")
        (root / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(root / label / f"{number}.png")


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A torchvision with a tiny network, and few steps for `unspur.debias`."""
    module = types.ModuleType("torchvision")
    module.datasets = types.SimpleNamespace(ImageFolder=ImageFolder)  # type: ignore[attr-defined]
    network = types.SimpleNamespace(resnet18=lambda num_classes: TinyNet(num_classes))
    module.models = network  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision", module)
    few = partial(unspur.debias, settings=recipes.parse_changes(SMALL), device="cpu")
    monkeypatch.setattr(unspur, "debias", few)
    return module


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("stand_ins")
def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", README.read_text("utf-8"), re.DOTALL | re.M)
    write_photos(tmp_path / "photos")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(example, names)
    weights = torch.load("debiased.pth")
    assert weights.keys() == names["model"].state_dict().keys()
    assert names["suspects"].ndim == 1
    assert (tmp_path / "runs/photos/scores.json").is_file()
