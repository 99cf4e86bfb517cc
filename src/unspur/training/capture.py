"""Record training steps once as a CUDA graph and replay them.

Several loops are recorded side by side, each on its own CUDA stream, so that the GPU works on all of them
at once; one small network would leave most of the GPU idle. Every loop runs the same kernels as alone, and
gives the same bits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .loop_state import Loop

Inputs = Sequence[tuple[Tensor, ...]]  # the inputs of one step, for each loop
Advance = Callable[[Inputs], None]


def one_by_one(loops: Sequence[Loop]) -> Advance:
    """Return a function that advances every loop in turn, without a graph."""

    def advance(inputs: Inputs) -> None:
        for loop, loop_inputs in zip(loops, inputs, strict=True):
            _seed(loop)
            loop.advance(*loop_inputs)

    return advance


def capture_steps(loops: Sequence[Loop], inputs: Inputs) -> Advance:
    """Record the steps of the loops for replay; use plain steps on a CPU, or if recording fails.

    Recording needs initialised libraries, so a few trial steps run first and are undone. Every real step is a
    replay, so that a resumed run gives the same bits as an uninterrupted one.
    """
    team = loops[0].team
    if loops[0].device.type != "cuda" or (team is not None and not team.can_be_captured):
        return one_by_one(loops)
    before = [_state(loop) for loop in loops]
    static = [tuple(t.clone() for t in loop_inputs) for loop_inputs in inputs]
    try:
        # A network that draws from torch's random stream (dropout) must be recorded alone.
        draws_random = [
            _try(loop, loop_inputs) for loop, loop_inputs in zip(loops, static, strict=True)
        ]
        # So must loops that communicate with other processes, which all need the same order.
        single = any(draws_random) or team is not None
        parts = [[n] for n in range(len(loops))] if single else [list(range(len(loops)))]
        graphs = [_record([loops[n] for n in part], [static[n] for n in part]) for part in parts]
    except (RuntimeError, TypeError) as error:
        torch.cuda.synchronize()
        warnings.warn(
            f"the training step cannot be captured ({error}); it runs eagerly.", stacklevel=4
        )
        return one_by_one(loops)
    finally:
        for loop, state in zip(loops, before, strict=True):
            _undo(loop, *state)
    buffers = [t for loop_inputs in static for t in loop_inputs]

    def replay(inputs: Inputs) -> None:
        torch._foreach_copy_(buffers, [t for loop_inputs in inputs for t in loop_inputs])
        for part, graph in zip(parts, graphs, strict=True):
            if any(draws_random):
                _seed(loops[part[0]])
            graph.replay()

    return replay


def _seed(loop: Loop) -> None:
    """Seed torch's random stream for this step, for networks that draw from it."""
    # Not torch.manual_seed, which is slow because it visits every kind of device.
    seed = loop.options.seed + loop.step
    torch.default_generator.manual_seed(seed)
    if loop.device.type == "cuda":
        torch.cuda.default_generators[loop.clock.get_device()].manual_seed(seed)


def _try(loop: Loop, inputs: tuple[Tensor, ...]) -> bool:
    """Run trial steps; return whether the network draws from torch's random stream."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    random_state = torch.cuda.get_rng_state(loop.device)
    with torch.cuda.stream(side):
        for _ in range(3):
            loop.advance(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    for optimiser in loop.optimisers:
        optimiser.clear_gradients()
    return not torch.equal(random_state, torch.cuda.get_rng_state(loop.device))


def _record(loops: Sequence[Loop], inputs: Inputs) -> torch.cuda.CUDAGraph:
    """Record one graph with a branch for every loop."""
    graph = torch.cuda.CUDAGraph()
    branches = [torch.cuda.Stream() for _ in loops]  # type: ignore[no-untyped-call]
    # NCCL's thread may query its events during the capture.
    mode = "global" if loops[0].team is None else "thread_local"
    trunk = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own may be of another GPU
    with torch.cuda.graph(graph, stream=trunk, capture_error_mode=mode):
        for branch, loop, loop_inputs in zip(branches, loops, inputs, strict=True):
            branch.wait_stream(trunk)
            with torch.cuda.stream(branch):
                loop.advance(*loop_inputs)
        for branch in branches:
            trunk.wait_stream(branch)
    return graph


def _state(loop: Loop) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    method = {name: t.clone() for name, t in loop.method.state_dict().items()}
    return method, {name: t.clone() for name, t in _further_state(loop).items()}


def _further_state(loop: Loop) -> dict[str, Tensor]:
    """Return what a step changes besides the method: optimisers, and sums since the last log."""
    sums = {"health": loop.health, "healthy_steps": loop.healthy_steps}
    sums |= {f"loss.{name}": total for name, total in loop.losses.items()}
    return sums | {f"optimiser.{name}": t for name, t in loop.optimiser_state().items()}


@torch.no_grad()
def _undo(loop: Loop, method: Mapping[str, Tensor], further: Mapping[str, Tensor]) -> None:
    """Restore the state of a loop, in place; state that did not exist before is set to zero."""
    loop.method.load_state_dict(method)
    for name, tensor in _further_state(loop).items():
        tensor.copy_(further[name]) if name in further else tensor.zero_()
    loop.clock.fill_(loop.step)
