"""Builders: networks by name, from a file, or given; a seed makes the same weights again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import unspur
from toys import TinyNet
from unspur import models
from unspur.errors import ModelError

FILE = """
from torch import nn

def build(classes, width=4):
    return nn.Sequential(nn.Flatten(), nn.Linear(12, width), nn.ReLU(), nn.Linear(width, classes))

def number(classes):
    return classes

ANSWER = 42
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "nets.py"
    path.write_text(FILE)
    return path


def same(a: nn.Module, b: nn.Module) -> bool:
    left, right = a.state_dict(), b.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


@pytest.mark.parametrize(
    ("name", "options", "x"),
    [
        ("convnet", {"width": 4}, (2, 3, 16, 16)),
        ("mlp", {"inputs": 48}, (2, 3, 4, 4)),
        ("resnet18", {}, (2, 3, 32, 32)),
    ],
)
def test_built_in(name: str, options: dict[str, Any], x: tuple[int, ...]) -> None:
    builder = models.builder(name, 7, options)
    assert type(builder.build(0)) is models.BUILTIN[name]
    assert builder.build(0).eval()(torch.rand(x)).shape == (2, 7)
    assert builder.how == {"name": name, "options": options}


def test_seeds() -> None:
    builder = models.builder("convnet", 3, {"width": 4})
    assert same(builder.build(5), builder.build(5))
    assert not same(builder.build(5), builder.build(6))


def test_the_global_random_stream_is_left_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(4)
    torch.manual_seed(1)
    models.builder("convnet", 3, {"width": 4}).build(5)
    assert torch.equal(torch.rand(4), expected)


def test_the_global_random_stream_does_not_matter() -> None:
    builder = models.builder("mlp", 3, {"inputs": 12})
    torch.manual_seed(1)
    first = builder.build(5)
    torch.manual_seed(2)
    assert same(builder.build(5), first)


def test_copies_are_independent() -> None:
    builder = models.builder("mlp", 3, {"inputs": 12})
    first, second = builder.build(0), builder.build(0)
    with torch.no_grad():
        first.head.weight.zero_()
    assert not same(first, second)


def test_unknown_name() -> None:
    with pytest.raises(ModelError) as error:
        models.builder("convent", 3)
    assert str(error.value) == (
        "there is no model 'convent'. Built in: convnet, mlp, resnet18; or give file.py:function."
    )


def test_unknown_option() -> None:
    with pytest.raises(
        ModelError, match=r"convnet cannot be called with classes=3, \{'widht': 4\}"
    ):
        models.builder("convnet", 3, {"widht": 4}).build(0)


# -- from a file --------------------------------------------------------------------------------------


def test_from_a_file(file: Path) -> None:
    builder = models.builder(f"{file}:build", 5, {"width": 6})
    model = builder.build(1)
    assert model[1].weight.shape == (6, 12)
    assert model[3].weight.shape == (5, 6)
    assert same(model, builder.build(1))
    assert builder.how == {"name": f"{file}:build", "options": {"width": 6}}


def test_a_changed_file_is_another_source(file: Path) -> None:
    before = models.builder(f"{file}:build", 5)
    assert models.builder(f"{file}:build", 5).source == before.source
    file.write_text(FILE + "\n# changed\n")
    assert models.builder(f"{file}:build", 5).source != before.source


def test_built_in_networks_differ_in_source() -> None:
    sources = {models.builder(name, 3).source for name in models.BUILTIN}
    assert len(sources) == len(models.BUILTIN)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as error:
        models.builder(f"{tmp_path / 'none.py'}:build", 3)
    assert str(error.value) == (
        f"there is no file {tmp_path / 'none.py'} to take the model builder 'build' from."
    )


@pytest.mark.parametrize("function", ["bild", "ANSWER", ""])
def test_no_such_function(file: Path, function: str) -> None:
    with pytest.raises(ModelError, match=rf"nets\.py has no function '{function}'"):
        models.builder(f"{file}:{function}", 3)


def test_not_a_module(file: Path) -> None:
    with pytest.raises(ModelError, match=r"nets\.py:number returned int, not an nn\.Module"):
        models.builder(f"{file}:number", 3).build(0)


@pytest.mark.parametrize("content", ["def build(:\n", "import no_such_package\n", "1 / 0\n"])
def test_a_file_that_does_not_run(file: Path, content: str) -> None:
    file.write_text(content)
    with pytest.raises(ModelError, match=r"nets\.py"):
        models.builder(f"{file}:build", 3)


def test_a_file_that_is_no_python(tmp_path: Path) -> None:
    (tmp_path / "nets.txt").write_text(FILE)
    with pytest.raises(ModelError, match=r"nets\.txt"):
        models.builder(f"{tmp_path / 'nets.txt'}:build", 3)


def test_a_file_with_a_dataclass(file: Path) -> None:
    """Dataclasses with annotations as text look their module up while it is being read."""
    text = "from dataclasses import dataclass\n\n@dataclass\nclass Size:\n    width: int = 4\n"
    file.write_text("from __future__ import annotations\n" + text + FILE)
    assert models.builder(f"{file}:build", 3).build(0)[3].weight.shape == (3, 4)


def test_reading_a_file_hides_no_module(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text(FILE)
    import json

    models.builder(f"{tmp_path / 'json.py'}:build", 3)
    assert sys.modules["json"] is json


# -- given --------------------------------------------------------------------------------------------


def test_given_is_copied_with_its_weights() -> None:
    model = TinyNet()
    builder = models.given(model)
    first, second = builder.build(0), builder.build(1)
    assert same(first, model)
    assert same(second, model)
    with torch.no_grad():
        first.conv.weight.zero_()
    assert same(second, model)
    assert builder.how["given"] is True
    assert builder.how["name"].endswith(".TinyNet")


def test_given_of_another_shape_or_class_is_another_source() -> None:
    class Other(TinyNet):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + 1

    sources = {models.given(m).source for m in (TinyNet(2), TinyNet(3), Other(2))}
    assert len(sources) == 3
    assert models.given(TinyNet(2)).source in sources


def test_given_without_source_code() -> None:
    scope: dict[str, Any] = {"TinyNet": TinyNet, "__name__": "typed"}
    exec("class Typed(TinyNet):\n    pass\n", scope)
    model = scope["Typed"]()
    assert same(models.given(model).build(0), model)


def test_parametrized_models_are_refused() -> None:
    normed, masked = TinyNet(), TinyNet()
    parametrizations.weight_norm(normed.conv)
    unspur.attach(masked)
    for model in (normed, masked):
        with pytest.raises(ModelError, match=r"parametrized already.*unspur\.bake\(model\)"):
            models.given(model)
    unspur.harden(masked)
    unspur.bake(masked)
    assert same(models.given(masked).build(0), masked)
