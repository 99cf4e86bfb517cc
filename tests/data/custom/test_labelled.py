"""Images to evaluate a model on: a few of them represent all classes."""

from pathlib import Path

import pytest
import torch
from PIL import Image

from unspur.data.custom.images import load
from unspur.data.custom.labelled import evenly_spaced, open_labelled
from unspur.data.custom.packing_images import pack_images


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


# Images of each label, split and group: one group has no test image.
COUNTS = {
    ("a", "train", "g1"): 20,
    ("a", "train", "g2"): 10,
    ("a", "train", "g3"): 40,
    ("b", "train", "g1"): 10,
    ("b", "train", "g2"): 15,
    ("b", "train", "g3"): 2,
    **{(label, "test", group): 2 for label in "ab" for group in ("g1", "g2")},
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("packed", [False, True])
def test_the_same_images_are_conflicting_as_in_training(tmp_path: Path, packed: bool):
    """A group that has no test image still counts towards how rare the others are in training."""
    folder = tmp_path / "images"
    folder.mkdir()
    lines = ["path,label,split,group"]
    for (label, split, group), count in COUNTS.items():
        for _ in range(count):
            name = f"{len(lines)}.png"
            Image.new("RGB", (4, 4), (len(lines), 0, 0)).save(folder / name)
            lines.append(f"{name},{label},{split},{group}")
    where = folder / "table.csv"
    where.write_text("\n".join(lines))
    if packed:
        pack_images(where, tmp_path / "shards")
        where = tmp_path / "shards"
    conflict = open_labelled(where, size=(4, 4), classes=("a", "b")).conflict
    expected = load(where, size=(4, 4)).conflicting("test")
    assert conflict is not None
    assert expected is not None
    assert conflict.tolist() == expected.tolist() == [True] * 4 + [False] * 4
