"""Old names work with a warning, until the version in which UPGRADING.md says that they go."""

from __future__ import annotations

import inspect
import sys
import warnings
from pathlib import Path

import pytest
import torch

import unspur
from unspur import cli, deprecation, recipes
from unspur.deprecation import DEPRECATIONS, Deprecation, renamed_parameter

ROOT = Path(__file__).parent.parent
EXAMPLE = Deprecation("f(colour=...)", "f(color=...)", "1.2.0", "2.0.0")


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@renamed_parameter("colour", "color", EXAMPLE)
def paint(what: str, *, color: str = "red") -> str:
    """Paint."""
    return f"{what} {color}"


def test_a_renamed_parameter_is_passed_on_with_a_warning_at_the_callers_line() -> None:
    with pytest.warns(FutureWarning) as caught:
        assert paint("wall", colour="blue") == "wall blue"  # type: ignore[call-arg]
    (warning,) = caught
    assert str(warning.message) == (
        "f(colour=...) is deprecated since unspur 1.2.0 and will be removed in 2.0.0. Use f(color=...)."
    )
    assert Path(warning.filename) == Path(__file__)


def test_the_new_parameter_gives_no_warning_and_both_are_an_error() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert paint("wall", color="blue") == "wall blue"
        with pytest.raises(TypeError, match="old name of color=, and both were given"):
            paint("wall", colour="blue", color="red")  # type: ignore[call-arg]
    assert list(inspect.signature(paint).parameters) == ["what", "color"]


def test_the_old_name_of_a_result_is_the_new_class() -> None:
    with pytest.warns(FutureWarning, match=r"Use unspur\.DebiasedModel") as caught:
        assert unspur.Debiased is unspur.DebiasedModel  # type: ignore[attr-defined]
    assert Path(caught[0].filename) == Path(__file__)
    assert "Debiased" not in dir(unspur)
    with pytest.raises(AttributeError, match="Debiase'"):
        _ = unspur.Debiase  # type: ignore[attr-defined]


def test_the_old_parameter_of_density_counts_the_same() -> None:
    masks = {"w": torch.tensor([True, False, True, False])}
    reachable = {"w": torch.tensor([True, True, True, False])}
    with pytest.warns(FutureWarning, match="reachable="):
        old = unspur.density(masks, reach=reachable)  # type: ignore[call-arg]
    assert old == unspur.density(masks, reachable) == pytest.approx(2 / 3)


def test_the_old_value_of_a_setting_becomes_the_new_one() -> None:
    with pytest.warns(FutureWarning, match='Use mine.gce_form = "exact"'):
        old = recipes.load("demo", {"mine.gce_form": "true"})
    assert old == recipes.load("demo", {"mine.gce_form": "exact"})


def test_the_command_line_shows_the_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "old.toml"
    recipe.write_text('base = "demo"\nmine.gce_form = "true"\n')
    monkeypatch.setattr(sys, "argv", ["unspur", "recipes", "show", str(recipe)])
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        with pytest.raises(SystemExit) as end:
            cli.main()
    assert not end.value.code
    assert "warning: the setting mine.gce_form" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("each", DEPRECATIONS, ids=lambda each: each.old)
def test_a_deprecation_is_due_documented_and_lasts_two_minor_versions(each: Deprecation) -> None:
    assert numbers(unspur.__version__) < numbers(each.removal), f"remove {each.old} now"
    assert numbers(each.since)[0] < numbers(each.removal)[0] or (
        numbers(each.since)[1] + 2 <= numbers(each.removal)[1]
    )
    rows = [line for line in (ROOT / "UPGRADING.md").read_text().splitlines() if line[:1] == "|"]
    assert [row for row in rows if each.new in row and each.removal in row], each.new


def test_every_deprecation_is_in_the_list() -> None:
    found = [value for value in vars(deprecation).values() if isinstance(value, Deprecation)]
    assert found == list(DEPRECATIONS)
