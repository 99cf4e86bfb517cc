"""A store in an object store (`s3://bucket/name`), with copies in a folder of this machine.

Stages work in the local folder, as in any store. A finished artifact is uploaded, `artifact.json` last, so
that an artifact with this file is complete. An artifact that is missing locally is downloaded to a temporary
folder, verified by its checksums and renamed. Stages in progress stay on the machine that works on them.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import StoreError
from .addresses import explain_failure, is_address, open_filesystem
from .artifact_store import Store
from .artifacts import FACTS, LOG, TENSORS, Artifact, open_artifact

FILES = (TENSORS, LOG, FACTS)  # in the order in which they are uploaded


def open_store(where: Path | str) -> Store:
    """Return the store of a folder or of an address."""
    return (
        RemoteStore(where) if isinstance(where, str) and is_address(where) else Store(Path(where))
    )


def copies_folder(address: str) -> Path:
    """Return the local folder with the copies of an object store."""
    base = os.environ.get("UNSPUR_CACHE") or Path.home() / ".cache" / "unspur"
    return Path(base) / "stores" / hashlib.sha256(address.encode()).hexdigest()[:16]


class RemoteStore(Store):
    """Artifacts in an object store, with copies in a folder of this machine."""

    def __init__(self, address: str):
        self.address = address.rstrip("/")
        super().__init__(copies_folder(self.address))
        self.filesystem, self.prefix = open_filesystem(self.address)

    def find_here(self, ingredients: Mapping[str, Any]) -> Artifact | None:
        path = self.path(ingredients)
        if not path.exists():
            self._download(path)
            return super().find_here(ingredients)
        found = super().find_here(ingredients)
        if found is not None and not self._is_there(path):  # an earlier upload was interrupted
            self._upload(path)
        return found

    def has(self, path: Path) -> bool:
        return super().has(path) or self._is_there(path)

    def finish(self, path: Path) -> None:
        self._upload(path)

    def _is_there(self, path: Path) -> bool:
        self.filesystem.invalidate_cache()
        with explain_failure(self.address):
            return bool(self.filesystem.exists(self._remote(path, FACTS)))

    def _remote(self, path: Path, file: str) -> str:
        return f"{self.prefix}/{path.name}/{file}"

    def _upload(self, path: Path) -> None:
        """Copy a finished artifact to the object store and check the sizes there."""
        with explain_failure(self.address):
            for file in FILES:
                if not (path / file).exists():
                    continue
                self.filesystem.put_file(str(path / file), self._remote(path, file))
                remote_size = self.filesystem.info(self._remote(path, file))["size"]
                if remote_size != (size := (path / file).stat().st_size):
                    raise StoreError(
                        f"{self.address}/{path.name}/{file} has {remote_size} bytes after the upload, not "
                        f"{size}. Run the same command again."
                    )

    def _download(self, path: Path) -> None:
        """Copy an artifact to this machine if the object store has all of it."""
        if not self._is_there(path):
            return
        beside = path.with_name(f"{path.name}.download-{secrets.token_hex(4)}")
        beside.mkdir(parents=True)
        try:
            self._fetch(path, beside)
            open_artifact(beside)
            os.rename(beside, path)
        except (OSError, StoreError) as error:
            if isinstance(error, OSError) and path.exists():
                return  # another process has downloaded it
            raise StoreError(
                f"{self.address}/{path.name} cannot be used ({error}) Remove it there to compute it again."
            ) from None
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    def _fetch(self, path: Path, folder: Path) -> None:
        with explain_failure(self.address):
            for file in FILES:
                if file != LOG or self.filesystem.exists(self._remote(path, file)):
                    self.filesystem.get_file(self._remote(path, file), str(folder / file))
