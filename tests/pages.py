"""Runs whose pages several tests look at, and a reader of pages."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import toys
from unspur import stages
from unspur.data.splits import Splits
from unspur.delivery import deliver

NASTY = "<script>alert('x')</script>\"&amp;.png"
VOID = {"meta", "img", "br", "input", "link", "hr"}


def named(splits: Splits) -> Splits:
    """The same data, its training images in files with names that try to be more than names."""
    names = tuple(f"bars/{i:03d}{NASTY if i % 2 else '.png'}" for i in range(len(splits.train)))
    return replace(splits, train=replace(splits.train, names=names))


def unlabelled(splits: Splits) -> Splits:
    """The same data where nobody knows the bias."""
    return replace(splits, bias={}, bias_classes=())


def page_of(
    folder: Path, changes=(), *, splits: Splits | None = None, command="unspur run x"
) -> Path:
    """The report of a small run, in a folder beside its store."""
    lab = toys.lab(folder / "store", changes, splits=splits)
    made, scores = stages.run(lab)
    path = deliver(lab, made, scores, folder / "out", command=command)
    assert path is not None
    return path


class Page(HTMLParser):
    """A page that must be well formed: every tag closed in its turn."""

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
