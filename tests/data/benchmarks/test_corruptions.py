"""The ten corruptions: golden values, a slow oracle or a known property of each, and their randomness."""

from __future__ import annotations

import base64
import colorsys
import hashlib
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from golden_values import cases
from unspur import noise
from unspur.data.benchmarks import frost
from unspur.data.benchmarks.corruptions import BLOCK, CORRUPTIONS, FIRST_STREAM, corrupt
from unspur.errors import DataError

KINDS = list(CORRUPTIONS)
RANDOM = ("gaussian noise", "frost", "elastic transform", "impulse noise")
SEVERITIES = (1, 2, 3, 4, 5)
SIDE = 32


def spoiled(images: Tensor, kind: str, **how: object) -> Tensor:
    """Corrupt images numbered from 0, all in the same way."""
    n = len(images)
    return corrupt(images, torch.full((n,), KINDS.index(kind)), torch.arange(n), **how)


def photographs(count: int, seed: int = 0) -> Tensor:
    """Return images with smooth colours, noise, hard edges, and pure black, white and grey."""
    g = torch.Generator().manual_seed(seed)
    coarse = torch.rand(count, 3, 4, 4, generator=g)
    smooth = torch.nn.functional.interpolate(coarse, size=(SIDE, SIDE), mode="bilinear")
    images = smooth * 255 + 12 * torch.randn(count, 3, SIDE, SIDE, generator=g)
    images = images.clamp(0, 255).to(torch.uint8)
    images[:, :, 2:8, 2:8], images[:, :, 2:8, 10:16], images[:, :, 20:30, 20:24] = 0, 255, 128
    return images


def nearly_equal(actual: Tensor, expected: np.ndarray, share: float = 0.02) -> None:
    """Check that few values differ, by at most one: truncation enlarges rounding errors."""
    off = np.abs(actual.numpy().astype(int) - expected.astype(int))
    assert off.max() <= 1
    assert (off > 0).mean() <= share


def truncated(values: np.ndarray) -> np.ndarray:
    return np.clip(values, 0, 255).astype(np.uint8)


# Against the original


def decoded(text: str) -> Tensor:
    pixels = np.frombuffer(base64.b64decode(text), np.uint8).reshape(SIDE, SIDE, 3)
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy())


@pytest.mark.parametrize(("inputs", "outputs"), cases("cifar_c"))
def test_six_corruptions_equal_the_original(inputs, outputs):
    image = decoded(inputs["image_base64"])[None]
    assert len(outputs) == 18
    for name, expected in outputs.items():
        kind, _, severity = name.rpartition("_")
        actual = spoiled(image, kind.replace("_", " "), severity=int(severity))
        assert torch.equal(actual[0], decoded(expected)), name


# Against slow oracles


@pytest.mark.parametrize("severity", SEVERITIES)
def test_brightness_and_saturation_move_in_hsv(severity):
    images = photographs(1, seed=severity)
    bright = (0.05, 0.1, 0.15, 0.2, 0.3)[severity - 1]
    c, d = ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2))[severity - 1]
    oracles = {
        "brightness": lambda h, s, v: (h, s, min(v + bright, 1)),
        "saturate": lambda h, s, v: (h, min(s * c + d, 1), v),
    }
    for kind, change in oracles.items():
        expected = np.empty((3, SIDE, SIDE))
        for row in range(SIDE):
            for column in range(SIDE):
                rgb = (images[0, :, row, column].double() / 255).tolist()
                expected[:, row, column] = colorsys.hsv_to_rgb(*change(*colorsys.rgb_to_hsv(*rgb)))
        nearly_equal(spoiled(images, kind, severity=severity)[0], truncated(expected * 255))


def test_grey_becomes_reddish_when_saturated():
    grey = torch.full((1, 3, SIDE, SIDE), 100, dtype=torch.uint8)
    assert spoiled(grey, "saturate")[0, :, 0, 0].tolist() == [100, 80, 80]


@pytest.mark.parametrize("severity", SEVERITIES)
def test_contrast_pulls_each_channel_to_its_mean(severity):
    images = photographs(2, seed=severity)
    c = (0.75, 0.5, 0.4, 0.3, 0.15)[severity - 1]
    actual = spoiled(images, "contrast", severity=severity)
    for image, done in zip(images.numpy(), actual, strict=True):
        mean = np.array([np.mean(channel / 255.0) for channel in image])[:, None, None]
        nearly_equal(done, truncated(((image / 255.0 - mean) * c + mean) * 255))


def direct(image: np.ndarray, kernel: np.ndarray, index) -> np.ndarray:
    """Compute a two-dimensional correlation by definition; `index` maps pixels outside to pixels inside."""
    pad = len(kernel) // 2
    out = np.zeros(image.shape)
    for row in range(SIDE):
        for column in range(SIDE):
            rows = [index(row + step) for step in range(-pad, pad + 1)]
            columns = [index(column + step) for step in range(-pad, pad + 1)]
            out[:, row, column] = (image[:, rows][:, :, columns] * kernel).sum((1, 2))
    return out


@pytest.mark.parametrize("severity", SEVERITIES)
def test_gaussian_blur_is_a_convolution(severity):
    images = photographs(1, seed=severity)
    sigma = (0.4, 0.6, 0.7, 0.8, 1.0)[severity - 1]
    radius = int(4 * sigma + 0.5)
    kernel = np.array(
        [
            [math.exp(-(i * i + j * j) / (2 * sigma**2)) for j in range(-radius, radius + 1)]
            for i in range(-radius, radius + 1)
        ]
    )
    expected = direct(
        images[0].numpy() / 255.0, kernel / kernel.sum(), lambda i: min(max(i, 0), SIDE - 1)
    )
    nearly_equal(spoiled(images, "gaussian blur", severity=severity)[0], truncated(expected * 255))


@pytest.mark.parametrize("severity", SEVERITIES)
def test_defocus_blur_is_a_convolution_with_a_disc(severity):
    images = photographs(1, seed=severity)
    radius, sigma = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))[severity - 1]
    disc = np.zeros((17, 17))
    bell = {0: 1.0, 1: math.exp(-1 / (2 * sigma**2)), 2: math.exp(-2 / (2 * sigma**2))}
    inside = [
        (i, j) for i in range(-8, 9) for j in range(-8, 9) if i * i + j * j <= radius * radius
    ]
    for i, j in inside:
        for di in (-1, 0, 1):
            for dj in (-1, 0, 1):
                disc[8 + i + di, 8 + j + dj] += bell[di * di + dj * dj]

    def mirrored(i: int) -> int:
        return -i if i < 0 else min(i, 2 * (SIDE - 1) - i)

    expected = direct(images[0].numpy() / 255.0, disc / disc.sum(), mirrored)
    # The kernel is float32 and flat patches are whole numbers but for rounding.
    nearly_equal(
        spoiled(images, "defocus blur", severity=severity)[0], truncated(expected * 255), 0.15
    )


@pytest.mark.parametrize("severity", SEVERITIES)
def test_pixelate_leaves_as_many_rows_as_the_small_image_had(severity):
    side = (30, 28, 27, 24, 20)[severity - 1]
    for image in spoiled(photographs(2), "pixelate", severity=severity):
        assert len(torch.unique(image.flatten(1), dim=1).unique()) > 20  # still a picture
        for dim in (1, 2):
            steps = (image.narrow(dim, 1, SIDE - 1) != image.narrow(dim, 0, SIDE - 1)).any(0)
            changes = steps.any(1 if dim == 1 else 0)
            assert int(changes.sum()) == side - 1


@pytest.mark.parametrize("severity", SEVERITIES)
def test_gaussian_noise_has_its_width(severity):
    grey = torch.full((100, 3, SIDE, SIDE), 128, dtype=torch.uint8)
    sigma = 255 * (0.04, 0.06, 0.08, 0.09, 0.10)[severity - 1]
    steps = spoiled(grey, "gaussian noise", severity=severity).double() - 128
    for width in (1, 2, 3):
        edge = round(width * sigma)
        share = ((steps >= edge) | (steps < -edge)).double().mean()
        expected = math.erfc(edge / sigma / math.sqrt(2))
        assert float(share) == pytest.approx(expected, rel=0.02, abs=3e-4)
    z = (steps + 0.5) / sigma  # truncation takes half a step
    assert abs(float(z.mean())) < 0.01
    assert abs(float(z.std()) - 1) < 0.01
    pairs = z[:, :, : SIDE // 2], z[:, :, SIDE // 2 :]  # of one radius and one angle
    assert abs(float((pairs[0] * pairs[1]).mean())) < 0.01
    assert abs(float((pairs[0] ** 2 * pairs[1] ** 2).mean()) - 1) < 0.03
    assert abs(float((z[:, 0] * z[:, 1]).mean())) < 0.015


@pytest.mark.parametrize("severity", SEVERITIES)
def test_impulse_noise_is_salt_and_pepper(severity):
    grey = torch.full((100, 3, SIDE, SIDE), 77, dtype=torch.uint8)
    done = spoiled(grey, "impulse noise", severity=severity)
    assert set(done.unique().tolist()) == {0, 77, 255}
    amount = (0.01, 0.02, 0.03, 0.05, 0.07)[severity - 1]
    for value in (0, 255):
        assert float((done == value).double().mean()) == pytest.approx(amount / 2, rel=0.06)
    together = ((done != 77).sum(1) == 3).double().mean()
    assert float(together) < 0.002  # channels are hit one by one


def random_textures() -> frost.Textures:
    g = torch.Generator().manual_seed(1)
    sizes = ((40, 41), (38, 44), (33, 33))
    return tuple(torch.randint(0, 256, (3, *size), generator=g).to(torch.uint8) for size in sizes)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_frost_adds_a_crop_of_a_texture(severity):
    images, textures = photographs(30), random_textures()
    c, d = ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))[severity - 1]
    crops = [
        (number, top, left)
        for number, texture in enumerate(textures)
        for top in range(texture.shape[1] - SIDE)
        for left in range(texture.shape[2] - SIDE)
    ]
    found = []
    for image, done in zip(
        images.numpy(), spoiled(images, "frost", severity=severity, textures=textures), strict=True
    ):
        matching = [
            (number, top, left)
            for number, top, left in crops
            if np.array_equal(
                truncated(
                    c * image[:, 0]
                    + d * textures[number][:, top, left : left + SIDE].numpy().astype(float)
                ),
                done[:, 0].numpy(),
            )
        ]
        assert len(matching) == 1
        number, top, left = matching[0]
        crop = textures[number][:, top : top + SIDE, left : left + SIDE].numpy().astype(float)
        assert np.array_equal(truncated(c * image + d * crop), done.numpy())
        found.append(matching[0])
    assert {number for number, _, _ in found} == {0, 1, 2}
    assert len({(top, left) for _, top, left in found}) > 10


def sampled(image: np.ndarray, x: float, y: float, index) -> np.ndarray:
    """Bilinear interpolation by definition."""
    column, row = math.floor(x), math.floor(y)
    right, down = x - column, y - row
    return sum(
        weight * image[:, index(row + i), index(column + j)]
        for i, j, weight in (
            (0, 0, (1 - right) * (1 - down)),
            (0, 1, right * (1 - down)),
            (1, 0, (1 - right) * down),
            (1, 1, right * down),
        )
    )


def mirror(i: int) -> int:
    """Without the edge pixel a second time."""
    i %= 2 * SIDE - 2
    return min(i, 2 * SIDE - 2 - i)


def reflect(i: int) -> int:
    """With the edge pixel a second time."""
    i %= 2 * SIDE
    return min(i, 2 * SIDE - 1 - i)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_elastic_transform_bends_as_defined(severity):
    image = photographs(1, seed=severity)
    reach, sigma, jitter = (
        *((0, 0, 2.56), (1.6, 6.4, 2.24), (2.56, 1.92, 1.92), (3.2, 1.28, 1.6)),
        (3.2, 0.96, 0.96),
    )[severity - 1]
    stream = FIRST_STREAM + KINDS.index("elastic transform")
    u = 2 * noise.uniform(0, torch.tensor([0]), stream, (6 + 2048,)).double().numpy()[0] - 1
    points = np.array([[26, 26, 1], [26, 6, 1], [6, 6, 1]], float)
    forward = np.linalg.solve(points, points[:, :2] + u[:6].reshape(3, 2) * jitter).T
    back = np.linalg.inv(np.vstack([forward, [0, 0, 1]]))
    bent, expected = np.empty((3, SIDE, SIDE)), np.empty((3, SIDE, SIDE))
    for row in range(SIDE):
        for column in range(SIDE):
            x, y, _ = back @ (column, row, 1)
            bent[:, row, column] = sampled(image[0].numpy() / 255.0, x, y, mirror)
    shift = np.zeros((2, SIDE, SIDE))
    if reach:
        radius = int(3 * sigma + 0.5)
        line = np.exp(-(np.arange(-radius, radius + 1.0) ** 2) / (2 * sigma**2))
        kernel = np.outer(line, line) / line.sum() ** 2
        shift = reach * direct(u[6:].reshape(2, SIDE, SIDE), kernel, reflect)
    for row in range(SIDE):
        for column in range(SIDE):
            x, y = column + shift[0, row, column], row + shift[1, row, column]
            expected[:, row, column] = sampled(bent, x, y, reflect)
    done = spoiled(image, "elastic transform", severity=severity)
    nearly_equal(done[0], truncated(expected * 255))


# What the randomness depends on


def every_kind(count: int) -> tuple[Tensor, Tensor]:
    return photographs(count), torch.arange(count) % len(KINDS)


def test_an_image_does_not_depend_on_its_batch():
    count = 10 * (BLOCK + 3)
    images, kinds = photographs(10).repeat(BLOCK + 3, 1, 1, 1), torch.arange(10).repeat(BLOCK + 3)
    index = torch.arange(count) + 1000
    whole = corrupt(images, kinds, index, seed=3)
    rows = torch.randperm(count, generator=torch.Generator().manual_seed(0))[:300]
    assert torch.equal(corrupt(images[rows], kinds[rows], index[rows], seed=3), whole[rows])
    for row in (*range(20), count - 1):
        one = slice(row, row + 1)
        assert torch.equal(corrupt(images[one], kinds[one], index[one], seed=3), whole[one])


def test_pixels_do_not_depend_on_the_number_of_threads():
    images, kinds = every_kind(60)
    before = torch.get_num_threads()
    made = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        made.append(corrupt(images, kinds, torch.arange(60)))
    torch.set_num_threads(before)
    assert torch.equal(*made)


@pytest.mark.parametrize("kind", KINDS)
def test_random_numbers_depend_only_on_seed_and_index(kind):
    images, number = photographs(1).repeat(4, 1, 1, 1), torch.full((4,), KINDS.index(kind))
    index = torch.tensor([0, 1, 0, 50_000])
    done = corrupt(images, number, index, seed=7)
    other = corrupt(images, number, index, seed=8)
    assert torch.equal(done[0], done[2])
    assert torch.equal(done[0], done[1]) == torch.equal(done[0], done[3]) == (kind not in RANDOM)
    assert torch.equal(done, other) == (kind not in RANDOM)
    assert torch.equal(done, corrupt(images, number, index, seed=7))


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_severity_changes_images(kind, severity):
    images = photographs(4)
    done = spoiled(images, kind, severity=severity)
    assert done.dtype == torch.uint8
    assert done.shape == images.shape
    assert not torch.equal(done, images)


def test_input_images_are_not_changed():
    images, kinds = every_kind(20)
    before = images.clone()
    corrupt(images, kinds, torch.arange(20))
    assert torch.equal(images, before)


def test_pixels_of_a_version_are_fixed():
    """Another value here means other pixels: then cifar10c.VERSION and the recorded results change too."""
    g = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (20, 3, SIDE, SIDE), generator=g).to(torch.uint8)
    done = corrupt(images, torch.arange(20) % 10, torch.arange(20), seed=1)
    assert hashlib.sha256(done.numpy().tobytes()).hexdigest()[:16] == "6bb34b38206bd7ec"


# Frost


def test_photographs_are_every_fifth_pixel_of_the_first_five(tmp_path: Path):
    g = torch.Generator().manual_seed(0)
    originals = []
    for number in range(1, 7):
        pixels = torch.randint(0, 256, (3, 165 + number, 171), generator=g).to(torch.uint8)
        originals.append(pixels)
        Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(tmp_path / f"frost{number}.png")
    (tmp_path / "readme.txt").write_text("not a texture")
    textures = frost.photographs(tmp_path)
    assert len(textures) == 5
    for texture, original in zip(textures, originals, strict=False):
        assert texture.shape == (3, round(original.shape[1] / 5), 34)
        assert torch.equal(texture, original[:, 2::5, 2::5])


def test_unusable_textures_are_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"holds no frost photograph.*frost1\.png"):
        frost.photographs(tmp_path)
    Image.new("RGB", (160, 400)).save(tmp_path / "small.png")
    with pytest.raises(DataError, match=r"small\.png is too small.*165 pixels"):
        frost.photographs(tmp_path)
    (tmp_path / "broken.jpg").write_bytes(b"")
    with pytest.raises(DataError, match=r"broken\.jpg cannot be read as an image"):
        frost.photographs(tmp_path)


def test_the_folder_of_photographs_is_found(tmp_path: Path):
    assert frost.find(tmp_path) is None
    (tmp_path / "frost").mkdir()
    assert frost.find(tmp_path) is None
    Image.new("RGB", (200, 200)).save(tmp_path / "frost" / "a.png")
    assert frost.find(tmp_path) == tmp_path / "frost"


def test_procedural_frost_looks_like_the_photographs():
    textures = frost.procedural()
    assert len(textures) == 5
    assert all(torch.equal(a, b) for a, b in zip(textures, frost.procedural(), strict=True))
    assert not torch.equal(textures[1], textures[2])
    for texture in textures:
        assert min(texture.shape[1:]) > SIDE
        values = texture.double()
        assert 100 < float(values.mean()) < 215
        assert float(values[2].mean()) > float(values[0].mean())  # bluish
        assert 15 < float(values[1].std()) < 45
        neighbours = torch.stack([values[1, :, 1:].flatten(), values[1, :, :-1].flatten()])
        assert 0.4 < float(torch.corrcoef(neighbours)[0, 1]) < 0.8  # neither noise nor flat


# What is refused


def test_wrong_input_is_refused():
    images, kinds = every_kind(3)
    index = torch.arange(3)
    with pytest.raises(DataError, match="severity 6"):
        corrupt(images, kinds, index, severity=6)
    with pytest.raises(DataError, match=r"\(N, 3, 32, 32\) in uint8, not \(3, 3, 31, 32\)"):
        corrupt(images[:, :, 1:], kinds, index)
    with pytest.raises(DataError, match="uint8"):
        corrupt(images.float(), kinds, index)
    with pytest.raises(DataError, match="3 images need as many"):
        corrupt(images, kinds[:2], index)
    with pytest.raises(DataError, match=r"numbered 0\.\.9"):
        corrupt(images, kinds + 9, index)


def test_no_images_give_none():
    none = torch.empty(0, 3, SIDE, SIDE, dtype=torch.uint8)
    empty = torch.empty(0, dtype=torch.int64)
    assert corrupt(none, empty, empty).shape == none.shape
