"""Adam and SGD, each as one fused kernel for all parameters.

The updates and the names of the state are those of `torch.optim` with `fused=True`. The classes of
`torch.optim` import torch's compiler when they are first used, which takes about a second.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

State = dict[str, Tensor]  # of one parameter


@dataclass
class Group:
    """Parameters with the same learning rate, which are trained from step `since` on."""

    parameters: Sequence[nn.Parameter]
    rate: float | Tensor  # a tensor on a GPU, so that a captured step follows its changes
    since: int = 0


class FusedOptimiser(ABC):
    """Updates parameters in place from their gradients; those without a gradient are left alone."""

    def __init__(self, groups: Sequence[Group]):
        self.groups = groups
        self.parameters = [p for group in groups for p in group.parameters]
        self.states: list[State] = [{} for _ in self.parameters]

    def set_rate(self, group: Group, rate: float) -> None:
        """Set the learning rate of a group."""
        if isinstance(group.rate, Tensor):
            group.rate.fill_(rate)
        else:
            group.rate = rate

    def clear_gradients(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Update all parameters."""
        first = 0
        for group in self.groups:
            states = self.states[first : first + len(group.parameters)]
            first += len(states)
            for parameters, gradients, chosen in _by_type(group.parameters, states):
                self.update(parameters, gradients, chosen, group.rate)

    @abstractmethod
    def update(
        self,
        parameters: list[Tensor],
        gradients: list[Tensor],
        states: list[State],
        rate: float | Tensor,
    ) -> None:
        """Update parameters of one type and their states."""

    def load(self, states: Mapping[int, Mapping[str, Tensor]]) -> None:
        """Set the states of parameters by their numbers, in the memory layout of the parameters."""
        for number, state in states.items():
            parameter = self.parameters[number]
            self.states[number] = {name: _like(t, parameter) for name, t in state.items()}


def _by_type(
    parameters: Sequence[nn.Parameter], states: Sequence[State]
) -> Iterator[tuple[list[Tensor], list[Tensor], list[State]]]:
    """Yield the parameters that have a gradient, their gradients and states, by data type."""
    rows = [
        (parameter, parameter.grad, state)
        for parameter, state in zip(parameters, states, strict=True)
        if parameter.grad is not None
    ]
    for dtype in dict.fromkeys(parameter.dtype for parameter, _, _ in rows):
        chosen = [row for row in rows if row[0].dtype == dtype]
        yield [row[0] for row in chosen], [row[1] for row in chosen], [row[2] for row in chosen]


def _in_memory_order(*lists: list[Tensor]) -> list[list[Tensor]]:
    """Return lists of tensors to update together; on a CPU, channels-last tensors as lines.

    torch's kernels for CPUs copy tensors that are not contiguous. A line shares the memory of its tensor.
    """
    rows = [_lines(row) for row in zip(*lists, strict=True)]
    return [list(column) for column in zip(*rows, strict=True)]


def _lines(row: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return tensors of one shape as lines, if all of them are channels-last on a CPU."""
    first = row[0]
    if first.is_cpu and not first.is_contiguous() and first.dim() == 4:
        turned = [tensor.permute(0, 2, 3, 1) for tensor in row]
        if all(tensor.is_contiguous() for tensor in turned):
            return tuple(tensor.view(-1) for tensor in turned)
    return row


def _like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """Return a copy on the device of a parameter, in its layout if it has its shape."""
    if tensor.shape == parameter.shape:
        return torch.empty_like(parameter, dtype=tensor.dtype).copy_(tensor)
    return tensor.to(parameter.device, copy=True)


class FusedAdam(FusedOptimiser):
    """Adam (Kingma and Ba, 2015)."""

    def __init__(
        self, groups: Sequence[Group], *, betas: tuple[float, float], weight_decay: float = 0.0
    ):
        super().__init__(groups)
        self.betas, self.weight_decay = betas, weight_decay

    def update(
        self,
        parameters: list[Tensor],
        gradients: list[Tensor],
        states: list[State],
        rate: float | Tensor,
    ) -> None:
        for parameter, state in zip(parameters, states, strict=True):
            if not state:
                # The type that the kernel for GPUs reads, whatever torch's usual type is.
                state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
                state["exp_avg"] = torch.zeros_like(parameter)
                state["exp_avg_sq"] = torch.zeros_like(parameter)
        steps = [state["step"] for state in states]
        means = [state["exp_avg"] for state in states]
        squares = [state["exp_avg_sq"] for state in states]
        torch._foreach_add_(steps, 1)
        parameters, gradients, means, squares = _in_memory_order(
            parameters, gradients, means, squares
        )
        torch._fused_adam_(
            parameters,
            gradients,
            means,
            squares,
            [],
            steps,
            lr=rate,
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=self.weight_decay,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )


class FusedSGD(FusedOptimiser):
    """Stochastic gradient descent with momentum."""

    def __init__(
        self, groups: Sequence[Group], *, momentum: float = 0.9, weight_decay: float = 0.0
    ):
        super().__init__(groups)
        self.momentum, self.weight_decay = momentum, weight_decay

    def update(
        self,
        parameters: list[Tensor],
        gradients: list[Tensor],
        states: list[State],
        rate: float | Tensor,
    ) -> None:
        for parameter, state in zip(parameters, states, strict=True):
            if self.momentum and not state:
                state["momentum_buffer"] = torch.zeros_like(parameter)
        buffers = [state["momentum_buffer"] for state in states if state]
        if self.momentum:
            parameters, gradients, buffers = _in_memory_order(parameters, gradients, buffers)
        torch._fused_sgd_(
            parameters,
            gradients,
            buffers,
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            lr=rate,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,
        )
