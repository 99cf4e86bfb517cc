"""Recipes: complete and strict, with a suggestion for every mistake; the published settings."""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

from unspur import recipes
from unspur.audit.preparation import mining
from unspur.errors import RecipeError
from unspur.methods import all_methods, own_stages, plans
from unspur.recipes import budget, published
from unspur.recipes.settings import MineSettings, Recipe, recipe_class

RATIOS = ("0.5pct", "1pct", "2pct", "5pct")


def changed(*changes: str) -> Recipe:
    return recipes.change(Recipe(), recipes.parse_changes(changes))


def audit_mining(images: int) -> dict[str, Any]:
    """Return the settings of mining for own images."""
    return {"how": "crossfit", "decay_every": 0, **mining(images)}


def flat(table: dict[str, Any]) -> dict[str, Any]:
    """Return nested settings by dotted key."""
    parts = {}
    for key, value in table.items():
        parts |= (
            {f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value}
        )
    return parts


def differences(a: Recipe, b: Recipe) -> dict[str, tuple[Any, Any]]:
    """Return the settings in which two recipes differ, except for their names."""
    left, right = flat(a.model_dump()), flat(b.model_dump())
    return {k: (left[k], right[k]) for k in left if left[k] != right[k] and k != "name"}


def write(folder: Path, text: str) -> str:
    (folder / "mine.toml").write_text(text)
    return str(folder / "mine.toml")


# -- the built-in recipes -----------------------------------------------------------------------------


def test_the_documented_recipes_exist() -> None:
    """Every method at every ratio on CMNIST, those of the main table on CIFAR10-C, and the ablation twice."""
    main = ("erm", "dcwp", "unspur", "lff", "disent", "end", "rebias", "mrm", "jtt")
    promised = {f"cmnist/{ratio}-{kind}" for ratio in RATIOS for kind in all_methods()} | {"demo"}
    promised |= {f"cifar10c/{ratio}-{kind}" for ratio in RATIOS for kind in main}
    promised |= {f"cmnist/ablation-{i}{twin}" for i in range(1, 7) for twin in ("", "-adam")}
    assert promised <= set(recipes.names())


@pytest.mark.parametrize("name", [name for name in recipes.names() if name.startswith("cmnist/")])
def test_a_recipe_runs_the_plan_of_its_name(name: str) -> None:
    recipe = recipes.load(name)
    kind = published.kind(recipe.model_dump(mode="json"))
    if kind in all_methods():
        assert recipe.plan == all_methods()[kind].plan_name


def test_a_table_for_every_stage() -> None:
    stages = {stage for plan in plans().values() for stage in plan}
    assert stages <= recipe_class().model_fields.keys()


@pytest.mark.parametrize("name", own_stages())
def test_a_methods_defaults_are_those_of_its_table(name: str) -> None:
    parameters = inspect.signature(own_stages()[name].own_stage.loss).parameters
    table = Recipe().table(name).model_dump()
    shared = {
        key for key in table if key in parameters and parameters[key].default is not inspect._empty
    }
    assert shared
    assert {key: table[key] for key in shared} == {key: parameters[key].default for key in shared}


# -- the published settings ---------------------------------------------------------------------------

PUBLISHED = {
    "plan": "dcwp",
    "data.name": "cmnist",
    "data.augment": "none",
    "data.mean": (),
    "data.std": (),
    "model.name": "convnet",
    "model.options": {},
    "mine.how": "gce",
    "mine.q": 0.7,
    "mine.gce_form": "released",
    "mine.steps": 2000,
    "mine.batch": 256,
    "mine.optimiser": "sgd",
    "mine.rate": 0.1,
    "mine.momentum": 0.9,
    "mine.weight_decay": 1e-4,
    "mine.schedule": "step",
    "mine.decay_every": 600,
    "mine.decay_by": 0.1,
    "pretrain.steps": 10_000,
    "pretrain.batch": 256,
    "pretrain.optimiser": "adam",
    "pretrain.rate": 1e-2,
    "pretrain.betas": (0.9, 0.99),
    "pretrain.weight_decay": 0.0,
    "pretrain.schedule": "constant",
    "prune.steps": 2000,
    "prune.batch": 256,
    "prune.optimiser": "adam",
    "prune.rate": 1e-2,
    "prune.betas": (0.9, 0.999),
    "prune.weight_decay": 0.0,
    "prune.schedule": "constant",
    "prune.up": 80.0,
    "prune.align": 0.05,
    "prune.temperature": 0.07,
    "prune.group_weight": 0.0,
    "prune.sparsity": 1e-8,
    "prune.init": 1.5,
    "finetune.steps": 1000,
    "finetune.batch": 256,
    "finetune.optimiser": "adam",
    "finetune.rate": 1e-3,
    "finetune.betas": (0.9, 0.99),
    "finetune.weight_decay": 0.0,
    "finetune.schedule": "constant",
    "finetune.align": 0.05,
    "finetune.temperature": 0.07,
    "finetune.group_weight": 0.0,
    "finetune.drop": 0.0,
    "select.rule": "last",
}


@pytest.mark.parametrize("kind", ["dcwp", "released-code", "paper-text"])
@pytest.mark.parametrize("ratio", RATIOS)
def test_published_settings(ratio: str, kind: str) -> None:
    found = flat(recipes.load(f"cmnist/{ratio}-{kind}").model_dump())
    text = {"model.name": "relu_first", "mine.gce_form": "exact"} if kind == "paper-text" else {}
    assert {key: found[key] for key in PUBLISHED} == PUBLISHED | text
    assert found["data.ratio"] == ratio


@pytest.mark.parametrize(
    ("kind", "up"),
    [
        ("dcwp", [80.0, 50.0, 30.0, 10.0]),
        ("released-code", [80.0, 50.0, 30.0, 10.0]),
        ("paper-text", [10.0, 30.0, 50.0, 80.0]),
    ],
)
def test_order_of_upweighting(kind: str, up: list[float]) -> None:
    assert [recipes.load(f"cmnist/{ratio}-{kind}").finetune.up for ratio in RATIOS] == up


def test_the_default_interpretation() -> None:
    prune = recipes.load("cmnist/1pct-dcwp").prune
    assert (prune.noise, prune.positives, prune.penalty) == ("logit", "either", "sum")
    assert prune.keep_zero is False


def test_the_settings_of_the_released_code() -> None:
    base = recipes.load("cmnist/1pct-dcwp")
    assert differences(base, recipes.load("cmnist/1pct-released-code")) == {
        "prune.noise": ("logit", "probability"),
        "prune.positives": ("either", "column"),
        "prune.keep_zero": (False, True),
        "finetune.positives": ("either", "column"),
    }


def test_the_settings_of_the_papers_text() -> None:
    base = recipes.load("cmnist/1pct-dcwp")
    assert differences(base, recipes.load("cmnist/1pct-paper-text")) == {
        "model.name": ("convnet", "relu_first"),
        "mine.gce_form": ("released", "exact"),
        "prune.positives": ("either", "text"),
        "prune.penalty": ("sum", "absolute"),
        "finetune.positives": ("either", "text"),
        "finetune.up": (50.0, 30.0),
    }


def test_networks_of_the_original_papers() -> None:
    end = recipes.load("cmnist/1pct-end-flatnet")
    assert (end.model.name, end.model.options) == ("flatnet", {"unit": True})
    biased = recipes.load("cmnist/1pct-rebias").table("rebias").network  # type: ignore[attr-defined]
    assert (biased.name, biased.options) == ("flatnet", {"kernel": 1})


PRESET_ON = [name for name in recipes.names() if name.endswith(("-unspur", "/unspur"))]


@pytest.mark.parametrize("name", PRESET_ON)
def test_our_preset_is_the_same_everywhere_and_knows_nothing_of_the_bias(name: str) -> None:
    """Recipes of the preset differ only in settings of the data set and in lengths."""
    ours, base = recipes.load(name), recipes.load("cmnist/1pct-unspur")
    of_the_data = {"data.name", "data.ratio", "data.size", "data.augment", "data.mean", "data.std"}
    of_the_data |= {"model.name", "model.options", "select.every"}
    lengths = {f"{stage}.{what}" for stage in ours.stages for what in ("steps", "batch")}
    assert differences(base, ours).keys() <= of_the_data | lengths
    assert ours.prune.up == ours.finetune.up == 0.0
    assert ours.select.rule == "heldout"
    assert ours.mine.how == "crossfit"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_own_images_get_the_same_preset(device: str) -> None:
    """Only lengths, pixels, and the rate of masks that are learned in few steps may differ."""
    own = budget.settings(45_000, torch.device(device), name="x", model="resnet18")
    own = recipes.change(own, {f"mine.{k}": v for k, v in audit_mining(45_000).items()})
    ours = recipes.load("cifar10c/1pct-unspur")
    found = differences(ours, own).keys()
    of_the_data = {"data.name", "data.ratio", "data.augment", "data.mean", "data.std", "judge"}
    of_the_data |= {"watch_every", "select.every"}
    lengths = {f"{stage}.{what}" for stage in ours.stages for what in ("steps", "batch")}
    if device == "cuda":
        assert found <= of_the_data
    assert found <= of_the_data | lengths | {"prune.rate"}


# -- strictness ---------------------------------------------------------------------------------------


def test_unknown_key_is_answered_with_a_suggestion(tmp_path: Path) -> None:
    file = write(tmp_path, "[prune]\nsparsty = 1e-6\n")
    with pytest.raises(RecipeError) as error:
        recipes.load(file)
    assert str(error.value) == (f"{file}: unknown key prune.sparsty. Did you mean prune.sparsity?")


def test_unknown_key_far_from_all_others_lists_them(tmp_path: Path) -> None:
    with pytest.raises(
        RecipeError, match=r"unknown key select\.zzzzzzzzzzzz\. Known: select\.rule"
    ):
        recipes.load(write(tmp_path, "[select]\nzzzzzzzzzzzz = 1\n"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[prun]\nsteps = 3\n", "unknown key prun. Did you mean prune?"),
        ("sed = 3\n", "unknown key sed. Did you mean seed?"),
        ("[mine]\nsteps = 1\nstep = 2\n", "unknown key mine.step. Did you mean mine.steps?"),
    ],
)
def test_unknown_table_or_top_key(tmp_path: Path, text: str, message: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(RecipeError) as error:
        recipes.load(file)
    assert str(error.value) == f"{file}: {message}"


@pytest.mark.parametrize(
    "setting",
    [
        'mine.steps = "many"',
        "mine.steps = 2.5",
        "mine.steps = true",
        'pretrain.rate = "0.1"',
        "deterministic = 1",
        "name = 3",
        "prune = 3",
        "finetune.iterates = [1, 2.5]",
        "finetune.iterates = 7",
        "prune.betas = [0.9]",
        "prune.betas = [0.9, 0.99, 0.999]",
        'plan = "dwcp"',
        'data.name = "fashion"',
        "model.options.widths = [1.5, 2]",
        "seed = 2024-01-01",
    ],
)
def test_wrong_type(tmp_path: Path, setting: str) -> None:
    key, _, value = setting.partition(" = ")
    file = write(tmp_path, setting + "\n")
    with pytest.raises(RecipeError) as error:
        recipes.load(file)
    assert str(error.value).startswith(f"{file}: {key}")
    assert value.strip('[]"').partition(",")[0].split("-")[0].lower() in str(error.value).lower()


@pytest.mark.parametrize(
    "change",
    [
        "mine.steps=0",
        "pretrain.batch=-1",
        "pretrain.rate=0.0",
        "mine.q=0",
        "mine.q=1.5",
        "mine.eta=1.0",
        "prune.sparsity=-1e-9",
        "prune.temperature=0",
        "prune.share=1.0",
        "prune.cap=0.5",
        "finetune.drop=1.0",
        "select.share=0.0",
        "select.every=0",
        "log_every=0",
        "mine.betas=[0.9, 1.5]",
        "mine.momentum=-0.1",
        "prune.init=nan",
        "pretrain.rate=inf",
    ],
)
def test_out_of_range(change: str) -> None:
    with pytest.raises(RecipeError, match=r"unspur: \S+ = "):
        changed(change)


@pytest.mark.parametrize(
    "changes",
    [["data.mean=[0.5, 0.5, 0.5]"], ["data.std=[1.0]"], ["data.mean=[0.5]", "data.std=[1.0, 1.0]"]],
)
def test_mean_and_standard_deviation_have_the_same_length(changes: list[str]) -> None:
    with pytest.raises(RecipeError, match=r"data.*(mean|std)"):
        changed(*changes)


def test_all_errors_are_reported_together(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as error:
        recipes.load(write(tmp_path, "sed = 3\n[mine]\nsteps = 0\n"))
    assert len(str(error.value).splitlines()) == 2


def test_not_toml(tmp_path: Path) -> None:
    file = write(tmp_path, "steps : 3\n")
    with pytest.raises(RecipeError, match="not valid TOML") as error:
        recipes.load(file)
    assert str(error.value).startswith(f"{file}: ")


def test_not_even_text(tmp_path: Path) -> None:
    (tmp_path / "photo.toml").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(RecipeError, match=r"photo\.toml: "):
        recipes.load(str(tmp_path / "photo.toml"))


def test_unknown_name_is_answered_with_a_suggestion() -> None:
    with pytest.raises(RecipeError) as error:
        recipes.load("cmnist/1pct-dwcp")
    assert str(error.value) == (
        "there is no recipe 'cmnist/1pct-dwcp'. Did you mean cmnist/1pct-dcwp?"
    )


def test_missing_file(tmp_path: Path) -> None:
    file = str(tmp_path / "none.toml")
    with pytest.raises(RecipeError) as error:
        recipes.load(file)
    assert str(error.value) == f"{file}: cannot be read (No such file or directory)."


def test_settings_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Recipe().mine.steps = 3  # type: ignore[misc]


# -- changes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("prune.sparsity=1e-6", 1e-6),
        ("prune.init=1", 1.0),
        ("mine.steps=5", 5),
        ("mine.steps = 1_000", 1000),
        ("seed=-3", -3),
        ("data.ratio=0.5pct", "0.5pct"),
        ('data.ratio="5pct"', "5pct"),
        ("model.name=nets/my.py:build", "nets/my.py:build"),
        ("deterministic=false", False),
        ("finetune.iterates=[10, 20]", (10, 20)),
        ("prune.betas=[0.5, 0.75]", (0.5, 0.75)),
        ("model.options={ width = 8 }", {"width": 8}),
    ],
)
def test_changes(change: str, value: object) -> None:
    key = change.partition("=")[0].strip()
    new = changed(change)
    assert flat(new.model_dump())[key] == value
    assert type(flat(new.model_dump())[key]) is type(value)
    assert differences(Recipe(), new).keys() <= {key}


def test_one_option_of_a_model_can_be_set() -> None:
    assert changed("model.options.width=8", "model.options.kernel=3").model.options == {
        "width": 8,
        "kernel": 3,
    }


def test_the_last_change_wins() -> None:
    assert changed("seed=1", "seed=2").seed == 2


def test_changes_reach_a_loaded_recipe() -> None:
    for changes in ({"prune.sparsity": 1e-6}, recipes.parse_changes(["prune.sparsity=1e-6"])):
        assert recipes.load("cmnist/1pct-dcwp", changes).prune.sparsity == 1e-6


def test_changes_are_python_values() -> None:
    new = recipes.change(
        Recipe(),
        {
            "name": "1e-6",
            "data.ratio": "true",
            "finetune.iterates": (10, 20),
            "model.options": {"width": 8},
        },
    )
    assert (new.name, new.data.ratio) == ("1e-6", "true")  # strings are not parsed
    assert (new.finetune.iterates, new.model.options) == ((10, 20), {"width": 8})


def test_texts_of_the_command_line_become_values() -> None:
    texts = ["prune.sparsity=1e-6", "data.ratio = 5pct", "seed=1", "deterministic=false", "seed=2"]
    assert recipes.parse_changes(texts) == {
        "prune.sparsity": 1e-6,
        "data.ratio": " 5pct",
        "deterministic": False,
        "seed": 2,
    }


def test_a_setting_after_its_table_wins() -> None:
    texts = ["mine.steps=1", "mine={batch=8}", "mine.steps=2"]
    assert (changed(*texts).mine.steps, changed(*texts).mine.batch) == (2, 8)
    assert changed("mine.steps=1", "mine={batch=8}").mine == Recipe(mine=MineSettings(batch=8)).mine


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "prune.sparsity",
            "--set prune.sparsity: give it as key=value, as in prune.sparsity=1e-6.",
        ),
        ("seed.x=1", "seed.x: seed is a setting, not a table of settings."),
        ("prune.lamda=1", "unspur: unknown key prune.lamda."),
        ("mine.steps=many", "unspur: mine.steps = 'many': "),
    ],
)
def test_bad_changes(change: str, message: str) -> None:
    with pytest.raises(RecipeError) as error:
        changed(change)
    assert str(error.value).startswith(message)


# -- written and read back ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        [],
        ["prune.sparsity=1e-300", "prune.init=-0.1", "seed=9223372036854775807"],
        ["finetune.iterates=[1, 2, 3]", "data.mean=[0.5]", "data.std=[0.1]"],
        ["model.options={ width = 8, kind = 'a \"b\" \\\\ c', wide = true, scale = 0.5 }"],
        ["name='naïve ☃ 🙂'"],
    ],
)
def test_dump_and_parse_are_inverse(tmp_path: Path, changes: list[str]) -> None:
    new = changed(*changes)
    assert recipes.load(write(tmp_path, recipes.dump(new))) == new
    assert recipes.parse(tomllib.loads(recipes.dump(new)), where="here") == new


def test_a_file_may_be_based_on_a_built_in_recipe(tmp_path: Path) -> None:
    file = write(tmp_path, 'base = "cmnist/1pct-dcwp"\nseed = 3\n[prune]\nsparsity = 1e-6\n')
    base, found = recipes.load("cmnist/1pct-dcwp"), recipes.load(file)
    assert found.name == file.removesuffix(".toml")
    assert differences(base, found) == {"seed": (0, 3), "prune.sparsity": (1e-8, 1e-6)}
    assert recipes.load(write(tmp_path, recipes.dump(found))) == found


def test_an_unknown_base(tmp_path: Path) -> None:
    file = write(tmp_path, 'base = "cmnist/1pct-dwcp"\n')
    with pytest.raises(RecipeError) as error:
        recipes.load(file)
    assert str(error.value) == (
        f"{file}: base = 'cmnist/1pct-dwcp': there is no such built-in recipe. "
        "Did you mean cmnist/1pct-dcwp?"
    )


def test_a_wrong_key_over_a_base_is_that_of_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, 'base = "cmnist/1pct-dcwp"\nprune.sparsty = 1e-6\n')
    with pytest.raises(RecipeError, match=r"mine\.toml: unknown key prune\.sparsty\."):
        recipes.load(file)


def test_a_file_without_a_name_is_called_by_its_path(tmp_path: Path) -> None:
    file = write(tmp_path, "seed = 3\n")
    assert recipes.load(file).name == file.removesuffix(".toml")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("cmnist/*-dcwp", [f"cmnist/{ratio}-dcwp" for ratio in RATIOS]),
        ("cmnist/1pct-dcwp", ["cmnist/1pct-dcwp"]),
        ("own.toml", ["own.toml"]),
    ],
)
def test_patterns(pattern: str, found: list[str]) -> None:
    assert recipes.match(pattern) == found


def test_a_pattern_that_matches_nothing() -> None:
    with pytest.raises(
        RecipeError, match=r"no recipe matches 'waterbirds/\*'\. The nearest of \d+ are .*/"
    ):
        recipes.match("waterbirds/*")
