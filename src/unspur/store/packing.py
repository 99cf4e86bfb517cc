"""Pack weights with many zeros into a small file: one bit per entry, and the values that are not zero.

A tensor `w` becomes `w.bits` (eight entries per byte, 1 where the value is not zero) and `w.values`. A tensor
that would not get smaller is stored unpacked. Shapes are in the metadata. Reading restores the same bits,
except that a negative zero becomes a positive one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import safetensors
import torch
from torch import Tensor

from ..errors import StoreError
from .atomic import read_tensors, write_tensors
from .strict_json import parse_json

NAME = "model.packed.safetensors"
BITS, VALUES = ".bits", ".values"


def plain_zeros(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a copy of the weights with negative zeros replaced by positive ones."""
    return {name: t + 0.0 if t.is_floating_point() else t.clone() for name, t in weights.items()}


def write_packed(path: Path, weights: Mapping[str, Tensor]) -> str:
    """Write a packed file, and return the checksum of its bytes."""
    tensors: dict[str, Tensor] = {}
    shapes: dict[str, list[int]] = {}
    for name, tensor in plain_zeros(weights).items():
        flat = tensor.detach().cpu().contiguous().flatten()
        nonzero = flat != 0
        if int(nonzero.sum()) * flat.element_size() + len(flat) / 8 >= flat.nbytes:
            tensors[name] = tensor
            continue
        shapes[name] = list(tensor.shape)
        tensors[name + BITS] = torch.from_numpy(np.packbits(nonzero.numpy()))
        tensors[name + VALUES] = flat[nonzero]
    return write_tensors(path, tensors, {"shapes": json.dumps(shapes)})


def read_packed(path: Path) -> dict[str, Tensor]:
    """Read the weights of a packed file."""
    stored = read_tensors(path)
    with safetensors.safe_open(path, framework="pt") as file:
        text = (file.metadata() or {}).get("shapes")
    if text is None:
        raise StoreError(f"{path} is not a packed file: it has no shapes.")
    shapes = parse_json(text, path)
    if not isinstance(shapes, dict) or not all(map(_is_shape, shapes.values())):
        raise StoreError(f"{path} is damaged: its shapes are not lists of sizes.")
    parts = {name + end for name in shapes for end in (BITS, VALUES)}
    weights = {name: t for name, t in stored.items() if name not in parts}
    for name, shape in shapes.items():
        try:
            weights[name] = _unpack(stored[name + BITS], stored[name + VALUES], shape)
        except (LookupError, ValueError, TypeError, RuntimeError) as error:
            raise StoreError(f"{path} is damaged: {name} cannot be unpacked ({error}).") from None
    return weights


def _is_shape(shape: object) -> bool:
    return isinstance(shape, list) and all(type(size) is int and size >= 0 for size in shape)


def _unpack(bits: Tensor, values: Tensor, shape: list[int]) -> Tensor:
    if len(bits) != math.ceil(math.prod(shape) / 8):
        raise ValueError(f"{len(bits)} bytes of bits do not fit the shape {shape}")
    nonzero = np.unpackbits(bits.numpy(), count=math.prod(shape)).astype(bool)
    flat = torch.zeros(math.prod(shape), dtype=values.dtype)
    flat[torch.from_numpy(nonzero)] = values
    return flat.reshape(shape)
