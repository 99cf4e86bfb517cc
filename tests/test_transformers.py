"""Image classifiers of transformers with random weights: every stage, the folder, predictions, exports."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import nn

import unspur
from toys import shapes_set
from unspur import workflow
from unspur.data.custom.assembly import UserImages
from unspur.data.splits import Split, Splits
from unspur.report import terminal
from unspur.stages.place import find_place

transformers = pytest.importorskip("transformers")

PAGE = Path(__file__).parents[1] / "docs" / "models.md"
SIZE = 16
QUICK: dict[str, Any] = {
    "mine.how": "oracle",
    "pretrain.steps": 4,
    "pretrain.batch": 16,
    "prune.steps": 4,
    "prune.batch": 16,
    "prune.rate": 0.3,
    "prune.batch_norm_batches": 2,
    "adapt.steps": 4,
    "adapt.batch": 16,
    "finetune.steps": 4,
    "finetune.batch": 16,
    "select.every": 2,
    "select.minimum": 2,
}


def resnet() -> nn.Module:
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=2
    )
    return transformers.ResNetForImageClassification(config)


def vit() -> nn.Module:
    config = transformers.ViTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=SIZE,
        patch_size=4,
        num_labels=2,
    )
    return transformers.ViTForImageClassification(config)


def convnext() -> nn.Module:
    config = transformers.ConvNextConfig(
        num_stages=2, hidden_sizes=[8, 16], depths=[1, 1], patch_size=2, num_labels=2
    )
    return transformers.ConvNextForImageClassification(config)


NETWORKS = [resnet, vit, convnext]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)


@pytest.fixture(scope="module")
def splits() -> Splits:
    return enlarged()


def enlarged() -> Splits:
    """Return the toy set with images of 16 pixels."""
    small = shapes_set()
    parts = {
        name: Split(part.images.repeat_interleave(2, 2).repeat_interleave(2, 3), part.targets)
        for name, part in small.parts().items()
        if isinstance(part, Split)
    }
    return replace(small, **parts)


def debias(model: nn.Module | str, splits: Splits, **kwargs: Any) -> unspur.DebiasedModel:
    kwargs = {"settings": QUICK, **kwargs}
    return unspur.debias(splits, model=model, anyway=True, device="cpu", **kwargs)


@pytest.mark.parametrize("make", NETWORKS)
def test_a_run_and_its_folder(make: Any, splits: Splits, tmp_path: Path) -> None:
    model = make()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    result = debias(model, splits, out="run")
    assert result.masks
    assert min(float(mask.float().mean()) for mask in result.masks.values()) < 1
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())

    # The result is a network of the user's class, under the user's names.
    assert type(result.model) is type(model)
    stored = load_file(tmp_path / "run" / "model.safetensors")
    assert stored.keys() == before.keys()
    own = make().eval()
    own.load_state_dict(stored)
    images = splits.train.images[:4]
    with torch.no_grad():
        loaded = unspur.load("run", model=make())
        expected = own(loaded.preprocess(images)).logits
        assert torch.equal(result.model(loaded.preprocess(images)).logits, expected)
        assert torch.equal(loaded(images), expected)


def photos(folder: Path) -> Path:
    """Write six image files, in one folder for each class."""
    splits = enlarged()
    for number, label in enumerate(splits.train.targets[:6].tolist()):
        place = folder / "photos" / splits.classes[label]
        place.mkdir(parents=True, exist_ok=True)
        image = splits.train.take(torch.tensor([number]))[0]
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(place / f"{number}.png")
    return folder / "photos"


@pytest.mark.parametrize(("make", "slim"), [(resnet, True), (vit, False)])
def test_predictions_and_exports(make: Any, slim: bool, splits: Splits, tmp_path: Path) -> None:
    debias(make(), splits, out="run")
    files = photos(tmp_path)
    found = unspur.predict("run", files, model=make(), device="cpu")
    formats = ("safetensors", "onnx")
    shrink: dict[str, Any] = {"slim": True, "multiple": 1} if slim else {}
    exported = unspur.export("run", formats=formats, model=make(), images=files, **shrink)
    assert set(exported.differences) >= {"onnx", "read back"}
    assert bool(exported.slimmed and exported.slimmed.removed) == slim
    again = unspur.predict("run/export", files, model=make(), device="cpu")
    assert len(found) == 6
    assert [each.label for each in again] == [each.label for each in found]


def test_single_weights_and_a_method_with_two_networks(splits: Splits) -> None:
    single = debias(vit(), splits, settings={**QUICK, "prune.unit": "weight"})
    assert float((single.model.classifier.weight != 0).float().mean()) > 0
    settings = {"disent.steps": 4, "disent.batch": 16}
    debias(resnet(), splits, out="pair", method="disent", settings=settings)
    images = splits.train.images[:4]
    assert unspur.load("pair", model=resnet())(images).shape == (4, 2)


def test_a_builder_in_a_file(splits: Splits, tmp_path: Path) -> None:
    (tmp_path / "network.py").write_text(
        "from transformers import ResNetConfig, ResNetForImageClassification\n"
        "def build(classes):\n"
        "    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1],\n"
        "                          layer_type='basic', num_labels=classes)\n"
        "    return ResNetForImageClassification(config)\n"
    )
    result = debias("network.py:build", splits, out="run")
    assert isinstance(result.model, transformers.ResNetForImageClassification)
    assert unspur.load("run", trust=True)(splits.train.images[:4]).shape == (4, 2)


def oblong_photos(folder: Path) -> Path:
    """Write 120 files of 30 x 20 pixels in two class folders."""
    split = shapes_set().train
    for number, label in enumerate(split.targets[:120].tolist()):
        place = folder / "files" / str(label)
        place.mkdir(parents=True, exist_ok=True)
        array = split.take(torch.tensor([number]))[0].permute(1, 2, 0).numpy()
        Image.fromarray(array).resize((30, 20)).save(place / f"{number}.png")
    return folder / "files"


def test_images_in_files_have_the_size_of_the_network(tmp_path: Path) -> None:
    files, settings = oblong_photos(tmp_path), {"pretrain.steps": 2}
    unspur.debias(files, model=vit(), method="erm", settings=settings, out="run", device="cpu")
    assert unspur.load("run", model=vit()).shape == (3, SIZE, SIZE)
    audit = workflow.open_audit(
        UserImages(files), find_place("cpu", "store", terminal.show(quiet=True)), model=vit()
    )
    assert audit.splits.train.shape == (3, SIZE, SIZE)
    assert audit.network()(audit.probe).shape == (2, 2)


@pytest.mark.skipif(not PAGE.is_file(), reason="not run from a source tree")
def test_the_example_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processor = SimpleNamespace(image_mean=[0.5, 0.5, 0.5], image_std=[0.25, 0.25, 0.25])
    for name, found in (
        ("AutoImageProcessor", processor),
        ("AutoModelForImageClassification", resnet()),
    ):
        auto = getattr(transformers, name)  # it would download what the name stands for
        monkeypatch.setattr(auto, "from_pretrained", lambda name, found=found, **options: found)
    real = unspur.debias

    def quick(*args: Any, size: int, settings: dict[str, Any], **options: Any) -> Any:
        assert size == 224
        settings = {**settings, "pretrain.steps": 2, "pretrain.batch": 4}
        return real(*args, size=SIZE, settings=settings, method="erm", device="cpu", **options)

    monkeypatch.setattr(unspur, "debias", quick)
    photos(tmp_path)
    (code,) = re.findall(r"^```python\n(import unspur\n.*?)^```$", PAGE.read_text(), re.S | re.M)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of so few images
        exec(compile(code, str(PAGE), "exec"), {})
    assert unspur.load("runs/photos", model=resnet()).preprocess.mean == (0.5, 0.5, 0.5)
    own = transformers.ResNetForImageClassification.from_pretrained(tmp_path / "debiased")
    stored = load_file(tmp_path / "runs" / "photos" / "model.safetensors")
    assert all(torch.equal(tensor, stored[name]) for name, tensor in own.state_dict().items())
