"""Results on disk: artifacts found by key, stages in progress, atomic writes, JSON lines, packed weights.

May import: errors, hashing, version.
"""

from .artifact_store import Store, key_of
from .artifacts import FACTS, Artifact, environment, open_artifact
from .atomic import (
    folder_size,
    locked,
    make_folder,
    read_json,
    read_tensors,
    refuse_file,
    remove,
    write_bytes,
    write_tensors,
)
from .json_lines import read_document, read_lines, write_document, write_lines
from .workspace import Workspace

__all__ = [
    "FACTS",
    "Artifact",
    "Store",
    "Workspace",
    "environment",
    "folder_size",
    "key_of",
    "locked",
    "make_folder",
    "open_artifact",
    "read_document",
    "read_json",
    "read_lines",
    "read_tensors",
    "refuse_file",
    "remove",
    "write_bytes",
    "write_document",
    "write_lines",
    "write_tensors",
]
