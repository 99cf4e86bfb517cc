"""Remove dead units from a network for good, its outputs unchanged.

A unit is dead if nothing makes it (its rows are all zero) or nothing reads it (its columns are). One that
nothing makes may still be a constant, out of a bias or of batch norm. A constant is folded into the bias of
the layer that reads it. Through zero padding a constant is none at the border: there, one constant channel
stays and carries all the others (a convolution is linear, so this is exact).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ..errors import ModelError
from ..features import evaluating
from .resize import CONVS, CONVS_T, resize
from .units import Channels, Slot, units

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
        positions = _at(slot, doomed)
        named[slot.name].index_fill_(slot.dim, positions.to(named[slot.name].device), 0.0)


def dead(
    model: nn.Module, channels: Channels, *, among: Tensor | None = None
) -> tuple[Tensor, dict[tuple[str, int], Tensor]]:
    """Which units can go, and for each reading the values of what goes, by position."""
    named = dict(model.named_parameters())
    may = torch.ones(channels.count, dtype=torch.bool) if among is None else among
    gone = torch.zeros(channels.count, dtype=torch.bool)
    constant = _constants(channels)
    while True:
        size = {name: _size(named[name], name, channels, gone) for name in _weights(channels)}
        made = _largest(channels.makers, size, channels.count)
        read = _largest(_readers(channels), size, channels.count)
        fold = _foldable(model, channels, constant, size)
        now = (gone | (read == 0) | ((made == 0) & fold)) & may
        if torch.equal(now, gone):
            break
        gone = now
    values = {
        (slot.name, slot.dim): _of_silent(slot, made == 0, constant[slot.name, slot.dim])
        for slot in _readers(channels)
    }
    return _spare(model, channels, gone, values), values


@torch.no_grad()
def remove(
    model: nn.Module,
    channels: Channels,
    gone: Tensor,
    constant: Mapping[tuple[str, int], Tensor],
) -> Slimmed:
    """Take units out of a network, in place; constants among them go to who reads them."""
    carried = _fold(model, channels, gone, constant)
    state = dict(model.state_dict())
    for slot in (*channels.slots, *_new_biases(model, channels)):
        keep = (~_marked(slot, gone)).nonzero().squeeze(1)
        state[slot.name] = state[slot.name].index_select(slot.dim, keep.to(state[slot.name].device))
    heads = {
        name: int((~gone[each[each >= 0]]).sum() + (each < 0).sum())
        for name, each in channels.heads.items()
    }
    heads = {name: count for name, count in heads.items() if count < len(channels.heads[name])}
    resize(model, state, heads)
    counts = {k: (int(gone[each].sum()), len(each)) for k, each in channels.groups.items()}
    return Slimmed(counts, heads, carried, dict(channels.kept))


def _new_biases(model: nn.Module, channels: Channels) -> list[Slot]:
    """The slots of biases that folding made: as those of the weights beside them."""
    known = {slot.name for slot in channels.slots}
    named = {s: _bias_name(model, s.name) for s in channels.makers}
    there = dict(model.named_parameters())
    return [
        Slot(bias, 0, slot.units)
        for slot, bias in named.items()
        if bias is not None and bias in there and bias not in known
    ]


def _weights(channels: Channels) -> list[str]:
    names = [slot.name for slot in channels.makers] + [r.weight for r in channels.readings]
    return list(dict.fromkeys(names))


def _readers(channels: Channels) -> list[Slot]:
    read = {(r.weight, r.dim) for r in channels.readings}
    return [slot for slot in channels.slots if (slot.name, slot.dim) in read]


def _marked(slot: Slot, gone: Tensor) -> Tensor:
    """Which positions of a slot belong to marked units."""
    return gone[slot.units.clamp(min=0)] & (slot.units >= 0)


def _at(slot: Slot, gone: Tensor) -> Tensor:
    return _marked(slot, gone).nonzero().squeeze(1)


def _size(weight: Tensor, name: str, channels: Channels, gone: Tensor) -> Tensor:
    """A weight's absolute values, 0 where it belongs to units that are gone."""
    size = weight.detach().abs().cpu()
    for slot in channels.slots:
        if slot.name == name:
            size = size.index_fill(slot.dim, _at(slot, gone), 0.0)
    return size


def _largest(slots: Sequence[Slot], size: Mapping[str, Tensor], count: int) -> Tensor:
    """The largest entry of any unit in some slots."""
    largest = torch.zeros(count)
    for slot in slots:
        by_position = size[slot.name].movedim(slot.dim, 0).flatten(1).amax(1).float()
        there = slot.units >= 0
        largest.scatter_reduce_(0, slot.units[there], by_position[there], "amax")
    return largest


def _constants(channels: Channels) -> dict[tuple[str, int], Tensor]:
    """What each weight reads of each position where that is a constant; NaN where it is none.

    A weight that is used twice may only lose what is 0 both times.
    """
    values: dict[tuple[str, int], Tensor] = {}
    for reading in channels.readings:
        key = (reading.weight, reading.dim)
        spread = reading.high - reading.low
        same = spread <= 1e-6 * reading.high.abs().clamp(min=1.0)
        value = torch.where(same, reading.high, torch.nan)
        if key in values:
            value = torch.where((value == 0) & (values[key] == 0), 0.0, torch.nan)
        values[key] = value
    return values


def _foldable(
    model: nn.Module,
    channels: Channels,
    constant: Mapping[tuple[str, int], Tensor],
    size: Mapping[str, Tensor],
) -> Tensor:
    """Units that whoever reads them could do without, were they constants as measured."""
    fold = torch.ones(channels.count, dtype=torch.bool)
    for slot in _readers(channels):
        value = constant[slot.name, slot.dim]
        unread = size[slot.name].movedim(slot.dim, 0).flatten(1).amax(1) == 0
        takes = _bias_name(model, slot.name) is not None
        good = unread | (value == 0) | (~value.isnan() & takes)
        there = slot.units >= 0
        fold[slot.units[there & ~good]] = False
    return fold


def _of_silent(slot: Slot, silent: Tensor, value: Tensor) -> Tensor:
    """Only what nothing makes is a constant for sure; the rest may have been one by chance."""
    return torch.where(_marked(slot, silent), value, torch.nan)


def _spare(
    model: nn.Module, channels: Channels, gone: Tensor, constant: Mapping[tuple[str, int], Tensor]
) -> Tensor:
    """Let those stay that carry the constants under zero padding, and one where none would be left."""
    gone = gone.clone()
    for slot in _padded(channels):
        there = _carried(model, slot, channels, gone, constant)
        if len(there) and not _carrying(slot, gone, constant):
            value = constant[slot.name, slot.dim][there].abs()
            gone[slot.units[there[value.argmax()]]] = False
    for slot in channels.slots:
        if bool(_marked(slot, gone).all()):
            gone[slot.units[0]] = False
    return gone


def _padded(channels: Channels) -> list[Slot]:
    padded = {(r.weight, r.dim) for r in channels.readings if r.padded}
    return [slot for slot in _readers(channels) if (slot.name, slot.dim) in padded]


def _carried(
    model: nn.Module,
    slot: Slot,
    channels: Channels,
    gone: Tensor,
    constant: Mapping[tuple[str, int], Tensor],
) -> Tensor:
    """Positions that go although they are constants other than 0 that something reads."""
    size = model.get_parameter(slot.name).detach().abs().cpu()
    for other in channels.slots:
        if other.name == slot.name and other.dim != slot.dim:
            size = size.index_fill(other.dim, _at(other, gone), 0.0)
    read = size.movedim(slot.dim, 0).flatten(1).amax(1) > 0
    value = constant[slot.name, slot.dim].nan_to_num(0.0)
    return (_marked(slot, gone) & read & (value != 0)).nonzero().squeeze(1)


def _carrying(slot: Slot, gone: Tensor, constant: Mapping[tuple[str, int], Tensor]) -> list[int]:
    """Positions of constants that stay, the largest first."""
    value = constant[slot.name, slot.dim].nan_to_num(0.0).abs()
    stays = ~_marked(slot, gone) & (value > 0)
    order = torch.argsort(value, descending=True).tolist()
    return [at for at in order if bool(stays[at])]


def _fold(
    model: nn.Module,
    channels: Channels,
    gone: Tensor,
    constant: Mapping[tuple[str, int], Tensor],
) -> int:
    """Give constants that go to a bias, or to the channel that carries them; how many channels do."""
    carriers = set()
    padded = {(slot.name, slot.dim) for slot in _padded(channels)}
    for slot in _readers(channels):
        there = _carried(model, slot, channels, gone, constant)
        if not len(there):
            continue
        value = constant[slot.name, slot.dim]
        if (slot.name, slot.dim) in padded:
            at = _carrying(slot, gone, constant)[0]
            _carry(model.get_parameter(slot.name), slot.dim, there, at, value)
            carriers.add(int(slot.units[at]))
        else:
            _to_bias(model, slot, there, value)
    return len(carriers)


def _carry(weight: nn.Parameter, dim: int, there: Tensor, at: int, value: Tensor) -> None:
    share = (value[there] / value[at]).to(weight)
    moved = weight.index_select(dim, there.to(weight.device)).movedim(dim, -1) @ share
    weight.select(dim, at).add_(moved)


def _to_bias(model: nn.Module, slot: Slot, there: Tensor, value: Tensor) -> None:
    weight = model.get_parameter(slot.name)
    name = _bias_name(model, slot.name)
    if name is None:  # nothing reads it but zeros
        return
    moved = weight.index_select(slot.dim, there.to(weight.device)).movedim(slot.dim, -1)
    moved = (moved @ value[there].to(weight)).reshape(moved.shape[0], -1).sum(1)
    path, _, leaf = name.rpartition(".")
    owner = model.get_submodule(path)
    if getattr(owner, leaf) is None:
        setattr(owner, leaf, nn.Parameter(torch.zeros_like(moved), weight.requires_grad))
    getattr(owner, leaf).add_(moved)


def _bias_name(model: nn.Module, weight: str) -> str | None:
    """The bias beside a weight, which the layer has or could have."""
    path, _, leaf = weight.rpartition(".")
    owner = model.get_submodule(path)
    if leaf == "weight" and isinstance(owner, (nn.Linear, *CONVS, *CONVS_T)):
        return f"{path}.bias".lstrip(".")
    if leaf == "in_proj_weight" and getattr(owner, "in_proj_bias", None) is not None:
        return f"{path}.in_proj_bias".lstrip(".")
    return None
