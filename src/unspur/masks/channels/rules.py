"""Choose the rule for a call: what an operation of torch does to the channels that enter it.

A rule sets the channels of the result. It also notes which parameters make, read or accompany the
channels, and freezes those that cannot be removed. A call without a rule freezes all channels that enter it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from . import entry_rules, layout_rules, operations, product_rules
from .operations import Call
from .trace_state import TraceState

Rule = Callable[[TraceState, Call], None]

RULES: dict[str, Rule] = {
    **dict.fromkeys(operations.MOVES, layout_rules.move),
    **dict.fromkeys(operations.COPIES, layout_rules.copy),
    **dict.fromkeys(operations.POOLS, layout_rules.pool),
    **dict.fromkeys(operations.REDUCTIONS, entry_rules.reduce),
    **dict.fromkeys(operations.SOFTMAXES, entry_rules.softmax),
    **dict.fromkeys(operations.BATCH_NORMS, entry_rules.batch_norm),
    **dict.fromkeys(operations.NORMS, entry_rules.normalise),
    **dict.fromkeys(operations.ATTENTION, product_rules.attend),
    **dict.fromkeys(operations.PRODUCTS, product_rules.linear),
    "convolution": product_rules.convolution,
    "constant_pad_nd": layout_rules.pad,
}


def rule_for(call: Call) -> Rule:
    """Return the rule of an operation, by its name or because it is pointwise."""
    untagged = call.name.removesuffix("_") in operations.UNTAGGED
    pointwise = untagged or torch.Tag.pointwise in call.func.tags
    return RULES.get(call.name, entry_rules.pointwise if pointwise else TraceState.freeze_all)
