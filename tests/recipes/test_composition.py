"""Composition: all settings of built-in recipes, origins of values, and errors in the catalogue.

hashes.txt has a line for each built-in recipe: its name, and the SHA-256 of the settings it reads. After an
intended change of recipes, `python tests/recipes/test_composition.py` writes it again.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from importlib import resources
from pathlib import Path

import pytest
import torch

import unspur
from unspur import recipes
from unspur.errors import RecipeError
from unspur.methods import plans
from unspur.recipes import budget
from unspur.recipes.catalogue_files import Catalogue, catalogue, read
from unspur.recipes.composition import compose, flat, nested
from unspur.recipes.loading import load_with_origins
from unspur.recipes.settings import Recipe, recipe_class

HASHES = Path(__file__).with_name("hashes.txt")
RATIOS = ("0.5pct", "1pct", "2pct", "5pct")
SMALL = """
[data.cmnist]
seed = 55
value = { rate = 1e-2 }
set.data.seed = 1
ratios."1pct".value.up = 50.0
ratios."5pct".value.rate = 1e-3

[method.lff]
what = "Learning from failure."
on = ["cmnist"]
set.plan = "lff"
set.lff = { rate = "$rate", steps = 5 }
[[method.lff.exceptions]]
on = ["cmnist/5pct"]
set.lff.steps = 7
notes = ["Longer at 5 %."]
"""


def digest(recipe: Recipe) -> str:
    used = {"data", "model", "select", *recipe.stages}
    tables = recipe.model_dump(mode="json")
    kept = {k: v for k, v in tables.items() if k in used or not isinstance(v, dict)}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def written(folder: Path, **files: str) -> Catalogue:
    """Read a catalogue of files with the given texts."""
    (folder / "catalogue").mkdir()
    for name, text in files.items():
        (folder / "catalogue" / f"{name}.toml").write_text(text)
    return read(folder / "catalogue")


def refused(folder: Path, **files: str) -> str:
    with pytest.raises(RecipeError) as error:
        written(folder, **files)
    return str(error.value)


# -- the built-in recipes -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", recipes.match("*-imagenet"))
def test_recipes_from_imagenet_weights_begin_as_own_images_do(name: str) -> None:
    recipe = recipes.load(name)
    for key, value in budget._gentler(recipe.pretrain.steps, True).items():
        table, _, setting = key.partition(".")
        mines_apart = table == "mine" and recipe.mine.how == "crossfit"  # with networks of its own
        if table in ("start", *recipe.stages) and not mines_apart:
            assert getattr(recipe.table(table), setting) == value, key
    assert (recipe.data.mean, recipe.data.std) == (budget.MEAN, budget.STD)
    assert (recipe.model.name, recipe.data.size) == ("mobilenet_v2", 96)


def test_the_list_of_recipes_is_the_recorded_one() -> None:
    assert recipes.names() == [line.split()[0] for line in HASHES.read_text().splitlines()]


@pytest.mark.parametrize("line", HASHES.read_text().splitlines())
def test_a_recipe_is_the_recorded_one(line: str) -> None:
    name, known = line.split()
    assert digest(recipes.load(name)) == known


@pytest.mark.parametrize("name", recipes.names())
def test_tables_that_a_plan_does_not_read_keep_their_defaults(name: str) -> None:
    found, default = recipes.load(name), recipe_class()()
    unread = {stage for plan in plans().values() for stage in plan} - set(found.stages)
    assert all(getattr(found, table) == getattr(default, table) for table in unread)


@pytest.mark.parametrize("name", recipes.names())
def test_every_recipe_has_a_description(name: str) -> None:
    found = compose(name)
    assert found.what.endswith(".")
    assert found.seed is not None


def test_every_setting_of_the_catalogue_is_valid() -> None:
    """This includes tables that the plans of the recipes do not read."""
    known = catalogue()
    sets = [entry.set for entry in (*known.data.values(), *known.methods.values())]
    sets += [each.set for entry in known.methods.values() for each in entry.exceptions]
    for settings in sets:
        plain = {k: v for k, v in flat(settings).items() if not str(v).startswith("$")}
        parsed = flat(recipes.parse(nested(plain), where="the catalogue").model_dump(mode="json"))
        for key, value in plain.items():  # a table inside a table gets its other defaults
            assert (
                {**parsed[key], **value} == parsed[key]
                if isinstance(value, dict)
                else parsed[key] == value
            )


def test_the_files_are_part_of_the_package() -> None:
    files = resources.files("unspur.recipes") / "catalogue"
    names = {file.name for file in files.iterdir()}
    assert {"data.toml", "dcwp.toml", "demo.toml"} <= names
    assert all(name.endswith(".toml") for name in names)
    if not (project := Path(__file__).parents[2] / "pyproject.toml").is_file():
        pytest.skip("not run from a source tree")
    shipped = tomllib.loads(project.read_text())["tool"]["setuptools"]["package-data"]["unspur"]
    root = Path(unspur.__file__).parent
    assert names == {
        p.name for pattern in shipped for p in root.glob(pattern) if p.suffix == ".toml"
    }


@pytest.mark.parametrize(("data", "images"), [("mnist", 54_000), ("cifar10", 45_000)])
def test_debias_recipes_have_the_settings_of_the_command(data: str, images: int) -> None:
    device = torch.device("cuda")
    chosen = budget.settings(images, device, name=f"{data}/debias", model="resnet18")
    recipe = recipes.load(f"{data}/debias")
    for table in ("judge", "model", "watch_every", *(set(recipe.stages) - {"mine"}), "select"):
        assert getattr(recipe, table) == getattr(chosen, table)
    named = {"name": data, "ratio": recipe.data.ratio}
    assert recipe.data == chosen.data.model_copy(update=named)


# -- layers -------------------------------------------------------------------------------------------


def test_one_entry_gives_a_method_its_recipes(tmp_path: Path) -> None:
    texts = {
        file.name.removesuffix(".toml"): file.read_text()
        for file in (resources.files("unspur.recipes") / "catalogue").iterdir()
    }
    new = '[method.new]\nwhat = "New."\non = ["cmnist", "cifar10c"]\nset.plan = "lff"\n'
    found = written(tmp_path, **texts, new=new).recipes.keys() - set(recipes.names())
    assert found == {f"{data}/{ratio}-new" for data in ("cmnist", "cifar10c") for ratio in RATIOS}


def test_later_layers_win(tmp_path: Path) -> None:
    known = written(tmp_path, all=SMALL)
    assert list(known.recipes) == ["cmnist/1pct-lff", "cmnist/5pct-lff"]
    assert compose("cmnist/1pct-lff", known).tables() == {
        "name": "cmnist/1pct-lff",
        "plan": "lff",
        "data": {"name": "cmnist", "ratio": "1pct", "seed": 1},
        "lff": {"rate": 1e-2, "steps": 5},
    }
    assert compose("cmnist/5pct-lff", known).tables()["lff"] == {"rate": 1e-3, "steps": 7}
    assert compose("cmnist/5pct-lff", known).notes == ("Longer at 5 %.",)


def test_each_value_remembers_its_origin() -> None:
    source = load_with_origins("celeba/keep88-jtt", {"prune.steps": 3, "data.seed": 1}).source
    origins = {key: origin.text for key, origin in source.origins.items()}
    assert origins["plan"] == "method jtt"
    assert origins["data.ratio"] == "ratio keep88"
    assert origins["data.mean"] == "data set celeba"
    assert origins["data.seed"] == "--set"
    assert origins["model.name"] == "data set celeba, which extends cifar10c"
    assert origins["mine.steps"] == "method jtt: $one_pass of celeba/keep88"
    assert origins["finetune.align"] == "part plain-finetuning"
    assert "mine.q" not in origins
    lff = load_with_origins("cmnist/1pct-lff").source.origins
    assert lff["lff.steps"].text == "exception of lff on cmnist"
    assert lff["lff.steps"].file == "catalogue/lff.toml"


def test_an_extending_method_wins_over_the_exceptions_of_what_it_extends() -> None:
    assert recipes.load("cmnist/1pct-dcwp").finetune.rate == 1e-3
    assert recipes.load("cmnist/1pct-mrm-debias").finetune.rate == 1e-2


# -- slips --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[method.lff]", "[methods.lff]", "catalogue/a.toml: unknown table methods."),
        ("what =", "wat =", "catalogue/a.toml: unknown key method.lff.wat. Did you mean what?"),
        ("seed = 55", "", "catalogue/a.toml: data.cmnist.seed: Field required."),
        ("seed = 55", "seed =", "catalogue/a.toml: not valid TOML: "),
        ('on = ["cmnist"]', "on = 3", "catalogue/a.toml: method.lff.on: "),
        (
            'on = ["cmnist"]',
            'on = ["cmnst"]',
            "catalogue/a.toml: method.lff: no data 'cmnst'. Did you mean cmnist/",
        ),
        (
            'on = ["cmnist"]',
            'on = ["cmnist"]\nextends = ["lf"]',
            "catalogue/a.toml: method.lff.extends = 'lf': there is no such entry. Did you mean lff?",
        ),
        (
            'on = ["cmnist"]',
            'on = ["cmnist"]\nextends = ["lff"]',
            "catalogue/a.toml: method.lff.extends = 'lff': lff would extend itself.",
        ),
        (
            "[method.lff]",
            "[method]\na = { extends = ['b'] }\nb = { extends = ['b'] }\n[method.lff]",
            "catalogue/a.toml: method.b.extends = 'b': b would extend itself.",
        ),
        ("[method.lff]", "[method]\na = 3\n[method.lff]", "catalogue/a.toml: method.a = 3: "),
        (
            'on = ["cmnist"]',
            'on = ["cmnist"]\nname = "one"',
            "catalogue/a.toml: method.lff: one exists already.",
        ),
    ],
)
def test_an_error_in_the_catalogue_names_file_and_key(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert refused(tmp_path, a=SMALL.replace(old, new, 1)).startswith(message)


def test_an_entry_in_two_files(tmp_path: Path) -> None:
    message = refused(tmp_path, a=SMALL, b="[data.cmnist]\nseed = 1\n")
    assert message.startswith("catalogue/b.toml: data.cmnist is in catalogue/a.toml too.")


def test_a_value_that_the_data_does_not_have(tmp_path: Path) -> None:
    known = written(tmp_path, a=SMALL.replace("$rate", "$rte"))
    with pytest.raises(RecipeError) as error:
        compose("cmnist/1pct-lff", known)
    assert str(error.value) == (
        "catalogue/a.toml: lff.rate = '$rte' (method lff): cmnist/1pct has no such value. "
        "Did you mean rate?"
    )


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ("set.lff = { rte", "catalogue/a.toml: unknown key lff.rte. Did you mean lff.rate?"),
        ("set.lf = { rate", "catalogue/a.toml: unknown key lf. Did you mean lff?"),
        ("set.lff = { q = 2.0, rate", "catalogue/a.toml: lff.q = 2.0: "),
    ],
)
def test_a_wrong_setting_names_the_file_of_its_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: str, message: str
) -> None:
    known = written(tmp_path, a=SMALL.replace("set.lff = { rate", new))
    monkeypatch.setattr("unspur.recipes.composition.catalogue", lambda: known)
    with pytest.raises(RecipeError) as error:
        recipes.load("cmnist/1pct-lff")
    assert str(error.value).startswith(message)


if __name__ == "__main__":
    lines = [f"{name} {digest(recipes.load(name))}\n" for name in recipes.names()]
    HASHES.write_text("".join(lines))
