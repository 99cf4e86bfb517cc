"""Results on disk or in object stores: artifacts by key, atomic writes, sealed folders, JSON, content hashes.

May import: errors, extras, parallel, version.
"""

from .artifact_store import Store, default_store, key_of
from .artifacts import FACTS, Artifact, DamagedArtifact, environment, open_artifact
from .atomic import (
    folder_size,
    locked,
    make_folder,
    read_tensors,
    refuse_file,
    sweep,
    write_bytes,
    write_pieces,
    write_tensors,
)
from .finite import check_finite
from .folder_lock import claim
from .json_lines import read_document, read_lines, write_document, write_lines
from .manifest import (
    Kind,
    check_folder,
    damage,
    folder_kind,
    mark_unfinished,
    persons_files,
    seal_folder,
)
from .remote_store import open_store
from .removal import remove
from .strict_json import parse_json, read_json
from .workspace import Workspace, steps_done

__all__ = [
    "FACTS",
    "Artifact",
    "DamagedArtifact",
    "Kind",
    "Store",
    "Workspace",
    "check_finite",
    "check_folder",
    "claim",
    "damage",
    "default_store",
    "environment",
    "folder_kind",
    "folder_size",
    "key_of",
    "locked",
    "make_folder",
    "mark_unfinished",
    "open_artifact",
    "open_store",
    "parse_json",
    "persons_files",
    "read_document",
    "read_json",
    "read_lines",
    "read_tensors",
    "refuse_file",
    "remove",
    "seal_folder",
    "steps_done",
    "sweep",
    "write_bytes",
    "write_document",
    "write_lines",
    "write_pieces",
    "write_tensors",
]
