"""Reading one image file of any kind, and the program of a decoding process."""

from __future__ import annotations

import io
import json
import mmap
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unspur.data.decoding import pixels
from unspur.data.decoding.files import read
from unspur.errors import DataError

SIZE = (6, 8)


def picture(mode: str = "RGB") -> Image.Image:
    rng = np.random.default_rng(0)
    return Image.fromarray(rng.integers(0, 256, (6, 8, 3), np.uint8)).convert(mode)


def decoded(path: Path, size: tuple[int, int] = SIZE) -> np.ndarray:
    return pixels.read(path, size).transpose(1, 2, 0)


@pytest.mark.parametrize("mode", ["L", "1", "P", "LA", "RGBA", "CMYK"])  # all of them opaque
def test_any_mode_becomes_three_channels(tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    picture(mode).save(path)
    with Image.open(path) as image:
        expected = np.asarray(image.convert("RGB"))
    assert np.array_equal(decoded(path), expected)
    if mode in ("L", "LA"):
        assert np.array_equal(expected[..., 0], np.asarray(picture("L")))


def test_a_palette_with_transparency_gives_no_warning(tmp_path: Path) -> None:
    image = picture("P")
    image.info["transparency"] = bytes(range(256))
    image.save(tmp_path / "a.png")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shown = decoded(tmp_path / "a.png")
    alpha = np.asarray(picture("P"))[
        ..., None
    ]  # the alpha of a colour is its number in the palette
    assert np.abs(shown - over_white(np.asarray(picture("P").convert("RGB")), alpha)).max() <= 1


def over_white(colour: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Return pixels with an alpha from 0 to 255 as they look on white."""
    share = alpha.astype(float) / 255
    return share * colour + (1 - share) * 255


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparency_is_shown_over_white(tmp_path: Path, mode: str) -> None:
    image = picture(mode)
    alpha = np.random.default_rng(1).integers(0, 256, (6, 8), np.uint8)
    alpha[0], alpha[1] = 0, 255
    image.putalpha(Image.fromarray(alpha))
    image.save(tmp_path / "a.png")
    shown, colour = decoded(tmp_path / "a.png"), np.asarray(picture(mode).convert("RGB"))
    assert np.abs(shown - over_white(colour, alpha[..., None])).max() <= 1
    assert (shown[0] == 255).all()  # whatever colour is behind it
    assert np.array_equal(shown[1], colour[1])


def test_a_transparent_colour_is_white(tmp_path: Path) -> None:
    image = Image.new("RGB", (8, 6), (10, 20, 30))
    image.putpixel((3, 2), (200, 100, 50))
    image.save(tmp_path / "a.png", transparency=(10, 20, 30))
    shown = decoded(tmp_path / "a.png")
    assert shown[2, 3].tolist() == [200, 100, 50]
    assert (shown.reshape(-1, 3) == 255).all(1).sum() == 47


def test_sixteen_bits_are_scaled_to_eight(tmp_path: Path) -> None:
    values = np.arange(48, dtype=np.uint16).reshape(6, 8) * 1394
    values[-1, -1] = 65535
    Image.fromarray(values).save(tmp_path / "a.png")
    Image.fromarray(values).save(tmp_path / "a.tif")
    Image.fromarray(values.astype(np.int32)).save(tmp_path / "b.tif")
    expected = np.round(values.astype(float) * 255 / 65535).astype(np.uint8)
    assert (expected.min(), expected.max()) == (0, 255)
    for name in ("a.png", "a.tif", "b.tif"):
        assert np.array_equal(decoded(tmp_path / name), np.repeat(expected[..., None], 3, 2)), name


def test_floating_point_pixels_from_0_to_1_are_scaled(tmp_path: Path) -> None:
    values = np.linspace(0, 1, 48, dtype=np.float32).reshape(6, 8)
    Image.fromarray(values).save(tmp_path / "a.tif")
    assert np.array_equal(decoded(tmp_path / "a.tif")[..., 0], np.round(values * 255))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.float32([0, 255]), "from 0 to 255, and only 0 to 1 can be read; rescale them"),
        (np.float32([0, np.nan]), "from nan to nan"),
        (np.int32([-1024, 3071]), "from -1024 to 3071, and only 0 to 65535"),
        (np.int32([0, 70_000]), "from 0 to 70000"),
    ],
)
def test_other_ranges_are_refused_with_their_numbers(
    tmp_path: Path, values: np.ndarray, said: str
) -> None:
    Image.fromarray(np.resize(values, (6, 8))).save(tmp_path / "a.tif")
    with pytest.raises(DataError, match=rf"a\.tif cannot be read .*{said}"):
        read(tmp_path / "a.tif", SIZE)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["png", "tif"])
def test_images_are_upright(tmp_path: Path, orientation: int, kind: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"a.{kind}"
    picture().save(path, exif=exif)
    pixel = np.asarray(picture())
    turned = {
        1: pixel,
        2: pixel[:, ::-1],
        3: pixel[::-1, ::-1],
        4: pixel[::-1],
        5: pixel.transpose(1, 0, 2),
        6: np.rot90(pixel, -1),
        7: np.rot90(pixel, 2).transpose(1, 0, 2),
        8: np.rot90(pixel),
    }[orientation]
    assert pixels.measure(path) == turned.shape[:2]
    assert np.array_equal(decoded(path, turned.shape[:2]), turned)


def test_a_large_photograph_is_decoded_at_a_fraction_and_looks_the_same(tmp_path: Path) -> None:
    smooth = picture().resize((800, 600), Image.Resampling.BICUBIC)
    smooth.save(tmp_path / "a.jpg", quality=95)
    whole = np.asarray(smooth.resize((8, 6), Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(decoded(tmp_path / "a.jpg").astype(int) - whole).max() <= 12
    assert np.abs(decoded(tmp_path / "a.jpg").astype(int) - whole).mean() <= 2


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xd8\xff", b"text", b"\x89PNG\r\n\x1a\n" + b"\0" * 20]
)
def test_damage_is_one_error_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.jpg").write_bytes(content)
    with pytest.raises(DataError, match=r"bad\.jpg cannot be read as an image"):
        read(tmp_path / "bad.jpg", SIZE)


def test_a_truncated_file_is_damaged(tmp_path: Path) -> None:
    picture().resize((64, 64)).save(tmp_path / "a.jpg")
    whole = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"a\.jpg cannot be read"):
        read(tmp_path / "a.jpg", SIZE)


def test_a_decoding_process_answers_line_by_line(tmp_path: Path) -> None:
    picture().save(tmp_path / "a.png")
    shared = tmp_path / "memory"
    shared.write_bytes(bytes(3 * 144))
    files = [str(tmp_path / "a.png"), str(tmp_path / "none.png"), str(tmp_path / "a.png")]
    tasks = [
        {"memory": str(n), "path": str(shared), "offset": 0, "size": SIZE, "crop": "stretch"}
        for n in range(pixels.OPEN_MEMORIES + 2)
    ]
    answers = io.StringIO()
    pixels.serve([json.dumps({**task, "files": files}) for task in tasks], answers)
    said = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert said == ["", "it is missing", ""] * len(tasks)
    with shared.open("rb") as file:
        held = np.frombuffer(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ), np.uint8)
        expected = np.asarray(picture()).transpose(2, 0, 1)
        assert np.array_equal(held.reshape(3, 3, 6, 8)[0], expected)
        assert np.array_equal(held.reshape(3, 3, 6, 8)[2], expected)


@pytest.mark.skipif(os.name != "posix", reason="names here are always text")
def test_a_file_name_that_is_not_utf8_is_read(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.png"))
    picture().save(path)
    assert np.array_equal(decoded(path), np.asarray(picture()))
