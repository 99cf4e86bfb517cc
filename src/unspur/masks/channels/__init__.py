"""Channels of any network: which belong together, what they cost, and how to remove them for good."""

from .resize import resize
from .slim import Slimmed, removable, slim
from .units import Channels, Slot, units

__all__ = ["Channels", "Slimmed", "Slot", "removable", "resize", "slim", "units"]
