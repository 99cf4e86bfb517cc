"""Channels of any network: find those that belong together, mask them, count their cost, remove them.

How channels are found (`trace.py`). The unchanged network runs once on a few images, and a dispatch mode
intercepts every operation of torch. Every channel has a number. Every activation is accompanied by a tensor
of the same shape that holds the channel number of each entry. A parameter has such numbers along each
dimension.

One call, for example `y = F.conv2d(x, w, b)` in the second layer of a network:

1. `Tracer.__torch_dispatch__` (`trace.py`) runs the operation and packs it into a `Call` (`operations.py`).
2. `rule_for` (`rules.py`) chooses the rule by the name of the operation, here `product_rules.convolution`.
   Pointwise operations share one rule, operations that only move entries share another, and so on.
3. The rule asks `TraceState` (`trace_state.py`) for the channels of `x`. It notes that `w` reads them along
   dimension 1, with the smallest and largest value of each (`Reading` in `record.py`), that `w` makes new
   channels along dimension 0, and that `b` has one entry for each new channel.
4. `y` gets the numbers of the new channels. `y + z` later merges the channels of `y` and `z`, entry by
   entry (`numbering.py`). Layer norm freezes its channels: they cannot be removed. An operation without a
   rule freezes all its inputs.

After the run (`find_units.py`) every merged channel that was not frozen is a unit. The result is `Channels`
(`units.py`): each unit with every position in every parameter where it occurs. From there:

- `gates.py` attaches one learned mask to each unit; `cost.py` and `shares.py` count and choose units.
- `slim.py` removes units permanently: `dead.py` finds those that no layer makes or reads, `constants.py`
  folds the constants that they leave, `resize.py` and `slim_attention.py` give the layers their new sizes.

No network or layer is treated by name. `docs/decisions/channel-tracing.md` compares torch-pruning.
"""

from .find_units import units
from .resize import resize
from .slim import Slimmed, removable, slim
from .units import Channels

__all__ = ["Channels", "Slimmed", "removable", "resize", "slim", "units"]
