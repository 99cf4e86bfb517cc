"""Builders: networks by name, from a file, or as a model; the same seed gives the same weights."""

from __future__ import annotations

import hashlib
import importlib
import linecache
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
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


def test_the_global_random_state_is_not_changed() -> None:
    torch.manual_seed(1)
    expected = torch.rand(4)
    torch.manual_seed(1)
    models.builder("convnet", 3, {"width": 4}).build(5)
    assert torch.equal(torch.rand(4), expected)


def test_the_global_random_state_does_not_matter() -> None:
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
        "there is no model 'convent'. Did you mean convnet? Choose one of "
        f"{', '.join(models.BUILTIN)}; or give file.py:function, timm:NAME or torchvision:NAME."
    )
    with pytest.raises(ModelError, match=r"no model 'vgg16'\. Choose one of convnet, "):
        models.builder("vgg16", 3)


def test_unknown_option() -> None:
    with pytest.raises(ModelError, match=r"convnet cannot be called with classes=3, widht=4"):
        models.builder("convnet", 3, {"widht": 4}).build(0)


def test_building_a_network_does_not_import_the_compiler() -> None:
    code = (
        "import sys\n"
        "from unspur import models\n"
        "for name in models.BUILTIN:\n"
        "    models.builder(name, 3).build(0)\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_the_weights_of_a_network_that_is_too_large_are_counted(name: str) -> None:
    small = sum(p.numel() for p in models.builder(name, 1).build(0).parameters())
    features = list(models.builder(name, 1).build(0).parameters())[-2].shape[1]
    classes = 10**8
    count = small + (classes - 1) * (features + 1)
    with pytest.raises(ModelError, match=f"has {count:,} weights; at most"):
        models.builder(name, classes).build(0)


# -- with weights that replace the initial ones -------------------------------------------------------


@pytest.mark.parametrize("name", models.BUILTIN)
def test_a_loaded_network_is_the_one_that_draws_its_weights_first(name: str) -> None:
    builder = models.builder(name, 3, {"inputs": 12} if name == "mlp" else {})
    weights = builder.build(5).state_dict()
    usual = builder.build(6)
    usual.load_state_dict(weights)
    loaded = builder.build_loaded(weights, 6)
    assert same(loaded, usual)
    assert str(loaded) == str(usual)
    assert [p.requires_grad for p in loaded.parameters()] == [
        p.requires_grad for p in usual.parameters()
    ]


@pytest.mark.parametrize("name", ["convnet", "resnet18", "mobilenet_v2"])
def test_a_loaded_network_draws_no_random_numbers(name: str) -> None:
    builder = models.builder(name, 3)
    weights = builder.build(5).state_dict()
    torch.manual_seed(1)
    state = torch.get_rng_state()
    builder.build_loaded(weights, 6)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_loaded_network_needs_all_weights() -> None:
    builder = models.builder("mlp", 3, {"inputs": 12})
    weights = builder.build(5).state_dict()
    weights.popitem()
    with pytest.raises(RuntimeError, match="Missing key"):
        builder.build_loaded(weights, 5)


def test_random_numbers_outside_of_the_weights_are_those_of_the_seed(file: Path) -> None:
    file.write_text(
        "import torch\nfrom torch import nn\n\n"
        "class Net(nn.Linear):\n"
        "    def __init__(self, classes):\n"
        "        super().__init__(2, classes)\n"
        "        self.projection = torch.rand(2)\n\n"
        "def build(classes):\n    return Net(classes)\n"
    )
    builder = models.builder(f"{file}:build", 3)
    first = builder.build(5)
    loaded = builder.build_loaded(first.state_dict(), 5)
    assert same(loaded, first)
    assert torch.equal(loaded.projection, first.projection)


# -- from a file --------------------------------------------------------------------------------------


def test_from_a_file(file: Path) -> None:
    builder = models.builder(f"{file}:build", 5, {"width": 6})
    model = builder.build(1)
    assert model[1].weight.shape == (6, 12)
    assert model[3].weight.shape == (5, 6)
    assert same(model, builder.build(1))
    checksum = hashlib.sha256(file.read_bytes()).hexdigest()
    assert builder.how == {
        "name": f"{file}:build",
        "options": {"width": 6},
        "sha256": checksum,
    }
    models.builder(f"{file}:build", 5, checksum=checksum)
    with pytest.raises(ModelError, match="not the file that the model was trained with"):
        models.builder(f"{file}:build", 5, checksum="0" * 64)


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


def test_a_file_that_is_not_python(tmp_path: Path) -> None:
    (tmp_path / "nets.txt").write_text(FILE)
    with pytest.raises(ModelError, match=r"nets\.txt"):
        models.builder(f"{tmp_path / 'nets.txt'}:build", 3)


def test_a_file_with_a_dataclass(file: Path) -> None:
    """Dataclasses with annotations as text look up their module while it is executed."""
    text = "from dataclasses import dataclass\n\n@dataclass\nclass Size:\n    width: int = 4\n"
    file.write_text("from __future__ import annotations\n" + text + FILE)
    assert models.builder(f"{file}:build", 3).build(0)[3].weight.shape == (3, 4)


def test_reading_a_file_does_not_hide_a_module(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text(FILE)
    import json

    models.builder(f"{tmp_path / 'json.py'}:build", 3)
    assert sys.modules["json"] is json


# -- copies of a model --------------------------------------------------------------------------------


def test_a_model_is_copied_with_its_weights() -> None:
    model = TinyNet()
    builder = models.copy_builder(model)
    first, second = builder.build(0), builder.build(1)
    assert same(first, model)
    assert same(second, model)
    with torch.no_grad():
        first.conv.weight.zero_()
    assert same(second, model)
    assert builder.how["given"] is True
    assert builder.how["name"].endswith(".TinyNet")


def test_a_model_that_keeps_tensors_of_its_last_call() -> None:
    class Keeps(TinyNet):
        def forward(self, x: Tensor) -> Tensor:
            self.logits = super().forward(x)
            return self.logits

    model, x = Keeps(), torch.rand(2, 3, 8, 8)
    model(x)
    with pytest.raises(ModelError, match=r"cannot be copied.*torch\.no_grad"):
        models.copy_builder(model).build(0)
    with torch.no_grad():
        model(x)
    assert same(models.copy_builder(model).build(0), model)


def test_a_model_of_another_shape_or_class_has_another_source() -> None:
    class Other(TinyNet):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + 1

    sources = {models.copy_builder(m).source for m in (TinyNet(2), TinyNet(3), Other(2))}
    assert len(sources) == 3
    assert models.copy_builder(TinyNet(2)).source in sources


@pytest.mark.parametrize(
    "value",
    [
        lambda x: torch.tensor([x, 1.0]),
        lambda x: torch.tensor(x > 1),
        lambda x: torch.tensor(x, dtype=torch.bfloat16),
        lambda x: torch.tensor([1j, x]).conj(),  # such as a rotary embedding
        lambda x: torch.ones(int(x), 6 // int(x)),
        lambda x: torch.zeros(2, dtype=torch.float32 if x > 1 else torch.int32),
        lambda x: np.array([[x]]),
        lambda x: {"scale": x, "names": ["a"]},
        lambda x: {(7, 7): x},
    ],
)
def test_values_that_are_not_in_the_state_dict_are_part_of_the_source(value: Any) -> None:
    """The forward pass may read them, so that another value gives other results."""

    def source(x: float, saved: bool) -> str:
        model = TinyNet()
        given = value(x)
        if saved and isinstance(given, torch.Tensor):
            model.conv.register_buffer("given", given, persistent=False)
        else:
            model.conv.given = given
        return models.copy_builder(model).source

    for saved in (True, False):
        assert source(1.0, saved) == source(1.0, saved) != source(2.0, saved)


def test_values_that_cannot_be_compared_are_not_part_of_the_source() -> None:
    model = TinyNet()
    plain = models.copy_builder(model).source
    model.conv.cache = {"images": [object()]}
    model.conv.objects = np.array([object()])
    model.conv.indices = torch.eye(2).to_sparse()
    assert models.copy_builder(model).source == plain


def test_a_model_without_source_code() -> None:
    scope: dict[str, Any] = {"TinyNet": TinyNet, "__name__": "typed"}
    exec("class Typed(TinyNet):\n    pass\n", scope)
    model = scope["Typed"]()
    assert same(models.copy_builder(model).build(0), model)


def test_parametrized_models_are_refused() -> None:
    normed, masked = TinyNet(), TinyNet()
    parametrizations.weight_norm(normed.conv)
    unspur.attach(masked)
    for model in (normed, masked):
        with pytest.raises(ModelError, match=r"parametrized already.*unspur\.bake\(model\)"):
            models.copy_builder(model)
    unspur.harden(masked)
    unspur.bake(masked)
    assert same(models.copy_builder(masked).build(0), masked)


# timm


def fake_timm(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("timm")

    def create_model(name: str, num_classes: int, width: int = 4) -> nn.Module:
        if name != "tiny":
            raise RuntimeError(f"Unknown model ({name})")
        return nn.Sequential(nn.Flatten(), nn.Linear(12, width), nn.Linear(width, num_classes))

    module.create_model, module.__version__ = create_model, "1.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "timm", module)


def test_a_timm_name(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_timm(monkeypatch)
    builder = models.builder("timm:tiny", 5, {"width": 3})
    assert builder.build(0)(torch.rand(2, 3, 2, 2)).shape == (2, 5)
    assert builder.how == {"name": "timm:tiny", "options": {"width": 3}}
    again = models.builder(builder.how["name"], 5, builder.how["options"])
    assert again.source == builder.source
    with pytest.raises(ModelError, match="timm has no model 'huge'"):
        models.builder("timm:huge", 5).build(0)


@pytest.mark.parametrize("error", [ImportError("none"), RuntimeError("operator nms")])
def test_timm_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    class Refuse:
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
            if name == "timm":
                raise error

    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Refuse(), *sys.meta_path])
    with pytest.raises(ModelError, match="pip install timm"):
        models.builder("timm:resnet18", 5)


# Weights from a file


def small(classes: int) -> models.Builder:
    return models.builder("convnet", classes, {"width": 4})


def started(path: Path, classes: int = 3) -> nn.Module:
    return models.builder("convnet", classes, {"width": 4}, init=str(path)).build(9)


@pytest.mark.parametrize("kind", ["safetensors", "pth", "nested", "parallel"])
def test_weights_from_a_file(tmp_path: Path, kind: str) -> None:
    model = small(3).build(1)
    weights = model.state_dict()
    path = tmp_path / f"w.{'safetensors' if kind == 'safetensors' else 'pth'}"
    if kind == "safetensors":
        save_file(weights, path)
    elif kind == "pth":
        torch.save(weights, path)
    elif kind == "nested":
        torch.save({"state_dict": weights, "epoch": 3}, path)
    else:
        torch.save({f"module.{name}": t for name, t in weights.items()}, path)
    assert same(started(path), model)
    assert small(3).source == models.builder("convnet", 3, {"width": 4}, init=str(path)).source


def test_a_head_for_other_classes_is_new_with_a_warning(tmp_path: Path) -> None:
    model = small(7).build(1)
    save_file(model.state_dict(), tmp_path / "w.safetensors")
    with pytest.warns(
        UserWarning, match=r"classifier head '\S+' does not fit; a new one is trained"
    ):
        found = started(tmp_path / "w.safetensors").state_dict()
    fresh, weights = small(3).build(9).state_dict(), model.state_dict()
    head = [name for name in found if found[name].shape != weights[name].shape]
    assert len(head) == 2
    for name in found:
        assert torch.equal(found[name], fresh[name] if name in head else weights[name]), name


def test_old_files_have_no_counters(tmp_path: Path) -> None:
    model = small(3).build(1)
    weights = {k: t for k, t in model.state_dict().items() if "num_batches" not in k}
    assert len(weights) < len(model.state_dict())
    save_file(weights, tmp_path / "w.safetensors")
    assert same(started(tmp_path / "w.safetensors"), model)


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    wide = models.builder("convnet", 3, {"width": 8}).build(1)
    save_file(wide.state_dict(), tmp_path / "wide.safetensors")
    with pytest.raises(ModelError, match=r"wide\.safetensors does not fit the model: \S+ is \(8, "):
        started(tmp_path / "wide.safetensors")
    weights = small(3).build(1).state_dict()
    save_file({**weights, "extra": torch.zeros(2)}, tmp_path / "extra.safetensors")
    with pytest.raises(ModelError, match="extra is unknown"):
        started(tmp_path / "extra.safetensors")
    first = next(iter(weights))
    save_file({k: t for k, t in weights.items() if k != first}, tmp_path / "part.safetensors")
    with pytest.raises(ModelError, match=f"{first} is missing"):
        started(tmp_path / "part.safetensors")


class Trap:
    def __reduce__(self) -> Any:
        return (print, ("this must not run",))


def test_files_that_are_not_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"model": Trap()}, tmp_path / "trap.pth")
    (tmp_path / "text.safetensors").write_text("no weights")
    (tmp_path / "empty.pth").touch()
    for name in ("trap.pth", "text.safetensors", "empty.pth"):
        with pytest.raises(ModelError, match=f"{name} cannot be read as plain weights"):
            started(tmp_path / name)
    assert "must not run" not in capsys.readouterr().out
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(ModelError, match=r"list\.pth holds no weights by name"):
        started(tmp_path / "list.pth")
    with pytest.raises(ModelError, match="there is no file"):
        started(tmp_path / "none.pth")


CONSOLE = """
class Net(TinyNet):
    def forward(self, x):
        return super().forward(x{change})
"""


def test_a_class_without_source_is_identified_by_its_bytecode() -> None:
    def typed(change: str) -> str:
        names: dict[str, Any] = {"TinyNet": TinyNet, "__name__": "console"}
        exec(CONSOLE.format(change=change), names)
        return models.copy_builder(names["Net"]()).source

    assert typed("") == typed("")
    assert typed("") != typed(" * 0")


def test_the_source_includes_base_classes() -> None:
    def typed(change: str) -> str:
        names: dict[str, Any] = {"TinyNet": TinyNet, "__name__": "console"}
        exec(CONSOLE.format(change=change), names)
        return models.copy_builder(type("Child", (names["Net"],), {})()).source

    assert typed("") == typed("")
    assert typed("") != typed(" * 0")


def test_the_source_includes_plain_attributes() -> None:
    torch.manual_seed(0)
    first, second = TinyNet(), TinyNet()
    first.scale, second.scale = 1.0, 0.0  # type: ignore[assignment]
    assert models.copy_builder(first).source != models.copy_builder(second).source
    second.scale = 1.0  # type: ignore[assignment]
    assert models.copy_builder(first).source == models.copy_builder(second.eval()).source


def test_the_source_includes_imported_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "nets.py").write_text(
        "from imported_blocks import Block\ndef build(classes):\n    return Block(classes)\n"
    )

    def source(change: str) -> str:
        (tmp_path / "imported_blocks.py").write_text(
            "from torch import nn\nclass Block(nn.Linear):\n    def __init__(self, classes):\n"
            "        super().__init__(4, classes)\n    def forward(self, x):\n"
            f"        return super().forward(x{change})\n"
        )
        monkeypatch.delitem(sys.modules, "imported_blocks", raising=False)
        importlib.invalidate_caches()
        linecache.clearcache()
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        return models.builder(f"{tmp_path / 'nets.py'}:build", 2).source

    assert source("") != source(" * 0")


def test_an_object_that_is_not_a_network_is_an_error() -> None:
    with pytest.raises(ModelError, match="not an nn"):
        models.copy_builder(TinyNet)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="'resnet18', not an nn"):
        models.copy_builder("resnet18")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="lazy layers"):
        models.copy_builder(nn.Sequential(nn.Flatten(), nn.LazyLinear(2)))


KEY = """
from toys import TinyNet
from unspur import models

class Net(TinyNet):
    def forward(self, x):
        if self.kind in {"a", "b", "c", "d"}:
            return super().forward(x)

net = Net()
net.kind, net.parts, net.sizes = "a", [object()], (1, [2.0, None])
print(models.copy_builder(net).source)
"""


def test_a_key_is_the_same_in_every_process() -> None:
    where = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    keys = {
        subprocess.run(
            [sys.executable, "-c", KEY],
            env={**where, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(keys) == 1
