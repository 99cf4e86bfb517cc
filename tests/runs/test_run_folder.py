"""The folder of a run: what is in it, the model back from it, and what damage is noticed."""

from __future__ import annotations

import dataclasses
import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

import unspur
from toys import TinyNet, shapes_set
from unspur import models, recipes, runs, stages
from unspur.data.splits import Split, Splits
from unspur.errors import DataError, ModelError, StoreError, UnspurError
from unspur.stages.context import Context
from unspur.store import Store

SETTINGS = [
    'mine.how="oracle"',
    "pretrain.steps=6",
    "pretrain.batch=32",
    "prune.steps=6",
    "prune.batch=32",
    "prune.rate=0.3",
    "prune.init=0.2",
    "prune.batch_norm_batches=2",
    "finetune.steps=6",
    "finetune.batch=32",
    "select.every=2",
]
FILE = "from torch import nn\n\ndef build(classes, width=4):\n" + (
    "    return nn.Sequential(nn.Flatten(), nn.Linear(192, width), nn.ReLU(), nn.Linear(width, classes))\n"
)


def run(folder: Path, splits: Splits, name: str, *changes: str) -> Path:
    """A short run of a named network, its folder written."""
    settings = recipes.change(
        recipes.Recipe(),
        recipes.parse_changes([*SETTINGS, f'model.name="{name}"', *changes]),
    )
    context = Context(
        recipe=settings,
        splits=splits,
        builder=models.builder(name, len(splits.classes), settings.model.options),
        store=Store(folder / "store"),
        device=torch.device("cpu"),
        show=lambda stage: nullcontext(),
    )
    made, scores = stages.run(context)
    runs.save(context, made, scores, folder / "out")
    return folder / "out"


@pytest.fixture(scope="module")
def splits() -> Splits:
    return shapes_set()


@pytest.fixture(scope="module")
def written(splits: Splits, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    norm = ["data.mean=[0.1, 0.2, 0.3]", "data.std=[0.5, 0.6, 0.7]"]
    return run(folder, splits, "convnet", "model.options.width=4", *norm)


@pytest.fixture
def out(written: Path, tmp_path: Path) -> Path:
    """A copy of the folder, to damage."""
    return Path(shutil.copytree(written, tmp_path / "out"))


@pytest.fixture(scope="module")
def classifier(written: Path) -> unspur.Classifier:
    return unspur.load(written)


def edit(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


# -- what is in it ------------------------------------------------------------------------------------


def test_the_files_of_a_run(written: Path) -> None:
    assert sorted(path.name for path in written.iterdir()) == [
        "masks.safetensors",
        "model.json",
        "model.safetensors",
        "recipe.toml",
        "run.json",
        "scores.json",
        "suspects.csv",
    ]


def test_model_json_says_how_to_build_and_feed_it(written: Path) -> None:
    about = json.loads((written / "model.json").read_text())
    assert about["builder"] == {"name": "convnet", "options": {"width": 4}}
    assert about["classes"] == ["stands", "lies"]
    assert about["input"] == {
        "shape": [3, 8, 8],
        "scale": 255,
        "mean": [0.1, 0.2, 0.3],
        "std": [0.5, 0.6, 0.7],
        "crop": "stretch",
    }


def test_the_recipe_is_saved_resolved(written: Path) -> None:
    saved = recipes.load(str(written / "recipe.toml"))
    assert saved.pretrain.steps == 6
    assert saved.model.options == {"width": 4}
    assert (written / "recipe.toml").read_text() == recipes.dump(saved)


def test_scores_json_holds_every_part(written: Path) -> None:
    scores = json.loads((written / "scores.json").read_text())
    parts = {"ordinary", "pruned", "debiased", "mining", "density", "selection"}
    assert parts <= scores.keys()
    assert all(0 <= scores["debiased"][name] <= 1 for name in ("unbiased", "worst_group"))
    assert np.shape(scores["debiased"]["groups"]) == (2, 2)


def test_run_json_names_the_artifacts(written: Path) -> None:
    record = json.loads((written / "run.json").read_text())
    stored = {path.name for path in (written.parent / "store").iterdir()}
    assert {stage["artifact"] for stage in record["stages"].values()} == stored
    assert list(record["stages"]) == ["mine", "pretrain", "prune", "finetune", "evaluate"]
    assert record["with"]["torch"] == torch.__version__


def test_masks_are_named_after_their_weights(written: Path) -> None:
    weights, masks = (load_file(written / f"{name}.safetensors") for name in ("model", "masks"))
    names = ["body.0.0.weight", "body.1.0.weight", "body.2.0.weight", "head.weight"]
    assert sorted(masks) == [f"{name}_mask" for name in names]
    assert (
        0 < sum(int(mask.sum()) for mask in masks.values()) < sum(m.numel() for m in masks.values())
    )
    for name in names:
        assert masks[f"{name}_mask"].dtype == torch.bool
        assert torch.equal(weights[name] != 0, masks[f"{name}_mask"])
    assert list(unspur.load(written).model.state_dict()) == list(
        models.builder("convnet", 2, {"width": 4}).build(0).state_dict()
    )
    assert weights.keys() == unspur.load(written).model.state_dict().keys()


# -- the model back -----------------------------------------------------------------------------------


def test_the_model_back_predicts_as_it_was_scored(
    written: Path, classifier: unspur.Classifier, splits: Splits
) -> None:
    scores = json.loads((written / "scores.json").read_text())
    assert runs.score(classifier, splits).as_json() == scores["debiased"]
    assert not any(module.training for module in classifier.modules())


def test_preprocessing_is_part_of_the_classifier(
    classifier: unspur.Classifier, splits: Splits
) -> None:
    x = splits.test.images[:50]
    mean, std = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.5, 0.6, 0.7])
    by_hand = (x.float() / 255 - mean.view(3, 1, 1)) / std.view(3, 1, 1)
    assert torch.equal(classifier(x), classifier.model(by_hand))


def test_image_files_are_predicted_as_the_tensors_they_hold(
    classifier: unspur.Classifier, splits: Splits, tmp_path: Path
) -> None:
    x = splits.test.images[:20]
    for i, image in enumerate(x):
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(tmp_path / f"{i:02}.png")
    found = classifier.predict(sorted(tmp_path.glob("*.png")))
    p, best = torch.softmax(classifier(x), dim=1).max(1)
    assert [label for label, _ in found] == [("stands", "lies")[i] for i in best.tolist()]
    assert [probability for _, probability in found] == pytest.approx(p.tolist())


def test_a_network_from_a_file_comes_back(splits: Splits, tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(FILE)
    out = run(tmp_path, splits, f"{tmp_path / 'nets.py'}:build", "model.options.width=6")
    back = unspur.load(out)
    assert back.model[1].weight.shape == (6, 192)
    scores = json.loads((out / "scores.json").read_text())
    assert runs.score(back, splits).as_json() == scores["debiased"]
    (tmp_path / "nets.py").unlink()
    with pytest.raises(ModelError, match=r"there is no file .*nets\.py"):
        unspur.load(out)


def test_a_network_from_a_file_comes_back_from_anywhere(
    splits: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nets.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    out = run(tmp_path, splits, "nets.py:build")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert unspur.load(out).model[1].weight.shape == (4, 192)


def test_an_ordinary_run_has_no_masks(splits: Splits, tmp_path: Path) -> None:
    out = run(tmp_path, splits, "mlp", "model.options.inputs=192", 'plan="erm"')
    assert load_file(out / "masks.safetensors") == {}
    scores = json.loads((out / "scores.json").read_text())
    assert scores["pruned"] is scores["mining"] is None
    assert runs.score(unspur.load(out), splits).as_json() == scores["ordinary"]


# -- image files --------------------------------------------------------------------------------------


def drawing(size: tuple[int, int] = (8, 8)) -> Image.Image:
    """Four colours, so that a palette holds them exactly."""
    colours = np.array([[250, 10, 10], [10, 250, 10], [10, 10, 250], [90, 90, 90]], np.uint8)
    rows, columns = np.indices((size[1], size[0]))
    return Image.fromarray(colours[(rows + 2 * columns) % 4])


def test_reading_keeps_an_image_of_the_right_size(
    classifier: unspur.Classifier, tmp_path: Path
) -> None:
    drawing().save(tmp_path / "a.png")
    read = classifier.read(tmp_path / "a.png")
    assert read.dtype == torch.uint8
    assert torch.equal(read, torch.from_numpy(np.array(drawing())).permute(2, 0, 1))


@pytest.mark.parametrize("size", [(16, 16), (5, 11), (8, 4)])
def test_reading_resizes(
    classifier: unspur.Classifier, tmp_path: Path, size: tuple[int, int]
) -> None:
    drawing(size).save(tmp_path / "a.png")
    read = classifier.read(str(tmp_path / "a.png"))
    by_hand = np.array(drawing(size).resize((8, 8), Image.Resampling.BILINEAR))
    assert torch.equal(read, torch.from_numpy(by_hand).permute(2, 0, 1))


@pytest.mark.parametrize("size", [(8, 8), (16, 12)])
@pytest.mark.parametrize("mode", ["P", "RGBA"])
def test_other_modes_read_as_their_colours(
    classifier: unspur.Classifier, tmp_path: Path, mode: str, size: tuple[int, int]
) -> None:
    drawing(size).save(tmp_path / "rgb.png")
    palette = drawing(size).quantize(4) if mode == "P" else drawing(size).convert(mode)
    assert np.array_equal(np.array(palette.convert("RGB")), np.array(drawing(size)))
    palette.save(tmp_path / "other.png")
    assert torch.equal(
        classifier.read(tmp_path / "other.png"), classifier.read(tmp_path / "rgb.png")
    )


def test_grey_reads_as_three_equal_channels(classifier: unspur.Classifier, tmp_path: Path) -> None:
    drawing().convert("L").save(tmp_path / "a.png")
    read = classifier.read(tmp_path / "a.png")
    assert read.shape == (3, 8, 8)
    assert torch.equal(read[0], torch.from_numpy(np.array(drawing().convert("L"))))
    assert torch.equal(read[0], read[2])


def test_files_are_cropped_as_they_were_for_training(splits: Splits, tmp_path: Path) -> None:
    out = run(
        tmp_path,
        dataclasses.replace(splits, crop="square"),
        "mlp",
        "model.options.inputs=192",
        'plan="erm"',
    )
    drawing((8, 12)).save(tmp_path / "a.png")
    middle = np.array(drawing((8, 12)))[2:10]
    read = unspur.load(out).read(tmp_path / "a.png")
    assert torch.equal(read, torch.from_numpy(middle).permute(2, 0, 1))


def test_a_model_of_grey_images_reads_grey(written: Path, tmp_path: Path) -> None:
    about = json.loads((written / "model.json").read_text())
    about["input"] |= {"shape": [1, 16, 16], "mean": [], "std": []}
    grey = runs.Classifier(TinyNet(), about)
    every = np.arange(256, dtype=np.uint8).reshape(16, 16)
    Image.fromarray(every).save(tmp_path / "a.png")
    assert torch.equal(grey.read(tmp_path / "a.png"), torch.from_numpy(every)[None])


@pytest.mark.parametrize("content", [b"", b"not an image", b"\x89PNG\r\n\x1a\n1234", "cut", "torn"])
def test_a_file_that_is_no_image(
    classifier: unspur.Classifier, tmp_path: Path, content: bytes | str
) -> None:
    file = tmp_path / "a.png"
    drawing((64, 64)).save(file)
    whole = file.read_bytes()
    damaged = {"cut": whole[: len(whole) // 2], "torn": whole[:60] + b"\0" * 20 + whole[80:]}
    file.write_bytes(content if isinstance(content, bytes) else damaged[content])
    with pytest.raises(DataError, match=r"a\.png: not a readable image"):
        classifier.read(file)


def test_a_missing_image(classifier: unspur.Classifier, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.png: not a readable image"):
        classifier.predict([tmp_path / "none.png"])


# -- what does not fit --------------------------------------------------------------------------------


def test_data_of_another_shape(classifier: unspur.Classifier, splits: Splits) -> None:
    small = Splits(Split(splits.train.images[..., :4], splits.train.targets), splits.classes)
    with pytest.raises(
        DataError, match=r"takes \(3, 8, 8\) images of 2 classes; data has \(3, 8, 4\)"
    ):
        runs.score(classifier, small)


def test_data_of_other_classes(classifier: unspur.Classifier, splits: Splits) -> None:
    more = dataclasses.replace(splits, classes=("stands", "lies", "leans"))
    with pytest.raises(DataError, match=r"of 2 classes; bars has .* of 3"):
        runs.score(classifier, more)


def test_not_the_folder_of_a_run(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"model\.json is missing: .* is not the folder of a run"):
        unspur.load(tmp_path)


def test_another_format(out: Path) -> None:
    edit(out / "model.json", format=99)
    with pytest.raises(StoreError, match=r"model\.json has format 99, not 1"):
        unspur.load(out)


@pytest.mark.parametrize("content", ['{"format": 1, ', "[]", "null", '{"format": 1}', "\xff\xfe"])
def test_damaged_description(out: Path, content: str) -> None:
    (out / "model.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(StoreError, match=r"model\.json"):
        unspur.load(out)


def test_missing_weights(out: Path) -> None:
    (out / "model.safetensors").unlink()
    with pytest.raises(StoreError, match=r"model\.safetensors cannot be read"):
        unspur.load(out)


def test_half_written_weights(out: Path) -> None:
    file = out / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(StoreError, match=r"model\.safetensors"):
        unspur.load(out)


def test_one_flipped_bit_in_the_weights(out: Path) -> None:
    file = out / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-50] ^= 1
    file.write_bytes(content)
    with pytest.raises(StoreError, match=r"model\.safetensors"):
        unspur.load(out)


def test_a_folder_that_cannot_be_made(written: Path, splits: Splits, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file in the way")
    with pytest.raises(UnspurError, match="out"):
        run(tmp_path, splits, "mlp", "model.options.inputs=192", 'plan="erm"')
