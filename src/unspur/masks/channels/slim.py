"""Remove dead units from a network for good, its outputs unchanged.

What can be removed is tried first, on a copy; then what is dead goes, and constants among it go to whoever
reads them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ...errors import ModelError
from ...models.head import evaluating
from .constants import fold, new_biases
from .dead import dead
from .resize import resize
from .units import Channels, units

CLOSE = 1e-4  # of a trial with half of the units, as a share of the largest output


@dataclass(frozen=True)
class Slimmed:
    """What was removed: units by group (removed, of all), heads left by module; what stayed: channels that
    carry constants, units that cannot go and why, dead channels that fill a block."""

    removed: dict[str, tuple[int, int]]
    heads: dict[str, int]
    carried: int
    kept: dict[str, str]
    filled: int = 0


def slim(model: nn.Module, x: Tensor, *, multiple: int = 1) -> Slimmed:
    """Remove the dead units of a plain network, in place; `x` are a few images as network input.

    Of each group so many dead channels stay that a multiple is left: kernels work in blocks of channels.
    """
    channels = removable(model, x)
    gone, constant = dead(model, channels)
    fewer = whole_blocks(channels, gone, multiple)
    done = remove(model, channels, fewer, constant)
    return replace(done, filled=int((gone & ~fewer).sum()))


def whole_blocks(channels: Channels, gone: Tensor, multiple: int) -> Tensor:
    """Fewer units gone: of every group of channels a multiple stays, or all of it. Heads are no channels."""
    gone = gone.clone()
    heads = {unit for each in channels.heads.values() for unit in each.tolist()}
    for mine in channels.groups.values():
        spare = -int((~gone[mine]).sum()) % multiple
        if int(mine[0]) not in heads:
            gone[mine[gone[mine]][:spare]] = False
    return gone


def removable(model: nn.Module, x: Tensor) -> Channels:
    """The units of a network, tried: those whose removal its own code would not survive are left out."""
    channels = units(model, x)
    if not channels.count or _survives(model, x, channels, list(channels.groups)) is None:
        return channels
    for name in list(channels.groups):
        if why := _survives(model, x, channels, [name]):
            channels = channels.without([name], why)
    if why := _survives(model, x, channels, list(channels.groups)):
        channels = channels.without(list(channels.groups), why)
    return channels


def _survives(model: nn.Module, x: Tensor, channels: Channels, names: Sequence[str]) -> str | None:
    """Take out half of the units of some groups, by way of trial; what goes wrong, if anything does."""
    doomed = torch.zeros(channels.count, dtype=torch.bool)
    for name in names:
        mine = channels.groups[name]
        picked = torch.randperm(len(mine), generator=torch.Generator().manual_seed(0))
        doomed[mine[picked[: len(mine) // 2]]] = True
    trial = copy.deepcopy(model).requires_grad_(False)
    silence(trial, channels, doomed)
    with torch.no_grad(), evaluating(trial):
        expected = trial(x)
        try:
            again = units(trial, x)
            if again.count != channels.count:  # it was cut down by earlier trials
                again = again.without(sorted(set(again.groups) - set(channels.groups)), "")
            remove(trial, again, *dead(trial, again, among=doomed))
            found = trial(x)
        except (
            RuntimeError,
            ModelError,
            TypeError,
            AttributeError,
            ValueError,
            IndexError,
        ) as error:
            reason = str(error).partition("\n")[0]
            return f"without some of them the model's own code fails ({reason})"
    if float((found - expected).abs().max()) > CLOSE * max(1.0, float(expected.abs().max())):
        return "without some of them the model computes something else"
    return None


@torch.no_grad()
def silence(model: nn.Module, channels: Channels, doomed: Tensor) -> None:
    """Set what makes the doomed units to zero, in place."""
    named = dict(model.named_parameters())
    for slot in {(s.name, s.dim): s for s in (*channels.makers, *channels.gates)}.values():
        positions = slot.at(doomed)
        named[slot.name].index_fill_(slot.dim, positions.to(named[slot.name].device), 0.0)


@torch.no_grad()
def remove(
    model: nn.Module,
    channels: Channels,
    gone: Tensor,
    constant: Mapping[tuple[str, int], Tensor],
) -> Slimmed:
    """Take units out of a network, in place; constants among them go to who reads them."""
    carried = fold(model, channels, gone, constant)
    state = dict(model.state_dict())
    for slot in (*channels.slots, *new_biases(model, channels)):
        keep = (~slot.marked(gone)).nonzero().squeeze(1)
        state[slot.name] = state[slot.name].index_select(slot.dim, keep.to(state[slot.name].device))
    heads = {
        name: int((~gone[each[each >= 0]]).sum() + (each < 0).sum())
        for name, each in channels.heads.items()
    }
    heads = {name: count for name, count in heads.items() if count < len(channels.heads[name])}
    resize(model, state, heads)
    counts = {k: (int(gone[each].sum()), len(each)) for k, each in channels.groups.items()}
    return Slimmed(counts, heads, carried, dict(channels.kept))
