"""Reading CIFAR-10, the biased benchmark made from it, and the cache of its pixels."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from unspur.data.benchmarks import cifar10, cifar10c, layout
from unspur.data.benchmarks.cifar10 import CLASSES, Cifar
from unspur.data.benchmarks.corruptions import CORRUPTIONS, corrupt
from unspur.data.decoding import pixel_cache
from unspur.data.splits import Splits
from unspur.errors import DataError

RECORDS = 20
# Published: aligned and conflicting training images. The rest of 50 000, and their share of conflicts.
COUNTS = {
    "0.5pct": (44_832, 228, 4_940, 25),
    "1pct": (44_527, 442, 5_031, 49),
    "2pct": (44_145, 887, 4_968, 98),
    "5pct": (42_820, 2_242, 4_938, 246),
}


def real_root() -> Path:
    """Return the data folder with CIFAR-10; skip the test if there is none."""
    for root in (Path(os.environ.get("UNSPUR_DATA") or "data"), Path("data")):
        for folder in (root, root / "cifar10"):
            if (folder / cifar10.FOLDER).is_dir() or (folder / cifar10.ARCHIVE).is_file():
                return root
    pytest.skip("neither UNSPUR_DATA nor data/ has CIFAR-10 in its binary version")


# The files


def batch_files(seed: int = 0) -> dict[str, bytes]:
    rng = np.random.default_rng(seed)
    files = {}
    for name in cifar10.FILES:
        table = rng.integers(0, 256, (RECORDS, cifar10.RECORD), np.uint8)
        table[:, 0] = np.arange(RECORDS) % 10
        files[name] = table.tobytes()
    return {**files, cifar10.NAMES_FILE: ("\n".join(CLASSES) + "\n\n").encode()}


def unpack(folder: Path, files: dict[str, bytes] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (batch_files() if files is None else files).items():
        (folder / name).write_bytes(content)
    return folder


def pack(path: Path, files: dict[str, bytes] | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in (batch_files() if files is None else files).items():
            member = tarfile.TarInfo(f"{cifar10.FOLDER}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def check(data: Cifar) -> None:
    """Check that the data are exactly the bytes of `batch_files`, in their order."""
    files = batch_files()
    whole = np.frombuffer(b"".join(files[name] for name in cifar10.FILES), np.uint8)
    table = torch.from_numpy(whole.reshape(-1, cifar10.RECORD).copy())
    assert data.train_images.shape == (5 * RECORDS, 3, 32, 32)
    assert data.train_images.dtype == torch.uint8
    assert data.train_labels.dtype == data.test_labels.dtype == torch.int64
    images = torch.cat([data.train_images, data.test_images]).flatten(1)
    assert torch.equal(images, table[:, 1:])
    labels = torch.cat([data.train_labels, data.test_labels])
    assert torch.equal(labels, table[:, 0].long())


@pytest.mark.parametrize("place", ["", cifar10.FOLDER, "cifar10", f"cifar10/{cifar10.FOLDER}"])
def test_unpacked_files_are_read_in_every_valid_place(tmp_path: Path, place: str):
    unpack(tmp_path / place)
    check(cifar10.read(tmp_path, records=RECORDS))


@pytest.mark.parametrize("place", ["", "cifar10"])
def test_the_archive_is_read_without_unpacking(tmp_path: Path, place: str):
    archive = pack(tmp_path / place / cifar10.ARCHIVE)
    check(cifar10.read(tmp_path, records=RECORDS))
    check(cifar10.read(archive, records=RECORDS))
    assert list(archive.parent.iterdir()) == [archive]


def test_the_names_file_is_not_needed(tmp_path: Path):
    files = batch_files()
    del files[cifar10.NAMES_FILE]
    unpack(tmp_path, files)
    check(cifar10.read(tmp_path, records=RECORDS))


@pytest.mark.parametrize("name", [cifar10.PYTHON_FOLDER, "cifar10/cifar-10-batches-py"])
def test_the_python_version_is_refused_without_opening_it(tmp_path: Path, name: str):
    (tmp_path / name).mkdir(parents=True)
    (tmp_path / name / "data_batch_1").write_bytes(b"\x80\x04.")
    with pytest.raises(
        DataError, match=r"python version.*pickled.*Put.*cifar-10-binary\.tar\.gz.*into"
    ) as error:
        cifar10.read(tmp_path)
    assert str(tmp_path) in str(error.value)


def test_the_python_archive_is_not_opened_either(tmp_path: Path):
    archive = tmp_path / cifar10.PYTHON_ARCHIVE
    archive.write_bytes(b"anything")
    for root in (tmp_path, archive):
        with pytest.raises(DataError, match=r"python version.*cifar-10-binary\.tar\.gz"):
            cifar10.read(root)


def test_missing_data_says_which_files_belong_where(tmp_path: Path):
    for root in (tmp_path, tmp_path / "absent"):
        with pytest.raises(DataError, match=r"no CIFAR-10 in .*cifar-10-batches-bin.*Put") as error:
            cifar10.read(root)
        assert str(root) in str(error.value)


@pytest.mark.parametrize("name", cifar10.FILES)
def test_a_missing_file_is_named(tmp_path: Path, name: str):
    files = batch_files()
    del files[name]
    for root in (unpack(tmp_path / "a", files), pack(tmp_path / "b.tar.gz", files)):
        with pytest.raises(DataError, match=f"incomplete: {name} is not in"):
            cifar10.read(root, records=RECORDS)


def with_label(content: bytes, label: int) -> bytes:
    return content[: cifar10.RECORD] + bytes([label]) + content[cifar10.RECORD + 1 :]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[:-1], r"truncated: 20 records are 61460 bytes, not 61459"),
        (lambda content: content[: -cifar10.RECORD], r"truncated"),
        (lambda content: b"", r"truncated.* not 0"),
        (lambda content: content + b"\0", r"too long"),
        (lambda content: with_label(content, 10), r"damaged: it has a label 10"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, damage, message):
    files = batch_files()
    files["data_batch_3.bin"] = damage(files["data_batch_3.bin"])
    for root in (unpack(tmp_path / "a", files), pack(tmp_path / "b.tar.gz", files)):
        with pytest.raises(DataError, match=rf"data_batch_3\.bin is {message}"):
            cifar10.read(root, records=RECORDS)


def test_the_names_must_be_those_of_cifar10(tmp_path: Path):
    unpack(tmp_path, {**batch_files(), cifar10.NAMES_FILE: b"apple\nbear\n"})
    with pytest.raises(DataError, match=r"batches\.meta\.txt does not name"):
        cifar10.read(tmp_path, records=RECORDS)


@pytest.mark.parametrize("damage", ["cut", "flip", "text"])
def test_a_damaged_archive_is_named(tmp_path: Path, damage: str):
    archive = pack(tmp_path / cifar10.ARCHIVE)
    content = bytearray(archive.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "flip":
        content[len(content) // 2 : len(content) // 2 + 50] = bytes(50)
    else:
        content = bytearray(b"<html>not found</html>")
    archive.write_bytes(content)
    with pytest.raises(DataError, match=r"cifar-10-binary\.tar\.gz is a damaged archive"):
        cifar10.read(tmp_path, records=RECORDS)


def test_the_plain_set_is_split_by_the_seed(tmp_path: Path):
    unpack(tmp_path)
    splits = cifar10.load_plain(tmp_path, 3, records=RECORDS)
    assert {name: len(part) for name, part in splits.parts().items()} == {
        "train": 90,
        "valid": 10,
        "test": 20,
    }
    assert splits.bias == {}
    data = cifar10.read(tmp_path, records=RECORDS)
    assert splits.valid is not None
    both = torch.cat([splits.train.images, splits.valid.images]).flatten(1)
    assert torch.equal(torch.unique(both, dim=0), torch.unique(data.train_images.flatten(1), dim=0))
    assert splits.digest == cifar10.load_plain(tmp_path, 3, records=RECORDS).digest
    assert splits.digest != cifar10.load_plain(tmp_path, 4, records=RECORDS).digest


# The benchmark


def small_cifar(train: int = 1_000, test: int = 200) -> Cifar:
    g = torch.Generator().manual_seed(0)

    def part(count: int) -> tuple[Tensor, Tensor]:
        images = torch.randint(0, 256, (count, 3, 32, 32), generator=g).to(torch.uint8)
        return images, torch.arange(count) * 7 % 10

    return Cifar(*part(train), *part(test))


def small(images: Cifar | None = None, **how: object) -> Splits:
    how = {"aligned": 820, "conflicting": 80, "seed": 5, **how}
    return cifar10c.generate(small_cifar() if images is None else images, **how)


@pytest.fixture(scope="module")
def made() -> Splits:
    return small()


def count(splits: Splits, part: str) -> int:
    conflicting = splits.conflicting(part)
    assert conflicting is not None
    return int(conflicting.sum())


@pytest.mark.parametrize("ratio", COUNTS)
def test_the_published_counts(ratio: str, monkeypatch: pytest.MonkeyPatch):
    """Uses labels only; the images have no pixels."""
    aligned, conflicting, valid, valid_conflicting = COUNTS[ratio]
    labels = torch.arange(60_000) * 7 % 10
    none = torch.empty(1, dtype=torch.uint8)
    pictures = none.expand(50_000, 1, 1, 1), none.expand(10_000, 1, 1, 1)
    monkeypatch.setattr(cifar10c, "IMAGE", (1, 1, 1))
    monkeypatch.setattr(cifar10c, "corrupt", lambda images, kinds, index, **how: images)
    images = Cifar(pictures[0], labels[:50_000], pictures[1], labels[50_000:])
    splits = cifar10c.make(images, ratio)
    sizes = {part: (len(split), count(splits, part)) for part, split in splits.parts().items()}
    assert sizes == {
        "train": (aligned + conflicting, conflicting),
        "valid": (valid, valid_conflicting),
        "test": (10_000, 9_000),
    }
    assert splits.name == f"cifar10c/{ratio}"
    cells = splits.parts()["test"].targets * 10 + splits.bias["test"]
    assert torch.bincount(cells, minlength=100).tolist() == [100] * 100


def test_the_small_set_has_its_counts(made: Splits):
    assert {part: (len(split), count(made, part)) for part, split in made.parts().items()} == {
        "train": (900, 80),
        "valid": (100, 9),
        "test": (200, 180),
    }
    assert made.classes == CLASSES
    assert len(made.bias_classes) == 10
    conflicting = made.conflicting("train")
    assert conflicting is not None
    steps = (made.bias["train"] - made.train.targets)[conflicting] % 10
    assert set(steps.tolist()) == set(range(1, 10))  # any of the nine others, never the own


def test_every_image_has_its_own_corruption(made: Splits):
    """Each sample equals an original image that is corrupted individually."""
    images = small_cifar()
    pictures = torch.cat([images.train_images, images.test_images])
    labels = torch.cat([images.train_labels, images.test_labels])
    seen = []
    for part, split in made.parts().items():
        own = split.targets == made.bias[part]
        for kind in range(10):
            rows = torch.nonzero((made.bias[part] == kind) & (own if kind % 2 else ~own)).flatten()
            for row in rows[:2].tolist():
                candidates = torch.nonzero(labels == split.targets[row]).flatten()
                kinds = torch.full((len(candidates),), kind)
                spoiled = corrupt(pictures[candidates], kinds, candidates, seed=5)
                match = (spoiled == split.images[row]).flatten(1).all(1)
                assert int(match.sum()) == 1
                seen.append(int(candidates[match]))
    assert len(set(seen)) == len(seen) > 40


def test_test_corruptions_are_balanced_to_one_image():
    splits = small(small_cifar(test=123))
    cells = splits.parts()["test"].targets * 10 + splits.bias["test"]
    counts = torch.bincount(cells, minlength=100).view(10, 10)
    assert bool((counts.amax(1) - counts.amin(1) <= 1).all())


def test_ratios_of_a_seed_are_nested(made: Splits):
    more = small(aligned=735, conflicting=160)  # another size of the training split, too
    assert torch.equal(more.parts()["test"].images, made.parts()["test"].images)
    assert torch.equal(more.bias["test"], made.bias["test"])

    def conflicts(splits: Splits) -> set[bytes]:
        chosen = splits.conflicting("train")
        assert chosen is not None
        return {image.numpy().tobytes() for image in splits.train.images[chosen]}

    assert len(conflicts(made)) == 80
    assert conflicts(made) < conflicts(more)


def test_another_seed_gives_other_images(made: Splits):
    again, other = small(), small(seed=6)
    assert (again.digest, again.truth_digest) == (made.digest, made.truth_digest)
    assert other.digest != made.digest
    assert not torch.equal(other.bias["test"], made.bias["test"])


def test_severity_changes_only_pixels(made: Splits):
    mild = small(severity=1)
    assert torch.equal(mild.train.targets, made.train.targets)
    assert torch.equal(mild.bias["train"], made.bias["train"])
    assert not torch.equal(mild.train.images, made.train.images)


def test_procedural_frost_has_its_own_name(made: Splits, tmp_path: Path):
    assert made.bias_classes[3] == "procedural frost"
    for number in range(2):
        pixels = np.random.default_rng(number).integers(0, 256, (180, 200, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    real = small(textures=tmp_path)
    assert real.bias_classes == tuple(CORRUPTIONS)
    frosty = made.bias["train"] == 3
    same = (real.train.images == made.train.images).flatten(1).all(1)
    assert torch.equal(same, ~frosty)


def test_impossible_requests_are_refused():
    images = small_cifar(100, 20)
    with pytest.raises(DataError, match=r"no CIFAR10-C ratio '3pct'.*0\.5pct, 1pct, 2pct, 5pct"):
        cifar10c.make(images, "3pct")
    with pytest.raises(DataError, match=r"50000 training and 10000 test images, not 100 and 20"):
        cifar10c.make(images, "1pct")
    with pytest.raises(DataError, match="no severity 0"):
        small(images, aligned=50, conflicting=5, severity=0)
    for aligned, conflicting in ((100, 0), (0, 0), (-5, 10), (50, -1)):
        with pytest.raises(DataError, match=r"cannot take .* from 100"):
            small(images, aligned=aligned, conflicting=conflicting)


def test_load_prefers_the_public_release(tmp_path: Path):
    layout.write(
        small(small_cifar(60, 20), aligned=40, conflicting=5), tmp_path / "cifar10c", "1pct"
    )
    splits = cifar10c.load(tmp_path, "1pct")
    assert len(splits.train) == 45
    assert splits.classes == CLASSES
    assert splits.bias_classes == tuple(CORRUPTIONS)
    with pytest.raises(DataError, match="no CIFAR10-C ratio '7pct'"):
        cifar10c.load(tmp_path, "7pct")
    with pytest.raises(DataError, match="no CIFAR-10 in"):
        cifar10c.load(tmp_path, "2pct")


# The kept file


def refuse(*_: object, **__: object) -> Tensor:
    raise AssertionError("the kept pixels are not used")


def test_a_second_call_reads_cached_pixels(
    made: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    cache = tmp_path / "a" / "b"
    assert small(cache=cache).digest == made.digest
    (kept,) = cache.iterdir()
    assert kept.name.startswith("cifar10c-")
    monkeypatch.setattr(cifar10c, "corrupt", refuse)
    again = small(cache=cache)
    assert (again.digest, again.truth_digest) == (made.digest, made.truth_digest)
    again.train.images.zero_()  # a copy of the user's own, not the file
    assert small(cache=cache).digest == made.digest


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "other", "header"])
def test_damaged_pixels_are_computed_again(made: Splits, tmp_path: Path, damage: str):
    small(cache=tmp_path)
    (kept,) = tmp_path.iterdir()
    content = bytearray(kept.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
    elif damage == "header":
        content[:20] = bytes(20)
    kept.write_bytes({"cut": content[:-7], "empty": b"", "other": b"hello"}.get(damage, content))
    with pytest.warns(UserWarning, match=rf"{kept.name} is damaged; its images are computed again"):
        assert small(cache=tmp_path).digest == made.digest
    assert list(tmp_path.iterdir()) == [kept]
    assert small(cache=tmp_path).digest == made.digest  # without a warning


def test_everything_that_changes_pixels_changes_the_cached_file(tmp_path: Path):
    textures, cache = tmp_path / "textures", tmp_path / "cache"
    textures.mkdir()
    Image.new("RGB", (200, 200), "white").save(textures / "a.png")
    images = small_cifar(100, 20)
    changed = images._replace(test_images=255 - images.test_images)
    settings: list[dict[str, object]] = [
        *({"images": images}, {"images": changed}),
        *({"seed": 1}, {"severity": 2}, {"textures": textures}, {"conflicting": 10}),
    ]
    for expected, how in enumerate(settings, 1):
        small(**{"images": images, "aligned": 50, "conflicting": 5, **how}, cache=cache)
        assert len(list(cache.iterdir())) == expected


def test_a_cache_folder_that_cannot_be_written_is_not_used(made: Splits, tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(UserWarning, match="cannot keep .*file"):
        assert small(cache=tmp_path / "file").digest == made.digest


def test_an_interrupted_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def stop(*_: object, **__: object) -> Tensor:
        raise KeyboardInterrupt

    monkeypatch.setattr(cifar10c, "corrupt", stop)
    with pytest.raises(KeyboardInterrupt):
        small(cache=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_cached_file_is_an_ordinary_array(tmp_path: Path):
    pixels = np.arange(24, dtype=np.uint8).reshape(4, 2, 3)
    blocks = [pixels[:3], pixels[3:]]
    kept = pixel_cache.cached_pixels(
        lambda: iter(blocks), pixels.shape, cache=tmp_path, name="some", about="thing"
    )
    assert torch.equal(kept, torch.from_numpy(pixels))
    (path,) = tmp_path.iterdir()
    assert np.array_equal(np.load(path), pixels)


# The real images


@pytest.mark.real
def test_the_benchmark_from_the_real_images():
    root = real_root()
    data = cifar10.read(root)
    assert torch.bincount(data.train_labels).tolist() == [5_000] * 10
    splits = cifar10c.load(root, "1pct")
    sizes = {part: (len(split), count(splits, part)) for part, split in splits.parts().items()}
    assert sizes == {"train": (44_969, 442), "valid": (5_031, 49), "test": (10_000, 9_000)}
    cells = splits.parts()["test"].targets * 10 + splits.bias["test"]
    assert torch.bincount(cells, minlength=100).tolist() == [100] * 100
    bright = splits.train.images[splits.bias["train"] == 0].double().mean()
    assert float(bright) > float(data.train_images.double().mean()) + 40


@pytest.mark.real
def test_the_plain_set_from_the_real_images():
    splits = cifar10.load_plain(real_root())
    sizes = {part: len(split) for part, split in splits.parts().items()}
    assert sizes == {"train": 45_000, "valid": 5_000, "test": 10_000}
