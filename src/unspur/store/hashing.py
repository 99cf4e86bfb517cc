"""Content hashes of text and tensors."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def digest(text: str, *tensors: Tensor) -> str:
    """Return a short content hash of a text and tensors."""
    import numpy as np
    import torch

    sha = hashlib.sha256(text.encode())
    for tensor in tensors:
        array = tensor.detach().cpu().contiguous().reshape(-1)
        sha.update(np.ascontiguousarray(array.view(torch.uint8).numpy()).data)
    return sha.hexdigest()[:32]
