"""Facts in the headers of image files; harmful contents are ignored."""

import pytest
from PIL import Image
from PIL.TiffImagePlugin import IFDRational

from unspur.data.decoding.file_facts import EXIF_IFD, MOST_EXIF_BYTES, read_facts


def save(path, *, exif=None, size=(20, 10), **options):
    image = Image.effect_noise(size, 50).convert("RGB")
    image.save(path, **({"exif": exif} if exif is not None else {}), **options)
    return path


def block(tags, photograph=None):
    exif = Image.Exif()
    for tag, value in tags.items():
        exif[tag] = value
    for tag, value in (photograph or {}).items():
        exif.get_ifd(EXIF_IFD)[tag] = value
    return exif


def test_size_format_and_compression(tmp_path):
    good, bad = (read_facts(save(tmp_path / f"{q}.jpg", quality=q)) for q in (95, 20))
    assert (good["width"], good["height"], good["file format"]) == (20, 10, "JPEG")
    assert good["JPEG quantisation step"] < bad["JPEG quantisation step"]
    assert good["bytes per pixel"] > bad["bytes per pixel"]
    assert good["has EXIF"] == "no"
    assert "JPEG quantisation step" not in read_facts(save(tmp_path / "x.png"))


def test_camera_and_photograph(tmp_path):
    exif = block(
        {0x010F: "Maker", 0x0110: "Model X"},
        {0x8827: 400, 0x829A: IFDRational(1, 50), 0x9003: "2024:05:31 12:00:00"},
    )
    facts = read_facts(save(tmp_path / "x.jpg", exif=exif))
    assert facts["EXIF camera maker"] == "Maker"
    assert facts["EXIF camera model"] == "Model X"
    assert facts["EXIF ISO speed"] == 400
    assert facts["EXIF exposure time"] == pytest.approx(0.02)
    assert facts["EXIF date"] == 20240531


def test_texts_are_short_and_on_one_line(tmp_path):
    exif = block({0x010F: "<script>\x00\n\x1b[31m" + "A" * 5000})
    text = read_facts(save(tmp_path / "x.jpg", exif=exif))["EXIF camera maker"]
    assert len(text) <= 60
    assert text.isprintable()


def test_values_that_are_not_numbers_are_left_out(tmp_path):
    exif = block({}, {0x829A: IFDRational(1, 0), 0x9003: "yesterday"})
    facts = read_facts(save(tmp_path / "x.jpg", exif=exif))
    assert "EXIF exposure time" not in facts
    assert "EXIF date" not in facts


def test_a_huge_block_is_not_read(tmp_path):
    path = tmp_path / "x.png"
    save(path, exif=b"Exif\0\0MM\0*\0\0\0\x08" + b"\xff" * (2 * MOST_EXIF_BYTES))
    assert read_facts(path)["has EXIF"] == "unreadable"


@pytest.mark.parametrize(
    "junk", [b"", b"\xff", b"II*\0" + b"\xff" * 200, b"MM\0*\0\0\0\x08\xff\xff"]
)
def test_damaged_blocks_raise_nothing(tmp_path, junk):
    path = save(tmp_path / "x.png", exif=b"Exif\0\0" + junk)
    assert read_facts(path)["width"] == 20


def test_a_file_that_is_not_an_image_has_no_facts(tmp_path):
    (tmp_path / "x.jpg").write_text("no image")
    assert read_facts(tmp_path / "x.jpg") == {} == read_facts(tmp_path / "missing.jpg")
