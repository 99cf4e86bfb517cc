"""A damaged or malicious file is skipped with a reason, whatever it does to a decoder."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from unspur.data.custom import images
from unspur.data.decoding import decoding_process, pixels
from unspur.data.decoding.files import Files, read
from unspur.data.decoding.readers import Decoders, FromFiles, Memory
from unspur.errors import DataError

SIZE = (8, 8)


def picture(path: Path, number: int = 0) -> Path:
    rng = np.random.default_rng(number)
    Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8)).save(path)
    return path


def huge_png(path: Path, side: int = 30_000) -> Path:
    """Write a PNG whose header announces many pixels, with hardly any data."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    body = zlib.compress(bytes(3 * side + 1))
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", body), chunk(b"IEND", b"")]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    return path


@pytest.mark.parametrize("kind", ["eps", "ico", "dds", "tga", "pcx"])
def test_other_formats_are_not_opened(tmp_path: Path, kind: str) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / f"a.{kind}")
    os.rename(tmp_path / f"a.{kind}", tmp_path / "a.png")
    with pytest.raises(pixels.UnreadableImage, match="one of the formats JPEG, PNG"):
        pixels.read(tmp_path / "a.png", SIZE)


@pytest.mark.parametrize("kind", ["jpg", "png", "bmp", "gif", "tif", "webp", "ppm", "pgm", "pbm"])
def test_every_format_of_the_list_is_read(tmp_path: Path, kind: str) -> None:
    mode = {"pgm": "L", "pbm": "1"}.get(kind, "RGB")
    Image.new(mode, (8, 8), 1).save(tmp_path / f"a.{kind}")
    assert pixels.read(tmp_path / f"a.{kind}", SIZE).shape == (3, 8, 8)


def test_a_photograph_with_several_frames_is_read(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), (number, 0, 0)) for number in (100, 200)]
    frames[0].save(tmp_path / "a.jpg", format="MPO", save_all=True, append_images=frames[1:])
    assert abs(int(pixels.read(tmp_path / "a.jpg", SIZE)[0, 0, 0]) - 100) < 5


def pipe(path: Path) -> None:
    os.mkfifo(path)


def listener(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(path))


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.skipif(os.name != "posix", reason="such files are not there")
@pytest.mark.parametrize("make", [pipe, listener, link_to_itself, link_to_a_device])
def test_only_regular_files_are_opened(tmp_path: Path, monkeypatch, make) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    make(Path("a.png"))
    began = time.process_time()
    with pytest.raises(pixels.UnreadableImage, match=r"regular file|symbolic links"):
        pixels.read("a.png", SIZE)
    assert time.process_time() - began < 5


def test_a_link_to_an_image_is_read(tmp_path: Path) -> None:
    (tmp_path / "b.png").symlink_to(picture(tmp_path / "a.png"))
    assert pixels.read(tmp_path / "b.png", SIZE).shape == (3, 8, 8)


def test_a_huge_image_has_a_clear_reason_in_seconds(tmp_path: Path) -> None:
    huge_png(tmp_path / "a.png")
    began = time.process_time()
    with pytest.raises(DataError, match=r"more than 178,956,970 pixels"):
        read(tmp_path / "a.png", SIZE)
    assert time.process_time() - began < 5


def test_our_limit_holds_without_that_of_pillow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    with pytest.raises(pixels.UnreadableImage, match="more than"):
        pixels.measure(huge_png(tmp_path / "a.png"))


@pytest.mark.parametrize(
    "error",
    [
        *(MemoryError(), RecursionError("deep"), struct.error("unpack"), SyntaxError("not a TIFF")),
        *(KeyError("tag"), ZeroDivisionError("by zero"), IndexError("out of range")),
        *(AttributeError("tile"), TypeError("None"), RuntimeError("codec"), OverflowError("large")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_any_error_of_a_decoder_is_a_reason(tmp_path: Path, monkeypatch, error) -> None:
    def load(self):
        raise error

    path = picture(tmp_path / "a.png")
    monkeypatch.setattr(Image.Image, "resize", lambda *args: load(None))
    with pytest.raises(pixels.UnreadableImage, match=str(error) or type(error).__name__):
        pixels.read(path, SIZE)


# A decoding process that is slow, crashes or is killed for certain file names.
PROGRAM = f"""
import importlib.util, os, signal, sys, time
spec = importlib.util.spec_from_file_location("pixels", {pixels.__file__!r})
pixels = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pixels)
read = pixels.read
def odd(path, *args):
    path_name = os.path.basename(path)
    if "slow" in path_name:
        open(path + ".begun", "w").close()
        time.sleep(600)
    for name in ("SIGSEGV", "SIGABRT", "SIGKILL"):
        if name in path_name:
            os.kill(os.getpid(), getattr(signal, name))
    return read(path, *args)
pixels.read = odd
pixels.serve(sys.stdin, sys.stdout)
"""


def patient(begun: Path):
    """Return a wait whose time begins with the slow file: a process may take long to start."""
    wait = decoding_process._is_ready

    def is_ready(handle: int) -> bool:
        while not begun.exists():
            if select.select([handle], [], [], 0.05)[0]:
                return True
        begun.unlink()
        return wait(handle)

    return is_ready


@pytest.fixture
def odd_decoders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.setattr(decoding_process, "PROGRAM", str(tmp_path / "program.py"))
    monkeypatch.setattr(decoding_process, "SECONDS", 1.0)
    monkeypatch.setattr(decoding_process, "_is_ready", patient(tmp_path / "slow.png.begun"))
    decoders = Decoders(1)
    yield decoders
    decoders.close()


def fill(decoders: Decoders, paths: list[Path]) -> tuple[torch.Tensor, dict[str, str]]:
    files = Files(tuple(paths), torch.zeros(len(paths), dtype=torch.int64), SIZE)
    memory = Memory((len(paths), *files.shape), files.dtype, pinned=False)
    reader = FromFiles(files, 1)
    reader.decoders = decoders
    bad: dict[str, str] = {}
    try:
        for work in reader.fill(memory, 0, torch.arange(len(paths))):
            bad |= work.result(timeout=600)
    finally:
        memory.close()
    return memory.slots, bad


def test_a_slow_or_fatal_file_does_not_affect_other_files(tmp_path: Path, odd_decoders) -> None:
    names = ("1", "slow", "2", "SIGSEGV", "SIGABRT", "3")
    paths = [picture(tmp_path / f"{name}.png", n) for n, name in enumerate(names)]
    pixels_, bad = fill(odd_decoders, paths)
    assert bad == {
        str(paths[1]): "decoding it took more than 1 s",
        str(paths[3]): "the decoder crashed on it (SIGSEGV)",
        str(paths[4]): "the decoder crashed on it (SIGABRT)",
    }
    for n in (0, 2, 5):
        assert np.array_equal(pixels_[n].numpy(), pixels.read(paths[n], SIZE))
    assert fill(odd_decoders, paths[:1])[1] == {}  # the decoders still work


def test_a_process_killed_from_outside_is_not_blamed_on_a_file(tmp_path, odd_decoders) -> None:
    path = picture(tmp_path / f"{signal.SIGKILL.name}.png")
    with pytest.raises(DataError, match=r"ended unexpectedly \(SIGKILL\)\. Is there enough memory"):
        fill(odd_decoders, [path])


@pytest.mark.skipif(os.name != "posix", reason="such files are not there")
def test_a_set_with_odd_files_is_opened_without_them(tmp_path: Path) -> None:
    for label in ("cat", "dog"):
        (tmp_path / label).mkdir()
        for number in range(150):
            picture(tmp_path / label / f"{number}.png", number)
    pipe(tmp_path / "cat" / "pipe.png")
    link_to_itself(tmp_path / "dog" / "link.png")
    huge_png(tmp_path / "dog" / "huge.png")
    with pytest.warns(UserWarning, match="3 of 303 images"):
        splits = images.load(tmp_path)
    assert len(splits.train) == 300
    assert splits.skipped == {
        "cat/pipe.png": "it is not a regular file",
        "dog/huge.png": "it has more than 178,956,970 pixels",
        "dog/link.png": "Too many levels of symbolic links",
    }
