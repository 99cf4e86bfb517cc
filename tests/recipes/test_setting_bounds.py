"""Every number in a recipe has bounds; values beyond them are refused with the name of the setting."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin

import annotated_types
import pytest
from pydantic import BaseModel

from unspur import recipes
from unspur.errors import RecipeError
from unspur.recipes.settings import recipe_class


def numbers(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, list[Any], type]]:
    """Yield key, bounds and type of every number in a table and the tables in it."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from numbers(kind, f"{prefix}{name}.")
        else:
            yield from of_type(kind, list(field.metadata), prefix + name)


def of_type(kind: Any, bounds: list[Any], key: str) -> Iterator[tuple[str, list[Any], type]]:
    if get_origin(kind) is Annotated:
        kind, *more = get_args(kind)
        bounds = [*bounds, *(b for m in more for b in (getattr(m, "metadata", None) or [m]))]
    if kind in (int, float):
        yield key, bounds, kind
    elif get_origin(kind) is tuple or isinstance(kind, types.UnionType):
        for inner in get_args(kind):
            yield from of_type(inner, [], key)


NUMBERS = list(numbers(recipe_class()))


def test_the_numbers_are_found() -> None:
    keys = [key for key, _, _ in NUMBERS]
    assert {"pretrain.batch", "refit.strengths", "lff.memory", "data.std", "seed"} <= set(keys)
    assert len(keys) > 100


@pytest.mark.parametrize(("key", "bounds", "kind"), NUMBERS, ids=[key for key, _, _ in NUMBERS])
def test_every_number_has_bounds(key: str, bounds: list[Any], kind: type) -> None:
    assert any(isinstance(b, annotated_types.Ge | annotated_types.Gt) for b in bounds), key
    assert any(isinstance(b, annotated_types.Le | annotated_types.Lt) for b in bounds), key


@pytest.mark.parametrize(
    "change",
    [
        *("pretrain.batch=1000000", "mine.batch=0", "prune.batch_norm_batches=9223372036854775807"),
        *("refit.strengths=[]", "refit.strengths=[0]", "refit.strengths=[-1.0]", "refit.subsets=0"),
        *("pretrain.rate=1e30", "pretrain.rate=inf", "pretrain.rate=nan", "pretrain.decay_by=2.0"),
        *(
            "data.std=[0.0]",
            "data.size=1000000",
            "finetune.iterates=[0]",
            "seed=9223372036854775808",  # JSON files could not hold it
            "pretrain.steps=10" + "0" * 20,
        ),
    ],
)
def test_values_outside_the_bounds_are_errors_that_name_the_setting(change: str) -> None:
    with pytest.raises(RecipeError, match=change.partition("=")[0]):
        recipes.load("demo", recipes.parse_changes([change]))


@pytest.mark.parametrize("value", ["1" * 5000, "[" * 5000, "{" * 5000, "\x00", "'", "1e400"])
def test_unparsable_values_give_no_traceback(value: str) -> None:
    with pytest.raises(RecipeError):
        recipes.load("demo", recipes.parse_changes([f"pretrain.steps={value}"]))
