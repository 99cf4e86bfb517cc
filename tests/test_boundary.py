"""Exceptions of a user's data set or network become our errors, with the original as the cause."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

import unspur
from toys import TinyNet, shapes_set
from unspur.boundary import explain_system
from unspur.data.custom.assembly import UserImages
from unspur.errors import DataError, ModelError, StoreError, TrainingError


class Broken(Dataset):
    """A data set whose fourth sample fails."""

    def __init__(self, error: Exception):
        self.error = error

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int):
        if index == 3:
            raise self.error
        return torch.zeros(3, 8, 8), index % 2


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no such row"),
        OSError(errno.EIO, "disk"),
        KeyError("x"),
        MemoryError(),
        StopIteration(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_data_set_that_raises_names_the_index(error: Exception) -> None:
    with pytest.raises(
        DataError, match=rf"train\[3\] cannot be read: {type(error).__name__}"
    ) as info:
        unspur.debias(Broken(error), model=TinyNet())
    assert info.value.__cause__ is error
    assert "in __getitem__" in info.value.traceback
    assert "collect" not in info.value.traceback  # a function of unspur


class Late(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net, self.calls = TinyNet(), 0

    def forward(self, x):
        self.calls += 1
        if self.training and self.calls > 3:
            raise LookupError("late")
        return self.net(x)


def test_a_network_that_fails_after_some_calls() -> None:
    with pytest.raises(ModelError, match="LookupError: late") as info:
        unspur.debias(shapes_set(), model=Late(), anyway=True, settings={"mine.how": "oracle"})
    assert isinstance(info.value.__cause__, LookupError)


def test_a_frozen_network() -> None:
    with pytest.raises(ModelError, match=r"model\.requires_grad_\(True\)"):
        unspur.debias(shapes_set(), model=TinyNet().requires_grad_(False), anyway=True)


def test_labels_that_make_a_million_classes_are_refused_in_seconds() -> None:
    class Sparse(Broken):
        def __getitem__(self, index: int):
            return torch.zeros(3, 8, 8), index * 10**8

    began = time.process_time()
    with pytest.raises(DataError, match=r"700,000,001 classes; there may be at most"):
        UserImages(Sparse(ValueError())).open(8)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("error", "kind", "what"),
    [
        (MemoryError(), TrainingError, "not enough memory"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
            TrainingError,
            "batch",
        ),
        (torch.cuda.OutOfMemoryError("CUDA out of memory."), TrainingError, "not enough memory"),
        (FileExistsError(errno.EEXIST, "File exists", "a"), StoreError, "a: File exists"),
        (OSError("no number"), StoreError, "no number"),
    ],
)
def test_what_the_system_raises(error: Exception, kind: type, what: str) -> None:
    with pytest.raises(kind, match=what) as info, explain_system():
        raise error
    assert info.value.__cause__ is error


def test_bugs_of_unspur_are_not_turned_into_other_errors() -> None:
    with pytest.raises(KeyError), explain_system():
        raise KeyError("ours")


def test_a_store_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    with pytest.raises(StoreError, match="A file is where a folder should be"):
        unspur.debias(shapes_set(), model=TinyNet(), anyway=True, store=tmp_path / "store")


class Failing(nn.Module):
    """A network in which the GPU reports an error, as it does at any call after its failure."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError(f"CUDA error: {self.reason}\nFor debugging ...")


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("an illegal memory access was encountered", "Run the same command again to continue"),
        ("device-side assert triggered", "index is probably out of range"),
        ("no kernel image is available for execution on the device", "Install another one"),
    ],
)
def test_a_failed_gpu_is_not_a_fault_of_the_network(reason: str, advice: str) -> None:
    failed = pytest.raises(TrainingError, match=rf"the GPU failed \(.*{reason}\)\. .*{advice}")
    with failed as info, explain_system():
        Failing(reason)(torch.zeros(1))
    assert "For debugging" not in str(info.value)
    assert "in forward" in info.value.traceback
    assert isinstance(info.value.__cause__, RuntimeError)
