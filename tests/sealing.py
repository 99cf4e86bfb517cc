"""Change sealed files as somebody would who knows about the seal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unspur.store import seal_folder
from unspur.store.manifest import MANIFEST


def edit(file: Path, **changes: Any) -> None:
    """Change the top of a JSON file, and seal its folder again."""
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    reseal(file.parent)


def reseal(folder: Path) -> None:
    """Seal a folder as it is now, so that only what its files say can be wrong."""
    about = json.loads((folder / MANIFEST).read_text())
    seal_folder(folder, about["kind"], about["files"], editable=about["editable"])
