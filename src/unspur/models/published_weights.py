"""Find the published weights of networks, and the input that they expect.

The file is searched in the folder of torch.hub, otherwise downloaded to it. If that fails, the error names
the file and where to put it. Files are read as plain tensors; no code in them is run.
"""

from __future__ import annotations

import re
import socket
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError

import torch
from torch import Tensor, nn

from ..errors import ModelError
from . import weight_files
from .libraries import TIMM, TORCHVISION, load_library

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet
PATIENCE = 20.0  # seconds to wait for an answer of a server
TORCH = "https://download.pytorch.org/models"
HUB = "https://huggingface.co"


@dataclass(frozen=True)
class PublishedWeights:
    """The address of a network's weights, the name of their file, and the input they expect."""

    network: str
    url: str
    file: str
    size: int = 224
    mean: tuple[float, ...] = MEAN
    std: tuple[float, ...] = STD

    @property
    def place(self) -> Path:
        """Return the path of the file."""
        return Path(torch.hub.get_dir()) / "checkpoints" / self.file


BUILTIN_WEIGHTS = {"resnet18": "resnet18-f37072fd.pth", "mobilenet_v2": "mobilenet_v2-b0353104.pth"}


def published(name: str) -> PublishedWeights:
    """Return the published weights of a network; raise ModelError if none are known."""
    if name.startswith(TIMM):
        return _of_timm(name)
    if name.startswith(TORCHVISION):
        return _of_torchvision(name)
    if name in BUILTIN_WEIGHTS:
        file = BUILTIN_WEIGHTS[name]
        return PublishedWeights(name, f"{TORCH}/{file}", file)
    raise ModelError(
        f"no published weights of {name} are known. They are of timm:NAME, torchvision:NAME, "
        f"{', '.join(BUILTIN_WEIGHTS)}. Give a file of weights with --init instead."
    )


def _of_timm(name: str) -> PublishedWeights:
    timm = load_library(name)
    try:
        found = timm.models.get_pretrained_cfg(name.removeprefix(TIMM), allow_unregistered=False)
    except RuntimeError as error:
        raise ModelError(f"timm has no weights of {name}: {error}") from None
    if not (found.hf_hub_id or found.url):
        raise ModelError(f"timm has no weights of {name}. See timm.list_models(pretrained=True).")
    if not found.hf_hub_id:
        file, url = found.url.rpartition("/")[2], found.url
    else:
        file = f"{found.hf_hub_id.rpartition('/')[2]}.safetensors"
        url = f"{HUB}/{found.hf_hub_id}/resolve/main/model.safetensors"
    return PublishedWeights(name, url, file, found.input_size[-1], found.mean, found.std)


def _of_torchvision(name: str) -> PublishedWeights:
    models = load_library(name).models
    try:
        best = models.get_model_weights(name.removeprefix(TORCHVISION)).DEFAULT
    except (ValueError, AttributeError) as error:
        raise ModelError(f"torchvision has no weights of {name} ({error}).") from None
    how = best.transforms()
    file = best.url.rpartition("/")[2]
    return PublishedWeights(name, best.url, file, how.crop_size[0], tuple(how.mean), tuple(how.std))


def load_published(
    name: str, make: Callable[..., nn.Module], classes: int, options: Mapping[str, Any], init: str
) -> dict[str, Tensor]:
    """Return the published weights of a network without its head, from `init` or the downloaded file."""
    weights = published(name)
    path = Path(init) if init else find_file(weights)
    tensors = weight_files.read(path)
    with torch.random.fork_rng(devices=[]):
        if name.startswith(TIMM):
            return _adapt_with_timm(name, tensors, classes, options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the missing head is intended
            return weight_files.select_weights(tensors, make(classes=classes, **options), path)


def _adapt_with_timm(
    name: str, tensors: Mapping[str, Tensor], classes: int, options: Mapping[str, Any]
) -> dict[str, Tensor]:
    """Return weights with the names that timm's code gives them, without the head."""
    timm = load_library(name)
    try:
        model: nn.Module = timm.create_model(
            name.removeprefix(TIMM),
            pretrained=True,
            num_classes=classes,
            pretrained_cfg_overlay={"state_dict": dict(tensors)},
            **options,
        )
    except (RuntimeError, KeyError) as error:
        reason = str(error).partition("\n")[0]
        raise ModelError(f"the weights do not fit {name}: {reason}.") from None
    head = model.get_classifier()  # type: ignore[operator]
    of_head = {id(p) for p in head.parameters()}
    names = {n.rpartition(".")[0] for n, p in model.named_parameters() if id(p) in of_head}
    return {k: t for k, t in model.state_dict().items() if k.rpartition(".")[0] not in names}


def find_file(weights: PublishedWeights) -> Path:
    """Return the file of published weights; download it if it is missing."""
    place = weights.place
    if place.is_file():
        return place
    found = re.search(r"-([0-9a-f]{8,})\.", weights.file)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _impatient():
            torch.hub.download_url_to_file(
                weights.url, str(place), hash_prefix=found[1] if found else None, progress=False
            )
    except (URLError, OSError, RuntimeError) as error:
        raise ModelError(
            f"the weights of {weights.network} are not on this machine and cannot be downloaded ({error}). "
            f"Get {weights.url} elsewhere and put it at {place}, or name the file: "
            "--init FILE (model.init in a recipe)."
        ) from None
    return place


@contextmanager
def _impatient() -> Iterator[None]:
    """Set a timeout for connections that do not answer."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(PATIENCE)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
