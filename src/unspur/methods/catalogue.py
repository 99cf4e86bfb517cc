"""Every method there is: the built-in ones, a line each, and those of installed packages.

A package adds a method with an entry point in the group `unspur.methods` that names a MethodEntry.
"""

from __future__ import annotations

from functools import cache

from ..errors import RecipeError
from ..extras import registered
from . import controls, dcwp, dfr, disent, end, erm, grasp, groupdro, jtt, lc, lff, mrm, rebias
from .entry import MethodEntry

BUILT_IN: tuple[MethodEntry, ...] = (
    erm.ENTRY,
    dcwp.DCWP,
    dcwp.PRESET,
    dcwp.RELEASED,
    dcwp.PAPER_TEXT,
    dcwp.EARLY_STOPPED,
    dcwp.UNPRUNED,
    mrm.MRM,
    mrm.DEBIASED,
    lff.ENTRY,
    lc.ENTRY,
    disent.ENTRY,
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


@cache
def all_methods() -> dict[str, MethodEntry]:
    """Return every method by name."""
    found = {entry.name: entry for entry in BUILT_IN}
    added = registered("unspur.methods", lambda entry: isinstance(entry, MethodEntry))
    for name, entry in added.items():
        if entry.name in found:
            raise RecipeError(
                f"the entry point {name!r} adds a method {entry.name!r}, and there is one already. "
                "Rename it, or remove the package."
            )
        found[entry.name] = entry
    return found


@cache
def plans() -> dict[str, tuple[str, ...]]:
    """Return the stages of every plan, in order, by the name a recipe gives it."""
    return {entry.plan_name: entry.stages for entry in all_methods().values()}


@cache
def own_stages() -> dict[str, MethodEntry]:
    """Return the methods that are one stage of their own, by the name of that stage."""
    return {name: entry for name, entry in all_methods().items() if entry.own_stage is not None}
