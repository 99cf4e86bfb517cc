"""The page of an audit: the verdict, the rule and the numbers behind it, and the images it is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..audit.auditing import settings
from ..audit.views import HIDDEN
from ..runs.audit_folder import SETTINGS, Audited
from . import audit_words, decision, gallery, words
from .audit_figures import figures, numbers
from .audit_words import HEADLINES, NETWORKS, SET_RIGHT, WHO
from .gallery import Card, Sample
from .pictures import uri
from .templates import paint
from .words import percent, signed

MOST_CLASSES = 20  # rows of the table by class


def render(audit: Audited) -> str:
    """The page of an audit as text."""
    return paint("audit.html.j2", content(audit))


def content(audit: Audited) -> dict[str, Any]:
    """Everything the page shows, by the names its template uses."""
    about, e, limits = audit.about, audit.evidence, audit.thresholds
    step = decision.deciding(e, limits)
    shelves = gallery.shelves(audit.facts, audit.tensors, _marks) if audit.facts else []
    here = {mark for shelf in shelves for card in shelf.suspects for mark in card.marks}
    more = {mark: name for mark, name in FILTERS.items() if mark in here}
    by_suspects = sorted(about["classes"], key=lambda each: -each["suspects"])
    return {
        "audit": audit,
        "about": about,
        "evidence": e,
        "verdict": words.judged(about),
        "meaning": audit_words.meaning(step),
        "next": _next(audit, step),
        "steps": decision.steps(e, limits),
        "headlines": HEADLINES,
        "who": WHO,
        "figures": list(figures(e, limits)),
        "numbers": numbers(e),
        "sureness": audit_words.sureness(e, limits),
        "told_apart": audit_words.told_apart(e, limits, len(about["classes"])),
        "limits": audit_words.limits_of(about, usual=_usual(audit)),
        "views": views(audit),
        "shelves": shelves,
        "filters": gallery.filters(shelves, more),
        "tiny": bool(shelves) and gallery.tiny(audit.tensors["gallery.images"]),
        "classes": by_suspects[:MOST_CLASSES],
        "largest": max((share(each) for each in by_suspects), default=0.0) or 1.0,
        "share": share,
        "set_right": {name: SHORT[name] for name in SET_RIGHT},
        "trained": _trained(about["trained"]),
        "settings": list(_flat(about["settings"])),
        "percent": percent,
        "signed": signed,
        "p_value": decision.p_value,
    }


SHORT = {"taught": "✓ taught", "grey": "✓ in grey", "centre": "✓ centre", "detail": "✓ detail"}
FILTERS = {"insisted": "insisted on", **SET_RIGHT}


def share(each: Mapping[str, Any]) -> float:
    """The share of a class that is suspect."""
    return float(each["suspects"] / max(1, each["samples"]))


def _next(audit: Audited, step: decision.Step) -> audit_words.Next:
    about = audit.about
    return audit_words.next_step(
        step,
        out=str(audit.folder),
        source=about["data"]["source"],
        steps=about["settings"]["mine"]["steps"],
    )


def _usual(audit: Audited) -> bool:
    """Whether network and settings are those that the thresholds were chosen for."""
    about = audit.about
    default = settings(audit.evidence.samples, name="", seed=about["settings"]["seed"])
    told = default.model_dump(mode="json", include=SETTINGS)
    return about["settings"] == told and not about["network"].get("given", False)


def _marks(sample: Sample) -> list[str]:
    """What a suspect can be filtered by: how sure of another class a network is, and who sets it right."""
    right = [name for name in NETWORKS if sample["says"].get(name) == sample["label"]]
    return [*(["insisted"] if sample["insisted"] else []), *right]


def _trained(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The trainings by network."""
    names = dict.fromkeys(row["network"] for row in rows)
    return {name: [row for row in rows if row["network"] == name] for name in names}


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Settings of a nested table, one by one."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


# -- where it hides -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Example:
    """A suspect, what a network behind a view gets of it, and a typical one of the class it is taken for."""

    card: Card
    seen: str
    says: str
    like: Card | None


@dataclass(frozen=True)
class View:
    """What a view hides, how much better the suspects are seen without it, and examples."""

    name: str
    hidden: str
    right: float
    before: float
    examples: Sequence[Example]


def views(audit: Audited) -> list[View]:
    """The views that explain the suspects, the surest first."""
    facts, tensors = audit.facts, audit.tensors
    typical = _typical(audit)
    found = []
    for name, samples in facts.get("views", {}).items():
        images, seen = tensors[f"views.{name}.images"], tensors[f"views.{name}.seen"]
        examples = [
            Example(
                gallery.card(sample, picture, facts),
                uri(through),
                facts["classes"][sample["says"][name]],
                typical.get(sample["predicted"]),
            )
            for sample, picture, through in zip(samples, images, seen, strict=True)
        ]
        told = audit.evidence.networks[name]
        found.append(View(name, HIDDEN[name], told.right, told.before, examples))
    return found


def _typical(audit: Audited) -> dict[int, Card]:
    """The most typical image of each class that the gallery shows."""
    facts = audit.facts
    found: dict[int, Card] = {}
    pairs = zip(facts.get("gallery", []), audit.tensors.get("gallery.images", []), strict=True)
    for sample, picture in pairs:
        if sample["role"] == "typical":
            found.setdefault(sample["label"], gallery.card(sample, picture, facts))
    return found
