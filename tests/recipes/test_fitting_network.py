"""The network and its precision for own images, unless the user chooses others."""

import pytest
import torch

from unspur import workflow
from unspur.data.custom.assembly import UserImages
from unspur.data.splits import Split, Splits
from unspur.models.networks.resnet import ResNet18
from unspur.recipes import budget
from unspur.report import terminal
from unspur.stages.place import find_place


def opened(tmp_path, pixels, **asked):
    images = torch.randint(0, 256, (40, 3, pixels, pixels), dtype=torch.uint8)
    splits = Splits(train=Split(images, torch.arange(40) % 2), classes=("a", "b"), name="noise")
    place = find_place("cpu", tmp_path, terminal.show(quiet=True))
    run = workflow.open_debias(UserImages(splits), place, method="erm", anyway=True, **asked)
    return run.context


@pytest.mark.parametrize(
    ("pixels", "name", "options"),
    [(28, "convnet", {"width": 64}), (8, "convnet", {"width": 64}), (29, "resnet18", {})],
)
def test_the_network_follows_the_size_of_the_images(tmp_path, pixels, name, options):
    context = opened(tmp_path, pixels)
    assert (context.recipe.model.name, context.recipe.model.options) == (name, options)
    assert context.builder.how["name"] == name
    assert budget.fitting_network(pixels) == (name, options)


@pytest.mark.parametrize(
    "asked", [{"model": "resnet18"}, {"settings": {"model.name": "resnet18"}}], ids=str
)
def test_a_requested_network_is_used(tmp_path, asked):
    context = opened(tmp_path, 28, **asked)
    assert (context.recipe.model.name, context.recipe.model.options) == ("resnet18", {})


def test_options_of_the_chosen_network_can_be_changed(tmp_path):
    context = opened(tmp_path, 28, settings={"model.options": {"width": 8}})
    assert context.recipe.model.options == {"width": 8}


@pytest.mark.parametrize(
    ("able", "pixels", "asked", "precision"),
    [
        (True, 64, {}, "bf16"),
        (True, 63, {}, "tf32"),
        (False, 64, {}, "tf32"),
        (True, 64, {"model": "resnet18"}, "bf16"),
        (True, 64, {"model": "convnet"}, "tf32"),
        (True, 64, {"model": ResNet18(2)}, "tf32"),
        (True, 64, {"settings": {"model.name": "convnet"}}, "tf32"),
        (True, 64, {"settings": {"precision": "fp32"}}, "fp32"),
    ],
    ids=str,
)
def test_resnet_computes_in_bf16_on_a_cpu_that_can(
    tmp_path, monkeypatch, able, pixels, asked, precision
):
    monkeypatch.setattr(budget, "_computes_in_bf16", lambda: able)
    assert opened(tmp_path, pixels, **asked).recipe.precision == precision
