"""Remove dead units from a network permanently; its outputs stay the same.

`removable` tries on a copy which units can be removed. `slim` finds the dead units and removes them;
constants among them are moved to the layers that read them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ...errors import ModelError
from ...models.head import evaluating
from .constants import Constants, fold, new_biases
from .dead import dead
from .find_units import units
from .resize import resize
from .units import Channels

CLOSE = 1e-4  # how much a trial may change the outputs, as a share of the largest output
FAILURES = (RuntimeError, ModelError, TypeError, AttributeError, ValueError, IndexError)


@dataclass(frozen=True)
class Slimmed:
    """The result of slimming: what was removed, and what was kept and why."""

    removed: dict[str, tuple[int, int]]  # by group: units removed, units in all
    heads: dict[str, int]  # heads left, by attention module
    carried: int  # dead channels kept to carry constants
    unremovable: dict[str, str]  # weights whose channels cannot be removed, with the reason
    filled: int = 0  # dead channels kept to fill up a multiple


def slim(model: nn.Module, x: Tensor, *, multiple: int = 1) -> Slimmed:
    """Remove the dead units of a network without masks, in place; `x` is a few images as network input.

    Each group keeps enough dead channels that its size is a multiple of `multiple`, because kernels work in
    blocks.
    """
    channels = removable(model, x)
    dead_units, constant = dead(model, channels)
    removed = whole_blocks(channels, dead_units, multiple)
    result = remove(model, channels, removed, constant)
    return replace(result, filled=int((dead_units & ~removed).sum()))


def whole_blocks(channels: Channels, removed: Tensor, multiple: int) -> Tensor:
    """Keep some dead units, so that every group has a multiple or all of its units. Skips attention heads."""
    removed = removed.clone()
    heads = {unit for each in channels.heads.values() for unit in each.tolist()}
    for members in channels.groups.values():
        spare = -int((~removed[members]).sum()) % multiple
        if int(members[0]) not in heads:
            removed[members[removed[members]][:spare]] = False
    return removed


def removable(model: nn.Module, x: Tensor) -> Channels:
    """Find the units of a network, without those whose removal fails or changes its outputs in a trial."""
    channels = units(model, x)
    if not channels.count or _try(model, x, channels, list(channels.groups)) is None:
        return channels
    for name in list(channels.groups):
        if why := _try(model, x, channels, [name]):
            channels = channels.without([name], why)
    if why := _try(model, x, channels, list(channels.groups)):
        channels = channels.without(list(channels.groups), why)
    return channels


def _try(model: nn.Module, x: Tensor, channels: Channels, names: Sequence[str]) -> str | None:
    """Remove half of the units of some groups from a copy; return what went wrong, if anything did."""
    chosen = _half(channels, names)
    trial = copy.deepcopy(model).requires_grad_(False)
    silence(trial, channels, chosen)
    with torch.no_grad(), evaluating(trial):
        expected = trial(x)
        try:
            _remove_chosen(trial, x, channels, chosen)
            actual = trial(x)
        except FAILURES as error:
            reason = str(error).partition("\n")[0]
            return f"without some of them the model's own code fails ({reason})"
    if float((actual - expected).abs().max()) > CLOSE * max(1.0, float(expected.abs().max())):
        return "without some of them the model computes something else"
    return None


def _half(channels: Channels, names: Sequence[str]) -> Tensor:
    """Choose half of the units of some groups, the same half at every call."""
    chosen = torch.zeros(channels.count, dtype=torch.bool)
    for name in names:
        members = channels.groups[name]
        order = torch.randperm(len(members), generator=torch.Generator().manual_seed(0))
        chosen[members[order[: len(members) // 2]]] = True
    return chosen


def _remove_chosen(trial: nn.Module, x: Tensor, channels: Channels, chosen: Tensor) -> None:
    """Remove silenced units from a network that is traced again, in place."""
    retraced = units(trial, x)
    if retraced.count != channels.count:  # earlier trials ruled some groups out
        retraced = retraced.without(sorted(set(retraced.groups) - set(channels.groups)), "")
    remove(trial, retraced, *dead(trial, retraced, among=chosen))


@torch.no_grad()
def silence(model: nn.Module, channels: Channels, chosen: Tensor) -> None:
    """Set the weights, biases and scales that make the chosen units to zero, in place."""
    named = dict(model.named_parameters())
    for slot in {(s.name, s.dim): s for s in (*channels.makers, *channels.gates)}.values():
        positions = slot.at(chosen)
        named[slot.name].index_fill_(slot.dim, positions.to(named[slot.name].device), 0.0)


@torch.no_grad()
def remove(model: nn.Module, channels: Channels, removed: Tensor, constant: Constants) -> Slimmed:
    """Remove units from a network, in place; constants among them are moved to the layers that read them."""
    carried = fold(model, channels, removed, constant)
    state = dict(model.state_dict())
    for slot in (*channels.slots, *new_biases(model, channels)):
        stay = (~slot.marked(removed)).nonzero().squeeze(1)
        state[slot.name] = state[slot.name].index_select(slot.dim, stay.to(state[slot.name].device))
    heads = _heads_left(channels, removed)
    resize(model, state, heads)
    counts = {k: (int(removed[each].sum()), len(each)) for k, each in channels.groups.items()}
    return Slimmed(counts, heads, carried, dict(channels.unremovable))


def _heads_left(channels: Channels, removed: Tensor) -> dict[str, int]:
    """Return the number of heads left in every attention module that loses some."""
    left = {
        name: int((~removed[each[each >= 0]]).sum() + (each < 0).sum())
        for name, each in channels.heads.items()
    }
    return {name: count for name, count in left.items() if count < len(channels.heads[name])}
