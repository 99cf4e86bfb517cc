"""Change sealed files and seal the folder again, as somebody who knows about the seal would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unspur.store import seal_folder
from unspur.store.manifest import MANIFEST


def edit(file: Path, **changes: Any) -> None:
    """Change top-level entries of a JSON file, and seal its folder again."""
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    reseal(file.parent)


def reseal(folder: Path) -> None:
    """Seal a folder with its current files, so that only their content can be wrong."""
    about = json.loads((folder / MANIFEST).read_text())
    seal_folder(folder, about["kind"], about["files"], editable=about["editable"])
