"""Reading more columns about images from a user's table."""

import pytest

from unspur.data.custom.sample_table import has_properties, read_sample_table
from unspur.errors import DataError

NAMES = ("cat/1.png", "cat/2.png", "dog/1.png")


def table(tmp_path, text, name="table.csv"):
    (tmp_path / name).write_text(text)
    return tmp_path / name


def test_rows_are_matched_by_name_in_any_order(tmp_path):
    path = table(
        tmp_path, "path,site,label\ndog/1.png,north,dog\n./cat/1.png,'=1+1,cat\nelse,x,y\n"
    )
    found = read_sample_table(path, NAMES)
    assert found.columns == {"site": ["=1+1", "", "north"]}
    assert found.missing == 1


def test_rows_may_name_files_from_the_folder_of_the_table(tmp_path):
    files = {name: tmp_path / "photos" / name for name in NAMES}
    path = table(tmp_path, "path,site\nphotos/cat/2.png,a\n")
    assert read_sample_table(path, NAMES, files).columns == {"site": ["", "a", ""]}


def test_images_without_a_path_have_an_index(tmp_path):
    path = table(tmp_path, "index,site\n1,a\n0,b\n")
    assert read_sample_table(path, ("0", "1")).columns == {"site": ["b", "a"]}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("path,label\ncat/1.png,cat\n", "explains nothing"),
        ("name,site\ncat/1.png,a\n", "explains nothing"),
        ("path,site\nx.png,a\n", "no row of a training image"),
        ("path,site\ncat/1.png,a\ncat/1.png,b\n", "row 2"),
        ("path," + ",".join(f"c{i}" for i in range(300)) + "\n", "300 columns"),
    ],
)
def test_tables_without_properties_are_refused(tmp_path, text, says):
    with pytest.raises(DataError, match=says):
        read_sample_table(table(tmp_path, text), NAMES)


def test_the_columns_of_suspects_csv_are_not_properties(tmp_path):
    path = table(tmp_path, "path,label,score,predicted,flag,note\ncat/1.png,cat,0.9,dog,suspect,\n")
    assert not has_properties(path)
    assert has_properties(table(tmp_path, "path,label,camera\nx,y,z\n", "other.csv"))
    assert not has_properties(tmp_path)
