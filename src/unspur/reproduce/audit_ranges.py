"""The range of a number over the cases of the audit suites, for sentences about the thresholds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..audit.statistics import Statistic, strongest
from ..errors import UnspurError
from ..store import read_document

FILES = {"development": "audit-dev.json.gz", "unseen": "audit.json.gz"}
OF_NETWORKS = ("gain", "reliance", "separation")

Case = Mapping[str, Any]


class CaseNumber(NamedTuple):
    """A number of one case; `network` and `p` are empty for a number that is not of a single network."""

    value: float
    name: str
    network: str = ""
    p: str = ""

    def __str__(self) -> str:
        return f"{self.value:.2f}"

    @property
    def percent(self) -> str:
        return f"{100 * self.value:.0f}"

    @property
    def with_case(self) -> str:
        return f"{self} (*{self.network}*, {self.name}, p = {self.p})"


class AuditRange(NamedTuple):
    """The smallest and the largest number of some cases."""

    least: CaseNumber
    most: CaseNumber

    def __str__(self) -> str:
        return f"{self.least} to {self.most}"


def audit_range(
    folder: Path, number: str, truth: str, images: str = "", role: str = "development"
) -> AuditRange:
    """Return the range of a number over the cases of a role ("": of both) and a kind of truth.

    `number` is gain, reliance, separation, insistence (the share of confident errors), sum (confident errors
    and separation) or error (of the miner); `images` is the start of the names of the cases.
    """
    files = [file for name, file in FILES.items() if role in ("", name)]
    cases = (case for file in files for case in read_document(folder / file)["cases"])
    chosen = [c for c in cases if c["truth"] == truth and c["name"].startswith(images)]
    found = sorted(each for case in chosen for each in _numbers(case, number))
    if not found:
        raise UnspurError(f"no recorded audit has {number} for {truth} {images or 'images'}.")
    return AuditRange(found[0], found[-1])


def _numbers(case: Case, number: str) -> Iterator[CaseNumber]:
    """Yield the number of a case, if the case has it."""
    evidence = case["evidence"]
    if number in ("insistence", "error"):
        yield CaseNumber(evidence[number], case["name"])
    elif best := _strongest(evidence, "separation" if number == "sum" else number):
        network, statistic = best
        more = evidence["insistence"] if number == "sum" else 0.0
        yield CaseNumber(statistic.value + more, case["name"], network, f"{statistic.p_value:.0e}")


def _strongest(evidence: Mapping[str, Any], number: str) -> tuple[str, Statistic] | None:
    """Return the number that the verdict uses, with its network."""
    if number not in OF_NETWORKS:
        raise UnspurError(f"an audit has no number {number!r}.")
    values = {
        name: Statistic(**each[number])
        for name, each in evidence["networks"].items()
        if each[number]
    }
    return strongest(values)
