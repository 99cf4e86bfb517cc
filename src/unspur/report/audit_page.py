"""The page of an audit: the verdict, the rule and the numbers behind it, and the suspects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..audit import audit_networks, verdict
from ..audit.conclusions import VERDICTS, Conclusion
from ..audit.explanation import Explanation
from ..audit.formatting import beside, p_value, percent, signed
from ..audit.power import Power
from ..audit.preparation import settings
from ..runs.audit_folder import SETTINGS, SavedAudit
from ..stages.suspects import crowding
from . import audit_words, explanation_words, gallery, power_words, words
from .audit_figures import figures, numbers
from .gallery import Card, Sample
from .pictures import uri
from .templates import render_template

MOST_CLASSES = 20  # rows of the table by class


def render(audit: SavedAudit) -> str:
    """Return the page of an audit as text."""
    return render_template("audit.html.j2", content(audit))


def content(audit: SavedAudit) -> dict[str, Any]:
    """Return the variables of the page's template."""
    about, e, limits = audit.about, audit.evidence, audit.thresholds
    conclusion = verdict.conclude(e, thresholds=limits)
    shelves = gallery.shelves(audit.facts, audit.tensors, _marks) if audit.facts else []
    used_marks = {mark for shelf in shelves for card in shelf.suspects for mark in card.marks}
    more = {mark: name for mark, name in _filters().items() if mark in used_marks}
    by_suspects = sorted(about["classes"], key=lambda each: -each["suspects"])
    return {
        "audit": audit,
        "about": about,
        "evidence": e,
        "border": e.border if verdict.rests_on_border(e, thresholds=limits) else None,
        "verdict": words.page_verdict({**about, "text": _text(audit)}),
        "crowded": crowding(
            {each["name"]: (each["flagged"], each["samples"]) for each in about["classes"]}
        ),
        "meaning": conclusion.meaning,
        "next": _next(audit, conclusion),
        "steps": verdict.steps(e, thresholds=limits),
        "headlines": {code: kind.headline for code, kind in VERDICTS.items()},
        "roles": {each.title or each.name: each.role for each in audit_networks.every()},
        "figures": list(figures(e, limits)),
        "numbers": numbers(e),
        "certainty": audit_words.certainty(e, limits),
        "wrong_labels": audit_words.conflicting_or_wrong_labels(e, limits, len(about["classes"])),
        "calibration": audit_words.calibration(about, usual=_usual(audit)),
        "views": views(audit),
        "explanation": _explanation(about),
        "power": _power(about),
        "shelves": shelves,
        "filters": gallery.filters(shelves, more),
        "tiny": bool(shelves) and gallery.tiny(audit.tensors["gallery.images"]),
        "classes": by_suspects[:MOST_CLASSES],
        "largest": max((share(each) for each in by_suspects), default=0.0) or 1.0,
        "share": share,
        "right_marks": {each.name: each.mark for each in audit_networks.compared()},
        "trainings": _by_network(about["trained"]),
        "settings": list(_flat(about["settings"])),
        "percent": percent,
        "signed": signed,
        "beside": beside,
        "p_value": p_value,
    }


def _explanation(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties that predict the suspects; empty if the audit did not look for them."""
    if "explanation" not in about:
        return {}
    explanation = Explanation.from_json(about["explanation"])
    return {
        "sentences": explanation_words.sentences(explanation),
        "rows": explanation_words.rows(explanation),
        "compared": len(explanation.columns),
    }


def _power(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return how many planted shortcuts were found; empty if none were planted."""
    if "power" not in about:
        return {}
    power = Power.from_json(about["power"])
    return {"sentences": power_words.sentences(power), "rows": power_words.rows(power)}


def _text(audit: SavedAudit) -> str:
    """Return the text of the verdict, with a remark if a number is close to its threshold."""
    close = verdict.close_call(audit.evidence, thresholds=audit.thresholds)
    return verdict.with_close_call(audit.about["text"], str(close) if close else "")


def _filters() -> dict[str, str]:
    """Return the filters that only the gallery of an audit has."""
    return {"insisted": "confident errors"} | {
        each.name: each.filter for each in audit_networks.compared()
    }


def share(each: Mapping[str, Any]) -> float:
    """Return the share of suspects in a class."""
    return float(each["suspects"] / max(1, each["samples"]))


def _next(audit: SavedAudit, conclusion: Conclusion) -> audit_words.Next:
    about = audit.about
    return audit_words.next_step(
        conclusion,
        out=str(audit.folder),
        source=about["data"]["source"],
        steps=about["settings"]["mine"]["steps"],
    )


def _usual(audit: SavedAudit) -> bool:
    """Return whether the thresholds were chosen for this network and these settings."""
    about = audit.about
    default = settings(audit.evidence.samples, name="", seed=about["settings"]["seed"])
    usual = default.model_dump(mode="json", include=SETTINGS)
    return about["settings"] == usual and not about["network"].get("given", False)


def _marks(sample: Sample) -> list[str]:
    """Return the filters that a suspect matches.

    These are `insisted`, if a network that was not trained on it is fully confident of another class, and
    the names of the networks that classify it correctly.
    """
    names = [network.name for network in audit_networks.compared()]
    right = [name for name in names if sample["says"].get(name) == sample["label"]]
    return [*(["insisted"] if sample["insisted"] else []), *right]


def _by_network(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Group the trainings by network, under the names that the rest of the page uses."""
    titles = {each.name: each.title or each.name for each in audit_networks.every()}
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        prefix, colon, name = row["network"].rpartition(": ")
        found.setdefault(f"{prefix}{colon}{titles.get(name, name)}", []).append(row)
    return found


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the settings of a nested table with their dotted names."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


# -- where the shortcut is ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Example:
    """A suspect, how it looks through a view, and a typical image of the class that the miner predicts."""

    card: Card
    seen: str
    says: str
    typical: Card | None


@dataclass(frozen=True)
class ViewExamples:
    """What a view hides, the accuracy on suspects without (`right`) and with it (`before`), and examples."""

    name: str
    hidden: str
    right: float
    before: float
    examples: Sequence[Example]


def views(audit: SavedAudit) -> list[ViewExamples]:
    """Return the views that reveal the shortcut, the most significant first."""
    facts, tensors = audit.facts, audit.tensors
    typical = _typical(audit)
    view_examples = []
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
        each, hidden = audit.evidence.networks[name], audit_networks.find(name).hidden
        view_examples.append(ViewExamples(name, hidden, each.right, each.before, examples))
    return view_examples


def _typical(audit: SavedAudit) -> dict[int, Card]:
    """Return the most typical image of each class that the gallery shows."""
    facts = audit.facts
    cards: dict[int, Card] = {}
    pairs = zip(facts.get("gallery", []), audit.tensors.get("gallery.images", []), strict=True)
    for sample, picture in pairs:
        if sample["role"] == "typical":
            cards.setdefault(sample["label"], gallery.card(sample, picture, facts))
    return cards
