"""Images in shards: the same pixels, keys and training as from files, in any order; malicious tars."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch
from PIL import Image
from typer.testing import CliRunner

from unspur import cli
from unspur.data.batches import Preprocess
from unspur.data.custom import images, load
from unspur.data.custom.labelled import open_labelled
from unspur.data.custom.packing_images import index_shards, pack_images
from unspur.data.custom.sources import GroupSource
from unspur.data.decoding.files import Files
from unspur.data.sharded import shard_index, tar_members
from unspur.data.sharded.shard_index import CompactNames
from unspur.data.sharded.shards import Shards
from unspur.data.streaming import Streaming
from unspur.errors import DataError
from unspur.training import sampling

SIZE = (12, 10)


def write_photos(root: Path, *, test: bool = True) -> Path:
    """Write images of two classes, with groups in their names, in three formats."""
    rng = np.random.default_rng(0)
    for part, count in {"train": 30, "test": 8}.items():
        for number in range(count if part == "train" or test else 0):
            label, group = ("cat", "dog")[number % 2], ("day", "night")[number % 3 == 0]
            suffix = ("png", "jpg", "bmp")[number % 3]
            folder = root / part / label
            folder.mkdir(parents=True, exist_ok=True)
            pixels = rng.integers(0, 256, (*SIZE, 3), np.uint8)
            Image.fromarray(pixels).save(folder / f"{number:03d}_{group}.{suffix}")
    return root


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="module")
def shards(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("packed") / "shards"
    pack_images(photos, out, groups=GroupSource.of("*_{group}.*"), per_shard=7)
    return out


@pytest.fixture
def from_files(photos: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the same images, streamed from their files."""
    monkeypatch.setattr(images, "MEMORY_SHARE", 0.0)
    return load(photos, groups=GroupSource.of("*_{group}.*"))


def test_shards_are_the_same_set_as_the_files(shards: Path, from_files: Any) -> None:
    opened = load(shards)
    assert sorted(p.name for p in shards.glob("*.tar")) == [
        *(f"test-00000{n}.tar" for n in range(2)),
        *(f"train-00000{n}.tar" for n in range(5)),
    ]
    assert opened.classes == from_files.classes == ("cat", "dog")
    assert opened.bias_classes == from_files.bias_classes == ("day", "night")
    for part in ("train", "test"):
        ours, files = opened.parts()[part], from_files.parts()[part]
        assert isinstance(ours, Shards)
        assert isinstance(files, Files)
        assert list(ours.names) == list(files.names)
        assert torch.equal(ours.targets, files.targets)
        assert torch.equal(ours.take(torch.arange(len(ours))), files.take(torch.arange(len(files))))
        assert torch.equal(opened.bias[part], from_files.bias[part])
    assert (
        opened.digest == from_files.digest
    )  # so results that were trained on the files are reused
    assert opened.truth_digest == from_files.truth_digest


def test_the_order_is_a_function_of_seed_and_step(shards: Path, from_files: Any) -> None:
    """A stream that starts in the middle continues like the whole one, with the pixels of the files."""
    opened, count = load(shards), 30

    def stream(part: Any, first: int) -> list[tuple[torch.Tensor, ...]]:
        order = sampling.Passes(torch.arange(count), batch=8, seed=3)
        source = Streaming(part, device=torch.device("cpu"), preprocess=Preprocess(), workers=1)
        return list(source.feed(iter(order.draw(first, 9 - first))))

    whole, files = stream(opened.train, 0), stream(from_files.train, 0)
    assert len({tuple(index.tolist()) for index, _ in whole}) == 9
    for (i, x), (j, y) in zip(whole, files, strict=True):
        assert torch.equal(i, j)
        assert torch.equal(x, y)
    for (i, x), (j, y) in zip(stream(opened.train, 5), whole[5:], strict=True):
        assert torch.equal(i, j)
        assert torch.equal(x, y)


def test_an_object_store_gives_the_same_pixels(shards: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").put(str(shards), "/bucket/shards", recursive=True)
    opened, local = load("memory://bucket/shards"), load(shards)
    assert opened.digest == local.digest
    index = torch.tensor([29, 3, 3, 17])
    assert torch.equal(opened.train.take(index), local.train.take(index))
    source = Streaming(opened.train, device=torch.device("cpu"), preprocess=Preprocess(), workers=1)
    ((found, pixels),) = source.feed(iter([index]))
    assert torch.equal(found, index)
    assert torch.equal(pixels, local.train.take(index))
    with pytest.raises(DataError, match="no index of shards"):
        load("memory://bucket/nothing")


def test_the_webdataset_package_reads_them(shards: Path) -> None:
    wds = pytest.importorskip("webdataset")
    paths = sorted(str(path) for path in shards.glob("train-*.tar"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(wds.WebDataset(paths, shardshuffle=False).decode("pil"))
    train = load(shards).train
    assert len(found) == 30
    for number, sample in enumerate(found):
        assert sample["cls"] == int(train.targets[number])
        assert sample["json"]["name"] == train.names[number]
        assert sample["json"]["label"] == ("cat", "dog")[sample["cls"]]
        picture = next(sample[end] for end in ("png", "jpg", "bmp") if end in sample)
        pixels = torch.from_numpy(np.array(picture.convert("RGB")).transpose(2, 0, 1))
        assert torch.equal(pixels, train.take(torch.tensor([number]))[0])


def test_shards_of_the_webdataset_package_can_be_indexed(tmp_path: Path) -> None:
    wds = pytest.importorskip("webdataset")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with wds.TarWriter(str(tmp_path / "some-0.tar")) as sink:
            for number in range(24):
                pixels = np.full((6, 6, 3), number, np.uint8)
                sink.write(
                    {
                        "__key__": f"a/{number:03d}",
                        "png": Image.fromarray(pixels),
                        "cls": number % 2,
                    }
                )
    with pytest.raises(DataError, match="unspur data index"):
        load(tmp_path)
    done = CliRunner().invoke(cli.app, ["data", "index", str(tmp_path)])
    assert done.exit_code == 0, done.output
    opened = load(tmp_path)
    assert opened.classes == ("0", "1")
    assert opened.train.targets.tolist() == [0, 1] * 12
    assert opened.train.take(torch.tensor([7])).unique().tolist() == [7]


def test_labelled_images_for_a_model(shards: Path, photos: Path) -> None:
    pattern = GroupSource.of("*_{group}.*")
    ours = open_labelled(shards, size=(8, 8), classes=("dog", "cat"))
    files = open_labelled(photos, size=(8, 8), classes=("dog", "cat"), groups=pattern)
    assert ours.split == files.split == "test"
    assert torch.equal(ours.part.targets, files.part.targets)
    everything = torch.arange(8)
    assert torch.equal(ours.part.take(everything), files.part.take(everything))
    assert ours.groups is not None
    assert torch.equal(ours.groups, files.groups)
    with pytest.raises(DataError, match="not one of the model's classes"):
        open_labelled(shards, size=(8, 8), classes=("cat", "bird"))
    with pytest.raises(DataError, match="when they were packed"):
        load(shards, groups=GroupSource.of("place"))
    few = open_labelled(shards, size=(8, 8), classes=("cat", "dog"), most=3)
    assert len(few.part) == 3


def test_packing_leaves_out_unreadable_images(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    for number in range(120):
        (folder / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        image = Image.new("RGB", (4, 4), (number, 0, 0))
        image.save(folder / "ab"[number % 2] / f"{number:03d}.png")
    (folder / "a" / "000.png").write_bytes(b"not an image")
    with pytest.warns(UserWarning, match="000.png"):
        index = pack_images(folder, tmp_path / "shards", workers=1)
    assert len(index) == 119
    with pytest.raises(DataError, match="is not empty"):
        pack_images(folder, tmp_path / "shards")


def test_images_with_odd_suffixes_are_packed(tmp_path: Path) -> None:
    """The content of a file says what it is, so that any name can be in a table."""
    lines = ["path,label"]
    for number, (name, kind) in enumerate(
        (("a", "PNG"), ("b.jpg~", "JPEG"), ("c.1 \u00e9", "GIF")) * 8
    ):
        Image.new("RGB", (4, 4), (number, 0, 0)).save(tmp_path / f"{number}{name}", kind)
        lines.append(f"{number}{name},{number % 2}")
    (tmp_path / "table.csv").write_text("\n".join(lines))
    index = pack_images(tmp_path / "table.csv", tmp_path / "shards")
    assert list(index.names)[:3] == ["0a", "1b.jpg~", "2c.1 \u00e9"]
    with tarfile.open(tmp_path / "shards" / "train-000000.tar") as tar:
        assert [name[-5:] for name in tar.getnames()[:9:3]] == ["0.png", ".jpeg", "2.gif"]


def samples(*abouts: dict[str, Any]) -> list[tuple[tarfile.TarInfo, bytes]]:
    """Return the members of samples with this metadata."""
    return [
        (member(f"{number}.{suffix}"), content)
        for number, about in enumerate(abouts)
        for suffix, content in (("png", b"p"), ("json", json.dumps(about).encode()))
    ]


def test_metadata_may_be_numbers(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", *samples(*({"label": n % 2, "group": n % 3} for n in range(6))))
    index = index_shards(tmp_path)
    assert (index.classes, index.groups) == (("0", "1"), ("0", "1", "2"))
    assert index.arrays["group"].tolist() == [0, 1, 2, 0, 1, 2]


def test_an_unknown_split_is_refused(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", *samples({"label": "a"}, {"label": "b", "split": "holdout"}))
    with pytest.raises(DataError, match="the split of the sample '1' is 'holdout'"):
        index_shards(tmp_path)


def test_files_that_belong_to_no_sample_are_ignored(tmp_path: Path) -> None:
    found = samples({"label": "a"}, {"label": "b"})
    odd = [(member(name), b"x") for name in ("._0.png", "x/.hidden", "README")]
    write_tar(tmp_path / "a.tar", *odd, *found)
    assert list(index_shards(tmp_path).names) == ["0.png", "1.png"]


def test_a_shard_that_ends_within_a_header_is_refused(tmp_path: Path) -> None:
    """Otherwise the images of an incomplete copy would be missing without a message."""
    write_tar(tmp_path / "a.tar", *samples({"label": "a"}, {"label": "b"}))
    os.truncate(tmp_path / "a.tar", 4 * 512 + 100)
    with pytest.raises(DataError, match="it ends within a header"):
        index_shards(tmp_path)


# Malicious tars and indices


def write_tar(
    path: Path, *members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.USTAR_FORMAT
) -> None:
    with tarfile.open(path, "w", format=form) as tar:
        for info, content in members:
            info.size = len(content) if info.isreg() else 0
            tar.addfile(info, io.BytesIO(content))


def member(name: str, **fields: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info


LINK = member("1.png", type=tarfile.SYMTYPE, linkname="/etc/passwd")


@pytest.mark.parametrize(
    ("info", "reason"),
    [
        (member("../1.png"), "is not allowed"),
        (member("/etc/1.png"), "is not allowed"),
        (member("a\n1.png"), "is not allowed"),
        (LINK, "a link, a folder"),
        (member("1.png", type=tarfile.LNKTYPE, linkname="2.png"), "a link, a folder"),
        (member("1.png", type=tarfile.CHRTYPE), "a link, a folder"),
        (member("folder", type=tarfile.DIRTYPE), "a link, a folder"),
        (member("x" * 300 + ".png"), "changes the name"),
    ],
)
def test_a_tar_with_special_members_is_refused(
    tmp_path: Path, info: tarfile.TarInfo, reason: str
) -> None:
    write_tar(tmp_path / "a.tar", (info, b"x"), form=tarfile.PAX_FORMAT)
    with pytest.raises(DataError, match=reason):
        index_shards(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar"]


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = member("1.png", size=2**40).tobuf(tarfile.GNU_FORMAT)
    for content in (header, header + bytes(4096), b"x" * 2000):
        (tmp_path / "a.tar").write_bytes(content)
        with pytest.raises(DataError, match="not a shard that can be read"):
            index_shards(tmp_path)
    write_tar(tmp_path / "a.tar", (member("1.png"), b"p"), (member("1.cls"), b"1" * 2**17))
    with pytest.raises(DataError, match="more than 65536"):
        index_shards(tmp_path)
    write_tar(tmp_path / "a.tar", (member("1.png"), b"p"))
    with pytest.raises(DataError, match="has no label"):
        index_shards(tmp_path)
    write_tar(tmp_path / "a.tar", (member("1.cls"), b"p"))
    with pytest.raises(DataError, match="has no image"):
        index_shards(tmp_path)
    monkeypatch.setattr(tar_members, "MOST_BYTES", 3000)
    write_tar(tmp_path / "a.tar", (member("1.png"), bytes(3001)), (member("1.cls"), b"1"))
    with pytest.raises(DataError, match="not a shard that can be read"):
        index_shards(tmp_path)


CHANGES: dict[str, Any] = {
    "shard": lambda a: a + 100,
    "offset": lambda a: a + 10**9,
    "size": lambda a: a * 0 - 1,
    "label": lambda a: a - 5,
    "part": lambda a: a + 3,
    "group": lambda a: a + 9,
    "name_end": lambda a: a[::-1].copy(),
    "sha256": lambda a: a[:, :3].copy(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_index_with_impossible_values_is_refused(
    shards: Path, tmp_path: Path, name: str
) -> None:
    arrays = dict(shard_index.read_index(shards).arrays)
    arrays[name] = CHANGES[name](arrays[name])
    rewrite(shards, tmp_path, arrays)
    with pytest.raises(DataError, match=r"is damaged .*unspur data index"):
        shard_index.read_index(tmp_path)


@pytest.mark.parametrize("name", ["../x.tar", "/etc/x.tar", "x.txt"])
def test_a_shard_outside_its_folder_is_refused(shards: Path, tmp_path: Path, name: str) -> None:
    about = rewrite(shards, tmp_path, shard_index.read_index(shards).arrays)
    first = next(iter(about["shards"]))
    about["shards"] = {name if n == first else n: size for n, size in about["shards"].items()}
    (tmp_path / "index.json").write_text(json.dumps(about))
    with pytest.raises(DataError, match="is damaged"):
        shard_index.read_index(tmp_path)


def rewrite(shards: Path, out: Path, arrays: dict[str, Any]) -> dict[str, Any]:
    content = safetensors.numpy.save(arrays)
    about = json.loads((shards / "index.json").read_text())
    about["sha256"] = shard_index.hashlib.sha256(content).hexdigest()
    (out / "index.safetensors").write_bytes(content)
    (out / "index.json").write_text(json.dumps(about))
    return dict(about)


def test_a_changed_or_missing_shard_is_an_error(shards: Path, tmp_path: Path) -> None:
    for path in shards.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    broken = tmp_path / "train-000001.tar"
    content = broken.read_bytes()
    broken.write_bytes(content[:-512])
    with pytest.raises(DataError, match="bytes, not"):
        load(tmp_path)
    broken.unlink()
    with pytest.raises(DataError, match="is missing"):
        load(tmp_path)
    damaged = bytearray(content)
    damaged[512:540] = bytes(28)
    broken.write_bytes(damaged)
    opened = load(tmp_path)
    with pytest.raises(
        DataError, match=r"the image at byte 512 of .*train-000001\.tar cannot be read"
    ):
        opened.train.take(torch.arange(30))


def test_names_as_bytes() -> None:
    words = ["", "a", "ümläut", "a/b.png"]
    data = b"".join(word.encode() for word in words)
    ends = np.cumsum([len(word.encode()) for word in words], dtype=np.int64)
    names = CompactNames(np.frombuffer(data, np.uint8), ends)
    assert list(names) == words
    assert names[-1] == "a/b.png"
    assert names[1:3] == words[1:3]
    assert list(names.among(np.array([2, 0]))) == ["ümläut", ""]
    assert repr(names) != repr(names.among(np.array([0, 1, 2, 2])))
    with pytest.raises(IndexError):
        names[4]


def test_a_second_debias_on_shards_reuses_stored_results(
    photos: Path, shards: Path, tmp_path: Path
) -> None:
    """Run the command twice on shards with groups in the index; the second run uses the stored results."""
    short = [f"--set={stage}.steps=2" for stage in ("mine", "pretrain", "prune", "finetune")]
    short += ["--model=convnet", "--set=model.options.width=4", "--set=prune.batch_norm_batches=1"]
    command = ["debias", str(shards), "--anyway", "--device", "cpu", "--store", str(tmp_path / "s")]
    with contextlib.chdir(tmp_path), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("one", "two"):
            done = CliRunner().invoke(cli.app, [*command, *short, "--out", name, "-q"])
            assert done.exit_code == 0, (done.output, done.exception)
        scores = [json.loads(Path(name, "scores.json").read_text()) for name in ("one", "two")]
        assert scores[0] == scores[1]
        assert "Reused from the store" in done.output
        assert "train/cat/000_night.png" in Path("one/suspects.csv").read_text()
        done = CliRunner().invoke(cli.app, ["evaluate", "one", str(shards), "--device", "cpu"])
        assert done.exit_code == 0, (done.output, done.exception)
