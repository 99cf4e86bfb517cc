"""Notebooks: what is demanded of one, and how it becomes a page. `make notebooks` executes all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("jupytext")
pytest.importorskip("nbconvert")
pytest.importorskip("matplotlib")

from run_notebook import check, execute, write  # noqa: E402

SOURCES = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.py"))
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def notebook(*outputs: object) -> object:
    cell = nbformat.v4.new_code_cell("picture()", outputs=list(outputs))
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# A title"), cell])


def picture() -> object:
    return nbformat.v4.new_output("display_data", {"image/png": PIXEL})


def test_there_are_five_and_each_ends_with_a_figure() -> None:
    assert len(SOURCES) == 5
    for source in SOURCES:
        assert source.read_text("utf-8").rstrip().endswith("plt.show()"), source.name


def test_a_notebook_without_a_picture_at_its_end_is_refused() -> None:
    check(notebook(picture()), 1)
    with pytest.raises(ValueError, match="no picture"):
        check(notebook(nbformat.v4.new_output("stream", text="words")), 1)


def test_a_long_or_noisy_notebook_is_refused() -> None:
    with pytest.raises(ValueError, match="of one core"):
        check(notebook(picture()), 200)
    warning = nbformat.v4.new_output("stream", name="stderr", text="a warning")
    with pytest.raises(ValueError, match="a warning"):
        check(notebook(warning, picture()), 1)


def test_a_page_shows_the_picture(tmp_path: Path) -> None:
    write(notebook(picture()), "3-name", 7.0, tmp_path)
    (image,) = tmp_path.glob("*.png")
    text = (tmp_path / "3-name.md").read_text("utf-8")
    assert text.startswith("# A title")
    assert f"]({image.name})" in text
    assert "it took 7 s" in text


@pytest.mark.filterwarnings("ignore")  # of zmq and asyncio, which are not ours
def test_cells_run_in_a_folder_of_their_own(tmp_path: Path) -> None:
    source = tmp_path / "one.py"
    source.write_text("# %%\nimport os\nopen('file', 'w').close()\nprint(os.listdir())\n")
    done, seconds = execute(source)
    assert done.cells[0].outputs[0].text == "['file']\n"
    assert 0 < seconds < 100
    assert [path.name for path in tmp_path.iterdir()] == ["one.py"]
