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
# Networks of a look at the border alone: two that see it, and one that sees the rest.
BORDER_NETWORKS = (MINER, DEPRIVED, CENTRE)

Samples = Literal["all", "without suspects", "suspects oversampled", "matched oversampled"]


@dataclass(frozen=True)
class AuditNetwork:
    """One network: what it is trained on, what it is compared with, and how texts speak of it.

    `control` is the network that its gain is measured against; a network without one is itself only a
    reference. `sees_all` is the network, without a view, that its reliance is measured against.
    """

    name: str  # part of the keys of the store
    phase: (
        int  # networks of a phase are trained side by side; later ones only where it is still open
    )
    samples: Samples  # of its half
    role: str  # on the page, under its title
    title: str = ""  # on the page, where it differs from the name
    view: Transform | None = None
    control: str | None = None
    sees_all: str | None = None
    difference: str = ""  # from its control, after "a network ..."
    label: str = ""  # the same for a chart
    filter: str = ""  # a suspect that it gets right, as a filter of the gallery
    mark: str = ""  # the same, under a picture
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
    """Return a network behind a view: trained like the deprived one, which is its control."""
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
        role="learns what is easy first; what it gets wrong are the suspects",
    ),
    AuditNetwork(
        DEPRIVED,
        phase=2,
        samples="without suspects",
        role="has not seen the suspects of its half",
    ),
    AuditNetwork(
        "matched",
        phase=2,
        samples="matched oversampled",
        role="has seen other images more often, as many of each class as there are suspects",
    ),
    AuditNetwork(
        "taught",
        phase=2,
        samples="suspects oversampled",
        control="matched",
        role="has seen the suspects of its half more often; its control network is matched",
        difference="that is shown others like them more often",
        label="sees suspects more often",
        filter="right when taught",
        mark="✓ taught",
    ),
    behind_view(
        "grey",
        views.grey,
        role="as deprived, and sees no colours; its control network is deprived",
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
        role="as deprived, and sees no border; its control network is deprived",
        difference="that sees the centre alone",
        label="sees no border",
        filter="right without the border",
        mark="✓ centre",
        hidden="the border",
        hint="Look around the centre first.",
    ),
    behind_view(
        "detail",
        views.detail,
        role="as deprived, and sees no light, shade or colour of large areas; its control network is "
        "deprived",
        difference="that sees detail alone",
        label="sees nothing coarse",
        filter="right from detail alone",
        mark="✓ detail",
        hidden="light, shade and the colour of large areas",
        hint="Look at light, shade and the colour of large areas first.",
    ),
    behind_view(
        "coarse",
        views.coarse,
        phase=3,
        role="as deprived, and sees light and colour of large areas alone; its control network is deprived",
        difference="that sees nothing fine",
        label="sees nothing fine",
        filter="right from large areas alone",
        mark="✓ coarse",
        hidden="texture and small things",
        hint="Look at texture and small things first.",
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
    """Return the networks behind a view."""
    return [network for network in NETWORKS if network.view]


def find(name: str) -> AuditNetwork:
    """Return the network of a name; KeyError if there is none."""
    return {network.name: network for network in NETWORKS}[name]
