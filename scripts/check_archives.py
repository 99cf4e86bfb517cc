"""Check that the archives in a folder have every file that they should have, and no other (`make dist`).

    python scripts/check_archives.py dist

The source archive has the files of the repository, the wheel those of src/unspur. Run it in the repository.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

NOT_SHIPPED = {".gitignore"}
GENERATED = {"PKG-INFO", "setup.cfg"}
PACKAGE = "src/unspur/"


def repository_files() -> set[str]:
    """Return the files that git tracks or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
    return {name for name in listed.split("\0") if name and Path(name).is_file()}


def source_files(archive: Path) -> set[str]:
    """Return the files of a source archive, without those that the build generates."""
    with tarfile.open(archive) as content:
        names = {m.name.partition("/")[2] for m in content.getmembers() if m.isfile()}
    return {name for name in names - GENERATED if ".egg-info/" not in name}


def wheel_files(archive: Path) -> set[str]:
    """Return the files of a wheel, without its metadata."""
    with zipfile.ZipFile(archive) as content:
        return {name for name in content.namelist() if ".dist-info/" not in name}


def differences(archive: Path, found: set[str], expected: set[str]) -> list[str]:
    """Return a line for each file that is missing or should not be there."""
    missing = [f"{archive.name} lacks {name}: add it to MANIFEST.in" for name in expected - found]
    extra = [f"{archive.name} has {name}, which git does not know" for name in found - expected]
    return sorted(missing + extra)


def check(folder: Path) -> list[str]:
    """Compare the one source archive and the one wheel in a folder with the repository."""
    (source,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    files = repository_files()
    package = {n.removeprefix("src/") for n in files if n.startswith(PACKAGE)}
    return [
        *differences(source, source_files(source), files - NOT_SHIPPED),
        *differences(wheel, wheel_files(wheel), package),
    ]


def main() -> int:
    """Print what is wrong; return 1 if anything is."""
    problems = check(Path(sys.argv[1]))
    print("\n".join(problems) or "archives: every file is there, and no other.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
