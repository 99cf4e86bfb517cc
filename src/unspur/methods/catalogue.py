"""The catalogue of all methods: the built-in ones, one line each, and those of installed packages.

A package adds a method with an entry point in the group `unspur.methods`. The entry point has the method's
name and refers to its MethodEntry.
"""

from __future__ import annotations

import re
from functools import cache

from ..extras import load_entry_points
from . import controls, dcwp, dfr, disent, end, erm, grasp, groupdro, jtt, lc, lff, mrm, rebias
from .entry import MethodEntry

BUILT_IN: tuple[MethodEntry, ...] = (
    erm.ENTRY,
    dcwp.DCWP,
    dcwp.PRESET,
    dcwp.FIRST_PRESET,
    dcwp.RELEASED,
    dcwp.PAPER_TEXT,
    dcwp.EARLY_STOPPED,
    dcwp.UNPRUNED,
    mrm.MRM,
    mrm.DEBIASED,
    lff.ENTRY,
    lff.SELECTED,
    lc.ENTRY,
    disent.ENTRY,
    disent.SELECTED,
    jtt.ENTRY,
    rebias.ENTRY,
    end.ENTRY,
    groupdro.ENTRY,
    dfr.DFR,
    dfr.MINED,
    grasp.ENTRY,
    controls.MAGNITUDE,
    controls.MAGNITUDE_DEBIAS,
    controls.RANDOM_DEBIAS,
)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")  # of a method; artifacts have the names of stages


@cache
def all_methods() -> dict[str, MethodEntry]:
    """Return every method by name, the built-in ones first."""
    built_in = {entry.name: entry for entry in BUILT_IN}
    return built_in | load_entry_points("unspur.methods", added_method_problem)


def added_method_problem(name: str, entry: object) -> str:
    """Return why an installed package cannot add this method, or "" if it can."""
    if not isinstance(entry, MethodEntry):
        return f"it is {type(entry).__name__}, not a MethodEntry"
    if not NAME.fullmatch(name):
        return "its name is part of file names: it may have letters, digits, - and _ only"
    if name != entry.name:
        return f"the entry point and its method must have the same name, but the method is {entry.name!r}"
    plans = {known.plan_name: known.stages for known in BUILT_IN}
    if entry.name in {known.name for known in BUILT_IN}:
        return f"there is a built-in method {name!r}"
    if plans.get(entry.plan_name, entry.stages) != entry.stages:
        return f"there is a built-in plan {entry.plan_name!r} with other stages"
    return _stage_problem(entry)


def _stage_problem(entry: MethodEntry) -> str:
    """Return what is wrong with the stages of an added method, or "" if nothing is."""
    known = {stage for built_in in BUILT_IN for stage in built_in.stages}
    if entry.own_stage is not None and entry.name in known:
        return f"there is a built-in stage {entry.name!r}"
    own = {entry.name} if entry.own_stage is not None else set()
    if unknown := sorted(set(entry.stages) - known - own):
        return f"its plan has stages that do not exist: {', '.join(unknown)}"
    if not own <= set(entry.stages):
        return "own_stage is set, but its plan does not have that stage"
    return ""


@cache
def plans() -> dict[str, tuple[str, ...]]:
    """Return the stages of every plan, in order, by the name a recipe gives it."""
    entries = all_methods().values()
    for_users = {e.plan_for_users: e.stages_for_users for e in entries if e.stages_for_users}
    return {entry.plan_name: entry.stages for entry in entries} | for_users


def method_of_plan(plan: str) -> MethodEntry | None:
    """Return the method with the name of a plan, or with this plan for a user's own images."""
    known = (each for each in all_methods().values() if plan in (each.name, each.plan_for_users))
    return next(known, None)


@cache
def own_stages() -> dict[str, MethodEntry]:
    """Return the methods that consist of one stage, by the name of that stage."""
    return {name: entry for name, entry in all_methods().items() if entry.own_stage is not None}
