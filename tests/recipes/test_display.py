"""Showing a recipe: all settings with their origins, as a file that can be run."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from unspur import recipes
from unspur.recipes.display import show
from unspur.recipes.loading import load_with_origins


def shown(name: str, *changes: str, ours: str = "") -> str:
    loaded = load_with_origins(name, recipes.parse_changes(changes))
    return show(name, loaded, changes=changes, ours=ours)


def head(text: str) -> list[str]:
    return text.partition("\n\n")[0].splitlines()


def line(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(start))


@pytest.mark.parametrize("name", recipes.names())
def test_the_shown_text_is_the_recipe(name: str) -> None:
    text = shown(name)
    assert recipes.parse(tomllib.loads(text), where=name) == recipes.load(name)
    assert all(each.startswith("# ") for each in head(text))
    assert max(map(len, head(text))) <= 108
    assert any(f"unspur run {name} --seed" in each for each in head(text))


def test_the_head() -> None:
    assert head(shown("cmnist/1pct-mrm", ours="Ours: a number.")) == [
        "# MRM: masks learned on uniform batches with cross entropy, weights reset to their initial values,",
        "#   retrained.",
        "#     unspur run cmnist/1pct-mrm --seed 55",
        "# Published: 80.42 (ERM: 81.73), unbiased accuracy in per cent.",
        "# The retraining has the full budget of ERM.",
        "# Ours: a number.",
    ]


def test_a_method_without_a_published_number() -> None:
    text = shown("cmnist/1pct-dfr")
    assert "# Published: no number for this method on this data." in head(text)


def test_changes_have_their_own_origin() -> None:
    text = shown("cmnist/1pct-dcwp", "prune.sparsity=1e-6", "model.options.width=8")
    assert "--seed 55 --set prune.sparsity=1e-6 --set model.options.width=8" in text
    assert line(text, "sparsity = 1e-06").endswith("# --set")
    assert line(text, "options = { width = 8 }").endswith("# --set")
    assert line(text, "noise =").endswith("# method dcwp")
    assert line(text, "temperature =").endswith("# default")


def test_a_file_over_a_base(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('base = "cmnist/1pct-dcwp"\nseed = 3\n')
    text = shown(str(file))
    assert line(text, "seed = 3").endswith(f"# {file}")
    assert line(text, "noise =").endswith("# method dcwp")
