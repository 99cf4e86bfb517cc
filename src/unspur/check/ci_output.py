"""Write the outcome of a check for CI systems: JUnit XML, GitHub annotations, a summary in Markdown."""

from __future__ import annotations

import html
import re
import xml.etree.ElementTree as ET
from pathlib import Path

from ..errors import StoreError
from ..store import make_folder, write_bytes
from .alarms import TITLES, Alarm, CheckOutcome, plain

SUITE = "unspur check"
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
MARKS = re.compile(r"([\\`*_{}\[\]()#+\-.!|~>])")


def junit_xml(outcome: CheckOutcome, seconds: float) -> bytes:
    """Return JUnit XML with a test case for each kind of alarm."""
    cases = {kind: outcome.of(kind) for kind in TITLES}  # type: ignore[arg-type]
    suite = ET.Element(
        "testsuite",
        name=SUITE,
        tests=str(len(cases)),
        failures=str(sum(bool(alarms) for alarms in cases.values())),
        errors="0",
        skipped=str(sum(kind not in outcome.checked for kind in cases)),
        time=f"{seconds:.3f}",
    )
    for kind, alarms in cases.items():
        case = ET.SubElement(suite, "testcase", classname=SUITE, name=TITLES[kind])
        if alarms:
            text = _xml_text("\n".join(alarm.reason for alarm in alarms))
            ET.SubElement(case, "failure", message=_xml_text(alarms[0].reason)).text = text
        elif kind not in outcome.checked:
            ET.SubElement(case, "skipped", message="not checked")
    ET.indent(suite)
    document: bytes = ET.tostring(suite, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _xml_text(text: str) -> str:
    return NOT_XML.sub("\ufffd", text)


def annotation(alarm: Alarm) -> str:
    """Return an alarm as an error annotation of GitHub."""
    title = f"{SUITE}: {TITLES[alarm.kind]}".replace(":", "%3A").replace(",", "%2C")
    return f"::error title={title}::{_command_text(alarm.reason)}"


def notice(text: str) -> str:
    """Return a note as a warning annotation of GitHub."""
    return f"::warning title={SUITE}::{_command_text(text)}"


def _command_text(text: str) -> str:
    """Escape text for a workflow command of GitHub."""
    return plain(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def markdown_summary(outcome: CheckOutcome) -> str:
    """Return the outcome in Markdown; text from the data is escaped."""
    failed = len({alarm.kind for alarm in outcome.alarms})
    lines = [
        f"### {SUITE}: {'failed' if failed else 'passed'}",
        "",
        "| check | outcome |",
        "|---|---|",
    ]
    for kind, title in TITLES.items():
        alarms = outcome.of(kind)  # type: ignore[arg-type]
        passed = "passed" if kind in outcome.checked else "not checked"
        reasons = "<br>".join(escape_markdown(alarm.reason) for alarm in alarms)
        lines.append(f"| {title} | {f'**failed**: {reasons}' if alarms else passed} |")
    lines += ["", *(f"{escape_markdown(note)}\n" for note in outcome.notes)]
    return "\n".join(lines) + "\n"


def escape_markdown(text: str) -> str:
    """Escape text so that Markdown shows it unchanged, on one line."""
    return MARKS.sub(r"\\\1", html.escape(plain(text), quote=False).replace("@", "&#64;"))


def write_output(path: Path, data: bytes) -> None:
    """Write a file, and its folder if there is none."""
    make_folder(path.parent)
    write_bytes(path, data)


def append_summary(path: Path, text: str) -> None:
    """Append text to the job summary, a file that GitHub provides."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise StoreError(
            f"the summary {path} cannot be written ({error.strerror}). Give another file."
        ) from None
