"""An evaluation on images that the run was trained on says so."""

from __future__ import annotations

import csv
import json
import shutil
import warnings
from pathlib import Path

import pytest
import torch
from PIL import Image

import unspur
from toys import TinyNet, shapes_set
from unspur.data.custom.labelled import LabelledImages
from unspur.data.splits import Split, Splits
from unspur.runs.evaluation import Evaluation
from unspur.runs.training_images import count_training_images

SHORT = {"pretrain.steps": 4}


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unspur.data.decoding.readers.available_cores", lambda: 1)


def save(folder: Path, part: Split, count: int = 40) -> Path:
    """Write the first images to class folders."""
    for i in range(count):
        path = folder / ("stands", "lies")[int(part.targets[i])] / f"{i:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(part.images[i].permute(1, 2, 0).numpy()).save(path)
    return folder


def debias(data: Path | Split, out: Path) -> None:
    torch.manual_seed(0)
    unspur.debias(
        data,
        model=TinyNet(2),
        method="erm",
        settings=SHORT,
        device="cpu",
        out=out,
        store=out.parent / "store",
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with photos/, other photos with the same names, and a run on photos/."""
    home, splits = tmp_path_factory.mktemp("home"), shapes_set(seed=1)
    assert isinstance(splits.train, Split)
    assert isinstance(splits.test, Split)
    save(home / "photos", splits.train)
    save(home / "other", splits.test)
    debias(home / "photos", home / "run")
    return home


def evaluate(run: Path, images: object) -> tuple[Evaluation, str]:
    """Return an evaluation and its warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = unspur.evaluate(run, images, model=TinyNet(2), out=run.parent / "e")  # type: ignore[arg-type]
    return found, " ".join(str(each.message) for each in caught)


def test_the_same_folder_a_copy_and_a_part_of_it_are_recognised(home: Path, tmp_path: Path) -> None:
    copy, part = tmp_path / "copy", tmp_path / "part"
    shutil.copytree(home / "photos", copy)
    for label in ("stands", "lies"):
        (part / label).mkdir(parents=True)
        for i, path in enumerate(sorted((copy / label).iterdir())):
            shutil.copyfile(path, part / label / (path.name if i < 3 else f"renamed{i}.png"))
    for images, seen in ((home / "photos", 40), (copy, 40), (part, 6), (home / "other", 0)):
        found, said = evaluate(home / "run", images)
        assert found.training_images == seen, images
        assert (f"{seen} of the 40 images are training images of this run" in said) is bool(seen)
        assert json.loads((home / "e.json").read_text()).get("training_images", 0) == seen
        assert ("training images of this run" in (home / "e.md").read_text()) is bool(seen)


def test_a_table_of_the_same_files_is_recognised(home: Path) -> None:
    files = sorted((home / "photos").rglob("*.png"))[:30]
    for name, split, seen in (("all.csv", "train", 30), ("test.csv", "test", 30)):
        rows = [(str(file.relative_to(home)), file.parent.name, split) for file in files]
        with (home / name).open("w", newline="") as file:
            csv.writer(file).writerows([("path", "label", "split"), *rows])
        assert evaluate(home / "run", home / name)[0].training_images == seen


def test_the_test_split_of_the_data_of_a_run_is_not_a_training_split(tmp_path: Path) -> None:
    splits = shapes_set(seed=1)
    for name in ("train", "test"):
        part = splits.parts()[name]
        assert isinstance(part, Split)
        save(tmp_path / "photos" / name, part)
    debias(tmp_path / "photos", tmp_path / "run")
    assert evaluate(tmp_path / "run", tmp_path / "photos")[0].training_images == 0
    assert evaluate(tmp_path / "run", tmp_path / "photos" / "train")[0].training_images == 40


def test_a_training_split_in_python_is_recognised(tmp_path: Path) -> None:
    splits = shapes_set(seed=1)
    train, test = splits.train, splits.test
    assert isinstance(train, Split)
    assert isinstance(test, Split)
    debias(train, tmp_path / "run")
    same = Split(train.images.clone(), train.targets.clone())
    assert evaluate(tmp_path / "run", same)[0].training_images == len(train)
    found, said = evaluate(tmp_path / "run", test)
    assert (found.training_images, said) == (0, "")
    whole = Splits(train=train, classes=("0", "1"), test=test)
    assert evaluate(tmp_path / "run", whole)[0].training_images == 0


def test_images_that_were_moved_or_a_run_without_a_record_are_no_error(
    home: Path, tmp_path: Path
) -> None:
    shutil.copytree(home / "run", tmp_path / "run")
    assert evaluate(tmp_path / "run", home / "other")[0].training_images == 0
    (tmp_path / "run" / "run.json").write_text("[]")
    (tmp_path / "run" / "manifest.json").unlink()
    assert evaluate(tmp_path / "run", home / "other")[0].training_images == 0


def test_there_are_not_more_training_images_than_images(tmp_path: Path) -> None:
    train = shapes_set(seed=1).train
    assert isinstance(train, Split)
    photos = save(tmp_path / "photos", train)
    files = sorted(photos.rglob("*.png"))
    files[0].write_bytes(b"broken")
    readable = LabelledImages(
        Split(train.images[:39], train.targets[:39]), ("stands", "lies"), files=tuple(files)
    )
    shutil.copytree(photos, tmp_path / "copy")
    found = count_training_images(tmp_path / "run", str(tmp_path / "copy"), readable, str(photos))
    assert found == 39
