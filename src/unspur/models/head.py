"""Logits and penultimate features of any classifier, from a hook on its head."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..errors import ModelError
from ..parallel import gather_features, shared_pass


@contextmanager
def evaluating(model: nn.Module) -> Iterator[nn.Module]:
    """Put the model into eval mode; restore the previous mode of every module afterwards."""
    modes = {module: module.training for module in model.modules()}
    try:
        yield model.eval()
    finally:
        for module, mode in modes.items():
            module.training = mode


@torch.no_grad()
def find_head(model: nn.Module, x: Tensor) -> str:
    """Return the name of the classifier head: the nn.Linear whose output is the model's output."""
    outputs: list[tuple[str, Tensor]] = []
    hooks = [
        module.register_forward_hook(lambda m, args, out, name=name: outputs.append((name, out)))
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
    ]
    try:
        with evaluating(model):
            output = model(x)
    finally:
        for hook in hooks:
            hook.remove()
    _check_tensor(output)
    heads = [name for name, out in outputs if out is output]
    if not heads:
        raise ModelError(
            "no nn.Linear returns the model's output, so there is no classifier head to take features "
            "from. End the model in an nn.Linear, without softmax and not compiled, or name the layer: "
            'settings={"model.head": ...}, or --set model.head=NAME.'
        )
    return heads[-1]


def check_outputs(model: nn.Module, x: Tensor, classes: int) -> None:
    """Raise ModelError unless the model can be trained and returns one logit for each class.

    Warn if its predictions are random.
    """
    try:
        with torch.no_grad(), evaluating(model):
            output, again = (model(x.clone()) for _ in range(2))  # it may change its input in place
    except Exception as error:
        other = any(p.dtype != torch.float32 for p in model.parameters())
        advice = " Its weights are not float32: call .float() first." if other else ""
        raise ModelError(
            f"the model cannot take images of shape {tuple(x.shape[1:])}: {error}.{advice}"
        ) from error
    _check_tensor(output)
    if (shape := tuple(output.shape)) != (len(x), classes):
        raise ModelError(
            f"the model returns {shape} for {len(x)} images of {classes} classes; it must return "
            f"({len(x)}, {classes}). Give its last layer {classes} outputs."
        )
    if not any(p.requires_grad for p in model.parameters()):
        raise ModelError(
            "no weight of the model can be trained: it has none, or all are frozen. Call "
            "model.requires_grad_(True) first."
        )
    if not torch.allclose(output, again, equal_nan=True):
        warnings.warn(
            "the model returns other outputs each time it is called, in evaluation mode too, so that results "
            "cannot be repeated. Call F.dropout with training=self.training, or use nn.Dropout.",
            stacklevel=4,
        )


def _check_tensor(output: object) -> None:
    if not isinstance(output, Tensor):
        raise ModelError(
            f"the model returns {type(output).__name__}; wrap it so that it returns logits, or "
            "an object with .logits."
        )


class Tap:
    """A wrapper that is called like the model and returns (logits, input of the head)."""

    def __init__(self, model: nn.Module, head: str):
        names = [name for name, m in model.named_modules() if isinstance(m, nn.Linear)]
        self.advice = f"Linear layers: {', '.join(names)}."
        try:
            layer = model.get_submodule(head)
        except AttributeError:
            raise ModelError(
                f"the model has no layer {head!r} to take features from. {self.advice}"
            ) from None
        self.model, self.head = model, head
        self.seen: list[Tensor] = []
        self.hook = layer.register_forward_pre_hook(self._keep)

    def _keep(self, layer: nn.Module, args: tuple[Tensor, ...]) -> None:
        """Keep the input of the head, only of the last pass: the model is also called without the wrapper."""
        self.seen.clear()
        self.seen.append(args[0])

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.seen.clear()
        logits = self.model(x)
        if not self.seen:
            raise ModelError(
                f"the model does not call its layer {self.head!r}, so there are no features to take from it. "
                f"{self.advice}"
            )
        # Remove the tensor from the list: a reference would keep the autograd graph of the step alive.
        return logits, gather_features(self.seen.pop().flatten(1))


@torch.no_grad()
def check_head(model: nn.Module, head: str, x: Tensor) -> None:
    """Raise ModelError unless the model has this layer and uses it."""
    tap = Tap(model, head)
    try:
        with evaluating(model):
            tap(x)
    finally:
        tap.hook.remove()


@torch.no_grad()
def penultimate(model: nn.Module, head: str, inputs: Iterator[Tensor]) -> Tensor:
    """Return the input of the head for all batches of `inputs`, on the CPU."""
    tap = Tap(model, head)
    try:
        with evaluating(model), shared_pass() as shared:
            features = [tap(x)[1].float().cpu() for x in inputs]
            return torch.cat(features) if shared is None else shared.gather(features)
    finally:
        tap.hook.remove()
