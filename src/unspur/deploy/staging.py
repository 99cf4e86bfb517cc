"""Write the folder of an export atomically."""

from __future__ import annotations

import itertools
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import StoreError
from ..runs.run_folder import REPORT
from ..store import claim, make_folder, persons_files, seal_folder
from .export_report import WHAT

CARD_FILES = ("README.md", ".gitattributes")  # a person may change these


@contextmanager
def stage_folder(out: Path) -> Iterator[Path]:
    """Yield a temporary folder, and rename it to `out` if no error was raised. An older export is replaced.

    Files that a person has added to the older export are kept. The folder is sealed before it is renamed.
    Only one process at a time can write to `out`.
    """
    out = out.resolve()  # what a link names is replaced, not the link
    stage, old = _beside(out)
    if out.exists() and not (out / "export.json").exists():
        raise StoreError(f"{out} exists and is not an export. Choose another --out.")
    make_folder(out.parent)
    with claim(out, out.with_name(f"{out.name}.lock")):
        try:
            if old.exists() and not out.exists():  # a process was killed between the two renames
                os.rename(old, out)
            for path in (stage, old):
                shutil.rmtree(path, ignore_errors=True)
            stage.mkdir(parents=True)
            yield stage
            seal_export(stage)
            if out.exists():
                _copy_persons_files(out, stage)
                os.rename(out, old)
            os.rename(stage, out)
        except OSError as error:
            raise StoreError(f"cannot write {out}: {error.strerror or error}.") from None
        finally:
            shutil.rmtree(stage, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)


def _beside(out: Path) -> tuple[Path, Path]:
    """Return the temporary folder and the place of the older export.

    Both are removed, so they have names that a person would not give to a copy of an export.
    """
    stage, old = (out.with_name(f".{out.name}.unspur-{end}") for end in ("partial", "replaced"))
    return stage, old


def _copy_persons_files(out: Path, stage: Path) -> None:
    """Copy what a person has added to an older export; a card that was edited gets another name.

    The page of the older export is left out, because it is about another model.
    """
    try:
        paths = persons_files(out)
    except StoreError:  # the manifest is damaged, so keep all that is not a sealed file of exports
        paths = [path for path in sorted(out.iterdir()) if path.name not in WHAT]
    for path in (path for path in paths if path.name != REPORT):
        others = (f"{path.stem}-{number}{path.suffix}" for number in itertools.count(1))
        names = itertools.chain([path.name], others)
        name = next(each for each in names if not (stage / each).exists())
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, stage / name, symlinks=True)
        else:
            shutil.copy2(path, stage / name, follow_symlinks=False)
        if name != path.name:
            warnings.warn(f"{path} was edited; the old one was renamed to {name}.", stacklevel=3)


def seal_export(stage: Path) -> None:
    """Write the manifest of an export over all of its files."""
    files = {path.name for path in stage.iterdir()} - {*CARD_FILES, "manifest.json"}
    seal_folder(stage, "export", files, editable=CARD_FILES)
