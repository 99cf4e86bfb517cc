"""A training step recorded once as a CUDA graph, then replayed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .sampling import Order

if TYPE_CHECKING:
    from .train import Loop


def captured(loop: Loop, order: Order) -> Callable[[Tensor], None]:
    """The loop's step as a replay; the plain step on a CPU, or where recording fails.

    Trial steps come first, as recording needs warm libraries. They are undone, so that every step that
    counts is a replay and a resumed run repeats the bits of an undisturbed one.
    """
    if loop.device.type != "cuda" or loop.step >= loop.plan.steps:
        return loop.advance
    method = {name: t.clone() for name, t in loop.method.state_dict().items()}
    memory = {name: t.clone() for name, t in loop.memory().items()}
    static = order.draw(loop.step, 1)[0].clone()
    try:
        graph = _record(loop, static)
    except (RuntimeError, TypeError) as error:
        torch.cuda.synchronize()
        warnings.warn(
            f"the training step cannot be captured ({error}); it runs eagerly.", stacklevel=3
        )
        _undo(loop, method, memory)
        return loop.advance
    _undo(loop, method, memory)

    def replay(index: Tensor) -> None:
        static.copy_(index)
        graph.replay()

    return replay


def _record(loop: Loop, index: Tensor) -> torch.cuda.CUDAGraph:
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            loop.advance(index)
    torch.cuda.current_stream().wait_stream(side)
    for optimiser in loop.optimisers:
        optimiser.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loop.advance(index)
    return graph


@torch.no_grad()
def _undo(loop: Loop, method: Mapping[str, Tensor], memory: Mapping[str, Tensor]) -> None:
    """Put the loop back where it was, in place; a memory that was not there yet is zero."""
    loop.method.load_state_dict(method)
    for name, tensor in loop.memory().items():
        tensor.copy_(memory[name]) if name in memory else tensor.zero_()
    loop.clock.fill_(loop.step)
    loop.first_bad.fill_(-1)
    for total in loop.losses.values():
        total.zero_()
