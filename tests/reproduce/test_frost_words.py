"""The end of a page says how the frost of CIFAR10-C was made."""

from __future__ import annotations

from typing import Any

from unspur.reproduce.pages import _frost


def run(recipe: str, **data: Any) -> dict[str, Any]:
    return {"run": {"recipe": recipe, "data": {"name": "cifar10c/1pct", **data}}}


def test_old_records_do_not_say_it() -> None:
    assert _frost([run("a"), run("b")]) == "frost of CIFAR10-C: not recorded; "


def test_records_with_a_digest_of_the_training_images_say_it() -> None:
    photographs = run("a", train="12ab")
    procedural = run("b", train="34cd", generated=["procedural frost"])
    assert _frost([photographs]) == "frost of CIFAR10-C: photographs; "
    assert _frost([procedural]) == "frost of CIFAR10-C: procedural; "


def test_runs_of_another_kind_than_most_are_named() -> None:
    many = [run("a", train="12ab"), run("b", train="12ab")]
    other = run("c", train="34cd", generated=["procedural frost"])
    assert _frost([*many, other]) == "frost of CIFAR10-C: photographs, procedural in `c`; "


def test_other_data_have_no_frost() -> None:
    assert _frost([{"run": {"recipe": "a", "data": {"name": "cmnist/1pct"}}}]) == ""
