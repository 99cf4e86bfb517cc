"""torch 2.6 has another name for the number of compilations that it allows for one function."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from unspur.training.numerics import compile_if


@pytest.mark.parametrize("name", ["recompile_limit", "cache_size_limit"])
@pytest.mark.parametrize(("before", "after"), [(8, 256), (1000, 1000)])
def test_the_limit_is_raised_under_the_name_that_torch_has(
    name: str, before: int, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = SimpleNamespace(**{name: before})
    monkeypatch.setattr(torch._dynamo, "config", config)
    monkeypatch.setattr(torch, "compile", lambda function, dynamic: function)
    compile_if(abs, True)
    assert vars(config) == {name: after}
