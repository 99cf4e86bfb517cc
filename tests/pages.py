"""Reports of small runs that several tests use, and a parser of pages."""

from __future__ import annotations

import base64
import hashlib
import importlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import toys
from unspur import stages
from unspur.data.splits import Splits
from unspur.workflow import Outcome, save_outcome

NASTY = "<script>alert('x')</script>\"&amp;.png"
VOID = {"meta", "img", "br", "input", "link", "hr"}


def named(splits: Splits) -> Splits:
    """Return the same data, with training images whose names contain HTML."""
    names = tuple(f"bars/{i:03d}{NASTY if i % 2 else '.png'}" for i in range(len(splits.train)))
    return replace(splits, train=replace(splits.train, names=names))


def unlabelled(splits: Splits) -> Splits:
    """Return the same data without bias labels."""
    return replace(splits, bias={}, bias_classes=())


def page_of(
    folder: Path, changes=(), *, splits: Splits | None = None, command="unspur run x"
) -> Path:
    """Return the report of a small run."""
    context = toys.context(folder / "store", changes, splits=splits)
    made, scores = stages.run(context)
    outcome = Outcome(context, made, scores, None)
    path = save_outcome(outcome, folder / "out", command=command).page
    assert path is not None
    return path


class Page(HTMLParser):
    """A parsed page, which must be well formed: tags are closed in the right order."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> at {self.getpos()}"

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]

    def sections(self) -> list[str]:
        return [attrs["id"] for attrs in self.all("section") if "id" in attrs]


def plain(text: str) -> str:
    """Replace special spaces and hyphens by ordinary ones."""
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NON-BREAKING HYPHEN}", "-")


def check_whole(html: str) -> None:
    """Check that a page needs no other files, adapts to its width, and escapes names."""
    read = Page(html)
    _needs_nothing(read, html)
    for how in ("prefers-color-scheme: dark", "@media print", "max-width: 48rem"):
        assert how in html
    ids = [attrs["id"] for _, attrs in read.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {attrs["href"][1:] for attrs in read.all("a")} == set(read.sections())
    assert html.count("<script") == 1
    assert "alert(" not in html.split("<script>")[1]
    script = html.split("<script>")[1].split("</script>")[0]
    allowed = re.search(r"script-src 'sha256-([^']+)'", html.replace("&#39;", "'"))[1]
    assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() == allowed
    assert all(len(attrs.get("alt") or "") > 5 for attrs in read.all("img"))
    charts = [attrs for attrs in read.all("svg") if attrs.get("aria-hidden") != "true"]
    assert all(a["role"] == "img" and len(a["aria-label"]) > 30 for a in charts)


def _needs_nothing(read: Page, html: str) -> None:
    assert not {tag for tag, _ in read.tags} & {"link", "iframe", "object", "base"}
    for tag, attrs in read.tags:
        for name in ("src", "href", "xlink:href", "action", "srcset"):
            value = attrs.get(name) or ""
            assert value == "" or value.startswith(("data:image/", "#")), (tag, value)
    style = html.split("<style>")[1].split("</style>")[0]
    assert "@import" not in style
    assert "url(" not in style
    assert "default-src 'none'" in html
    assert len(html.encode()) < 5_000_000


def shown(page):
    """Return the visible suspects of a page by class."""
    return page.eval_on_selector_all(
        ".shelf:not([hidden]) .suspects .card:not([hidden])",
        "cards => cards.map(c => [c.closest('.shelf').dataset.label, c.dataset.name, +c.dataset.score])",
    )


def refuse(monkeypatch, missing):
    """Make an optional package look as if it were not installed."""
    real = importlib.import_module

    def importing(name, *rest):
        if name.partition(".")[0] == missing:
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", importing)
