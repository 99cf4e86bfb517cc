"""Masks on the weights of any nn.Module.

    names = attach(model)            # one logit a weight; train() samples a mask, eval() thresholds it
    ...train the logits...
    masks = harden(model)            # the masks are fixed now; {"conv.weight": bool tensor, ...}
    bake(model)                      # plain modules again, pruned weights exactly zero

A mask is a torch parametrization, so a model's code and its layers stay as they are. `apply` puts
known masks on a plain model. All four verbs work in place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, Literal, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from . import noise
from .errors import MaskError
from .features import evaluating

kernels: ModuleType | None = None
if torch.version.cuda:
    with contextlib.suppress(ImportError):  # Triton comes with torch's builds for NVIDIA, as a rule
        from . import kernels

NoiseOn = Literal["logit", "probability"]
Select = Callable[[nn.Module, str, Tensor], bool]

CONVS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_CONVS_T = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_PROJECTIONS = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")


def weights(module: nn.Module, name: str, tensor: Tensor) -> bool:
    """The default selection: conv and linear weights and attention's projections; no bias, no norm."""
    if isinstance(module, (nn.Linear, *CONVS, *_CONVS_T)):
        return name == "weight"
    return isinstance(module, nn.MultiheadAttention) and name in _PROJECTIONS


def concrete(
    logits: Tensor, g: Tensor, *, on: NoiseOn = "logit", temperature: float = 1.0
) -> Tensor:
    """The soft sample of a keep decision: the logistic noise `g` added to θ, or to σ(θ)."""
    centre = logits if on == "logit" else torch.sigmoid(logits)
    return torch.sigmoid((centre + g) / temperature)


def straight_through(soft: Tensor) -> Tensor:
    """0 or 1 in the forward pass, the gradient of `soft` in the backward pass."""
    hard = (soft > 0.5).to(soft.dtype)
    # Exactly 0 or 1: 1 - soft is exact wherever soft > 1/2.
    return soft + (hard - soft).detach()


class LearnedMask(nn.Module):
    """A parametrization that multiplies a weight by a mask being learned."""

    def __init__(
        self, weight: Tensor, *, init: float, on: NoiseOn, keep_zero: bool, seed: int, stream: int
    ):
        super().__init__()
        self.logits = nn.Parameter(torch.full_like(weight, init, requires_grad=True))
        self.on: NoiseOn = on
        self.keep_zero = keep_zero
        self.seed, self.stream = seed, stream
        self.step: int | Tensor = 0

    def keep(self) -> Tensor:
        """The thresholded mask, as booleans."""
        logits = self.logits.detach()
        return logits >= 0 if self.keep_zero else logits > 0

    def forward(self, weight: Tensor) -> Tensor:
        if not self.training:
            return weight * self.keep()
        if not weight.requires_grad and (fused := _fused(weight, self.logits, self.step)):
            keys = noise.stream_keys(self.seed, self.stream)
            return fused.sample(weight, self.logits, self.step, *keys, self.on == "logit")
        u = noise.uniform(self.seed, self.step, self.stream, tuple(weight.shape), weight.device)
        mask = straight_through(concrete(self.logits, noise.logistic(u), on=self.on))
        return weight * mask.to(weight.dtype)


class FixedMask(nn.Module):
    """A parametrization that multiplies a weight by a known mask.

    With `drop`, a fresh share of the surviving weights is left out at every training step (and the
    others scaled up), so that fine-tuning does not lean on single weights.
    """

    keep: Tensor

    def __init__(self, keep: Tensor, *, drop: float = 0.0, seed: int = 0, stream: int = 0):
        super().__init__()
        self.register_buffer("keep", keep.to(torch.bool))
        self.drop = drop
        self.seed, self.stream = seed, stream
        self.step: int | Tensor = 0

    def forward(self, weight: Tensor) -> Tensor:
        if self.drop == 0 or not self.training:
            return weight * self.keep
        if fused := _fused(weight, self.keep, self.step):
            keys = noise.stream_keys(self.seed, self.stream)
            return fused.thin(weight, self.keep, self.step, *keys, self.drop)
        u = noise.uniform(self.seed, self.step, self.stream, tuple(weight.shape), weight.device)
        return weight * ((u >= self.drop) & self.keep) / (1 - self.drop)


def _fused(weight: Tensor, other: Tensor, step: int | Tensor) -> Fused | None:
    """The GPU's form of the masks, if it can take this weight."""
    if kernels is None or not weight.is_cuda or not isinstance(step, Tensor):
        return None
    return cast(Fused, kernels) if kernels.fits(weight, other) else None


class Fused(Protocol):
    """What `kernels.py` offers to the masks here."""

    def sample(
        self, weight: Tensor, logits: Tensor, step: Any, first: int, second: int, on_logit: bool, /
    ) -> Tensor: ...
    def thin(
        self, x: Tensor, keep: Tensor, step: Any, first: int, second: int, drop: float, /
    ) -> Tensor: ...


def attach(
    model: nn.Module,
    *,
    select: Select = weights,
    init: float = 1.5,
    noise: NoiseOn = "logit",
    keep_zero: bool = False,
    seed: int = 0,
) -> list[str]:
    """Put a learned mask on every selected weight, in place; the names of the masked weights."""
    places = _selected(model, lambda full, module, name, tensor: select(module, name, tensor))
    if not places:
        raise MaskError("the model has no weight that select() accepts: nothing to mask.")
    return _register(
        model,
        places,
        lambda name, weight, stream: LearnedMask(
            weight, init=init, on=noise, keep_zero=keep_zero, seed=seed, stream=stream
        ),
    )


def apply(
    model: nn.Module, masks: Mapping[str, Tensor], *, drop: float = 0.0, seed: int = 0
) -> None:
    """Put known masks on a plain model, in place."""
    found = _selected(model, lambda full, module, name, tensor: full in masks)
    if missing := sorted(set(masks) - set(found)):
        raise MaskError(
            f"the model has no weight {missing[0]!r} to mask. Build the model the masks are of."
        )
    for name, (module, parameter) in found.items():
        shape = tuple(getattr(module, parameter).shape)
        if shape != tuple(masks[name].shape):
            raise MaskError(
                f"the mask of {name} is {tuple(masks[name].shape)}, the weight {shape}."
            )
    _register(
        model,
        found,
        lambda name, weight, stream: FixedMask(
            masks[name].to(weight.device), drop=drop, seed=seed, stream=stream
        ),
    )


def harden(model: nn.Module) -> dict[str, Tensor]:
    """Fix every learned mask at its threshold, in place; the masks by weight name."""
    masks = {}
    for name, parametrizations, mask in _masked(model):
        if isinstance(mask, LearnedMask):
            parametrizations[0] = FixedMask(mask.keep(), seed=mask.seed, stream=mask.stream)
        masks[name] = cast(FixedMask, parametrizations[0]).keep.clone()
    if not masks:
        raise MaskError("the model has no masks to harden. Call attach(model) first.")
    return masks


def bake(model: nn.Module) -> None:
    """Write the masked weights into the plain modules, in place; nothing of the masks remains."""
    with evaluating(model):
        for name, _, _ in list(_masked(model)):
            path, _, parameter = name.rpartition(".")
            owner = model.get_submodule(path)
            parametrize.remove_parametrizations(owner, parameter, leave_parametrized=True)


def logits(model: nn.Module) -> dict[str, nn.Parameter]:
    """The logits of every learned mask, by weight name."""
    return {name: mask.logits for name, _, mask in _masked(model) if isinstance(mask, LearnedMask)}


def plain_state(model: nn.Module) -> dict[str, Tensor]:
    """The state dict of a masked model as a plain one, on the CPU: masked weights, plain names."""
    state: dict[str, Tensor] = {}
    with evaluating(model), torch.no_grad():
        for name, tensor in model.state_dict().items():
            if ".parametrizations." in f".{name}":
                path, _, rest = f".{name}".partition(".parametrizations.")
                name = f"{path}.{rest.partition('.')[0]}".lstrip(".")
                owner, _, parameter = name.rpartition(".")
                tensor = getattr(model.get_submodule(owner), parameter)
            state[name] = tensor.detach().cpu().clone()
    return state


def follow(model: nn.Module, step: Tensor) -> None:
    """Let every mask draw its sample for the step that the tensor `step` shows."""
    for module in model.modules():
        if isinstance(module, LearnedMask | FixedMask):
            module.step = step


def density(masks: Mapping[str, Tensor], reach: Mapping[str, Tensor] | None = None) -> float:
    """The share of weights kept; with `reach`, among the weights that ever touch data."""
    kept = total = 0
    for name, keep in masks.items():
        among = (
            torch.ones_like(keep) if reach is None else reach[name].to(keep.device).expand_as(keep)
        )
        kept += int((keep & among).sum())
        total += int(among.sum())
    return kept / total if total else 1.0


def _masked(model: nn.Module) -> Iterator[tuple[str, nn.ModuleList, nn.Module]]:
    """(weight name, its parametrizations, its mask) of every masked weight."""
    for path, module in model.named_modules():
        if not parametrize.is_parametrized(module):
            continue
        for parameter, chain in cast(nn.ModuleDict, module.parametrizations).items():
            chain = cast(nn.ModuleList, chain)
            if isinstance(chain[0], LearnedMask | FixedMask):
                yield f"{path}.{parameter}".lstrip("."), chain, chain[0]


def _selected(
    model: nn.Module, select: Callable[[str, nn.Module, str, Tensor], bool]
) -> dict[str, tuple[nn.Module, str]]:
    """The selected weights by name, in the order of the model; an error for one that cannot be masked."""
    places: dict[str, tuple[nn.Module, str]] = {}
    owners: dict[int, list[str]] = {}
    for path, module in model.named_modules():
        _refuse_parametrized(path, module, select)
        for name, tensor in module.named_parameters(recurse=False):
            full = f"{path}.{name}".lstrip(".")
            owners.setdefault(id(tensor), []).append(full)
            if isinstance(tensor, nn.UninitializedParameter):
                raise MaskError(
                    f"{full} has no shape yet. Pass one batch through the lazy layers first."
                )
            if select(full, module, name, tensor):
                places[full] = (module, name)
    for full, (module, name) in places.items():
        if others := [other for other in owners[id(getattr(module, name))] if other != full]:
            raise MaskError(
                f"{full} is tied to {others[0]}; masking one would leave the other whole. "
                f'Untie them, or pass select=... without "{full.rpartition(".")[0]}".'
            )
    return places


def _refuse_parametrized(
    path: str, module: nn.Module, select: Callable[[str, nn.Module, str, Tensor], bool]
) -> None:
    if not parametrize.is_parametrized(module):
        return
    for name in cast(nn.ModuleDict, module.parametrizations):
        if select(f"{path}.{name}".lstrip("."), module, name, getattr(module, name)):
            raise MaskError(
                f"{path or 'the model'} is parametrized already (a mask, or weight normalisation). "
                "bake(model) or remove that parametrization first."
            )


def _register(
    model: nn.Module,
    places: Mapping[str, tuple[nn.Module, str]],
    make: Callable[[str, Tensor, int], nn.Module],
) -> list[str]:
    for order, (name, (module, parameter)) in enumerate(places.items()):
        mask = make(name, getattr(module, parameter).detach(), noise.FIRST_WEIGHT + order)
        mask.train(module.training)
        # unsafe: registering would otherwise evaluate the mask once, at the cost of a sample.
        parametrize.register_parametrization(module, parameter, mask, unsafe=True)
    return list(places)
