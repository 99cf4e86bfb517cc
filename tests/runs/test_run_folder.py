"""The folder of a run: its files, loading its model, and detecting damage."""

from __future__ import annotations

import dataclasses
import json
import py_compile
import random
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import nn

import unspur
from sealing import edit, reseal
from toys import TinyNet, same, shapes_set
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
UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH
FILE = "from torch import nn\n\ndef build(classes, width=4):\n" + (
    "    return nn.Sequential(nn.Flatten(), nn.Linear(192, width), nn.ReLU(), nn.Linear(width, classes))\n"
)


def run(folder: Path, splits: Splits, name: str, *changes: str) -> Path:
    """Run a named network for a few steps, and return the folder of the run."""
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
    """Return a copy of the folder, to damage."""
    return Path(shutil.copytree(written, tmp_path / "out"))


@pytest.fixture(scope="module")
def classifier(written: Path) -> unspur.Classifier:
    return unspur.load(written)


# -- files --------------------------------------------------------------------------------------------


def test_the_files_of_a_run(written: Path) -> None:
    assert sorted(path.name for path in written.iterdir()) == [
        "manifest.json",
        "masks.safetensors",
        "model.json",
        "model.safetensors",
        "ordinary",
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


def test_the_complete_recipe_is_saved(written: Path) -> None:
    saved = recipes.load(str(written / "recipe.toml"))
    assert saved.pretrain.steps == 6
    assert saved.model.options == {"width": 4}
    assert (written / "recipe.toml").read_text() == recipes.dump(saved)


def test_scores_json_has_every_part(written: Path) -> None:
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


# -- loading the model --------------------------------------------------------------------------------


def test_the_loaded_model_predicts_as_it_was_scored(
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


def test_image_files_are_predicted_like_their_tensors(
    classifier: unspur.Classifier, splits: Splits, tmp_path: Path
) -> None:
    x = splits.test.images[:20]
    for i, image in enumerate(x):
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(tmp_path / f"{i:02}.png")
    found = classifier.predict(sorted(tmp_path.glob("*.png")))
    p, best = torch.softmax(classifier(x), dim=1).max(1)
    assert [label for label, _ in found] == [("stands", "lies")[i] for i in best.tolist()]
    assert [probability for _, probability in found] == pytest.approx(p.tolist())


def test_a_network_from_a_file_can_be_loaded(splits: Splits, tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(FILE)
    out = run(tmp_path, splits, f"{tmp_path / 'nets.py'}:build", "model.options.width=6")
    back = unspur.load(out, trust=True)
    assert back.model[1].weight.shape == (6, 192)
    scores = json.loads((out / "scores.json").read_text())
    assert runs.score(back, splits).as_json() == scores["debiased"]
    (tmp_path / "nets.py").unlink()
    with pytest.raises(ModelError, match=r"there is no file .*nets\.py"):
        unspur.load(out, trust=True)


def test_a_network_from_a_file_can_be_loaded_from_any_folder(
    splits: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nets.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    out = run(tmp_path, splits, "nets.py:build")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert unspur.load(out, trust=True).model[1].weight.shape == (4, 192)


def test_an_ordinary_run_has_no_masks(splits: Splits, tmp_path: Path) -> None:
    out = run(tmp_path, splits, "mlp", "model.options.inputs=192", 'plan="erm"')
    assert load_file(out / "masks.safetensors") == {}
    scores = json.loads((out / "scores.json").read_text())
    assert scores["pruned"] is scores["mining"] is None
    assert runs.score(unspur.load(out), splits).as_json() == scores["ordinary"]


# -- image files --------------------------------------------------------------------------------------


def drawing(size: tuple[int, int] = (8, 8)) -> Image.Image:
    """Return an image of four colours, which a palette can represent exactly."""
    colours = np.array([[250, 10, 10], [10, 250, 10], [10, 10, 250], [90, 90, 90]], np.uint8)
    rows, columns = np.indices((size[1], size[0]))
    return Image.fromarray(colours[(rows + 2 * columns) % 4])


def test_reading_does_not_change_an_image_of_the_right_size(
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


def test_files_are_cropped_as_in_training(splits: Splits, tmp_path: Path) -> None:
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
def test_a_file_that_is_not_an_image_is_refused(
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


# -- what is refused ----------------------------------------------------------------------------------


def test_data_of_another_shape(classifier: unspur.Classifier, splits: Splits) -> None:
    small = Splits(Split(splits.train.images[..., :4], splits.train.targets), splits.classes)
    with pytest.raises(
        DataError, match=r"takes \(3, 8, 8\) images of 2 classes, and data has \(3, 8, 4\)"
    ):
        runs.score(classifier, small)


def test_data_of_other_classes(classifier: unspur.Classifier, splits: Splits) -> None:
    more = dataclasses.replace(splits, classes=("stands", "lies", "leans"))
    with pytest.raises(DataError, match=r"of 2 classes, and bars has .* of 3"):
        runs.score(classifier, more)


def test_not_the_folder_of_a_run(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"model\.json is missing: .* is not the folder of a run"):
        unspur.load(tmp_path)


def test_another_format(out: Path) -> None:
    edit(out / "model.json", format=99)
    with pytest.raises(StoreError, match=r"model\.json has format 99, not 1"):
        unspur.load(out)


CONTENTS = ['{"format": 1, ', "[]", "null", '{"format": 1}', "\xff\xfe", "[" * 100_000]


@pytest.mark.parametrize("content", CONTENTS, ids=[text[:20] for text in CONTENTS])
def test_damaged_description(out: Path, content: str) -> None:
    (out / "model.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(StoreError, match=r"model\.json is damaged.*command of the run"):
        unspur.load(out)
    reseal(out)
    with pytest.raises(StoreError, match=r"model\.json"):
        unspur.load(out)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"classes": ["a", 3]}, "classes.1"),
        ({"classes": []}, "classes"),
        ({"classes": "ab"}, "classes"),
        ({"builder": {"name": 3, "options": {}}}, "builder.name"),
        ({"builder": {"name": "convnet", "optionz": {}}}, "builder.optionz"),
        ({"sha256": "0"}, "sha256"),
        ({"more": 1}, "more"),
        ({"slim": {"heads": {"a": -1}}}, "slim.heads.a"),
    ],
)
def test_every_value_of_the_description_is_checked(
    out: Path, changes: dict[str, Any], why: str
) -> None:
    edit(out / "model.json", **changes)
    with pytest.raises(StoreError, match=rf"model\.json is damaged \({why}: .*command of the run"):
        unspur.load(out)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"shape": [3, 0, 8]}, "input.shape.1"),
        ({"shape": [3, 8.5, 8]}, "input.shape.1"),
        ({"shape": [3, 8]}, "input.shape.2"),
        ({"shape": [3, True, 8]}, "input.shape.1"),
        ({"std": [0.5, 0.0, 0.7]}, "input.std.1"),
        ({"std": [0.5, -1.0, 0.7]}, "input.std.1"),
        ({"mean": [0.1, 0.2]}, "input"),
        ({"mean": [0.1, "x", 0.3]}, "input.mean.1"),
        ({"crop": "squarf"}, "input.crop"),
        ({"scale": 254}, "input.scale"),
        ({"crnp": "square"}, "input.crnp"),
    ],
)
def test_every_value_of_the_input_is_checked(out: Path, changes: dict[str, Any], why: str) -> None:
    about = json.loads((out / "model.json").read_text())
    edit(out / "model.json", input={**about["input"], **changes})
    with pytest.raises(StoreError, match=rf"model\.json is damaged \({why}: .*command of the run"):
        unspur.load(out)


@pytest.mark.parametrize("width", [-1, 0.5, "x", None, 3])
def test_options_that_do_not_fit(out: Path, width: object) -> None:
    edit(out / "model.json", builder={"name": "convnet", "options": {"width": width}})
    with pytest.raises(ModelError):
        unspur.load(out)


def test_a_file_of_the_folder_that_is_missing(out: Path) -> None:
    for name in ("model.safetensors", "masks.safetensors", "scores.json", "recipe.toml"):
        (out / name).rename(out / "away")
        with pytest.raises(StoreError, match=rf"{name} is missing. Run the command of the run"):
            unspur.load(out)
        (out / "away").rename(out / name)
    unspur.load(out)


def test_truncated_weights_are_refused(out: Path) -> None:
    file = out / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(StoreError, match=r"model\.safetensors"):
        unspur.load(out)


def test_flipped_bits_of_any_file_are_detected(out: Path) -> None:
    chance = random.Random(0)
    for name in [path.name for path in out.iterdir() if path.is_file()]:
        whole = (out / name).read_bytes()
        for _ in range(20):
            damaged = bytearray(whole)
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            (out / name).write_bytes(damaged)
            if name == "suspects.csv":
                unspur.load(out)
                continue
            with pytest.raises(StoreError, match=rf"{name} is damaged.*[Rr]un the command"):
                unspur.load(out)
        (out / name).write_bytes(whole)


def test_a_folder_of_an_older_version_is_loaded_with_a_warning(out: Path) -> None:
    (out / "manifest.json").unlink()
    with pytest.warns(UserWarning, match=r"has no manifest\.json"):
        unspur.load(out)


def test_weights_of_another_run_are_detected_without_a_manifest(out: Path) -> None:
    data = (out / "ordinary" / "model.safetensors").read_bytes()
    (out / "model.safetensors").write_bytes(data)
    (out / "manifest.json").unlink()
    with (
        pytest.warns(UserWarning, match="has no manifest"),
        pytest.raises(StoreError, match=r"model\.safetensors is damaged: its checksum differs"),
    ):
        unspur.load(out)


def test_a_run_that_was_killed_while_it_wrote_its_folder(
    splits: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("unspur.runs.run_folder.save_record", stop)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, splits, "mlp", "model.options.inputs=192", 'plan="erm"')
    with pytest.raises(StoreError, match=r"is incomplete\. .* the command of the run"):
        unspur.load(tmp_path / "out")
    unspur.load(run(tmp_path, splits, "mlp", "model.options.inputs=192", 'plan="erm"'))


# -- untrusted code -----------------------------------------------------------------------------------

EVIL = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n" + FILE


def test_loading_runs_no_code_without_trust(splits: Splits, tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(EVIL)
    out = run(tmp_path, splits, f"{tmp_path / 'nets.py'}:build")
    (tmp_path / "ran").unlink()
    with pytest.raises(ModelError, match=r"would run that file.*--trust.*trust=True.*model="):
        unspur.load(out)
    assert not (tmp_path / "ran").exists()
    unspur.load(out, trust=True)
    assert (tmp_path / "ran").exists()


def test_only_an_unchanged_file_is_trusted(splits: Splits, tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(FILE)
    out = run(tmp_path, splits, f"{tmp_path / 'nets.py'}:build")
    (tmp_path / "nets.py").write_text(EVIL)
    with pytest.raises(ModelError, match=r"not the file that the model was trained with.*model="):
        unspur.load(out, trust=True)
    about = json.loads((out / "model.json").read_text())
    del about["builder"]["sha256"]
    edit(out / "model.json", builder=about["builder"])
    with pytest.raises(ModelError, match="has no checksum of"):
        unspur.load(out, trust=True)
    assert not (tmp_path / "ran").exists()


def test_cached_bytecode_of_the_trusted_file_is_not_run(splits: Splits, tmp_path: Path) -> None:
    file = tmp_path / "nets.py"
    file.write_text(EVIL)
    cache = Path(py_compile.compile(str(file), invalidation_mode=UNCHECKED) or "")
    assert cache.exists()
    file.write_text(FILE)
    out = run(tmp_path, splits, f"{file}:build")
    unspur.load(out, trust=True)
    assert not (tmp_path / "ran").exists()


def test_a_model_that_the_user_passes_needs_no_trust(splits: Splits, tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(EVIL)
    out = run(tmp_path, splits, f"{tmp_path / 'nets.py'}:build")
    (tmp_path / "ran").unlink()
    network = nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.ReLU(), nn.Linear(4, 2))
    unspur.load(out, model=network)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["timm:hf-hub:a/b", "timm:local-dir:/tmp/x", "timm:../x"])
def test_names_that_lead_timm_to_other_sources_are_refused(out: Path, name: str) -> None:
    edit(out / "model.json", builder={"name": name, "options": {}})
    with pytest.raises(ModelError, match="not the name of a network in timm"):
        unspur.load(out)


def test_options_that_load_weights_are_left_out(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def create(name: str, **options: Any) -> nn.Module:
        seen.update(options)
        return models.builder("convnet", 2, {"width": 4}).build(0)

    timm = SimpleNamespace(create_model=create, __version__="0")
    monkeypatch.setitem(sys.modules, "timm", timm)
    options = {"pretrained": True, "checkpoint_path": "evil.pth", "drop_rate": 0.5}
    edit(out / "model.json", builder={"name": "timm:resnet18", "options": options})
    unspur.load(out)
    assert seen == {"num_classes": 2, "drop_rate": 0.5}


# -- the ordinary model -------------------------------------------------------------------------------


def test_the_ordinary_model_is_saved(written: Path, splits: Splits) -> None:
    back = unspur.load(written / "ordinary")
    scores = json.loads((written / "scores.json").read_text())
    assert runs.score(back, splits).as_json() == scores["ordinary"]
    assert scores["ordinary"] != scores["debiased"]
    stored = next((written.parent / "store").glob("pretrain-*")) / "tensors.safetensors"
    assert same(back.model.state_dict(), load_file(stored))


def test_the_ordinary_model_is_sealed(out: Path) -> None:
    file = out / "ordinary" / "model.json"
    file.write_bytes(file.read_bytes().replace(b"0.5", b"0.6", 1))
    with pytest.raises(StoreError, match=r"ordinary/model\.json is damaged.*command of the run"):
        unspur.load(out / "ordinary")
    unspur.load(out)


def test_an_ordinary_result_is_not_stored_twice(splits: Splits, tmp_path: Path) -> None:
    run(tmp_path, splits, "mlp", "model.options.inputs=192")
    assert (tmp_path / "out" / "ordinary").is_dir()
    with pytest.warns(UserWarning, match=r"suspects\.csv.*renamed to .*suspects-1\.csv"):
        out = run(tmp_path, splits, "mlp", "model.options.inputs=192", 'plan="erm"')
    assert not (out / "ordinary").exists()
    with pytest.raises(StoreError, match=r"the model of that run is the ordinary one.*Load .*out"):
        unspur.load(out / "ordinary")
    assert not (out / "suspects.csv").exists()


def test_a_folder_that_cannot_be_created(written: Path, splits: Splits, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file in the way")
    with pytest.raises(UnspurError, match="out"):
        run(tmp_path, splits, "mlp", "model.options.inputs=192", 'plan="erm"')
