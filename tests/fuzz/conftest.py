"""One desk for all fuzz tests."""

from __future__ import annotations

import os

import pytest

from .desk import Desk, build


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return build(tmp_path_factory.mktemp("desk"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that take minutes, unless they are requested (`make crash`)."""
    if "UNSPUR_FUZZ" in os.environ:
        return
    for item in items:
        if "fuzz" in item.path.parts and item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="takes minutes; make crash runs it"))
