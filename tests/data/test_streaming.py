"""Streaming gives exactly the same pixels as resident images, and ends cleanly."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from toys import TinyNet, context, same, shapes_set
from unspur import stages
from unspur.data import streaming
from unspur.data.batches import Preprocess, Resident
from unspur.data.decoding import readers
from unspur.data.decoding.files import Files
from unspur.data.decoding.pixel_cache import decode
from unspur.data.splits import Split, Splits
from unspur.data.streaming import Streaming, fits_on
from unspur.errors import DataError
from unspur.methods import ERM
from unspur.training.fit_options import FitOptions, Optimiser
from unspur.training.loop import fit
from unspur.training.sampling import Passes

CPU = torch.device("cpu")
COUNT = 70


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """JPEG files of several sizes."""
    folder = tmp_path_factory.mktemp("jpegs")
    rng = np.random.default_rng(0)
    paths = []
    for i in range(COUNT):
        small = Image.fromarray(rng.integers(0, 256, (5, 4, 3), np.uint8))
        paths.append(folder / f"{i:03d}.jpg")
        small.resize((20 + i % 7, 30 - i % 5)).save(paths[-1])
    return Files(tuple(paths), torch.arange(COUNT) % 2, (12, 10))


def in_memory(files: Files) -> Split:
    return Split(files.take(torch.arange(len(files))), files.targets)


def streaming_of(part: Any, **kwargs: Any) -> Streaming:
    return Streaming(part, device=CPU, preprocess=Preprocess(), workers=2, **kwargs)


def resident_of(split: Split, **kwargs: Any) -> Resident:
    return Resident(split, device=CPU, preprocess=Preprocess(), **kwargs)


def order(batches: int = 30, batch: int = 8) -> Tensor:
    return Passes(torch.arange(COUNT), batch=batch, seed=3).draw(0, batches)


@pytest.mark.parametrize("lazy", [True, False], ids=["files", "memory"])
def test_the_same_batches_as_resident(files: Files, lazy: bool) -> None:
    split = in_memory(files)
    settings: Any = {"augment": "crop-flip", "seed": 5, "conflict": torch.arange(COUNT) % 3 == 0}
    one = resident_of(split, **settings)
    other = streaming_of(files if lazy else split, **settings)
    feeds = zip(one.feed(iter(order())), other.feed(iter(order())), strict=True)
    for step, (indices, sent) in enumerate(feeds):
        expected = one.batch(*indices[:1], torch.tensor(step))
        batch = other.batch(sent[0], torch.tensor(step), sent[1])
        for name in ("x", "y", "index", "conflict", "step"):
            assert torch.equal(getattr(batch, name), getattr(expected, name)), name
    assert step == 29


def test_batches_are_not_overwritten_by_later_ones(files: Files) -> None:
    sent = list(streaming_of(files).feed(iter(order())))
    assert all(torch.equal(pixels, files.take(index)) for index, pixels in sent)


@pytest.mark.parametrize("lazy", [True, False], ids=["files", "memory"])
def test_plain_is_the_same_as_resident(files: Files, lazy: bool) -> None:
    split = in_memory(files)
    among = torch.arange(COUNT) % 4 == 1
    one, other = resident_of(split), streaming_of(files if lazy else split)
    assert torch.equal(torch.cat(list(one.plain(32))), torch.cat(list(other.plain(32))))
    selected = [torch.cat(list(source.plain(8, among=among))) for source in (one, other)]
    assert torch.equal(*selected)
    assert torch.equal(selected[0], Preprocess()(split.images[among]))
    assert list(other.plain(among=torch.zeros(COUNT, dtype=torch.bool))) == []


def test_a_batch_without_pixels_is_read_on_demand(files: Files) -> None:
    index = torch.tensor([5, 5, 69])
    batch = streaming_of(files).batch(index, torch.tensor(0))
    assert torch.equal(batch.x, Preprocess()(files.take(index)))


def test_float_images_stream_too() -> None:
    split = Split(torch.randn(COUNT, 1, 4, 4), torch.arange(COUNT) % 2)
    assert torch.equal(torch.cat(list(streaming_of(split).plain(16))), split.images)


def test_training_gives_the_same_bits(files: Files) -> None:
    plan = FitOptions(steps=12, optimiser=Optimiser(rate=0.01), log_every=4)
    weights = []
    for source in (resident_of(in_memory(files)), streaming_of(files)):
        torch.manual_seed(0)
        method = ERM(TinyNet())
        fit(method, source, Passes(torch.arange(COUNT), batch=16, seed=1), plan)
        weights.append(method.state_dict())
    assert same(*weights)


def test_a_whole_run_gives_the_same_bits(tmp_path: Path) -> None:
    runs = [
        stages.run(context(tmp_path / how, [f"data.source={how}", "data.augment=flip"]))
        for how in ("resident", "streaming")
    ]
    for stage in runs[0][0]:
        assert same(*(results[stage].tensors for results, _ in runs)), stage
    assert runs[0][1].facts == runs[1][1].facts
    assert [a.path.name for a in runs[0][0].values()] == [a.path.name for a in runs[1][0].values()]


def test_a_whole_run_from_files(tmp_path: Path) -> None:
    splits = shapes_set(seed=1)
    parts: dict[str, Any] = {}
    for name, part in splits.parts().items():
        paths = []
        for i, image in enumerate(part.images):  # type: ignore[attr-defined]
            paths.append(tmp_path / f"{name}{i}.png")
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(paths[-1])
        parts[name] = Files(tuple(paths), part.targets, (8, 8))
    lazy = Splits(**parts, classes=splits.classes, bias=splits.bias)
    settings = ["data.workers=2"]
    results, scores = stages.run(context(tmp_path / "a", settings, splits=lazy))
    expected, known = stages.run(context(tmp_path / "b", settings, splits=splits))
    assert same(results["finetune"].tensors, expected["finetune"].tensors)
    assert scores.facts == known.facts


# Errors


def test_a_damaged_file_is_named(files: Files, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(files.paths[0].read_bytes()[:100])
    damaged = Files((*files.paths[:20], bad), files.targets[:21], files.size)
    feed = streaming_of(damaged).feed(iter(torch.arange(21)[None].expand(20, -1)))
    with pytest.raises(DataError, match=r"bad\.jpg cannot be read as an image"):
        list(feed)
    missing = Files((tmp_path / "none.jpg",), files.targets[:1], files.size)
    with pytest.raises(DataError, match=r"none\.jpg .*missing"):
        list(streaming_of(missing).plain())
    assert len(list(streaming_of(files).plain(10))) == 7  # the processes still work


def test_a_decoding_process_that_dies_is_an_error_and_is_replaced(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoders = readers.Decoders(1)
    monkeypatch.setattr(readers, "shared_decoders", lambda count: decoders)
    source = streaming_of(files)
    assert torch.equal(torch.cat(list(source.plain(32))), Preprocess()(in_memory(files).images))
    process = decoders.idle.get()
    assert process is not None
    process.process.kill()
    process.process.wait()
    decoders.idle.put(process)
    with pytest.raises(DataError, match="decoding process ended"):
        list(source.plain(32))
    assert len(list(source.plain(35))) == 2
    (last := decoders.idle.get()) is None or decoders.idle.put(last)
    decoders.close()
    assert last is not None
    assert last.process.poll() == 0


def test_an_abandoned_feed_stops_reading(files: Files) -> None:
    feed = streaming_of(files).feed(iter(order(1000)))
    next(feed)
    feed.close()  # type: ignore[attr-defined]
    with pytest.raises(StopIteration):
        next(feed)


def test_an_empty_order_gives_nothing(files: Files) -> None:
    before = set(threading.enumerate())  # some of them may end meanwhile
    assert list(streaming_of(files).feed(iter(()))) == []
    assert set(threading.enumerate()) <= before


def test_an_object_that_cannot_be_streamed_is_refused() -> None:
    with pytest.raises(DataError, match="cannot be streamed"):
        readers.reader(object())  # type: ignore[arg-type]


# Which images stay on the device


def test_files_are_streamed_and_images_in_memory_are_not(files: Files) -> None:
    assert not fits_on([files], CPU)
    assert fits_on([in_memory(files)], CPU)


def test_images_may_use_half_of_the_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = torch.device("cuda", 0)
    split = Split(torch.zeros(10, 3, 10, 10, dtype=torch.uint8), torch.zeros(10, dtype=torch.int64))
    for free, fits in ((5999, False), (6000, True)):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, free=free: (free, 10**9))
        assert fits_on([split], gpu) is fits
    split._placed[gpu] = (split.images, split.targets)
    assert fits_on([split], gpu)  # the images are there already


# Files


def test_the_digest_depends_on_content_size_crop_and_labels(files: Files, tmp_path: Path) -> None:
    copies = []
    for path in files.paths:
        copies.append(tmp_path / path.name)
        copies[-1].write_bytes(path.read_bytes())
    again = Files(tuple(copies), files.targets, files.size)
    assert again.digest == files.digest
    others = [
        Files(again.paths, again.targets, (10, 12)),
        Files(again.paths, again.targets, again.size, "square"),
        Files(again.paths, 1 - again.targets, again.size),
        Files(again.paths[::-1], again.targets, again.size),
    ]
    copies[3].write_bytes(files.paths[4].read_bytes())
    others.append(Files(tuple(copies), again.targets, again.size))
    assert len({files.digest, *(other.digest for other in others)}) == 6


def test_decoding_gives_the_pixels_of_the_cache(files: Files, tmp_path: Path) -> None:
    square = Files(files.paths, files.targets, (16, 16))
    cached = Split(decode(list(files.paths), size=16, cache=tmp_path), files.targets)
    assert torch.equal(torch.cat(list(streaming_of(square).plain())), Preprocess()(cached.images))
    assert torch.equal(torch.cat(list(streaming_of(cached).plain())), Preprocess()(cached.images))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"crop": "round"}, "no crop 'round'"),
        ({"size": (0, 4)}, "at least 1"),
        ({"targets": torch.zeros(3)}, "need as many int64 targets"),
    ],
)
def test_files_are_checked(files: Files, change: dict[str, Any], message: str) -> None:
    settings = {"paths": files.paths, "targets": files.targets, "size": files.size, **change}
    with pytest.raises(DataError, match=message):
        Files(**settings)


# On a GPU


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
@pytest.mark.parametrize("capture", [True, False])
def test_training_gives_the_same_bits_on_a_gpu(files: Files, capture: bool) -> None:
    gpu = torch.device("cuda")
    plan = FitOptions(steps=100, optimiser=Optimiser(rate=0.01), precision="fp32", capture=capture)
    sources = (
        Resident(in_memory(files), device=gpu, preprocess=Preprocess(), augment="crop-flip"),
        Streaming(in_memory(files), device=gpu, preprocess=Preprocess(), augment="crop-flip"),
        Streaming(files, device=gpu, preprocess=Preprocess(), augment="crop-flip", workers=2),
    )
    weights = []
    for source in sources:
        torch.manual_seed(0)
        method = ERM(TinyNet()).to(gpu)
        fit(method, source, Passes(torch.arange(COUNT, device=gpu), batch=16, seed=1), plan)
        weights.append({name: t.cpu() for name, t in method.state_dict().items()})
        # Both on the GPU, because division by 255 differs from the CPU in the last bit.
        assert torch.equal(
            torch.cat(list(source.plain())), Preprocess()(in_memory(files).images.to(gpu))
        )
    assert same(weights[0], weights[1])
    assert same(weights[0], weights[2])


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
def test_memory_is_pinned_and_the_host_keeps_pace(files: Files) -> None:
    source = Streaming(in_memory(files), device=torch.device("cuda"), preprocess=Preprocess())
    for index, pixels in source.feed(iter(order(5 * streaming.AHEAD))):
        assert pixels.is_cuda
        assert torch.equal(pixels.cpu(), files.take(index))
