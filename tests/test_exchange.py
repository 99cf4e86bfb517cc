"""docs/exchange.md: its columns are those of the files, and its recipes run.

pandas is real. The stand-ins for FiftyOne, LightlyStudio and cleanlab have the names and arguments that these
projects document, and nothing else.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image

from unspur.data.splits import Split
from unspur.runs.suspect_rows import COLUMNS, NEW_LABEL
from unspur.runs.suspects_csv import read_suspects, write_suspects
from unspur.stages.corrections import Corrections
from unspur.stages.suspects import Suspects

PAGE = Path(__file__).parents[1] / "docs" / "exchange.md"
pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="not run from a source tree")

CLASSES = ("cat", "dog")
NAMES = ("cat/1.png", "dog/2.png", "cat/3.png", "dog/4.png")
TARGETS = torch.tensor([0, 1, 0, 1])
SUSPECTS = Path("runs/photos/suspects.csv")


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four images and their suspects.csv, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4)).save(path)
    SUSPECTS.parent.mkdir(parents=True)
    score = torch.tensor([0.95, 0.92, 0.91, 0.10])
    conflict = torch.tensor([True, True, True, False])
    suspects = Suspects(score=score, predicted=1 - TARGETS, conflict=conflict)
    part = Split(torch.zeros(4, 3, 4, 4, dtype=torch.uint8), TARGETS, names=NAMES)
    write_suspects(SUSPECTS, part, CLASSES, suspects)
    return SUSPECTS


def recipes(heading: str) -> list[str]:
    """Return the Python blocks under a heading of the page."""
    section = re.split(r"^## ", PAGE.read_text(), flags=re.M)
    (text,) = [part for part in section if part.startswith(f"{heading}\n")]
    return re.findall(r"^```python\n(.*?)^```$", text, re.S | re.M)


def run(code: str, **known: Any) -> dict[str, Any]:
    names: dict[str, Any] = known
    exec(compile(code, str(PAGE), "exec"), names)
    return names


def corrected(path: str = "corrected.csv") -> Corrections:
    return read_suspects(path, NAMES, targets=TARGETS, classes=CLASSES)


def test_the_page_has_every_column() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.M)
    assert listed == ["path", "index", *COLUMNS, NEW_LABEL]


def test_pandas() -> None:
    pytest.importorskip("pandas")
    (code,) = recipes("pandas")
    names = run(code)
    assert len(names["suspects"]) == 3
    found = corrected()
    assert found.conflict.tolist() == [True, True, False, False]
    assert {index: new.after for index, new in found.labels.items()} == {2: 1}


class Sample:
    """A sample of FiftyOne: a file, tags and any fields, read as sample["name"]."""

    def __init__(self, filepath: str, tags: list[str] | None = None, **fields: Any):
        self.filepath, self.tags, self.fields = filepath, tags or [], fields

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]


def fiftyone() -> ModuleType:
    """FiftyOne's Dataset, Sample, Classification, load_dataset and launch_app."""
    stored: dict[str, Any] = {}

    class Dataset:
        def __init__(self, name: str):
            self.samples: list[Sample] = []
            stored[name] = self

        def add_samples(self, samples: list[Sample]) -> None:
            self.samples += samples

        def sort_by(self, field: str, reverse: bool = False) -> list[Sample]:
            return sorted(self.samples, key=lambda sample: sample[field], reverse=reverse)

        def __iter__(self) -> Iterator[Sample]:
            return iter(self.samples)

    module = ModuleType("fiftyone")
    module.__dict__.update(
        Dataset=Dataset,
        Sample=Sample,
        Classification=lambda label: SimpleNamespace(label=label),
        load_dataset=stored.__getitem__,
        launch_app=list,
    )
    return module


def test_fiftyone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fiftyone", fiftyone())
    there, back = recipes("FiftyOne")
    shown = run(there)["session"]
    assert [Path(sample.filepath).is_file() for sample in shown] == [True] * 4
    assert [sample["score"] for sample in shown] == [0.95, 0.92, 0.91, 0.10]
    first, second, third, _ = shown
    assert first.tags == ["suspect"]
    second.tags.clear()
    third.tags.append("exclude")
    second["ground_truth"].label = "cat"
    run(back)
    found = corrected()
    assert found.conflict.tolist() == [True, False, False, False]
    assert found.excluded.tolist() == [False, False, True, False]
    assert {index: new.after for index, new in found.labels.items()} == {1: 0}


class StudioMetadata(dict[str, Any]):
    """LightlyStudio's metadata: None for missing names."""

    def __missing__(self, name: str) -> None:
        return None


def lightly_studio() -> ModuleType:
    """LightlyStudio's ImageDataset with its samples, and start_gui."""
    stored: list[Any] = []

    class StudioSample:
        def __init__(self, path: Path):
            self.file_path_abs = str(path.absolute())
            self.tags: set[str] = set()
            self.metadata = StudioMetadata()

        def add_tag(self, name: str) -> None:
            self.tags.add(name)

    class ImageDataset:
        def __init__(self) -> None:
            self.samples: list[StudioSample] = []

        @staticmethod
        def create() -> ImageDataset:
            stored.append(ImageDataset())
            return stored[-1]

        @staticmethod
        def load() -> ImageDataset:
            return stored[-1]

        def add_images_from_path(self, path: str, embed: bool = True) -> None:
            self.samples += map(StudioSample, sorted(Path(path).rglob("*.png")))

        def __iter__(self) -> Iterator[StudioSample]:
            return iter(self.samples)

    module = ModuleType("lightly_studio")
    module.__dict__.update(ImageDataset=ImageDataset, start_gui=lambda: None)
    return module


def test_lightly_studio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightly_studio", lightly_studio())
    there, back = recipes("LightlyStudio")
    Image.new("RGB", (4, 4)).save("photos/other.png")  # in no class folder, so in no row
    dataset = run(there)["dataset"]
    samples = {sample.metadata["suspects_path"]: sample for sample in dataset}
    assert samples.keys() == {*NAMES, None}
    assert samples["cat/1.png"].metadata["score"] == 0.95
    assert samples["cat/1.png"].tags == {"suspect"}
    samples["cat/1.png"].tags = {"exclude"}
    samples["dog/4.png"].add_tag("suspect")
    run(back)
    found = corrected()
    assert found.conflict.tolist() == [False, True, True, True]
    assert found.excluded.tolist() == [True, False, False, False]


def test_cleanlab() -> None:
    pandas = pytest.importorskip("pandas")
    issues = {"is_label_issue": [False, True, False, True], "predicted_label": [1, 0, 1, 0]}
    lab = SimpleNamespace(get_issues={"label": pandas.DataFrame(issues)}.__getitem__)
    (code,) = recipes("cleanlab")
    run(code, lab=lab, paths=list(NAMES))
    found = corrected(str(SUSPECTS))
    assert found.notes == {1: "cleanlab: 0", 3: "cleanlab: 0"}
    assert found.conflict.tolist() == [True, True, True, False]
    assert not found.labels
