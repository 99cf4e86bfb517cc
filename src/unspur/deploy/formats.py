"""Write a classifier as a file that runs without its Python code, and compare their outputs."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ModelError, UnspurError

Run = Callable[[Tensor], Tensor]
CLOSE = 1e-3  # a larger difference of logits is more than rounding


def write_onnx(model: nn.Module, images: Tensor, path: Path, notes: dict[str, Any]) -> None:
    """Write an ONNX file: a batch of images in, logits out; `notes` are stored as its metadata."""
    import_extra("onnx", "onnxscript", "onnxruntime")
    batch, images = torch.export.Dim("batch", min=1), _several(images)
    with _quiet():
        try:
            program: Any = torch.onnx.export(
                model,
                (images,),
                dynamo=True,
                input_names=["images"],
                output_names=["logits"],
                dynamic_shapes=({0: batch},),
                verbose=False,
            )
        except Exception as error:  # the exporter's errors have no common class
            raise ModelError(_refusal("ONNX", error)) from error
    for key, value in notes.items():
        program.model.metadata_props[key] = value if isinstance(value, str) else json.dumps(value)
    program.save(str(path), external_data=False)


def open_onnx(path: Path, *, threads: int | None = None) -> Run:
    """Open an ONNX file, and return a function from images to logits."""
    runtime = import_extra("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads or torch.get_num_threads()
    # Spinning threads would slow down the other models that are timed in turn.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(images: Tensor) -> Tensor:
        return torch.from_numpy(session.run(None, {"images": images.numpy()})[0])

    return run


def write_pt2(model: nn.Module, images: Tensor, path: Path) -> None:
    """Write a torch.export program, which torch loads without the model's code."""
    batch, images = torch.export.Dim("batch", min=1), _several(images)
    with _quiet():
        try:
            program = torch.export.export(model, (images,), dynamic_shapes=({0: batch},))
        except Exception as error:
            raise ModelError(_refusal("torch.export", error)) from error
        torch.export.save(program, path)


def _several(images: Tensor) -> Tensor:
    """Return a batch of two images or more; with one, the exporter takes the batch size for a constant."""
    return images if len(images) > 1 else torch.cat([images, images])


def open_pt2(path: Path) -> Run:
    """Open a torch.export program, and return a function from images to logits."""
    with _quiet():
        run: Run = torch.export.load(path).module()
    return run


@torch.no_grad()
def difference(one: Run, other: Run, images: Tensor) -> float:
    """Return the largest difference of logits, for all images in one batch and for a single image."""
    batch = (one(images) - other(images)).abs().max()
    single = (one(images[:1]) - other(images[:1])).abs().max()
    return max(float(batch), float(single))


def agree(what: str, one: Run, other: Run, images: Tensor, *, limit: float = CLOSE) -> float:
    """Return the largest difference of logits; raise if it is larger than `limit`."""
    largest = difference(one, other, images)
    if not largest <= limit:
        raise UnspurError(
            f"{what} does not give the outputs of the model: logits differ by up to {largest:.2g}. "
            "Nothing was written."
        )
    return largest


def import_extra(*names: str) -> ModuleType:
    """Import packages of the extra `deploy`, and return the last one."""
    import importlib

    module = None
    for name in names:
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            raise UnspurError(
                f"this needs the package {name}, which cannot be imported ({error}). Install it with "
                '`pip install "unspur[deploy]"`.'
            ) from None
    assert module is not None, "at least one name"
    return module


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's log messages and warnings."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def _refusal(what: str, error: Exception) -> str:
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))
    return f"the model cannot be written for {what}: {reason[:400]} Nothing was written."
