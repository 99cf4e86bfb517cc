"""The input that networks state for themselves; stand-ins have the attributes that timm documents."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from torch import nn

from unspur.models import StartingPoint

OWN = {"mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}


def with_attributes(**attributes: Any) -> nn.Module:
    model = nn.Linear(1, 1)
    vars(model).update(attributes)
    return model


def test_a_module_of_timm() -> None:
    model = with_attributes(pretrained_cfg={"input_size": (3, 160, 160), **OWN})
    start = StartingPoint(model)
    assert start.pixels == 160
    assert start.normalisation == OWN
    oblong = StartingPoint(with_attributes(pretrained_cfg={"input_size": (3, 64, 96)}))
    assert (oblong.pixels, oblong.normalisation) == (0, {})


@pytest.mark.parametrize(
    ("stated", "pixels"),
    [(32, 32), ([48, 48], 48), ([48, 32], 0), (None, 0), ([None], 0), ({"height": 32}, 0)],
)
def test_a_module_of_transformers(stated: object, pixels: int) -> None:
    start = StartingPoint(with_attributes(config=SimpleNamespace(image_size=stated)))
    assert (start.pixels, start.normalisation) == (pixels, {})


def test_a_module_that_states_nothing() -> None:
    for model in (nn.Linear(1, 1), with_attributes(config={"image_size": 3}, pretrained_cfg=None)):
        assert (StartingPoint(model).pixels, StartingPoint(model).normalisation) == (0, {})


def test_a_name_of_timm_with_random_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def get_pretrained_cfg(name: str, allow_unregistered: bool) -> Any:
        if name not in ("vit", "resnet"):
            raise RuntimeError(f"Model architecture ({name}) has no pretrained cfg registered.")
        return SimpleNamespace(input_size=(3, 224, 224), fixed_input_size=name == "vit", **OWN)

    module = ModuleType("timm")
    module.models = SimpleNamespace(get_pretrained_cfg=get_pretrained_cfg)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "timm", module)
    assert StartingPoint("timm:vit").pixels == 224
    assert StartingPoint("timm:vit").normalisation == {}
    assert [StartingPoint(f"timm:{name}").pixels for name in ("resnet", "odd")] == [0, 0]
    assert StartingPoint("resnet18").pixels == 0
