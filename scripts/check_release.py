"""Check that tag, version, changelog and citation of a release agree.

make release-check TAG=v0.2.0
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def first(pattern: str, path: Path) -> str:
    """Return the first match of a pattern in a file; "" if there is none."""
    found = re.search(pattern, path.read_text(), re.M)
    return found[1] if found else ""


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """Return what does not fit the tag."""
    version = tag.removeprefix("v")
    found = {
        "src/unspur/version.py": first(r'^VERSION = "(.+)"$', root / "src/unspur/version.py"),
        "CITATION.cff": first(r"^version: (.+)$", root / "CITATION.cff"),
        "CHANGELOG.md": first(r"^## (\S+)", root / "CHANGELOG.md"),
    }
    wrong = [
        f"{file} says {said or 'nothing'}, not {version}."
        for file, said in found.items()
        if said != version
    ]
    shape = re.fullmatch(r"v\d+\.\d+\.\d+", tag)
    return ([] if shape else [f"The tag is {tag!r}, not of the form v0.2.0."]) + wrong


def main() -> int:
    """Print what is wrong; return 1 if anything is."""
    found = problems(sys.argv[1] if len(sys.argv) > 1 else "")
    print("\n".join(found) or "tag, version, changelog and citation agree.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
