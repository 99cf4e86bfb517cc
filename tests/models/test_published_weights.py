"""Published weights: the file, its place, the expected input, and reading as plain tensors."""

from __future__ import annotations

import os
import socket
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import URLError

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from unspur import models
from unspur.errors import ModelError
from unspur.masks.multiply_adds import multiply_adds
from unspur.models.networks.mobilenet import InvertedResidual, MobileNetV2
from unspur.models.published_weights import find_file, published

SMALL = {"width": 0.25}
FILE = "mobilenet_v2-b0353104.pth"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty folder of torch.hub without a connection; return the folder for its files."""

    def fail(*args: Any, **kwargs: Any) -> None:
        raise URLError("no network here")

    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", fail)
    return tmp_path / "checkpoints"


def weights_of(classes: int = 1000) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    return MobileNetV2(classes, width=0.25).state_dict()


def check_body(model: nn.Module, weights: dict[str, torch.Tensor]) -> None:
    """Check that all weights but those of the head are these."""
    found = model.state_dict()
    for name, tensor in weights.items():
        if not name.startswith("classifier"):
            assert torch.equal(found[name], tensor), name


def test_mobilenet_is_the_published_one() -> None:
    model = MobileNetV2(1000)
    state = model.state_dict()
    assert len(state) == 314
    assert sum(p.numel() for p in model.parameters()) == 3_504_872
    assert state["features.0.0.weight"].shape == (32, 3, 3, 3)
    assert state["features.1.conv.0.0.weight"].shape == (32, 1, 3, 3)
    assert state["features.2.conv.1.0.weight"].shape == (96, 1, 3, 3)
    assert state["features.17.conv.2.weight"].shape == (320, 960, 1, 1)
    assert state["classifier.1.weight"].shape == (1000, 1280)
    # The published number; it depends on every stride.
    assert multiply_adds(model.eval(), torch.zeros(1, 3, 224, 224)) == 300_774_272


def test_blocks_of_mobilenet_add_their_input_where_its_shape_stays() -> None:
    blocks = [each for each in MobileNetV2(2).modules() if isinstance(each, InvertedResidual)]
    added = 0
    for block in blocks:
        last = block.conv[-1]
        nn.init.zeros_(last.weight)
        inputs = next(each.in_channels for each in block.modules() if isinstance(each, nn.Conv2d))
        x = torch.rand(2, inputs, 8, 8)
        y = block.eval()(x)
        added += y.shape == x.shape
        assert torch.equal(y, x if y.shape == x.shape else torch.zeros_like(y))
    assert (len(blocks), added) == (17, 10)


def test_a_file_in_the_folder_of_torch_is_found(hub: Path) -> None:
    hub.mkdir()
    torch.save(weights_of(), hub / FILE)
    builder = models.builder("mobilenet_v2", 5, SMALL, pretrained=True)
    first, second = builder.build(0), builder.build(1)
    check_body(first, weights_of())
    assert first.classifier[1].weight.shape == (5, 1280)
    assert not torch.equal(first.classifier[1].weight, second.classifier[1].weight)
    assert builder.source == models.builder("mobilenet_v2", 5, SMALL).source


def test_a_file_can_be_named(hub: Path, tmp_path: Path) -> None:
    save_file(weights_of(), tmp_path / "mine.safetensors")
    path = str(tmp_path / "mine.safetensors")
    builder = models.builder("mobilenet_v2", 5, SMALL, init=path, pretrained=True)
    check_body(builder.build(0), weights_of())


def test_without_a_connection_the_file_and_its_place_are_named(hub: Path) -> None:
    with pytest.raises(ModelError) as error:
        models.builder("mobilenet_v2", 5, pretrained=True)
    assert str(error.value) == (
        "the weights of mobilenet_v2 are not on this machine and cannot be downloaded (<urlopen error no "
        f"network here>). Get https://download.pytorch.org/models/{FILE} elsewhere and put it at "
        f"{hub / FILE}, or name the file: --init FILE (model.init in a recipe)."
    )


def test_a_download_is_checked_and_has_a_timeout(
    hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def download(url: str, place: str, *, hash_prefix: str | None, progress: bool) -> None:
        asked.extend((url, hash_prefix, socket.getdefaulttimeout()))
        torch.save(weights_of(), place)

    monkeypatch.setattr(torch.hub, "download_url_to_file", download)
    before = socket.getdefaulttimeout()
    assert find_file(published("mobilenet_v2")) == hub / FILE
    assert asked == [f"https://download.pytorch.org/models/{FILE}", "b0353104", 20.0]
    assert socket.getdefaulttimeout() == before


class Trap:
    def __reduce__(self) -> Any:
        return (print, ("this must not run",))


def test_code_in_a_file_is_not_run(hub: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hub.mkdir()
    torch.save({"model": Trap()}, hub / FILE)
    with pytest.raises(ModelError, match="cannot be read as plain weights"):
        models.builder("mobilenet_v2", 5, pretrained=True)
    assert "must not run" not in capsys.readouterr().out


def test_networks_without_published_weights() -> None:
    with pytest.raises(ModelError, match=r"no published weights of convnet.*--init"):
        models.builder("convnet", 5, pretrained=True)


# -- fakes of torchvision and timm --------------------------------------------------------------------


class How(NamedTuple):
    crop_size: list[int]
    mean: list[float]
    std: list[float]


class Best:
    url = "https://example.org/models/small-0123abcd.pth"

    @staticmethod
    def transforms() -> How:
        return How([192], [0.1, 0.2, 0.3], [0.4, 0.5, 0.6])


def fake_torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    def get_model(name: str, weights: None, num_classes: int, **options: Any) -> nn.Module:
        if name != "small":
            raise ValueError(f"Unknown model {name}")
        return MobileNetV2(num_classes, width=0.25, **options)

    def get_model_weights(name: str) -> Any:
        if name != "small":
            raise ValueError(f"Unknown model {name}")
        return types.SimpleNamespace(DEFAULT=Best)

    zoo = types.SimpleNamespace(get_model=get_model, get_model_weights=get_model_weights)
    module = types.ModuleType("torchvision")
    module.models, module.__version__ = zoo, "0.1"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision", module)


def test_torchvision(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_torchvision(monkeypatch)
    builder = models.builder("torchvision:small", 5, {"dropout": 0.1})
    assert builder.how == {"name": "torchvision:small", "options": {"dropout": 0.1}}
    found = published("torchvision:small")
    assert (found.file, found.size) == ("small-0123abcd.pth", 192)
    assert (found.mean, found.std) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    hub.mkdir()
    torch.save(weights_of(), hub / found.file)
    check_body(models.builder("torchvision:small", 5, pretrained=True).build(0), weights_of())


def test_unknown_networks_of_torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_torchvision(monkeypatch)
    with pytest.raises(ModelError, match=r"torchvision has no model 'huge' \(Unknown"):
        models.builder("torchvision:huge", 5).build(0)
    with pytest.raises(ModelError, match=r"no weights of torchvision:huge"):
        models.builder("torchvision:huge", 5, pretrained=True)


def test_torchvision_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(ModelError, match=r"needs the package torchvision.*pip install torchvision"):
        models.builder("torchvision:small", 5)


class OfTimm(MobileNetV2):
    def get_classifier(self) -> nn.Module:
        return self.classifier[1]


def fake_timm(monkeypatch: pytest.MonkeyPatch) -> None:
    about = types.SimpleNamespace(
        hf_hub_id="timm/small.best",
        url="",
        input_size=(3, 160, 160),
        mean=(0.5,) * 3,
        std=(0.25,) * 3,
    )

    def create_model(
        name: str, num_classes: int, pretrained: bool = False, pretrained_cfg_overlay: Any = None
    ) -> nn.Module:
        model = OfTimm(num_classes, width=0.25)
        if pretrained:  # timm renames entries of a file
            stored = pretrained_cfg_overlay["state_dict"]
            known = {k.removeprefix("old."): t for k, t in stored.items()}
            model.load_state_dict({k: t for k, t in known.items() if "classifier" not in k}, False)
        return model

    def get_pretrained_cfg(name: str, allow_unregistered: bool) -> Any:
        if name != "small":
            raise RuntimeError(f"Model architecture ({name}) has no pretrained cfg registered.")
        return about

    module = types.ModuleType("timm")
    module.create_model, module.__version__ = create_model, "1.0"  # type: ignore[attr-defined]
    module.models = types.SimpleNamespace(get_pretrained_cfg=get_pretrained_cfg)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "timm", module)


def test_timm(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_timm(monkeypatch)
    found = published("timm:small")
    assert found.url == "https://huggingface.co/timm/small.best/resolve/main/model.safetensors"
    assert (found.file, found.size, found.mean) == ("small.best.safetensors", 160, (0.5, 0.5, 0.5))
    hub.mkdir()
    save_file({f"old.{k}": t for k, t in weights_of().items()}, hub / found.file)
    builder = models.builder("timm:small", 5, pretrained=True)
    check_body(builder.build(0), weights_of())
    heads = [builder.build(seed).classifier[1].weight for seed in (0, 0, 1)]
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])


def test_timm_without_weights(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_timm(monkeypatch)
    with pytest.raises(ModelError, match="timm has no weights of timm:odd"):
        models.builder("timm:odd", 5, pretrained=True)
    with pytest.raises(ModelError, match=r"put it at .*checkpoints/small\.best\.safetensors"):
        models.builder("timm:small", 5, pretrained=True)


# -- the real ones ------------------------------------------------------------------------------------


def real_file() -> Path:
    """Return MobileNetV2's weights, from the folder of real data or of torch.hub, or skip the test."""
    places = (Path(os.environ.get("UNSPUR_DATA", "data")) / FILE, published("mobilenet_v2").place)
    for place in places:
        if place.is_file():
            return place
    pytest.skip(f"{FILE} is neither in UNSPUR_DATA nor in the folder of torch.hub")


@pytest.mark.real
def test_the_real_weights_give_known_logits() -> None:
    """The expected numbers come from torchvision's network with the same file."""
    model = models.builder("mobilenet_v2", 1000, init=str(real_file())).build(0).eval()
    x = torch.linspace(-2, 2, 3 * 96 * 96).reshape(1, 3, 96, 96)
    with torch.no_grad():
        logits = model(x)[0]
    assert logits[:4].tolist() == pytest.approx(REAL_LOGITS, abs=1e-4)
    assert int(logits.argmax()) == REAL_CLASS


REAL_LOGITS, REAL_CLASS = [0.20813, 0.06792, 0.26258, 0.03934], 410
