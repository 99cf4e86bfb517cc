"""Write the folder of an export atomically."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import StoreError
from ..store import claim, make_folder, seal_folder

CARD_FILES = ("README.md", ".gitattributes")  # a person may change these


@contextmanager
def stage_folder(out: Path) -> Iterator[Path]:
    """Yield a temporary folder, and rename it to `out` if no error was raised. An older export is replaced.

    The folder is sealed before it is renamed. Only one process at a time can write to `out`.
    """
    out = out.absolute()
    stage, old = (out.with_name(f"{out.name}{end}") for end in (".partial", ".old"))
    if out.exists() and not (out / "export.json").exists():
        raise StoreError(f"{out} exists and is not an export. Choose another --out.")
    make_folder(out.parent)
    with claim(out, out.with_name(f"{out.name}.lock")):
        try:
            for path in (stage, old):
                shutil.rmtree(path, ignore_errors=True)
            stage.mkdir(parents=True)
            yield stage
            seal_export(stage)
            if out.exists():
                os.rename(out, old)
            os.rename(stage, out)
        except OSError as error:
            raise StoreError(f"cannot write {out}: {error.strerror or error}.") from None
        finally:
            shutil.rmtree(stage, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)


def seal_export(stage: Path) -> None:
    """Write the manifest of an export over all of its files."""
    files = {path.name for path in stage.iterdir()} - {*CARD_FILES, "manifest.json"}
    seal_folder(stage, "export", files, editable=CARD_FILES)
