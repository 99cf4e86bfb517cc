"""The overview of the built-in recipes has each of them exactly once."""

import pytest

from unspur import recipes
from unspur.errors import RecipeError
from unspur.recipes.overview import find_names, group_recipes


def names_of(group):
    for ratio in group.ratios or ("",):
        for method in group.methods or ("",):
            rest = "-".join(filter(None, (ratio, method)))
            yield "/".join(filter(None, (group.data, rest)))


def test_the_groups_have_every_recipe_once():
    listed = [name for group in group_recipes() for name in names_of(group)]
    assert sorted(listed) == recipes.names()


def test_a_data_set_has_few_groups_and_the_common_ratios_come_first():
    groups = [group for group in group_recipes() if group.data == "cmnist"]
    assert len(groups) <= 3
    assert groups[0].ratios == ("0.5pct", "1pct", "2pct", "5pct")
    assert {"erm", "dcwp", "unspur"} <= set(groups[0].methods)


@pytest.mark.parametrize(
    ("text", "some"),
    [
        ("", "demo"),
        ("celeba", "celeba/keep88-erm"),
        ("1pct-dcwp", "cmnist/1pct-dcwp"),
        ("cmnist/*-dcwp", "cmnist/5pct-dcwp"),
    ],
)
def test_names_are_found_by_a_part_or_a_pattern(text, some):
    found = find_names(text)
    assert some in found
    assert set(found) <= set(recipes.names())
    assert all(text in name for name in found) or "*" in text


def test_a_pattern_matches_the_whole_name():
    assert len(find_names("cmnist/*-dcwp")) == 4


def test_no_match_says_what_was_given_and_what_to_do():
    with pytest.raises(RecipeError, match=r"'cmnst'.*unspur recipes list"):
        find_names("cmnst")
