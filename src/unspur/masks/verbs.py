"""Masks on the weights of any nn.Module.

    names = attach(model)            # one logit per weight; train() samples a mask, eval() thresholds it
    ...train the logits...
    masks = harden(model)            # fixes the masks; {"conv.weight": bool tensor, ...}
    bake(model)                      # plain modules again; pruned weights are exactly zero

A mask is a torch parametrization, so the code of the model and its layers do not change. `apply` puts
known masks on a plain model. All four functions work in place. Masks on whole channels use them too:
see `channels/gates.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from .. import noise as random_numbers
from ..deprecation import REACH, renamed_parameter
from ..errors import MaskError
from ..models.head import evaluating
from .layers import FixedMask, LearnedMask, NoiseOn, SharedMask

Select = Callable[[nn.Module, str, Tensor], bool]

CONVS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
CONVS_T = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_PROJECTIONS = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")


def weights(module: nn.Module, name: str, tensor: Tensor) -> bool:
    """Select the default weights: of convolutions, linear layers and attention; no biases, no norms."""
    if isinstance(module, (nn.Linear, *CONVS, *CONVS_T)):
        return name == "weight"
    return isinstance(module, nn.MultiheadAttention) and name in _PROJECTIONS


def attach(
    model: nn.Module,
    *,
    select: Select = weights,
    init: float = 1.5,
    noise: NoiseOn = "logit",
    keep_zero: bool = False,
    seed: int = 0,
) -> list[str]:
    """Put a learned mask on every selected weight, in place; return the names of the masked weights."""
    places = selected(model, lambda full, module, name, tensor: select(module, name, tensor))
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
    places = selected(model, lambda full, module, name, tensor: full in masks)
    if missing := sorted(set(masks) - set(places)):
        raise MaskError(
            f"the model has no weight {missing[0]!r} to mask. Use the model that the masks were made for."
        )
    for name, (module, parameter) in places.items():
        shape = tuple(getattr(module, parameter).shape)
        if shape != tuple(masks[name].shape):
            raise MaskError(
                f"the mask of {name} is {tuple(masks[name].shape)}, the weight {shape}. "
                "Use the model that the masks were made for."
            )
    _register(
        model,
        places,
        lambda name, weight, stream: FixedMask(
            masks[name].to(weight.device),
            drop=drop if weight.dim() > 1 else 0.0,  # only weights, not biases and scales
            seed=seed,
            stream=stream,
        ),
    )


def harden(model: nn.Module) -> dict[str, Tensor]:
    """Fix every learned mask at its threshold, in place; return the masks by weight name."""
    _harden_shared(model)
    masks = {}
    for name, parametrizations, mask in masked(model):
        if isinstance(mask, LearnedMask):
            parametrizations[0] = FixedMask(mask.keep(), seed=mask.seed, stream=mask.stream)
        masks[name] = cast(FixedMask, parametrizations[0]).keep.clone()
    if not masks:
        raise MaskError("the model has no masks to harden. Call attach(model) first.")
    return masks


def bake(model: nn.Module) -> None:
    """Write the masked weights into the plain modules and remove the masks, in place."""
    with evaluating(model):
        for name, _, _ in list(masked(model)):
            path, _, parameter = name.rpartition(".")
            owner = model.get_submodule(path)
            parametrize.remove_parametrizations(owner, parameter, leave_parametrized=True)


def _harden_shared(model: nn.Module) -> None:
    """Replace shared masks, which are on some parameters, by fixed masks on all parameters of their units."""
    shared = [(name, mask) for name, _, mask in masked(model) if isinstance(mask, SharedMask)]
    if not shared:
        return
    first = shared[0][1]
    keep = first.decision(model)
    for name, _ in shared:
        path, _, parameter = name.rpartition(".")
        owner = model.get_submodule(path)
        parametrize.remove_parametrizations(owner, parameter, leave_parametrized=False)
    apply(model, first.masks(model, keep))


def logits(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the logits of every learned mask by weight name; for channels, the weight that makes them."""
    return {name: mask.logits for name, mask in learned(model).items()}


def learned(model: nn.Module) -> dict[str, LearnedMask]:
    """Return every learned mask, with the same names as `logits`."""
    masks: dict[str, LearnedMask] = {}
    for name, chain, _ in masked(model):
        for mask in chain:
            if isinstance(mask, SharedMask):
                masks[mask.gate.name] = mask.gate
            elif isinstance(mask, LearnedMask):
                masks[name] = mask
    return masks


def plain_state(model: nn.Module) -> dict[str, Tensor]:
    """Return the state dict that the model would have after `bake`, on the CPU; the model is not changed."""
    state: dict[str, Tensor] = {}
    with evaluating(model), torch.no_grad():
        for name, tensor in model.state_dict().items():
            path, parametrized, rest = f".{name}".partition(".parametrizations.")
            if parametrized:
                owner, parameter = model.get_submodule(path[1:]), rest.partition(".")[0]
                chains = cast(nn.ModuleDict, owner.parametrizations)
                if _is_mask(cast(nn.ModuleList, chains[parameter])[0]):  # bake leaves others alone
                    name, tensor = f"{path}.{parameter}"[1:], getattr(owner, parameter)
            state[name] = tensor.detach().cpu().clone()
    return state


def follow(model: nn.Module, step: Tensor) -> None:
    """Let every mask read the number of the training step from the tensor `step`."""
    for module in model.modules():
        if isinstance(module, LearnedMask | FixedMask):
            module.step = step


@renamed_parameter("reach", "reachable", REACH)
def density(masks: Mapping[str, Tensor], reachable: Mapping[str, Tensor] | None = None) -> float:
    """Return the share of weights kept; with `reachable`, among the weights that ever meet data."""
    remaining = total = 0
    for name, keep in masks.items():
        among = (
            torch.ones_like(keep)
            if reachable is None
            else reachable[name].to(keep.device).expand_as(keep)
        )
        remaining += int((keep & among).sum())
        total += int(among.sum())
    return remaining / total if total else 1.0


def masked(model: nn.Module) -> Iterator[tuple[str, nn.ModuleList, nn.Module]]:
    """Yield (weight name, its parametrizations, its mask) of every masked weight."""
    for path, module in model.named_modules():
        if not parametrize.is_parametrized(module):
            continue
        for parameter, chain in cast(nn.ModuleDict, module.parametrizations).items():
            chain = cast(nn.ModuleList, chain)
            if _is_mask(chain[0]):
                yield f"{path}.{parameter}".lstrip("."), chain, chain[0]


def _is_mask(module: nn.Module) -> bool:
    return isinstance(module, LearnedMask | SharedMask | FixedMask)


def selected(
    model: nn.Module, select: Callable[[str, nn.Module, str, Tensor], bool]
) -> dict[str, tuple[nn.Module, str]]:
    """Return the selected weights by name, in the model's order; raise if one cannot be masked."""
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
        mask = make(name, getattr(module, parameter).detach(), random_numbers.FIRST_WEIGHT + order)
        mask.train(module.training)
        # unsafe: without it torch would evaluate the mask once on registration.
        parametrize.register_parametrization(module, parameter, mask, unsafe=True)
    return list(places)
