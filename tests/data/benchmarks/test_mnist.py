"""Reading the files of MNIST, intact and damaged."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from toys import real_mnist
from unspur.data.benchmarks.mnist import FILES, find_root, load_plain, mnist
from unspur.errors import DataError


def idx_bytes(array: np.ndarray) -> bytes:
    header = struct.pack(f">{1 + array.ndim}I", 0x0800 + array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    shapes = [(7, 28, 28), (7,), (3, 28, 28), (3,)]
    highs = [256, 10, 256, 10]
    return {
        name: rng.integers(high, size=shape)
        for name, shape, high in zip(FILES, shapes, highs, strict=True)
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, array in arrays().items():
        (tmp_path / name).write_bytes(idx_bytes(array))
    return tmp_path


def assert_is_what_was_written(root: Path) -> None:
    digits = mnist(root)
    for tensor, array in zip(digits, arrays().values(), strict=True):
        assert np.array_equal(tensor.numpy(), array)
    assert [tensor.dtype for tensor in digits] == [torch.uint8, torch.int64] * 2


def test_plain_files(root: Path) -> None:
    assert_is_what_was_written(root)


def test_gzipped_files_in_torchvisions_layout(tmp_path: Path) -> None:
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name, array in arrays().items():
        (raw / f"{name}.gz").write_bytes(gzip.compress(idx_bytes(array)))
    assert_is_what_was_written(tmp_path)
    assert_is_what_was_written(raw)


def test_missing_file_is_named_with_the_places_looked_in(root: Path) -> None:
    (root / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError) as caught:
        mnist(root)
    message = str(caught.value)
    assert "neither t10k-labels-idx1-ubyte nor t10k-labels-idx1-ubyte.gz" in message
    assert str(root / "MNIST" / "raw") in message
    assert all(name in message for name in FILES)


def damaged(root: Path, content: bytes) -> str:
    (root / "train-images-idx3-ubyte").write_bytes(content)
    with pytest.raises(DataError) as caught:
        mnist(root)
    assert str(root / "train-images-idx3-ubyte") in str(caught.value)
    return str(caught.value)


def test_bad_magic(root: Path) -> None:
    labels = idx_bytes(np.arange(20))
    assert "begins with 0x00000801, not 0x00000803" in damaged(root, labels)


def test_truncated_file(root: Path) -> None:
    whole = idx_bytes(np.zeros((7, 28, 28)))
    assert "its header promises 5488 bytes and 5487 follow" in damaged(root, whole[:-1])
    assert "promises 5488 bytes and 5490 follow" in damaged(root, whole + b"xx")
    assert "5 bytes, less than its header" in damaged(root, whole[:5])
    assert "0 bytes, less than its header" in damaged(root, b"")


def test_truncated_or_corrupt_gzip(root: Path) -> None:
    packed = gzip.compress(idx_bytes(arrays()["train-images-idx3-ubyte"]))
    assert "damaged gzip" in damaged(root, packed[: len(packed) // 2])
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 0xFF
    assert "damaged gzip" in damaged(root, bytes(flipped))
    assert "damaged gzip" in damaged(root, packed[:12])
    no_such_block = packed[:10] + b"\xff" + packed[11:]
    assert "damaged gzip" in damaged(root, no_such_block)


def test_numbers_of_images_and_labels_must_agree(root: Path) -> None:
    (root / "train-labels-idx1-ubyte").write_bytes(idx_bytes(np.zeros(6)))
    with pytest.raises(DataError, match=r"holds 7 images but train-labels-idx1-ubyte 6 labels"):
        mnist(root)


def test_root_is_the_argument_then_the_variable_then_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("given", "named", "data"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNSPUR_DATA", str(tmp_path / "named"))
    assert find_root(tmp_path / "given") == tmp_path / "given"
    assert find_root() == tmp_path / "named"
    monkeypatch.delenv("UNSPUR_DATA")
    assert find_root() == Path("data")


def test_a_missing_root_names_all_three_ways_to_set_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNSPUR_DATA", raising=False)
    expected = r"Pass --data-root, set .* UNSPUR_DATA, or put the data in data/ in the working"
    with pytest.raises(DataError, match=rf"no data folder data \(the default\)\. {expected}"):
        find_root()
    with pytest.raises(DataError, match=rf"gone \(data_root\)\. {expected}"):
        find_root(tmp_path / "gone")
    (tmp_path / "data").mkdir()  # a wrong variable is an error, not a reason to look elsewhere
    monkeypatch.setenv("UNSPUR_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=rf"nowhere \(UNSPUR_DATA\)\. {expected}"):
        find_root()


@pytest.mark.real
def test_the_real_mnist() -> None:
    digits = real_mnist()
    assert [tuple(part.shape) for part in digits] == [
        (60_000, 28, 28),
        (60_000,),
        (10_000, 28, 28),
        (10_000,),
    ]
    assert digits.train_labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert digits.train_labels.bincount().tolist() == [
        *(5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
    ]
    assert int(digits.train_images.long().sum()) == 1_567_298_545


def test_the_plain_set_has_no_bias_and_three_equal_channels(root: Path) -> None:
    splits, digits = load_plain(root, 3), mnist(root)
    assert not splits.bias
    # A split of so few digits may have none to validate with.
    held = 0 if splits.valid is None else len(splits.valid)
    assert len(splits.train) + held == len(digits.train_labels)
    assert splits.test is not None
    images = splits.test.take(torch.arange(len(digits.test_labels)))
    assert all(torch.equal(images[:, channel], digits.test_images) for channel in range(3))
    assert splits.digest == load_plain(root, 3).digest
