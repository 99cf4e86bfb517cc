"""Reading BFFHQ and CelebA in their public layouts, and errors in the files."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from unspur.data.benchmarks import bffhq, celeba
from unspur.data.decoding import pixel_cache
from unspur.data.splits import Splits
from unspur.errors import DataError


def picture(path: Path, value: int = 0, size: tuple[int, int] = (10, 12)) -> Path:
    """Return an image of noise around a value."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng([value, *path.name.encode()])
    Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), np.uint8)).save(path)
    return path


def real(folder: str, archive: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the real data set, unpacking its archive if needed; skip the test without one."""
    for root in (Path(os.environ.get("UNSPUR_DATA") or "data"), Path("data")):
        if (root / folder).is_dir():
            return root
        if (root / archive).is_file():
            target = tmp_path_factory.mktemp(folder)
            with zipfile.ZipFile(root / archive) as packed:
                packed.extractall(target)
            return target
    pytest.skip(f"neither UNSPUR_DATA nor data/ has {folder}/ or {archive}")


def groups(splits: Splits, part: str) -> list[int]:
    """Count the samples of each (target, bias): 00, 01, 10, 11."""
    targets = splits.parts()[part].targets
    return torch.bincount(targets * 2 + splits.bias[part], minlength=4).tolist()


# Decoding


def test_decoding_keeps_the_order_and_the_size(tmp_path: Path):
    paths = [
        picture(tmp_path / f"{n}.png", n, size=(8, 8)) for n in range(2 * pixel_cache.BLOCK + 3)
    ]
    images = pixel_cache.decode(paths, size=8)
    assert images.shape == (len(paths), 3, 8, 8)
    assert images.dtype == torch.uint8
    for path, image in zip(paths, images, strict=True):
        assert np.array_equal(np.asarray(Image.open(path)).transpose(2, 0, 1), image.numpy())


def by_definition(image: Image.Image, crop: str) -> Image.Image:
    """Resize and crop a face of 178 x 218 as the published code does."""
    if crop == "inner":  # the shorter side to 256, then the central 224
        return image.resize((256, 314), Image.Resampling.BILINEAR).crop((16, 45, 240, 269))
    if crop == "square":
        image = image.crop((0, 20, 178, 198))
    return image.resize((224, 224), Image.Resampling.BILINEAR)


@pytest.mark.parametrize("crop", ["stretch", "square", "inner"])
def test_crops(tmp_path: Path, crop: pixel_cache.Crop):
    rows, columns = np.mgrid[:218, :178].astype(np.uint8)
    image = Image.fromarray(np.stack([rows, columns, rows // 2 + columns // 2], 2))
    image.save(tmp_path / "a.png")
    done = pixel_cache.decode([tmp_path / "a.png"], size=224, crop=crop)[0].permute(1, 2, 0)
    off = np.abs(done.numpy().astype(int) - np.asarray(by_definition(image, crop)).astype(int))
    assert off.max() <= 1


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "1", "CMYK"])
def test_other_kinds_of_images_become_rgb(tmp_path: Path, mode: str):
    path = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    Image.new("RGB", (9, 9), (255, 255, 255)).convert(mode).save(path)
    assert pixel_cache.decode([path], size=4).unique().tolist() == [255]


def test_a_bad_image_is_named_with_or_without_a_cache(tmp_path: Path):
    good = [picture(tmp_path / f"{n}.png", n) for n in range(5)]
    whole = picture(tmp_path / "whole.jpg", size=(60, 60)).read_bytes()
    for name, content in (
        ("empty.jpg", b""),
        ("cut.jpg", whole[: len(whole) // 2]),
        ("text.png", b"hello"),
        ("cut.png", good[0].read_bytes()[:40]),
    ):
        bad = tmp_path / name
        bad.write_bytes(content)
        for cache in (None, tmp_path / "cache"):
            with pytest.raises(DataError, match=rf"{name} cannot be read as an image.*Replace it"):
                pixel_cache.decode([*good, bad], size=4, cache=cache)
    for cache in (None, tmp_path / "cache"):
        with pytest.raises(DataError, match=r"absent\.png is missing"):
            pixel_cache.decode([*good, tmp_path / "absent.png"], size=4, cache=cache)
    assert list((tmp_path / "cache").iterdir()) == []


def test_decoded_images_are_cached_until_a_file_or_a_setting_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    paths = [picture(tmp_path / f"{n}.png", n) for n in range(3)]
    cache = tmp_path / "cache"
    first = pixel_cache.decode(paths, size=4, cache=cache)
    calls: list[Path] = []
    read = pixel_cache.read
    monkeypatch.setattr(pixel_cache, "read", lambda *a: calls.append(a[0]) or read(*a))
    assert torch.equal(pixel_cache.decode(paths, size=4, cache=cache), first)
    assert not calls
    pixel_cache.decode(paths, size=5, cache=cache)
    pixel_cache.decode(paths, size=4, crop="square", cache=cache)
    pixel_cache.decode(paths[::-1], size=4, cache=cache)
    assert len(calls) == 9
    picture(paths[1], 99)
    os.utime(paths[1], ns=(1, 1))
    changed = pixel_cache.decode(paths, size=4, cache=cache)
    assert len(calls) == 12
    assert [torch.equal(a, b) for a, b in zip(changed, first, strict=True)] == [True, False, True]


def test_impossible_sizes_and_crops_are_refused(tmp_path: Path):
    path = picture(tmp_path / "a.png")
    with pytest.raises(DataError, match="to 0 pixels"):
        pixel_cache.decode([path], size=0)
    with pytest.raises(DataError, match=r"no crop 'round'.*stretch, square, inner"):
        pixel_cache.decode([path], size=4, crop="round")  # type: ignore[arg-type]


# BFFHQ


def bffhq_tree(
    folder: Path, *, conflict: str = "conflict", nested: bool = False, ratio: str = "1pct"
) -> Path:
    """Write nine training faces, two of them conflicting, and four each for validation and test."""
    for number in range(7):
        label = number % 2
        picture(folder / ratio / "align" / str(label) / f"{number:03d}_{label}_{label}.png", number)
    picture(folder / ratio / conflict / "0" / "100_0_1.jpg", 100, size=(20, 20))
    picture(folder / ratio / conflict / "1" / "101_1_0.png", 101)
    for part, start in (("valid", 200), ("test", 300)):
        for number in range(4):
            name = f"{start + number}_{number // 2}_{number % 2}.png"
            inner = folder / part / str(number // 2) if nested else folder / part
            picture(inner / name, start + number)
    return folder


@pytest.mark.parametrize("conflict", ["conflict", "conlict"])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("ratio", ["0.5pct", "1pct", "12.5pct"])
def test_bffhq_in_every_form_of_its_layout(tmp_path: Path, conflict: str, nested: bool, ratio: str):
    bffhq_tree(tmp_path / "bffhq", conflict=conflict, nested=nested, ratio=ratio)
    for root in (tmp_path, tmp_path / "bffhq"):
        splits = bffhq.load(root, ratio, size=6)
        assert splits.train.images.shape == (9, 3, 6, 6)
        assert [groups(splits, part) for part in ("train", "valid", "test")] == [
            [4, 1, 1, 3],
            [1] * 4,
            [1] * 4,
        ]
        conflicting = splits.conflicting("train")
        assert conflicting is not None
        assert conflicting.tolist() == [False] * 7 + [True] * 2
        assert (splits.classes, splits.bias_classes) == (("young", "old"), ("female", "male"))
        assert splits.name == f"bffhq/{ratio}"


def test_bffhq_pixels_belong_to_their_names(tmp_path: Path):
    bffhq_tree(tmp_path)
    splits = bffhq.load(tmp_path, "1pct", size=6, cache=tmp_path / "cache")
    for split in splits.parts().values():
        assert split.names is not None
        for name, target, image in zip(split.names, split.targets, split.images, strict=True):
            small = Image.open(tmp_path / name).resize((6, 6), Image.Resampling.BILINEAR)
            assert np.array_equal(np.asarray(small).transpose(2, 0, 1), image.numpy())
            assert int(Path(name).stem.split("_")[-2]) == target
    again = bffhq.load(tmp_path, "1pct", size=6, cache=tmp_path / "cache")
    assert (again.digest, again.truth_digest) == (splits.digest, splits.truth_digest)


def test_extra_conflicting_images_are_only_used_on_request(tmp_path: Path):
    bffhq_tree(tmp_path)
    with pytest.raises(DataError, match="extra_conflict holds no image"):
        bffhq.load(tmp_path, "1pct", size=6, extra=True)
    picture(tmp_path / "extra_conflict" / "0" / "400_0_1.png")
    assert len(bffhq.load(tmp_path, "1pct", size=6).train) == 9
    more = bffhq.load(tmp_path, "1pct", size=6, extra=True)
    assert groups(more, "train") == [4, 2, 1, 3]
    assert more.name == "bffhq/1pct+extra_conflict"
    wrong = picture(tmp_path / "extra_conflict" / "1" / "401_1_1.png")
    with pytest.raises(DataError, match=rf"{wrong.name}.*does not conflict"):
        bffhq.load(tmp_path, "1pct", size=6, extra=True)


def test_missing_parts_of_bffhq_are_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"no BFFHQ in .*0\.5pct/align.*into .*bffhq"):
        bffhq.load(tmp_path)
    bffhq_tree(tmp_path / "bffhq")
    with pytest.raises(DataError, match=r"no folder .*0\.5pct\. Ratios found in .*: 1pct"):
        bffhq.load(tmp_path)
    for path in (tmp_path / "bffhq" / "test").iterdir():
        path.unlink()
    with pytest.raises(DataError, match=r"incomplete: .*bffhq/test holds no image"):
        bffhq.load(tmp_path, "1pct")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("align/0/500_0_1.png", "target 0 and bias 1 belong in conflict"),
        ("align/0/500_1_1.png", "the name says target 1, the folder 0"),
        ("align/0/face.png", "the name must be <id>_<target>_<bias>"),
        ("conflict/2/500_2_1.png", "target 2 is outside 0..1"),
        ("conflict/1/500_1_7.png", "bias 7 is outside 0..1"),
    ],
)
def test_wrong_names_in_bffhq_are_named(tmp_path: Path, name: str, message: str):
    bffhq_tree(tmp_path)
    path = picture(tmp_path / "1pct" / name)
    with pytest.raises(DataError, match=message) as error:
        bffhq.load(tmp_path, "1pct", size=6)
    assert path.name in str(error.value)


# CelebA

COLUMNS = ("5_o_Clock_Shadow", "Blond_Hair", "Bald", "Male")


def celeba_tree(folder: Path) -> Path:
    """Forty people in a fixed rotation of the four groups and, more slowly, of the splits."""
    rows, codes = [], []
    for number in range(40):
        name = f"{number + 1:06d}.jpg"
        blond, male = number % 2, number // 2 % 2
        picture(folder / celeba.IMAGES / name, number)
        values = (1, 2 * blond - 1, -1, 2 * male - 1)
        rows.append(f"{name} " + " ".join(f"{value:2d}" for value in values))
        codes.append(f"{name} {(0, 0, 0, 1, 2)[number // 8]}")
    (folder / celeba.ATTRIBUTES).write_text("\n".join(["40", " ".join(COLUMNS), *rows]) + "\n")
    (folder / celeba.PARTITION).write_text("\n".join(codes) + "\n")
    return folder


def test_celeba_groups_and_what_conflicts(tmp_path: Path):
    celeba_tree(tmp_path / "celeba")
    for root in (tmp_path, tmp_path / "celeba"):
        splits = celeba.load(root, "all", size=8)
        assert [groups(splits, part) for part in ("train", "valid", "test")] == [
            [6] * 4,
            [2] * 4,
            [2] * 4,
        ]
        assert splits.conflict_when == "equal"
        conflicting = splits.conflicting("train")
        assert conflicting is not None
        # In conflict: a woman who is not blond, or a blond man.
        assert conflicting[:4].tolist() == [True, False, False, True]
        assert splits.train.images.shape == (24, 3, 8, 8)
        assert (splits.classes, splits.bias_classes) == (("not blond", "blond"), ("female", "male"))


def test_celeba_is_sub_sampled_by_the_seed(tmp_path: Path):
    celeba_tree(tmp_path)
    whole = celeba.load(tmp_path, "all", size=4)
    kept = celeba.load(tmp_path, "keep2", size=4, seed=1)
    assert groups(kept, "train") == [2, 6, 6, 6]
    assert groups(kept, "valid") == groups(kept, "test") == [2] * 4
    assert kept.name == "celeba/keep2"
    assert whole.train.names is not None
    assert kept.train.names is not None
    assert sorted(kept.train.names) == list(kept.train.names)  # in the order of the list
    assert set(kept.train.names) < set(whole.train.names)
    for name, image in zip(kept.train.names, kept.train.images, strict=True):
        assert torch.equal(image, whole.train.images[whole.train.names.index(name)])
    assert celeba.load(tmp_path, "keep2", size=4, seed=1).digest == kept.digest
    others = {celeba.load(tmp_path, "keep2", size=4, seed=seed).digest for seed in range(6)}
    assert len(others) > 1
    assert groups(celeba.load(tmp_path, "keep0", size=4), "train") == [0, 6, 6, 6]
    with pytest.raises(DataError, match=r"6 women who are not blond .* so 7 cannot be kept"):
        celeba.load(tmp_path, "keep7", size=4)


def test_celeba_from_the_released_table(tmp_path: Path):
    celeba_tree(tmp_path)
    rows = ["000003.jpg,0,-1,1", "000005.jpg,0,-1,-1", "000004.jpg,1,1,1", "000002.jpg,2,1,-1"]
    (tmp_path / celeba.METADATA).write_text(
        "\n".join(["image_id,split,Blond_Hair,Male", *rows]) + "\n"
    )
    splits = celeba.load(tmp_path, "csv", size=4)
    assert splits.train.names == ("img_align_celeba/000003.jpg", "img_align_celeba/000005.jpg")
    assert [groups(splits, part) for part in ("train", "valid", "test")] == [
        [1, 1, 0, 0],
        [0, 0, 0, 1],
        [0, 0, 1, 0],
    ]


def test_celeba_crops_training_and_test_apart(tmp_path: Path):
    celeba_tree(tmp_path)
    apart = celeba.load(tmp_path, "all", size=6, crop="stretch", test_crop="inner")
    stretched, inner = (celeba.load(tmp_path, "all", size=6, crop=c) for c in ("stretch", "inner"))
    assert torch.equal(apart.train.images, stretched.train.images)
    for part in ("valid", "test"):
        assert torch.equal(apart.parts()[part].images, inner.parts()[part].images)


@pytest.mark.parametrize("name", [celeba.ATTRIBUTES, celeba.PARTITION])
def test_missing_lists_of_celeba_are_named(tmp_path: Path, name: str):
    (celeba_tree(tmp_path / "celeba") / name).unlink()
    with pytest.raises(DataError, match=rf"incomplete: .*celeba/{name} is missing"):
        celeba.load(tmp_path)


def test_missing_celeba_says_where_it_belongs(tmp_path: Path):
    with pytest.raises(DataError, match=r"celeba/list_attr_celeba\.txt is missing.*Put it there"):
        celeba.load(tmp_path)
    with pytest.raises(DataError, match=r"celeba/metadata_blonde_subsampled\.csv is missing"):
        celeba.load(tmp_path, "csv")
    with pytest.raises(DataError, match=r"no CelebA variant '1pct'.*keep2000"):
        celeba.load(tmp_path, "1pct")
    celeba_tree(tmp_path / "celeba")
    (tmp_path / "celeba" / celeba.IMAGES).rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=r"celeba/img_align_celeba is missing"):
        celeba.load(tmp_path, "all")


def test_a_listed_image_that_is_missing_is_named(tmp_path: Path):
    celeba_tree(tmp_path)
    (tmp_path / celeba.IMAGES / "000007.jpg").unlink()
    with pytest.raises(DataError, match=r"000007\.jpg is missing"):
        celeba.load(tmp_path, "all", size=4)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (
            celeba.ATTRIBUTES,
            "000002.jpg  1",
            "000002.jpg",
            r"attr_celeba\.txt:4: 5 fields .* not 4",
        ),
        (celeba.ATTRIBUTES, "Male", "Female", r"attr_celeba\.txt has no column Male"),
        (celeba.ATTRIBUTES, "000001.jpg  1 -1", "000001.jpg  1 x1", r":3: an attribute is 'x1'"),
        (celeba.PARTITION, "000003.jpg 0", "000003.jpg 3", r":5: the split is '3', not 0"),
        (celeba.PARTITION, "000003.jpg 0\n", "", r":5: 000003\.jpg has no split in"),
        (celeba.PARTITION, "000003.jpg 0", "000003.jpg", r"partition\.txt:3: 2 fields .* not 1"),
    ],
)
def test_damaged_lists_of_celeba_are_named(
    tmp_path: Path, file: str, old: str, new: str, message: str
):
    path = celeba_tree(tmp_path) / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(DataError, match=message):
        celeba.load(tmp_path, "all", size=4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no column image_id"),
        ("image_id,split,Male\n", "has no column Blond_Hair"),
        ("image_id,split,Blond_Hair,Male\n", "lists no image"),
        ("image_id,split,Blond_Hair,Male\n000001.jpg,0,1\n", r"csv:2: an attribute is None"),
        ("image_id,split,Blond_Hair,Male\n000001.jpg,0,1,1\n", "for the valid split"),
    ],
)
def test_a_damaged_table_of_celeba_is_named(tmp_path: Path, text: str, message: str):
    celeba_tree(tmp_path)
    (tmp_path / celeba.METADATA).write_text(text)
    with pytest.raises(DataError, match=message):
        celeba.load(tmp_path, "csv", size=4)


def test_lists_that_are_not_text_are_named(tmp_path: Path):
    celeba_tree(tmp_path)
    (tmp_path / celeba.ATTRIBUTES).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"list_attr_celeba\.txt cannot be read as text"):
        celeba.load(tmp_path, "all")


# The real faces


@pytest.mark.real
def test_the_real_faces(tmp_path_factory: pytest.TempPathFactory):
    root = real("bffhq", "faces_bffhq_layout.zip", tmp_path_factory)
    splits = bffhq.load(root, "1pct", size=48)
    assert [groups(splits, part) for part in ("train", "valid", "test")] == [
        [2600, 26, 26, 2600],
        [125] * 4,
        [250] * 4,
    ]


@pytest.mark.real
def test_the_real_celebrities(tmp_path_factory: pytest.TempPathFactory):
    root = real("celeba", "celeba_10k.zip", tmp_path_factory)
    splits = celeba.load(root, "keep88", size=48)
    assert groups(splits, "train") == [88, 2890, 941, 47]
    assert groups(splits, "test")[3] == 25
