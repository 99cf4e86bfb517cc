"""Write a folder so that it appears whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import StoreError


@contextmanager
def stage_folder(out: Path) -> Iterator[Path]:
    """Yield a folder beside `out` and move it there when all went well. An older export is replaced."""
    stage, old = (out.with_name(f"{out.name}{end}") for end in (".partial", ".old"))
    if out.exists() and not (out / "export.json").exists():
        raise StoreError(f"{out} is there and is no export. Give another --out.")
    try:
        for path in (stage, old):
            shutil.rmtree(path, ignore_errors=True)
        stage.mkdir(parents=True)
        yield stage
        if out.exists():
            os.rename(out, old)
        os.rename(stage, out)
    except OSError as error:
        raise StoreError(f"cannot write {out}: {error.strerror or error}.") from None
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
