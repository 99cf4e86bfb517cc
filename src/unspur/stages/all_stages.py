"""All stages by name: those of debiasing, its controls, and one for each single-stage method."""

from __future__ import annotations

from functools import cache

from ..methods import own_stages
from .adapt import ADAPT
from .control import CONTROL
from .finetune import FINETUNE
from .method_stage import stage_of
from .mine import MINE
from .pretrain import PRETRAIN
from .prune import PRUNE
from .refit import REFIT
from .stage import Stage


@cache
def stage_records() -> dict[str, Stage]:
    """Return every stage by name."""
    chain = (MINE, PRETRAIN, ADAPT, PRUNE, CONTROL, FINETUNE, REFIT)
    methods = (stage_of(entry) for entry in own_stages().values())
    return {stage.name: stage for stage in (*chain, *methods)}
