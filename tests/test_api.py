"""debias() with any module and any dataset: what it returns, what it writes, what it refuses."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.utils.data import Dataset, TensorDataset

import unspur
from toys import TinyNet, shapes_set
from unspur import recipes
from unspur.data.batches import Preprocess
from unspur.data.splits import Split, Splits
from unspur.errors import DataError, ModelError, RecipeError
from unspur.recipes import budget

# With true suspects and mask logits near zero, a short run really prunes.
QUICK: dict[str, Any] = {
    "mine.how": "oracle",
    "pretrain.steps": 6,
    "pretrain.batch": 32,
    "adapt.steps": 6,
    "adapt.batch": 32,
    "prune.unit": "weight",
    "prune.cut": "threshold",
    "prune.steps": 6,
    "prune.batch": 32,
    "prune.rate": 0.3,
    "prune.init": 0.2,
    "prune.batch_norm_batches": 2,
    "finetune.steps": 6,
    "finetune.batch": 32,
    "select.every": 2,
    "select.minimum": 2,
}
MINED = {**QUICK, "mine.how": "gce", "mine.steps": 60, "mine.batch": 64, "mine.rate": 0.05}
MINED |= {"mine.optimiser": "sgd", "data.augment": "none"}


debias = partial(unspur.debias, anyway=True)  # the judge is tested elsewhere


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run every test in an empty folder, with the same seed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNSPUR_STORE", raising=False)
    torch.manual_seed(0)
    return tmp_path


@pytest.fixture(scope="module")
def splits() -> Splits:
    return shapes_set()


class Odd(nn.Module):
    """An unusual network of a user: an unused layer, functional parts, two paths, an odd name of the head."""

    def __init__(self, classes: int = 2):
        super().__init__()
        self.stem = nn.ModuleDict({"a": nn.Conv2d(3, 4, 3), "b": nn.Conv2d(3, 4, 5, padding=1)})
        self.scale = nn.Parameter(torch.ones(4, 1, 1))
        self.spare = nn.Linear(3, 3)
        self.to_class = nn.Linear(4, classes)
        self.register_buffer("shift", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        both = self.stem["a"](x) + self.stem["b"](x)
        pooled = torch.tanh(both * self.scale).amax((2, 3))
        return self.to_class(pooled + self.shift)


class Dropping(TinyNet):
    """A network that draws random numbers."""

    def forward(self, x: Tensor) -> Tensor:
        pooled = torch.relu(self.norm(self.conv(x))).mean((2, 3))
        return self.head(nn.functional.dropout(pooled, 0.5, self.training))


class Encoder(nn.Module):
    """Patches, a transformer encoder, a head."""

    def __init__(self, classes: int = 2):
        super().__init__()
        self.embed = nn.Linear(12, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, classes)

    def forward(self, x: Tensor) -> Tensor:
        patches = nn.functional.unfold(x, 2, stride=2).transpose(1, 2)
        return self.head(self.encoder(self.embed(patches)).mean(1))


class Pictures(Dataset[tuple[Image.Image, int]]):
    """The same split as PIL images."""

    def __init__(self, split: Split):
        self.split = split

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, i: int) -> tuple[Image.Image, int]:
        array = self.split.images[i].permute(1, 2, 0).contiguous().numpy()
        return Image.fromarray(array), int(self.split.targets[i])


def pairs(split: Split, *, floats: bool = False) -> TensorDataset:
    return TensorDataset(split.images.float() / 255 if floats else split.images, split.targets)


def quick(model: nn.Module, splits: Splits, **kwargs: Any) -> unspur.DebiasedModel:
    """Run debias for a few steps on toy data, with bias labels for the oracle and the scores."""
    kwargs = {"settings": QUICK, "bias": splits.bias, "test": splits.test, **kwargs}
    return debias(model=model, train=splits.train, valid=splits.valid, **kwargs)


def same(a: nn.Module, b: nn.Module) -> bool:
    left, right = a.state_dict(), b.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


def left_behind(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- results ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bytes", "floats", "pictures"])
def test_any_dataset_with_an_unusual_module(splits: Splits, kind: str) -> None:
    make = {
        "bytes": pairs,
        "floats": lambda split: pairs(split, floats=True),
        "pictures": Pictures,
    }[kind]
    result = debias(
        model=Odd(),
        train=make(splits.train),
        valid=make(splits.valid),
        settings={**MINED, "mine.steps": 30},
    )
    assert type(result.model) is Odd
    assert result.model.training is False
    assert result.model(torch.rand(5, 3, 8, 8)).shape == (5, 2)
    assert len(result.suspects) == len(splits.train)
    assert result.scores["evaluated_on"] == "valid"


def test_the_same_pixels_give_the_same_bits_from_any_dataset(splits: Splits) -> None:
    model = TinyNet()
    results = [
        debias(model=model, train=data, settings=QUICK, bias={"train": splits.bias["train"]})
        for data in (splits.train, pairs(splits.train), Pictures(splits.train))
    ]
    assert same(results[0].model, results[1].model)
    assert same(results[0].model, results[2].model)


def test_pruned_weights_are_zero_and_the_model_is_plain(splits: Splits) -> None:
    result = quick(TinyNet(), splits)
    state = result.model.state_dict()
    assert list(state) == list(TinyNet().state_dict())
    assert result.masks.keys() == {"conv.weight", "head.weight"}
    pruned = sum(int((~keep).sum()) for keep in result.masks.values())
    assert 0 < pruned < sum(keep.numel() for keep in result.masks.values())
    for name, keep in result.masks.items():
        assert torch.equal(state[name] != 0, keep)
    assert result.scores["density"]["overall"] == unspur.density(result.masks)


CHANNELS = {name: value for name, value in QUICK.items() if name not in ("prune.unit", "prune.cut")}


def test_whole_channels_are_pruned_by_default(splits: Splits) -> None:
    result = quick(TinyNet(), splits, settings=CHANNELS)
    assert result.masks["norm.weight"].sum() < 6  # the convolution has six channels
    assert torch.equal(result.masks["conv.weight"].flatten(1).any(1), result.masks["norm.weight"])
    assert result.scores["density"]["macs"] <= 0.5


def test_a_network_whose_channels_cannot_be_removed_gets_masks_on_weights(splits: Splits) -> None:
    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(3 * 8 * 8, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(x.flatten(1))

    with pytest.warns(UserWarning, match="Single weights are masked instead"):
        result = quick(Flat(), splits, settings=CHANNELS)
    assert result.masks.keys() == {"head.weight"}
    assert 0 < result.scores["density"]["overall"] < 1


def test_the_users_model_is_not_changed(splits: Splits) -> None:
    model = TinyNet().train()
    model.norm.eval()
    before = copy.deepcopy(model)
    result = quick(model, splits)
    assert same(model, before)
    assert (model.training, model.norm.training) == (True, False)
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert result.model is not model
    assert not same(result.model, model)


def test_training_starts_from_the_weights_of_the_model(splits: Splits) -> None:
    torch.manual_seed(1)
    one, other = TinyNet(), TinyNet()
    assert not same(quick(one, splits).model, quick(other, splits).model)


def test_suspects_are_mined_without_bias_labels(splits: Splits) -> None:
    result = debias(model=TinyNet(), train=splits.train, valid=splits.valid, settings=MINED)
    conflicting = splits.conflicting("train")
    found = result.suspects.conflict
    assert result.scores["mining"]["flagged"] == int(found.sum())
    assert float(conflicting[found].float().mean()) > 0.9
    assert float(found[conflicting].float().mean()) > 0.5
    assert result.scores["mining"]["precision"] is None
    assert result.scores["debiased"]["unbiased"] is None


def test_scores(splits: Splits) -> None:
    scores = quick(TinyNet(), splits).scores
    fields = {
        "unbiased",
        "aligned",
        "conflicting",
        "worst_group",
        "average",
        "average_train_weighted",
        "groups",
    }
    for row in ("ordinary", "pruned", "debiased"):
        assert scores[row].keys() == fields
        cells = [cell for line in scores[row]["groups"] for cell in line]
        assert scores[row]["unbiased"] == pytest.approx(sum(cells) / 4)
        assert scores[row]["worst_group"] == min(cells)
    assert {"precision", "recall", "flagged", "verdict"} <= scores["mining"].keys()
    assert {"overall", "reachable", "macs", "layers"} == scores["density"].keys()
    assert scores["selection"]["rule"] == "heldout"


def test_the_scores_are_those_of_the_returned_model(splits: Splits) -> None:
    result = quick(TinyNet(), splits)
    normalised = Preprocess(budget.MEAN, budget.STD)(splits.test.images)
    predicted = result.model(normalised).argmax(1)
    average = (predicted == splits.test.targets).double().mean()
    assert result.scores["debiased"]["average"] == pytest.approx(float(average))


def test_true_suspects_are_not_mistaken_for_label_noise(splits: Splits) -> None:
    settings = {**QUICK, "pretrain.steps": 100, "pretrain.batch": 64}  # it learns the truth too
    mining = quick(TinyNet(), splits, settings=settings).scores["mining"]
    assert (mining["precision"], mining["recall"], mining["flagged"]) == (1.0, 1.0, 24)
    assert mining["verdict"] == "usable"


def test_without_a_shortcut_the_ordinary_model_is_the_result(splits: Splits) -> None:
    aligned = ~splits.conflicting("train")
    plain = Split(splits.train.images[aligned], splits.train.targets[aligned])
    result = debias(model=TinyNet(), train=plain, settings=MINED)
    assert result.scores["mining"]["verdict"] == "nothing"
    assert result.scores["pruned"] is None
    assert result.scores["debiased"] == result.scores["ordinary"]
    assert result.masks == {}


def test_a_plan_of_ordinary_training(splits: Splits) -> None:
    result = quick(TinyNet(), splits, settings={**QUICK, "plan": "erm"})
    assert result.suspects is None
    assert result.scores["mining"] is None
    assert result.masks == {}


def test_a_transformer_encoder(splits: Splits) -> None:
    result = quick(Encoder(), splits)
    assert {name for name in result.masks if "in_proj" in name} == {
        "encoder.layers.0.self_attn.in_proj_weight",
        "encoder.layers.1.self_attn.in_proj_weight",
    }
    state = result.model.state_dict()
    for name, keep in result.masks.items():
        assert torch.equal(state[name] != 0, keep)
    assert 0 < result.scores["density"]["overall"] < 1
    assert result.model(torch.rand(2, 3, 8, 8)).shape == (2, 2)


# -- data for the scores ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "rule", "name"),
    [
        (("valid", "test"), "heldout", "test"),
        (("test",), "heldout", "test"),
        (("valid",), "heldout", "valid"),
        ((), "heldout", "the training samples kept out of training"),
        ((), "last", "train"),
    ],
)
def test_which_images_are_scored(
    splits: Splits, parts: tuple[str, ...], rule: str, name: str
) -> None:
    given = {part: splits.parts()[part] for part in parts}
    bias = {part: splits.bias[part] for part in ("train", *parts)}
    settings = {**QUICK, "select.rule": rule}
    result = debias(model=TinyNet(), train=splits.train, **given, bias=bias, settings=settings)
    assert result.scores["evaluated_on"] == name


# -- settings and seeds -------------------------------------------------------------------------------


def test_settings_as_a_recipe_or_as_changes(splits: Splits) -> None:
    model = TinyNet()
    a = quick(model, splits, out="out", store="store")
    whole = recipes.load("out/recipe.toml")
    b = quick(model, splits, settings=whole)
    assert same(a.model, b.model)
    assert a.scores == b.scores


def test_numbers_of_numpy_are_numbers() -> None:
    recipe = recipes.load("demo", {"data.mean": [0.5], "data.std": [1.0]})
    changes = {"seed": np.int64(5), "pretrain.rate": np.float32(0.5), "data.std": np.array([2.0])}
    plain = {"seed": 5, "pretrain.rate": 0.5, "data.std": [2.0]}
    assert recipes.change(recipe, changes) == recipes.change(recipe, plain)


def test_settings_and_a_seed_of_the_wrong_type_are_refused(splits: Splits) -> None:
    with pytest.raises(RecipeError, match=r"settings must be a mapping .*, not 'recipe\.toml'"):
        unspur.debias(splits, settings="recipe.toml")  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match="seed = '1'"):
        unspur.debias(splits, settings=recipes.load("demo"), seed="1")  # type: ignore[arg-type]


def test_a_seed_overrides_the_settings(splits: Splits) -> None:
    model = TinyNet()
    a = quick(model, splits, settings={**QUICK, "seed": 5})
    b = quick(model, splits, seed=5)
    assert same(a.model, b.model)
    assert not same(a.model, quick(model, splits).model)
    assert not same(a.model, quick(model, splits, settings={**QUICK, "seed": 5}, seed=6).model)


@pytest.mark.parametrize("make", [TinyNet, Odd, Encoder, Dropping])
def test_the_same_seed_gives_the_same_bits(splits: Splits, make: type[nn.Module]) -> None:
    model = make()
    first = quick(model, splits)
    torch.manual_seed(99)  # the global random state does not matter
    second = quick(model, splits)
    assert same(first.model, second.model)
    assert torch.equal(first.suspects.score, second.suspects.score)
    assert first.scores == second.scores


@pytest.mark.parametrize("make", [TinyNet, Dropping])
def test_the_global_random_state_is_not_changed(splits: Splits, make: type[nn.Module]) -> None:
    model = make()
    before = torch.random.get_rng_state()
    quick(model, splits)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pretrain.step": 3}, "data: unknown key pretrain.step. Did you mean pretrain.steps?"),
        ({"pretrain.steps": "3"}, "data: pretrain.steps = '3': "),
        ({"pretrain.steps": None}, "data: pretrain.steps = "),
        ({"finetune.iterates": 5}, "data: finetune.iterates = 5: "),
    ],
)
def test_wrong_settings(splits: Splits, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError) as error:
        quick(TinyNet(), splits, settings=settings)
    assert str(error.value).startswith(message)


def test_oracle_without_bias_labels(splits: Splits) -> None:
    with pytest.raises(RecipeError, match="needs bias labels of the training split"):
        debias(model=TinyNet(), train=splits.train, settings=QUICK)
    with pytest.raises(RecipeError, match="needs bias labels of the valid"):
        quick(TinyNet(), splits, bias={"train": splits.bias["train"]})


# -- folders ------------------------------------------------------------------------------------------


def test_without_out_nothing_is_left_behind(
    splits: Splits, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (scratch := elsewhere / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    result = quick(TinyNet(), splits)
    assert result.out is None
    assert left_behind(elsewhere) == ["scratch"]
    assert left_behind(scratch) == []
    assert len(result.suspects) == 240  # still readable


def test_the_model_can_be_loaded_from_out(splits: Splits, elsewhere: Path) -> None:
    result = quick(TinyNet(), splits, out="out")
    assert result.out == Path("out")
    assert left_behind(elsewhere) == ["out", "runs"]
    assert left_behind(elsewhere / "runs") == ["store"]
    back = unspur.load("out", model=TinyNet())
    assert same(back.model, result.model)
    x = splits.test.images
    assert torch.equal(back(x), result.model(back.preprocess(x)))


def test_a_module_must_be_passed_again(splits: Splits) -> None:
    quick(TinyNet(), splits, out="out", store="store")
    with pytest.raises(
        ModelError,
        match=r"made with an nn.Module \(unspur\.testing\.tiny\.TinyNet\).*model=\.\.\. in Python, "
        r"--model file\.py:builder on the command line",
    ):
        unspur.load("out")
    misfit = (
        r"the weights in out do not fit the model: \S+ is \(.*\), not \(3.*Give the network that"
    )
    with pytest.raises(ModelError, match=misfit) as caught:
        unspur.load("out", model=TinyNet(3))
    assert "\n" not in str(caught.value)


def test_a_store_is_reused(splits: Splits) -> None:
    model = TinyNet()
    first = quick(model, splits, store="kept")
    made = {path: path.stat().st_mtime_ns for path in Path("kept").rglob("*")}
    assert len(list(Path("kept").iterdir())) == 6
    second = quick(model, splits, store="kept")
    assert {path: path.stat().st_mtime_ns for path in Path("kept").rglob("*")} == made
    assert same(first.model, second.model)
    with torch.no_grad():
        model.conv.weight.mul_(2)
    with pytest.warns(UserWarning, match="has new weights; everything is trained again"):
        assert not same(quick(model, splits, store="kept").model, first.model)


def test_the_store_of_the_environment_variable(
    splits: Splits, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNSPUR_STORE", str(elsewhere / "mine"))
    quick(TinyNet(), splits, out="out")
    assert left_behind(elsewhere) == ["mine", "out"]


def test_progress_is_shown_by_stage(splits: Splits) -> None:
    seen: list[str] = []

    @contextmanager
    def show(stage: str) -> Iterator[None]:
        seen.append(stage)
        yield None

    quick(TinyNet(), splits, settings={**MINED, "mine.steps": 30}, show=show)
    assert seen == ["mine", "pretrain", "adapt", "prune", "finetune"]


# -- what is refused ----------------------------------------------------------------------------------


def test_wrong_output_width(splits: Splits) -> None:
    with pytest.raises(ModelError, match=r"returns \(2, 3\) for 2 images of 2 classes.*2 outputs"):
        quick(TinyNet(3), splits)


def test_label_beyond_the_classes(splits: Splits) -> None:
    high = Split(splits.train.images, splits.train.targets.clone())
    high.targets[7] = 2
    with pytest.raises(DataError, match=r"the train split has a label outside 0\.\.1: 2"):
        debias(model=TinyNet(), train=high, classes=("stands", "lies"))
    with pytest.raises(ModelError, match="3 classes"):
        debias(model=TinyNet(), train=high)


def test_a_dataset_with_one_class(splits: Splits) -> None:
    one = Split(splits.train.images[:20], torch.zeros(20, dtype=torch.int64))
    with pytest.raises(DataError, match="a classifier needs two or more classes"):
        unspur.debias(one, device="cpu")


def test_a_result_is_printed_in_a_few_words(splits: Splits) -> None:
    result = debias(splits, model=TinyNet(), settings=QUICK, device="cpu")
    assert result.suspects is not None
    count = int(result.suspects.conflict.sum())
    flagged = f"Suspects({count} of {len(splits.train)} samples)"
    assert repr(result.suspects) == flagged
    assert repr(result).startswith(f"DebiasedModel(model=TinyNet, suspects={flagged}, out=")


def test_negative_label(splits: Splits) -> None:
    low = TensorDataset(splits.train.images[:4], torch.tensor([0, 1, -1, 0]))
    with pytest.raises(
        DataError, match=r"train\[2\]: the label .*-1.* is not a whole number from 0"
    ):
        debias(model=TinyNet(), train=low)


def test_model_without_a_head(splits: Splits) -> None:
    class Headless(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 2, 8)

        def forward(self, x: Tensor) -> Tensor:
            return self.conv(x).flatten(1)

    with pytest.raises(ModelError, match=r"no nn\.Linear returns the model's output"):
        quick(Headless(), splits)


def test_head_that_does_not_exist(splits: Splits) -> None:
    with pytest.raises(ModelError, match=r"no layer 'haed'.*Linear layers: head"):
        quick(TinyNet(), splits, settings={**QUICK, "model.head": "haed"})


def test_empty_data(splits: Splits) -> None:
    nothing = splits.train.images[:0], splits.train.targets[:0]
    with pytest.raises(DataError, match="the train dataset is empty"):
        debias(model=TinyNet(), train=TensorDataset(*nothing))
    with pytest.raises(DataError, match="the valid dataset is empty"):
        debias(model=TinyNet(), train=splits.train, valid=TensorDataset(*nothing))
    with pytest.raises(DataError, match="empty"):
        debias(model=TinyNet(), train=Split(*nothing))


def test_image_that_is_not_finite(splits: Splits) -> None:
    images = splits.train.images.float()
    images[3, 0, 0, 0] = float("nan")
    with pytest.raises(DataError, match=r"train\[3\]: the image has values that are not finite"):
        debias(model=TinyNet(), train=TensorDataset(images, splits.train.targets))


def test_parametrized_model(splits: Splits) -> None:
    model = TinyNet()
    parametrizations.weight_norm(model.conv)
    with pytest.raises(ModelError, match="the model is parametrized already"):
        quick(model, splits)


def test_tied_weights(splits: Splits) -> None:
    class Tied(TinyNet):
        def __init__(self) -> None:
            super().__init__()
            self.twin = nn.Linear(6, 2)
            self.twin.weight = self.head.weight

    with pytest.raises(unspur.UnspurError, match=r"head\.weight is tied to twin\.weight"):
        quick(Tied(), splits)


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_unknown_device(splits: Splits, device: str) -> None:
    with pytest.raises(unspur.UnspurError, match=device):
        quick(TinyNet(), splits, device=device)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_model_on_a_gpu(splits: Splits, device: str) -> None:
    model = TinyNet().cuda()
    result = quick(model, splits, device=device)
    assert {p.device.type for p in model.parameters()} == {"cuda"}
    assert {p.device.type for p in result.model.parameters()} == {"cpu"}


def test_progress_is_shown_when_asked_for(
    splits: Splits, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {**MINED, "mine.steps": 30}
    quick(TinyNet(), splits, settings=settings)
    assert capsys.readouterr().err == ""
    quick(TinyNet(), splits, settings=settings, show=True)
    assert "mine: step 30 of 30" in capsys.readouterr().err


@pytest.mark.parametrize("given", [True, False])
def test_grey_images_need_no_setting(given: bool) -> None:
    """Images of one channel go with a network of one channel, and with the default one."""
    pixels = torch.randint(0, 255, (120, 1, 12, 12), dtype=torch.uint8)
    targets = torch.arange(120) % 2
    pixels[targets == 1, :, 4:8] = 255
    layers = [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(32, 2)) if given else None
    steps = {f"{stage}.steps": 2 for stage in ("mine", "pretrain", "adapt", "prune", "finetune")}
    result = unspur.debias(Split(pixels, targets), model=model, settings=steps, anyway=True)
    assert result.classifier.shape[0] == (1 if given else 3)
    assert result.scores["debiased"]["average"] is not None
    assert unspur.audit(Split(pixels, targets), settings={"mine.steps": 2, "pretrain.steps": 2})


def test_images_of_five_channels_are_not_audited() -> None:
    images = Split(torch.zeros(120, 5, 12, 12), torch.arange(120) % 2)
    with pytest.raises(DataError, match="5 channels cannot be audited"):
        unspur.audit(images)
