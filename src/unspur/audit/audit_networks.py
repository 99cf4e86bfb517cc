"""The networks of an audit: one table that everything else reads.

To add a view, write its transform in views.py and add one entry `behind_view(...)` to NETWORKS. The
trainings, the evidence, the verdict's text and the page follow from the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from . import views
from .views import Transform

MINER, DEPRIVED = "mine", "deprived"  # the evidence refers to these two by name
CENTRE = "centre"
# The networks of the border search: the first two see only the border, the third only the centre.
BORDER_NETWORKS = (MINER, DEPRIVED, CENTRE)

Samples = Literal["all", "without suspects", "suspects oversampled", "matched oversampled"]


@dataclass(frozen=True)
class AuditNetwork:
    """One network: what it is trained on, what it is compared with, and the words that describe it.

    `control` is the network that its gain is measured against; a network without one serves only as
    a reference. `sees_all` is the network without a view that its reliance is measured against.
    """

    name: str  # part of the keys of the store
    phase: int  # networks of one phase are trained together, the phases in order
    samples: Samples  # the samples of its half that it is trained on
    role: str  # on the page, under its title
    title: str = ""  # on the page, if it differs from the name
    view: Transform | None = None
    control: str | None = None
    sees_all: str | None = None
    difference: str = ""  # how it differs from its control; completes "a network ..."
    label: str = ""  # the same as a label in a chart
    filter: str = ""  # the name of a gallery filter: suspects that it gets right
    mark: str = ""  # the same as a caption under a picture
    hidden: str = ""  # what its view hides
    hint: str = ""  # where to look for the shortcut, if this network shows one

    @property
    def is_miner(self) -> bool:
        return self.name == MINER

    @property
    def oversamples(self) -> bool:
        """Return whether it sees some samples more often than others."""
        return self.samples in ("suspects oversampled", "matched oversampled")


def behind_view(name: str, view: Transform, *, phase: int = 2, **words: str) -> AuditNetwork:
    """Return a network that sees images through a view; its control is the deprived network."""
    return AuditNetwork(
        name,
        phase=phase,
        samples="without suspects",
        view=view,
        control=DEPRIVED,
        sees_all="matched",
        **words,
    )


NETWORKS: tuple[AuditNetwork, ...] = (
    AuditNetwork(
        MINER,
        phase=1,
        samples="all",
        title="miner",
        role="learns easy features first; the images that it gets wrong are the suspects",
    ),
    AuditNetwork(
        DEPRIVED,
        phase=2,
        samples="without suspects",
        role="trained without the suspects of its half",
    ),
    AuditNetwork(
        "matched",
        phase=2,
        samples="matched oversampled",
        role="trained on random images more often, as many of each class as there are suspects",
    ),
    AuditNetwork(
        "taught",
        phase=2,
        samples="suspects oversampled",
        control="matched",
        role="trained on the suspects of its half more often; its control network is matched",
        difference="that is trained on similar images more often",
        label="sees suspects more often",
        filter="right when taught",
        mark="✓ taught",
    ),
    behind_view(
        "grey",
        views.grey,
        role="like deprived, but sees no colours; its control network is deprived",
        difference="that sees no colours",
        label="sees no colours",
        filter="right without colours",
        mark="✓ in grey",
        hidden="the colours",
        hint="Look at the colours first.",
    ),
    behind_view(
        CENTRE,
        views.centre,
        role="like deprived, but sees no border; its control network is deprived",
        difference="that sees only the centre",
        label="sees no border",
        filter="right without the border",
        mark="✓ centre",
        hidden="the border",
        hint="Look at the border first.",
    ),
    behind_view(
        "detail",
        views.detail,
        role="like deprived, but sees no light, shade or colour of large areas; its control network is "
        "deprived",
        difference="that sees only fine detail",
        label="sees only fine detail",
        filter="right from fine detail",
        mark="✓ detail",
        hidden="light, shade and the colour of large areas",
        hint="Look at light, shade and the colour of large areas first.",
    ),
    behind_view(
        "coarse",
        views.coarse,
        phase=3,
        role="like deprived, but sees only light and colour of large areas; its control network is deprived",
        difference="that sees only large areas",
        label="sees only large areas",
        filter="right from large areas",
        mark="✓ coarse",
        hidden="texture and small objects",
        hint="Look at texture and small objects first.",
    ),
)


def every() -> Sequence[AuditNetwork]:
    """Return all networks, in the order of training."""
    return NETWORKS


def phases() -> list[list[AuditNetwork]]:
    """Return the networks phase by phase."""
    numbers = sorted({network.phase for network in NETWORKS})
    return [[network for network in NETWORKS if network.phase == number] for number in numbers]


def compared() -> list[AuditNetwork]:
    """Return the networks that have a control network: those that can show a shortcut."""
    return [network for network in NETWORKS if network.control]


def viewed() -> list[AuditNetwork]:
    """Return the networks that see images through a view."""
    return [network for network in NETWORKS if network.view]


def find(name: str) -> AuditNetwork:
    """Return the network with this name; raise KeyError if there is none."""
    return {network.name: network for network in NETWORKS}[name]
