"""Colours for pages and figures.

The palette is that of Okabe and Ito, which colour-blind people can distinguish. Some colours are darkened to
be visible on white and on black. Shapes and line styles repeat what colours show. A group that is named after
a colour is drawn in that colour.
"""

from __future__ import annotations

from collections.abc import Mapping

from PIL import ImageColor

INK = "#1c2733"
BLUE, RED, GREEN, PURPLE, ORANGE = "#0072b2", "#d55e00", "#009e73", "#c4709f", "#b37f00"
SKY, GREY = "#3b93cf", "#7b858f"
SERIES = (BLUE, RED, GREEN, PURPLE, ORANGE)
GROUPS = (*SERIES, SKY, GREY)

# Names of colours that are not in CSS, and a yellow that still looks yellow when darkened.
NAMED = {
    "yellow": "#ffd000",
    "vermilion": "#e34234",
    "mauve": "#ac7694",
    "sage": "#9caf88",
    "amber": "#ffbf00",
}
VISIBLE = (0.14, 0.29)  # range of luminance that is visible both on white and on a dark page

# Colours of shares from 0 (dark blue) to 1 (pale yellow).
_RAMP = ("#00224e", "#2a3f6d", "#575d6d", "#7d7c78", "#a59c74", "#d2c060", "#fee838")


def group_colours(names: Mapping[int, str]) -> dict[int, str]:
    """Return a colour for each group.

    If some groups are named after a colour, they get that colour and all others are grey.
    """
    own = {group: colour for group, name in names.items() if (colour := named_colour(name))}
    if not own:
        return {group: GROUPS[group % len(GROUPS)] for group in names}
    return {group: own.get(group, GREY) for group in names}


def named_colour(name: str) -> str | None:
    """Return the colour with this name, adjusted to be visible on any page; None if there is none."""
    word = name.lower().replace(" ", "")
    if word not in NAMED and word not in ImageColor.colormap:
        return None
    return _make_visible(ImageColor.getrgb(NAMED.get(word, word))[:3])


def _make_visible(rgb: tuple[int, ...]) -> str:
    """Mix a colour with black or white until its luminance is within `VISIBLE`."""
    for step in range(101):
        for ground in (0, 255):
            mixed = (round(part + (ground - part) * step / 100) for part in rgb)
            colour = "#" + "".join(f"{part:02x}" for part in mixed)
            if VISIBLE[0] <= luminance(colour) <= VISIBLE[1]:
                return colour
    return GREY


def ramp(share: float) -> str:
    """Return the colour of a share on the scale cividis, which colour-blind people can read."""
    place = min(max(share, 0.0), 1.0) * (len(_RAMP) - 1)
    below = min(int(place), len(_RAMP) - 2)
    low, high = _rgb(_RAMP[below]), _rgb(_RAMP[below + 1])
    mixed = (round(a + (b - a) * (place - below)) for a, b in zip(low, high, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def on(colour: str) -> str:
    """Return the text colour, black or white, that is most readable on a background colour."""
    return "#000000" if luminance(colour) > 0.18 else "#ffffff"


def luminance(colour: str) -> float:
    """Return the luminance of a colour, from 0 to 1."""
    parts = [part / 255 for part in _rgb(colour)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return red, green, blue
