"""The comparison of methods on own images: what is trained, shared and shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import unspur
from toys import SMALL, TinyNet, shapes_set, without_valid
from unspur import cli, recipes
from unspur.data.splits import Splits
from unspur.errors import RecipeError, UnspurError
from unspur.methods import all_methods
from unspur.recipes import budget
from unspur.recipes.own_methods import method_changes, own_methods
from unspur.recipes.settings import recipe_class
from unspur.report import comparison_page
from unspur.report.words import network_titles
from unspur.runs.comparison_record import unseen_gains

SETTINGS = {
    **recipes.parse_changes(SMALL),
    "finetune.iterates": (),
    "lff.batch": 32,
    "adapt.steps": 10,
    "adapt.batch": 32,
    "mine.how": "gce",  # there are too few images for the miner of an audit
}
NAMES = ("erm", "jtt", "lff", "unspur", "dfr-mined")
TESTED = torch.device("cpu")


def model() -> TinyNet:
    torch.manual_seed(0)
    return TinyNet(2)


@pytest.fixture(scope="module")
def splits() -> Splits:
    return shapes_set(seed=1)


@pytest.fixture(scope="module")
def found(splits: Splits, tmp_path_factory: pytest.TempPathFactory) -> unspur.MethodComparison:
    home = tmp_path_factory.mktemp("compare")
    settings = {**SETTINGS, "lff.steps": 20}
    return unspur.compare(
        splits, NAMES, model=model(), settings=settings, out=home / "out", store=home / "store"
    )


@pytest.mark.parametrize(("model", "biased"), [("convnet", "flatnet"), ("resnet18", "bagnet18")])
def test_the_biased_network_of_rebias_follows_the_size_of_the_images(
    model: str, biased: str
) -> None:
    recipe = recipes.change(recipe_class()(), {"model.name": model})
    changes = method_changes("rebias", recipe)
    changed = recipes.change(recipe, changes)
    assert changed.plan == "rebias"
    assert changed.table("rebias").network.name == biased  # type: ignore[attr-defined]


def test_stages_are_shared(found: unspur.MethodComparison) -> None:
    assert found.out is not None
    made = sorted(path.name.partition("-")[0] for path in (found.out.parent / "store").iterdir())
    trained = [name for name in made if name not in ("evaluate", "inspect")]
    assert trained == ["adapt", "finetune", "finetune", "lff", "mine", "pretrain", "prune", "refit"]


def test_scores_are_those_of_each_run(found: unspur.MethodComparison) -> None:
    assert [method.name for method in found.methods] == list(NAMES)
    assert found.out is not None
    for method in found.methods:
        scores = json.loads((found.out / method.name / "scores.json").read_text())["debiased"]
        for name in ("unbiased", "aligned", "conflicting", "worst_group", "average"):
            share = method.scores[name]
            assert share.value == pytest.approx(scores[name])
            assert share.interval[0] <= share.value <= share.interval[1]
    assert found["unspur"].weights_kept < 1
    assert found["erm"].weights_kept == 1
    assert (found["erm"].gain, found["erm"].unseen_gain) == ({}, {})
    gain, _ = found["jtt"].gain["average"]
    average = {name: found[name].scores["average"].value for name in ("jtt", "erm")}
    assert gain == pytest.approx(average["jtt"] - average["erm"])


def test_label_free_scores_are_on_the_same_suspects_for_all(found: unspur.MethodComparison) -> None:
    assert found.out is not None
    unseen = json.loads((found.out / "unspur" / "scores.json").read_text())["unseen"]
    assert dict(found.unseen_counts) == {
        part: unseen["counts"][part] for part in ("suspects", "others")
    }
    for part in ("suspects", "others"):
        assert found["unspur"].unseen[part].value == pytest.approx(unseen["debiased"][part])
        assert found["erm"].unseen[part].value == pytest.approx(unseen["ordinary"][part])
        assert part in found["lff"].unseen


def test_the_page_and_the_record(found: unspur.MethodComparison) -> None:
    assert found.page is not None
    assert found.out is not None
    text = found.page.read_text()
    for name in NAMES:
        assert all_methods()[name].title in text
        assert (found.out / name / "report.html").exists()
        assert f'href="{name}/report.html"' in text
    numbers = json.loads((found.out / "comparison.json").read_text())
    assert numbers["baseline"] == "erm"
    assert [each["name"] for each in numbers["methods"]] == list(NAMES)
    assert comparison_page.best(found).scores["conflicting"].value == max(
        method.scores["conflicting"].value for method in found.methods
    )


def test_the_gain_over_the_baseline_is_corrected_for_the_number_of_methods(
    found: unspur.MethodComparison,
) -> None:
    """The best of eight methods that are no better than the baseline has such a gain in a tenth of cases."""
    before = torch.arange(60) < 20
    after = (torch.arange(60) < 28) & (torch.arange(60) > 0)  # 8 won, 1 lost
    suspects = torch.ones(60, dtype=torch.bool)
    alone = unseen_gains(after, before, suspects)["suspects"]
    of_eight = unseen_gains(after, before, suspects, comparisons=8)["suspects"]
    assert alone[0] == of_eight[0]
    assert of_eight[1][0] < 0 < alone[1][0]
    assert "corrected for the number of methods" in comparison_page.render(found)


def test_without_groups_the_score_on_suspects_counts(splits: Splits, tmp_path: Path) -> None:
    blind = replace(without_valid(splits), bias={})
    found = unspur.compare(
        blind, ("jtt", "erm"), model=model(), settings=SETTINGS, store=tmp_path / "store"
    )
    assert found.metrics == ["average"]
    assert found.deciding == "suspects"
    assert found.baseline == "erm"
    text = comparison_page.render(found)
    assert "There are no bias labels" in text
    assert "suspect" in comparison_page.lead(found)


def test_methods_without_their_groups_are_refused_before_training(
    splits: Splits, tmp_path: Path
) -> None:
    blind = replace(splits, bias={})
    with pytest.raises(RecipeError, match="needs bias labels"):
        unspur.compare(blind, ("erm", "groupdro"), model=model(), settings=SETTINGS, store=tmp_path)
    assert not list(tmp_path.iterdir())
    found = unspur.compare(
        splits,
        ("erm", "groupdro", "dfr"),
        model=model(),
        settings={**SETTINGS, "groupdro.steps": 10, "groupdro.batch": 32},
        store=tmp_path,
    )
    assert found["groupdro"].supervision == "bias labels"
    assert found.unseen_counts == {}  # nothing was mined


# -- the methods --------------------------------------------------------------------------------------


def test_every_method_has_the_budget_of_ordinary_training() -> None:
    preset = budget.settings(2000, TESTED, name="x", model="resnet18")
    for name, entry in own_methods().items():
        recipe = recipes.change(preset, method_changes(name, preset))
        assert recipe.plan == entry.plan_for_users
        assert {"mine", "finetune"}.isdisjoint(recipe.stages) or "pretrain" in recipe.stages
        assert bool(recipe.data.style) == (name == "unspur")  # the others are as published
        assert (recipe.mine, recipe.pretrain) == (preset.mine, preset.pretrain)
        assert recipe.select.share == preset.select.share  # the same images are held out
        if entry.own_stage is not None:
            own = recipe.table(name)
            assert own.steps == preset.pretrain.steps  # type: ignore[attr-defined]
            assert own.rate == preset.pretrain.rate  # type: ignore[attr-defined]
    jtt = recipes.change(preset, method_changes("jtt", preset)).finetune
    assert (jtt.steps, jtt.rate, jtt.align, jtt.drop) == (625, 1e-3, 0.0, 0.0)
    assert jtt.start == "initial"
    assert method_changes("unspur", preset) == {}


@pytest.mark.parametrize(
    ("name", "message"),
    [("jttt", "Did you mean jtt"), ("released-code", "only for the tables of the paper")],
)
def test_a_method_that_cannot_be_chosen(splits: Splits, name: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        unspur.debias(splits, model=model(), method=name)


def test_an_audit_is_asked_before_jtt(splits: Splits, tmp_path: Path) -> None:
    images, targets = splits.train.take(torch.arange(60)), splits.train.targets[:60]
    few = replace(splits, train=unspur.Split(images, targets), bias={})
    with pytest.warns(UserWarning, match="no audit checked whether there is a shortcut"):
        unspur.debias(few, model=model(), method="jtt", settings=SETTINGS, store=tmp_path)


def test_jtt_is_compared_with_the_ordinary_model(splits: Splits, tmp_path: Path) -> None:
    out, store = tmp_path / "jtt", tmp_path / "store"
    unspur.debias(
        splits, model=model(), method="jtt", settings=SETTINGS, anyway=True, out=out, store=store
    )
    assert (out / "ordinary" / "model.safetensors").is_file()
    scores = json.loads((out / "scores.json").read_text())
    assert {"ordinary", "debiased"} <= scores["unseen"].keys()
    assert network_titles(scores, "jtt-own")["debiased"] == "JTT"


def test_a_method_and_a_whole_recipe(splits: Splits) -> None:
    with pytest.raises(RecipeError, match=r"has its own plan.*'jtt'"):
        unspur.debias(splits, model=model(), method="jtt", settings=unspur.Recipe())


def test_the_commands(splits: Splits, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for split in ("train", "test"):
        part = splits.parts()[split]
        images = part.take(torch.arange(len(part))).permute(0, 2, 3, 1).numpy()
        for i in rng.permutation(len(part))[:120]:
            label = splits.classes[int(part.targets[i])]
            path = tmp_path / "photos" / split / label / f"{i}_{int(splits.bias[split][i])}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(images[i]).save(path)
    (tmp_path / "model.py").write_text("from toys import TinyNet as build\n")
    shared = [
        *("--model", f"{tmp_path / 'model.py'}:build", "--store", str(tmp_path / "store")),
        *("--device", "cpu", "-q", "--bias", "*_{group}.png"),
        *(word for change in SMALL for word in ("--set", change)),
    ]
    photos, out = str(tmp_path / "photos"), str(tmp_path / "out")

    def invoke(*words: str) -> str:
        done = CliRunner().invoke(cli.app, [*words, *shared], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    planned = invoke("compare", photos, "--methods", "erm,jtt", "--out", out, "--dry-run")
    assert "4 stages for 2 methods" in " ".join(planned.split())
    assert not Path(out).exists()
    shown = invoke("compare", photos, "--methods", "erm,jtt", "--out", out)
    assert "jtt" in shown
    assert all(len(line) <= 80 for line in shown.splitlines() if "jtt" in line)
    assert (Path(out) / "comparison.html").exists()
    shown = invoke("debias", photos, "--method", "dfr-mined", "--anyway", "--out", f"{out}/dfr")
    # Its ordinary model, like that of JTT, is trained without the suspects that the gain is measured on.
    assert "Reused from the store: mine, pretrain." in shown
    scores = json.loads((Path(out) / "dfr" / "scores.json").read_text())
    assert scores["debiased"]["worst_group"] is not None  # the groups come from the file names


def test_published_weights_are_the_start_of_every_method(
    splits: Splits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network whose weights are not at hand is an error that names the file, before any training."""
    monkeypatch.setattr(torch.hub, "get_dir", lambda: "nowhere")
    monkeypatch.setattr(torch.hub, "download_url_to_file", _fail)
    with pytest.raises(UnspurError, match=r"mobilenet_v2-b0353104\.pth"):
        unspur.compare(splits, ["erm"], model="mobilenet_v2", pretrained=True)


def _fail(*_: object, **__: object) -> None:
    raise OSError("no network")
