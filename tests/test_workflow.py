"""Python and the shell give the same results, and debias asks the judge."""

from __future__ import annotations

import html
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner, Result

import unspur
from audits import tinted
from toys import TinyNet, shapes_set
from unspur import Recipe, cli, data, recipes, workflow
from unspur.audit.recommendation import Judge
from unspur.data.custom import assembly
from unspur.data.image_sizes import shrink
from unspur.data.splits import Part, Split
from unspur.errors import DataError, ModelError
from unspur.recipes import lengths
from unspur.report import terminal
from unspur.stages.place import find_place
from unspur.store import Store, read_tensors

MODEL = "from toys import TinyNet as build"
AUDIT = {f"{table}.steps": 6 for table in ("mine", "pretrain")}
DEBIAS = {
    "pretrain.steps": 40,
    **{f"{table}.steps": 20 for table in ("prune", "finetune")},
    "prune.rate": 0.1,
    "select.every": 10,
    "select.minimum": 2,
}
SHORT = {f"{table}.steps": 2 for table in ("mine", "pretrain", "prune", "finetune")}
STEPS = 100  # steps of the judge's trainings: enough for a right verdict on the images below


@pytest.fixture(scope="module", autouse=True)
def _small_machine() -> Iterator[None]:
    """Use one process for decoding, and shorter trainings of the judge."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unspur.data.decoding.readers.available_cores", lambda: 1)
        patch.setattr(lengths, "AUDIT_STEPS", (STEPS, STEPS))
        yield


def write_images(root: Path, part: Part, classes: tuple[str, ...], scale: int = 1) -> Path:
    """Write a split as PNG files in class folders, enlarged by `scale`."""
    images = part.take(torch.arange(len(part))).permute(0, 2, 3, 1)
    images = images.repeat_interleave(scale, 1).repeat_interleave(scale, 2)
    for i, (image, target) in enumerate(zip(images.numpy(), part.targets.tolist(), strict=True)):
        folder = root / classes[target]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{i:03d}.png")
    return root


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write images of 80 pixels, one of them unreadable, and a file that builds a network."""
    root = tmp_path_factory.mktemp("photos")
    splits = tinted("shortcut", n=200, odd=20)
    write_images(root / "bars", splits.train, splits.classes, scale=10)
    (root / "bars" / "lies" / "broken.png").touch()
    (root / "network.py").write_text(MODEL)
    return root / "bars"


@pytest.fixture(scope="module")
def thumbnails(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write images of 8 pixels, too few for an audit."""
    splits = shapes_set(samples=80, conflicting=8, seed=1)
    return write_images(tmp_path_factory.mktemp("few") / "few", splits.train, splits.classes)


def shell(*words: str | Path, settings: Mapping[str, Any] | None = None) -> Result:
    changes = [w for key, value in (settings or {}).items() for w in ("--set", f"{key}={value}")]
    command = [*map(str, words), "--device", "cpu", "-q", *changes]
    done = CliRunner().invoke(cli.app, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done


def artifacts(store: Path, prefix: str = "") -> list[str]:
    return [path.name for path in Store(store).artifacts() if path.name.startswith(prefix)]


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


# -- Python and shell ---------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*broken.png")
def test_an_audit_is_the_same_from_python_and_from_the_shell(photos: Path, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    shell("audit", photos, "--out", a, "--store", tmp_path / "store-a", settings=AUDIT)
    unspur.audit(photos, out=b, store=tmp_path / "store-b", device="cpu", settings=AUDIT)
    assert files(a) == files(b) >= {"audit.json", "report.html", "skipped.csv", "suspects.csv"}
    for name in ("suspects.csv", "skipped.csv", "pictures.safetensors"):
        assert (a / name).read_bytes() == (b / name).read_bytes(), name
    first, second = read(a / "audit.json"), read(b / "audit.json")
    assert first.keys() == second.keys()
    for name in first.keys() - {"command", "seconds", "trained"}:
        assert first[name] == second[name], name
    assert artifacts(tmp_path / "store-a") == artifacts(tmp_path / "store-b") != []


@pytest.mark.filterwarnings("ignore:.*broken.png")
def test_an_audit_uses_64_pixels(photos: Path, tmp_path: Path) -> None:
    unspur.audit(photos, out=tmp_path / "a", device="cpu", store=tmp_path / "store", settings=AUDIT)
    whole = data.open_images(photos, limit=64)
    assert whole.train.shape == (3, 64, 64)
    assert read(tmp_path / "a" / "audit.json")["data"]["digest"] == whole.train.digest


@pytest.mark.filterwarnings("ignore:.*broken.png")
def test_debias_is_the_same_from_python_and_from_the_shell(photos: Path, tmp_path: Path) -> None:
    a, b, model = tmp_path / "a", tmp_path / "b", f"{photos.parent / 'network.py'}:build"
    words = ("--out", a, "--store", tmp_path / "store-a", "--anyway", "--model", model)
    shell("debias", photos, *words, settings=DEBIAS)
    options: dict[str, Any] = {"store": tmp_path / "store-b", "device": "cpu", "model": model}
    unspur.debias(photos, out=b, anyway=True, settings=DEBIAS, **options)
    assert files(a) == files(b) >= {"skipped.csv", "report.html", "run.json"}
    for name in (
        *("model.safetensors", "masks.safetensors", "model.json", "scores.json", "recipe.toml"),
        *("suspects.csv", "skipped.csv"),
    ):
        assert (a / name).read_bytes() == (b / name).read_bytes(), name
    assert artifacts(tmp_path / "store-a") == artifacts(tmp_path / "store-b") != []
    assert read(a / "model.json")["input"]["shape"] == [3, 80, 80]
    masks = read_tensors(a / "masks.safetensors")
    assert any(not mask.all() for mask in masks.values())


# -- the model ----------------------------------------------------------------------------------------


def test_debias_works_without_a_model(thumbnails: Path, tmp_path: Path) -> None:
    done = unspur.debias(thumbnails, device="cpu", out=tmp_path, anyway=True, settings=SHORT)
    assert read(tmp_path / "model.json")["builder"]["name"] == "convnet"
    assert type(done.model).__name__ == "ConvNet"  # the images are small


def test_debias_takes_a_name_or_a_network(thumbnails: Path) -> None:
    how: dict[str, Any] = {"device": "cpu", "anyway": True, "settings": SHORT}
    assert type(unspur.debias(thumbnails, model="convnet", **how).model).__name__ == "ConvNet"
    network = TinyNet()
    found = unspur.debias(thumbnails, model=network, **how).model
    assert isinstance(found, TinyNet)
    assert found is not network


def test_a_model_by_name_replaces_the_network_of_a_recipe(thumbnails: Path, tmp_path: Path) -> None:
    recipe = recipes.change(
        Recipe(), {**SHORT, "model.name": "mlp", "model.options": {"inputs": 192}}
    )
    kept = unspur.debias(thumbnails, settings=recipe, device="cpu")
    assert type(kept.model).__name__ == "MLP"
    unspur.debias(thumbnails, settings=recipe, model="convnet", device="cpu", out=tmp_path)
    assert read(tmp_path / "model.json")["builder"]["name"] == "convnet"
    assert 'name = "convnet"' in (tmp_path / "recipe.toml").read_text()


def test_init_cannot_be_combined_with_a_module(thumbnails: Path) -> None:
    with pytest.raises(ModelError, match=r"'w\.pth' is for a network by name"):
        unspur.debias(thumbnails, model=TinyNet(), init="w.pth", device="cpu", anyway=True)


def test_a_network_of_timm_needs_timm(thumbnails: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)  # as if it were not installed
    with pytest.raises(
        ModelError, match=r"timm:resnet10t needs the package timm.*pip install timm"
    ):
        unspur.debias(thumbnails, model="timm:resnet10t", device="cpu", anyway=True)


def test_data_are_the_first_argument(thumbnails: Path) -> None:
    with pytest.raises(DataError, match=r"must be the data.*unspur\.debias\(data, model=network\)"):
        unspur.debias(TinyNet(), thumbnails)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"must be the data.*unspur\.audit\(data, model=network\)"):
        unspur.audit(TinyNet())  # type: ignore[arg-type]


# -- the judge ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write images whose tint predicts the class."""
    splits = tinted("shortcut", n=400, odd=20)
    return write_images(tmp_path_factory.mktemp("tints") / "tints", splits.train, splits.classes)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write images of easy classes without a shortcut."""
    splits = shapes_set(samples=160, conflicting=80)
    return write_images(tmp_path_factory.mktemp("plain") / "plain", splits.train, splits.classes)


def debias(folder: Path, home: Path, *words: str) -> tuple[Result, dict[str, Any]]:
    """Debias on the command line with a small network; return the output and scores.json."""
    model = home / "network.py"
    model.write_text(MODEL)
    where = ("--out", home / "out", "--store", home / "store", "--model", f"{model}:build")
    done = shell("debias", folder, *where, *words, settings=DEBIAS)
    return done, read(home / "out" / "scores.json")


def one_line(text: str) -> str:
    """Replace line breaks and spaces of every kind by single spaces."""
    return " ".join(text.split())


def test_with_a_shortcut_debias_continues_and_reuses_the_audit(tints: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    done, scores = debias(tints, tmp_path)
    assert scores["judge"]["debias"] is True
    assert scores["judge"]["verdict"] == "shortcut"
    assert one_line(scores["judge"]["text"]) in one_line(done.stdout)
    assert artifacts(store, "finetune-") != []
    trained = artifacts(store, "audit-")
    assert len(trained) == 14
    found = unspur.audit(tints, store=store, device="cpu")
    assert found.finding.text == scores["judge"]["text"]
    assert artifacts(store, "audit-") == trained
    assert sorted(each.artifact for each in found.trainings) == trained


def test_the_verdict_of_the_audit_is_shown_before_the_stages(plain: Path, tmp_path: Path) -> None:
    (tmp_path / "network.py").write_text(MODEL)
    where = ("--out", tmp_path / "out", "--store", tmp_path / "store", "--device", "cpu")
    command = ["debias", plain, *where, "--model", f"{tmp_path / 'network.py'}:build"]
    done = CliRunner().invoke(cli.app, [*map(str, command), "--set", "pretrain.steps=4"])
    assert done.exit_code == 0, done.output
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("The audit is done. ")]
    assert "The ordinary model is returned." in line
    audited, trained = done.stderr.rindex("2/2: step"), done.stderr.index("pretrain: step")
    assert audited < done.stderr.index(line) < trained
    quiet = CliRunner().invoke(cli.app, [*map(str, command), "--set", "pretrain.steps=4", "-q"])
    assert "The audit is done" not in quiet.output


def test_the_suspects_of_a_run_are_those_of_its_audit(tints: Path, tmp_path: Path) -> None:
    """The flags and scores are the same, from the same trainings."""
    store = tmp_path / "store"
    done = unspur.debias(
        tints, model=TinyNet(), settings=DEBIAS, store=store, device="cpu", out=tmp_path / "out"
    )
    trained = artifacts(store, "audit-")
    found = unspur.audit(tints, store=store, device="cpu")
    assert done.suspects is not None
    assert torch.equal(done.suspects.conflict, found.suspects.conflict)
    assert torch.equal(done.suspects.score, found.suspects.score)
    assert artifacts(store, "audit-") == trained
    (mined,) = artifacts(store, "mine-")
    assert read(store / mined / "artifact.json")["ingredients"]["crossfit"].keys() == {
        *("mine/0", "mine/1", "deprived/0", "deprived/1")
    }


def test_corrected_suspects_need_no_mining(tints: Path, tmp_path: Path) -> None:
    debias(tints, tmp_path)
    again = ("--suspects", tmp_path / "out" / "suspects.csv", "--dry-run")
    where = ("--out", tmp_path / "again", "--store", tmp_path / "store")
    model = f"{tmp_path / 'network.py'}:build"
    planned = shell("debias", tints, *where, *again, "--model", model, settings=DEBIAS)
    (row,) = [line for line in planned.output.splitlines() if "mine" in line]
    assert [cell.strip() for cell in row.split("│")[1:5]] == ["mine", "0", "yes", "–"]
    (row,) = [line for line in planned.output.splitlines() if "pretrain" in line]
    assert "yes" in row


def test_without_a_shortcut_the_ordinary_model_is_returned(plain: Path, tmp_path: Path) -> None:
    done, scores = debias(plain, tmp_path)
    judge = scores["judge"]
    assert judge["debias"] is False
    assert "The ordinary model is returned." in judge["text"]
    assert one_line(judge["text"]) in one_line(done.stdout)
    page = html.unescape((tmp_path / "out" / "report.html").read_text())
    assert "The ordinary model is returned." in page
    assert scores["debiased"] == scores["ordinary"]
    assert "gain" not in scores
    assert read_tensors(tmp_path / "out" / "masks.safetensors") == {}
    (ordinary,) = (tmp_path / "store").glob("pretrain-*")
    weights = read_tensors(tmp_path / "out" / "model.safetensors")
    stored = read_tensors(next(ordinary.glob("*.safetensors")))
    assert all(torch.equal(weights[name], stored[name]) for name in weights)


def test_debias_reuses_the_trainings_of_an_audit(plain: Path, tmp_path: Path) -> None:
    shell("audit", plain, "--out", tmp_path / "audit", "--store", tmp_path / "store")
    trained = artifacts(tmp_path / "store")
    assert trained == artifacts(tmp_path / "store", "audit-") != []
    _, scores = debias(plain, tmp_path)
    assert artifacts(tmp_path / "store", "audit-") == trained
    assert scores["judge"]["verdict"] == read(tmp_path / "audit" / "audit.json")["verdict"]


def test_anyway_skips_the_judge_and_trains_only_the_miner(plain: Path, tmp_path: Path) -> None:
    _, scores = debias(plain, tmp_path, "--anyway")
    assert "judge" not in scores
    trained = [name.rpartition("-")[0] for name in artifacts(tmp_path / "store", "audit-")]
    assert trained == ["audit-deprived"] * 2 + ["audit-mine"] * 2
    assert artifacts(tmp_path / "store", "mine-") != []


def test_a_recipe_with_a_judge_asks_it_from_python_too(plain: Path, tmp_path: Path) -> None:
    recipe = recipes.change(Recipe(), {**SHORT, "judge": True})
    how: dict[str, Any] = {"model": TinyNet(), "device": "cpu", "settings": recipe}
    assert unspur.debias(plain, **how).scores["judge"]["debias"] is False
    assert "judge" not in unspur.debias(plain, anyway=True, **how).scores


def test_too_few_images_for_the_judge_are_debiased_with_a_warning(
    thumbnails: Path, tmp_path: Path
) -> None:
    with pytest.warns(UserWarning, match="no audit.*80 training images are too few"):
        _, scores = debias(thumbnails, tmp_path)
    assert "judge" not in scores
    assert artifacts(tmp_path / "store", "audit-") == []
    assert artifacts(tmp_path / "store", "mine-") != []


def test_a_plan_without_an_ordinary_model_has_no_judge(plain: Path, tmp_path: Path) -> None:
    """JTT trains no ordinary model that could be returned, so there is no judge."""
    settings = {**SHORT, "plan": "jtt"}
    done = unspur.debias(
        plain, model=TinyNet(), settings=settings, store=tmp_path / "store", device="cpu"
    )
    assert "judge" not in done.scores
    assert len(artifacts(tmp_path / "store", "audit-")) == 4  # the networks of the miner


@pytest.mark.parametrize(("scale", "times"), [(1, 1), (10, 2)])
def test_files_are_opened_again_only_for_a_smaller_judge(
    scale: int, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = shapes_set(samples=120, seed=1)
    folder = write_images(tmp_path / "bars", splits.train, splits.classes, scale=scale)
    opened: list[int] = []
    real = assembly.load

    def load(where: Path | str, *, limit: int) -> Any:
        opened.append(limit)
        return real(where, limit=limit)

    monkeypatch.setattr(assembly, "load", load)
    place = find_place("cpu", tmp_path / "store", terminal.show(quiet=True))
    workflow.open_debias(assembly.UserImages(folder), place, model=TinyNet())
    assert opened == [96, 64][:times]


def test_large_images_in_memory_are_audited_at_64_pixels_too(tmp_path: Path) -> None:
    """Files of 80 pixels, and the same images in memory, are both shrunk."""
    small = shapes_set(samples=120, seed=1)
    large = small.train.images.repeat_interleave(10, 2).repeat_interleave(10, 3)
    place = find_place("cpu", tmp_path, terminal.show(quiet=True))
    images = assembly.UserImages(Split(large, small.train.targets), classes=small.classes)
    assert workflow.open_audit(images, place).splits.train.shape == (3, 64, 64)
    assert workflow.open_audit(images, place, size=72).splits.train.shape == (3, 72, 72)
    judge = workflow.open_debias(images, place, model=TinyNet()).context.judge
    assert isinstance(judge, Judge)
    assert judge.context.splits.train.shape == (3, 64, 64)


def test_shrinking_keeps_small_images_and_the_dtype() -> None:
    splits = shapes_set(samples=20)
    assert shrink(splits, 8) is splits
    smaller = shrink(splits, 4)
    assert {part.shape for part in smaller.parts().values()} == {(3, 4, 4)}
    assert smaller.train.dtype == torch.uint8
    assert torch.equal(smaller.train.targets, splits.train.targets)
    # A pixel of the shrunk image is a weighted mean, so a constant image stays constant.
    flat = Split(torch.full((2, 1, 8, 6), 7.5), torch.tensor([0, 1]))
    halved = shrink(data.Splits(train=flat, classes=("a", "b")), 4).train
    assert halved.shape == (1, 4, 3)
    assert torch.allclose(halved.take(torch.arange(2)), torch.tensor(7.5))
