"""An audit of image files explains its suspects: in its result, its folder, its page and the terminal."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import unspur
from audits import SMALL, network, tinted
from pages import NASTY
from unspur import cli
from unspur.report import explanation_words


def photos(folder):
    """Write JPEG images whose tint nearly always fits the class; the JPEG quality depends on the tint."""
    splits = tinted("shortcut", n=300, odd=24)
    part, rows = splits.train, ["path,site,<b>bold</b>"]
    for i, (image, label) in enumerate(zip(part.images, part.targets.tolist(), strict=True)):
        path = folder / splits.classes[label] / f"{i:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.permute(1, 2, 0).numpy().astype(np.uint8)).save(path)
        tint = int(splits.bias["train"][i])
        rows.append(f"{path.relative_to(folder)},site {tint},{i % 7}")
    return "\n".join(rows)


def test_the_column_behind_the_shortcut_is_named(tmp_path):
    text = photos(tmp_path / "photos").replace("site 1", f'"{NASTY}"')
    (tmp_path / "table.csv").write_text(text)
    found = unspur.audit(
        tmp_path / "photos",
        model=network(),
        settings=SMALL,
        out=tmp_path / "out",
        store=tmp_path / "store",
        explain=tmp_path / "table.csv",
    )
    assert found.explanation is not None
    assert found.explanation.named[0].name == "site"
    saved = json.loads((tmp_path / "out/audit.json").read_text())["explanation"]
    assert saved["named"][0] == "site"
    assert {each["origin"] for each in saved["columns"]} >= {"table", "file", "pixels"}
    page = (tmp_path / "out/report.html").read_text()
    assert 'id="explained"' in page
    assert "<b>bold</b>" not in page
    assert NASTY not in page


def test_without_a_table_files_and_pixels_are_tried(tmp_path):
    photos(tmp_path / "photos")
    found = unspur.audit(tmp_path / "photos", model=network(), settings=SMALL)
    names = [each.name for each in found.explanation.named]
    assert {"red", "blue"} & set(names[:3])
    text = " ".join(explanation_words.sentences(found.explanation))
    assert "from the pixels" in text
    assert "p = " in text
    assert f"have {names[0]!r} = " in text  # the example names the property and its value


@pytest.mark.filterwarnings("ignore:Most images of a class are suspects")
def test_groups_of_the_data_are_tried():
    splits = tinted("shortcut", n=300, odd=24)
    found = unspur.audit(splits, model=network(), settings=SMALL)
    assert any(each.name == "group" for each in found.explanation.named)
    g = torch.Generator().manual_seed(0)
    nothing = unspur.audit(
        unspur.Split(torch.rand(100, 3, 8, 8, generator=g), torch.arange(100) % 2),
        model=network(),
        settings=SMALL,
    )
    assert nothing.explanation.named == []


def test_the_power_of_an_audit_is_printed_stored_and_reported(tmp_path):
    photos(tmp_path / "photos")
    planted = ["--power", "--power-kinds", "border", "--power-rates", "5", "--power-repeats", "1"]
    folders = ["--out", str(tmp_path / "out"), "--store", str(tmp_path / "store")]
    command = ["audit", str(tmp_path / "photos"), "--steps", "20", *planted, *folders]
    first = CliRunner().invoke(cli.app, command)
    assert first.exit_code == 0, first.output
    assert "1 audits of your images with a planted shortcut" in " ".join(first.output.split())
    assert "1 of 1 audits" in first.output
    assert "a coloured border" in first.output
    power = json.loads((tmp_path / "out/audit.json").read_text())["power"]
    assert [(row["kind"], row["rate"], row["repeats"]) for row in power["rows"]] == [
        ("border", 0.05, 1)
    ]
    assert len(power["rows"][0]["interval"]) == 2
    assert 'id="power"' in (tmp_path / "out/report.html").read_text()
    again = CliRunner().invoke(cli.app, command)
    assert "all 1 audits are stored" in " ".join(again.output.split())
    assert json.loads((tmp_path / "out/audit.json").read_text())["power"] == power


def test_a_wrong_rate_is_refused_before_any_work(tmp_path):
    photos(tmp_path / "photos")
    command = ["audit", str(tmp_path / "photos"), "--power", "--power-rates", "many"]
    found = CliRunner().invoke(cli.app, command)
    assert found.exit_code != 0
    assert "not a list of numbers" in str(found.exception)
