"""The appendix figure: linear classifiers trained on biased bits, all p and all seeds at once.

The label times the input is (1, S) with S = ±1 agreements, so the binary cross entropy of a sample (without a
bias term) is softplus(-(w_inv + S·w_sp)). For one seed the same uniform numbers u give S = sign(p - u) for
every p, and all problems use the same order of samples. Each problem gives the same result as alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from . import checks
from .checks import Array
from .environments import MOST_BITS, signs
from .error_rates import SAME

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Rule:
    """An update rule, SGD or Adam, as in torch without momentum or weight decay."""

    name: Literal["sgd", "adam"]
    rate: float

    def __post_init__(self) -> None:
        if self.name not in ("sgd", "adam"):
            raise ValueError(f"a rule is 'sgd' or 'adam', not {self.name!r}.")
        checks.positive(self.rate, "rate")

    def __str__(self) -> str:
        return f"{'SGD' if self.name == 'sgd' else 'Adam'} {self.rate:g}"


RULES = (Rule("sgd", 0.1), Rule("adam", 1e-3))


def train(
    p: Sequence[float],
    *,
    seeds: Sequence[int] = tuple(range(15)),
    d: int = 15,
    samples: int = 10_000,
    epochs: int = 500,
    batch: int = 1024,
    rules: Sequence[Rule] = RULES,
    progress: Progress | None = None,
) -> Array:
    """Return the trained weights, (rules, p, seeds, D + 1), with the invariant weight first."""
    checks.biased_p(list(p))
    if not (len(p) and len(seeds) and len(rules)):
        raise ValueError("give at least one p, one seed and one rule.")
    for value, name in ((d, "D"), (samples, "samples"), (epochs, "epochs"), (batch, "batch")):
        checks.count(value, name)
    inputs = _inputs(p, seeds, samples, d)
    weights = _starts(len(p), seeds, d, len(rules))
    steps = [_OPTIMISERS[rule.name](rule.rate) for rule in rules]
    with _one_thread():
        for epoch, order in enumerate(orders(epochs, samples)):
            for part in _batches(inputs, torch.from_numpy(order), batch):
                gradient = _gradient(weights, part)
                for k, step in enumerate(steps):
                    weights[:, k] -= step(gradient[:, k])
            if progress:
                progress(epoch + 1, epochs)
    shape = (len(p), len(seeds), len(rules), d + 1)
    return np.moveaxis(weights.reshape(shape).numpy().astype(np.float64), 2, 0)


def weight_ratio(weights: ArrayLike) -> Array:
    """Return mean(w_sp) / w_inv over the last axis."""
    w = checks.vector(weights, "weights")
    ratio: Array = w[..., 1:].mean(axis=-1) / w[..., 0]
    return ratio


def accuracy(weights: ArrayLike, agree: float = 0.5) -> Array:
    """Return the exact accuracy if spurious bits agree with probability `agree`; a tie counts half."""
    w = checks.vector(weights, "weights")
    d = w.shape[-1] - 1
    if not 1 <= d <= MOST_BITS:
        raise ValueError(
            f"weights must be (..., D + 1) with D from 1 to {MOST_BITS}, not {w.shape}."
        )
    rows = signs(d)
    agree = float(checks.probability(agree, "agree"))
    agreeing = (rows > 0).sum(axis=1)
    odds = agree**agreeing * (1 - agree) ** (d - agreeing)
    flat = w.reshape(-1, d + 1)
    right = [odds @ _correct(rows @ each[1:] + each[0], np.abs(each).sum()) for each in flat]
    return np.array(right).reshape(w.shape[:-1])


def uniforms(seed: int, samples: int, d: int) -> NDArray[np.float32]:
    """Return the uniform numbers u of the samples of a seed: a bit agrees with the label if u < p."""
    return np.random.default_rng([seed, 0]).random((samples, d), dtype=np.float32)


def starting_weights(seed: int, d: int) -> NDArray[np.float32]:
    """Return initial weights, uniform on ±1/√(D+1) as in torch's linear layer; some are negative."""
    u = np.random.default_rng([seed, 1]).random(d + 1, dtype=np.float32)
    return np.float32(1 / np.sqrt(d + 1)) * (2 * u - 1)


def orders(epochs: int, samples: int) -> Iterator[NDArray[np.int64]]:
    """Yield the order of the samples in each epoch."""
    rng = np.random.default_rng(0)
    for _ in range(epochs):
        yield rng.permutation(samples)


def _inputs(p: Sequence[float], seeds: Sequence[int], samples: int, d: int) -> Tensor:
    """Return label times input, ±1, of shape (p × seeds, samples, D + 1)."""
    random_numbers = torch.from_numpy(np.stack([uniforms(seed, samples, d) for seed in seeds]))
    agreements = torch.cat([torch.where(random_numbers < each, 1.0, -1.0) for each in p])
    return torch.cat([torch.ones(*agreements.shape[:2], 1), agreements], dim=2)


def _batches(inputs: Tensor, order: Tensor, batch: int) -> Iterator[Tensor]:
    """Yield batches (problems, batch, D + 1) in this order; each is valid until the next one."""
    # One buffer for all batches: allocating memory of this size takes three times as long as copying.
    buffer = inputs.new_empty(inputs.shape[0] * min(batch, len(order)) * inputs.shape[2])
    for first in range(0, len(order), batch):
        part = order[first : first + batch]
        shape = (inputs.shape[0], len(part), inputs.shape[2])
        out = buffer[: shape[0] * shape[1] * shape[2]].view(shape)
        yield torch.index_select(inputs, 1, part, out=out)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: such small products are faster then, especially on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _starts(count: int, seeds: Sequence[int], d: int, rules: int) -> Tensor:
    """Return the initial weights of each seed, the same for every p and rule: (p × seeds, rules, D + 1)."""
    each = torch.from_numpy(np.stack([starting_weights(seed, d) for seed in seeds]))
    return each[:, None].repeat(count, rules, 1)


def _gradient(weights: Tensor, inputs: Tensor) -> Tensor:
    """Return the gradient of the mean loss over a batch; weights are (problems, rules, D + 1)."""
    margin = weights @ inputs.mT
    return -torch.sigmoid(-margin) @ inputs / inputs.shape[1]


def _sgd(rate: float) -> Callable[[Tensor], Tensor]:
    return lambda gradient: rate * gradient


def _adam(rate: float, first: float = 0.9, second: float = 0.999) -> Callable[[Tensor], Tensor]:
    mean, square, steps = torch.zeros(()), torch.zeros(()), 0

    def step(gradient: Tensor) -> Tensor:
        nonlocal mean, square, steps
        mean = first * mean + (1 - first) * gradient
        square = second * square + (1 - second) * gradient**2
        steps += 1
        scale = (square / (1 - second**steps)).sqrt() + 1e-8
        return rate * (mean / (1 - first**steps)) / scale

    return step


_OPTIMISERS: dict[str, Callable[[float], Callable[[Tensor], Tensor]]] = {
    "sgd": _sgd,
    "adam": _adam,
}


def _correct(margin: Array, scale: float) -> Array:
    close = SAME * scale
    return np.where(margin > close, 1.0, np.where(margin < -close, 0.0, 0.5))
