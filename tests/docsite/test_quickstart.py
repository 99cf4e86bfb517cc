"""The quick start: its commands run, and print what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from console_blocks import is_alike, run_page

PAGE = Path(__file__).parents[2] / "docs" / "quickstart.md"


@pytest.mark.slow
def test_every_output_is_that_of_the_program(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    text = PAGE.read_text("utf-8")
    _, wrong = run_page(text, tmp_path)
    assert not wrong, "\n\n".join(["`make quickstart` corrects the page.", *wrong])
    assert (tmp_path / "runs" / "digits" / "export" / "model.onnx").is_file()


def test_numbers_and_left_out_lines_may_differ() -> None:
    assert is_alike("gain 0.22, p = 7e-07\n...\nlast\n", "gain 0.3, p = 0.01\nany\nlast\n")
    assert is_alike("│ ordinary │  16.9 % │\n", "│ ordinary │ 9.0 % │\n")
    assert is_alike("│ gain │ 0.22, p = 7e‑05 │\n", "│ gain │ 0.21, p = 0.0001 │\n")
    assert is_alike("In total about 16 s on cpu.\n", "In total about 2 minutes on cpu.\n")
    assert not is_alike("a shortcut is likely\n", "no sign of a shortcut\n")
    assert not is_alike("first\nlast\n", "first\nmore\nlast\n")


def test_an_output_that_differs_is_found_and_corrected(tmp_path: Path) -> None:
    file = "<!-- file: words.txt -->\n```text\none\n```\n\n"
    page = f"{file}```console\n$ cat \\\n  words.txt\ntwo\n$ echo 3\n4\n```\n"
    text, wrong = run_page(page, tmp_path)
    assert len(wrong) == 1
    assert "words.txt\none\n$ echo 3\n4\n" in text


def test_a_command_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="exit code 3"):
        run_page("```console\n$ exit 3\n```\n", tmp_path)
