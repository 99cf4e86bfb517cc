"""Images to evaluate a model on: a few of them represent all classes."""

from pathlib import Path

import pytest
import torch
from PIL import Image

from unspur.data.custom.labelled import evenly_spaced, open_labelled


@pytest.mark.parametrize("most", [1, 3, 4, 5, 7, 8, 20, 0])
def test_a_part_of_the_images_is_taken_from_all_of_them(most: int):
    places = evenly_spaced(8, most)
    assert len(set(places)) == len(places) == (min(most, 8) or 8)
    gaps = torch.tensor([*places, 8]).diff()
    assert int(gaps.max() - gaps.min()) <= 1
    assert places[0] == 0


def test_a_part_of_a_folder_has_images_of_every_class(tmp_path: Path):
    """Images are sorted by class, so that the first ones would be of some classes only."""
    for number in range(9):
        folder = tmp_path / "abc"[number // 3]
        folder.mkdir(exist_ok=True)
        Image.new("RGB", (4, 4), (250, 10 * number, 0)).save(folder / f"{number}.png")
    found = open_labelled(tmp_path, size=(4, 4), classes=("a", "b", "c"), most=6)
    assert found.part.targets.tolist() == [0, 0, 1, 1, 2, 2]
