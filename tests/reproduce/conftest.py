from __future__ import annotations

from pathlib import Path

import pytest
from toy_item import toy_options

from toys import Counting
from unspur.reproduce import ReproduceOptions


@pytest.fixture
def store(tmp_path: Path) -> Counting:
    return Counting(tmp_path / "store")


@pytest.fixture
def options(tmp_path: Path, store: Counting) -> ReproduceOptions:
    return toy_options(tmp_path, store)
