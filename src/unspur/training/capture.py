"""Training steps recorded once as a CUDA graph, then replayed.

Several loops are recorded side by side, each on a stream of its own, so that the GPU works on all of them
at once: a step of a small network leaves most of it idle. Every loop keeps the kernels, and so the bits,
that it has alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .loop_state import Loop

Inputs = Sequence[tuple[Tensor, ...]]  # of one step, for each loop
Advance = Callable[[Inputs], None]


def one_by_one(loops: Sequence[Loop]) -> Advance:
    """Return a function that advances every loop in turn, without a graph."""

    def advance(inputs: Inputs) -> None:
        for loop, loop_inputs in zip(loops, inputs, strict=True):
            _seed(loop)
            loop.advance(*loop_inputs)

    return advance


def capture_steps(loops: Sequence[Loop], inputs: Inputs) -> Advance:
    """Record the loops' steps for replay; use plain steps on a CPU, or where recording fails.

    Trial steps come first, as recording needs warm libraries. They are undone, so that every step that
    counts is a replay and a resumed run repeats the bits of an undisturbed one.
    """
    team = loops[0].team
    if loops[0].device.type != "cuda" or (team is not None and not team.can_be_captured):
        return one_by_one(loops)
    before = [_state(loop) for loop in loops]
    static = [tuple(t.clone() for t in loop_inputs) for loop_inputs in inputs]
    try:
        # A network that itself draws from torch's stream (dropout) needs that stream for itself.
        draws_random = [
            _try(loop, loop_inputs) for loop, loop_inputs in zip(loops, static, strict=True)
        ]
        # So do loops that exchange with other processes: these must meet in one order.
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
    places = [t for loop_inputs in static for t in loop_inputs]

    def replay(inputs: Inputs) -> None:
        torch._foreach_copy_(places, [t for loop_inputs in inputs for t in loop_inputs])
        for part, graph in zip(parts, graphs, strict=True):
            if any(draws_random):
                _seed(loops[part[0]])
            graph.replay()

    return replay


def _seed(loop: Loop) -> None:
    """Give a network that draws from torch's own stream the numbers of this step."""
    # Not torch.manual_seed: it visits every kind of device there could be, which is slow.
    seed = loop.options.seed + loop.step
    torch.default_generator.manual_seed(seed)
    if loop.device.type == "cuda":
        torch.cuda.default_generators[loop.clock.get_device()].manual_seed(seed)


def _try(loop: Loop, inputs: tuple[Tensor, ...]) -> bool:
    """Take trial steps; return whether the network draws from torch's own random stream."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    random_state = torch.cuda.get_rng_state(loop.device)
    with torch.cuda.stream(side):
        for _ in range(3):
            loop.advance(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    for optimiser in loop.optimisers:
        optimiser.zero_grad(set_to_none=True)
    return not torch.equal(random_state, torch.cuda.get_rng_state(loop.device))


def _record(loops: Sequence[Loop], inputs: Inputs) -> torch.cuda.CUDAGraph:
    """Record one graph with a branch for every loop."""
    graph = torch.cuda.CUDAGraph()
    branches = [torch.cuda.Stream() for _ in loops]  # type: ignore[no-untyped-call]
    # NCCL's own thread may look at its events meanwhile.
    mode = "global" if loops[0].team is None else "thread_local"
    with torch.cuda.graph(graph, capture_error_mode=mode):
        trunk = torch.cuda.current_stream()
        for branch, loop, loop_inputs in zip(branches, loops, inputs, strict=True):
            branch.wait_stream(trunk)
            with torch.cuda.stream(branch):
                loop.advance(*loop_inputs)
        for branch in branches:
            trunk.wait_stream(branch)
    return graph


def _state(loop: Loop) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    method = {name: t.clone() for name, t in loop.method.state_dict().items()}
    return method, {name: t.clone() for name, t in loop.memory().items()}


@torch.no_grad()
def _undo(loop: Loop, method: Mapping[str, Tensor], memory: Mapping[str, Tensor]) -> None:
    """Put the loop back where it was, in place; a memory that was not there yet is zero."""
    loop.method.load_state_dict(method)
    for name, tensor in loop.memory().items():
        tensor.copy_(memory[name]) if name in memory else tensor.zero_()
    loop.clock.fill_(loop.step)
    for total in (loop.health, loop.healthy, *loop.losses.values()):
        total.zero_()
