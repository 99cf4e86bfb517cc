"""Ambiguous input is refused or warned of; input that is far too large is refused quickly."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from unspur.data.custom import class_folders, listing, table
from unspur.errors import DataError


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_one_path_with_two_labels_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "path,label", "a.png,cat", "b.png,dog", "a.png,dog")
    with pytest.raises(DataError, match=r"row 3: .*a\.png has the label 'dog', and 'cat' in row 1"):
        table.list_images(path)


def test_one_path_in_two_spellings_is_one_image(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "path,label", "a.png,cat", "b.png,dog", "x/../a.png,dog")
    with pytest.raises(DataError, match=r"row 3: .* has the label 'dog', and 'cat' in row 1"):
        table.list_images(path)


def test_a_path_with_a_zero_byte_is_refused(tmp_path: Path) -> None:
    """Such names are used for parts of a file, so that two of them would read another image."""
    path = written(tmp_path / "t.csv", "path,label", "a.png,cat", "b.png\x000\x0070,dog")
    with pytest.raises(DataError, match="row 2: the path has a zero byte"):
        table.list_images(path)


def test_one_path_listed_twice_is_warned_of(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "path,label", "a.png,cat", "b.png,dog", "a.png,cat")
    with pytest.warns(UserWarning, match="1 rows list an image again"):
        assert len(table.list_images(path).rows) == 3


def test_a_repeated_column_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "path,label,Label", "a.png,cat,dog")
    with pytest.raises(DataError, match="more than one column label"):
        table.list_images(path)


@pytest.mark.parametrize("label", ["nan", "NaN", "None", "NULL", "N/A"])
def test_a_label_that_means_a_missing_value_is_warned_of(tmp_path: Path, label: str) -> None:
    path = written(tmp_path / "t.csv", "path,label", "a.png,cat", f"b.png,{label}")
    with pytest.warns(UserWarning, match=f"1 rows have the label '{label}'"):
        table.list_images(path)


def test_the_order_of_classes_is_always_defined() -> None:
    for _ in range(5):
        assert listing.in_order({"nan", "2", "10", "1"}) == ("1", "10", "2", "nan")
    assert listing.in_order({"2", "10", "-1", "1e3"}) == ("-1", "2", "10", "1e3")


def test_escaped_cells_are_unescaped(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "path,label", "'=a.png,'-1", "b.png,1")
    first, second = table.list_images(path).rows
    assert (first.path.name, first.label) == ("=a.png", "-1")
    assert (second.path.name, second.label) == ("b.png", "1")


def test_an_endless_line_is_refused_quickly(tmp_path: Path) -> None:
    with (tmp_path / "t.csv").open("wb") as file:
        file.write(b"path,label\n")
        file.truncate(2**30)
    began = time.process_time()
    with pytest.raises(DataError, match="line 2 is longer than"):
        table.list_images(tmp_path / "t.csv")
    assert time.process_time() - began < 5


def test_a_million_classes_are_refused_in_seconds() -> None:
    rows = [listing.ListedImage(Path("a.png"), str(number)) for number in range(1_000_000)]
    began = time.process_time()
    with pytest.raises(DataError, match=r"t has 1,000,000 classes; there may be at most 32,768"):
        listing.check(listing.Listing("t", Path(), rows))
    assert time.process_time() - began < 20


def test_many_folders_are_counted_before_they_are_listed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(listing, "MOST_CLASSES", 3)
    for number in range(4):
        (tmp_path / str(number)).mkdir()
    with pytest.raises(DataError, match="4 classes; there may be at most 3"):
        class_folders.list_images(tmp_path)


def test_a_link_to_itself_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "a.png").symlink_to(tmp_path / "cat" / "a.png")
    (tmp_path / "dog").symlink_to(tmp_path / "dog")
    (found,) = class_folders.list_images(tmp_path).rows
    assert found.path.name == "a.png"
