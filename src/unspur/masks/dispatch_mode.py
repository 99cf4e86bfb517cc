"""A dispatch mode of torch that does not import torch's compiler, which takes a second."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class QuickDispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The base of modes that see every operation of a network."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False; otherwise torch imports its compiler to leave the mode out of it."""
        return False
