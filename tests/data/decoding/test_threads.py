"""Files are read in threads: as many as pay, with the results in order."""

import pytest

from unspur.data.decoding import files


@pytest.fixture
def pools(monkeypatch):
    """Return the numbers of threads that were asked for."""
    asked = []
    real = files.ThreadPoolExecutor
    monkeypatch.setattr(files, "ThreadPoolExecutor", lambda n: asked.append(n) or real(n))
    return asked


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that only moves when a test moves it."""
    now = [0.0]
    monkeypatch.setattr(files.time, "perf_counter", lambda: now[0])
    return now


@pytest.mark.parametrize(("seconds", "threads"), [(0.0001, files.FEW_THREADS), (0.001, None)])
def test_quick_files_get_few_threads(seconds, threads, pools, clock):
    calls = []

    def read(path):
        calls.append(path)
        clock[0] += 5.0 if len(calls) == 1 else seconds  # the first call imports something
        return path.upper()

    names = [f"a{n}" for n in range(300)]
    assert files.in_threads(read, names) == [name.upper() for name in names]
    assert sorted(calls) == sorted(names)
    assert pools == [threads]


def test_large_files_are_hardly_read_one_by_one(pools, clock):
    alone = []

    def read(path):
        if not pools:
            alone.append(path)
        clock[0] += 1.0
        return path

    assert files.in_threads(read, list("abcdefgh")) == list("abcdefgh")
    assert alone == ["a", "b"]
    assert pools == [None]


@pytest.mark.parametrize(
    "count", [0, 1, 2, files.TRIAL, files.TRIAL + 1, files.TRIAL + files.BLOCK]
)
def test_every_file_is_read_once(count):
    names = [str(n) for n in range(count)]
    calls = []
    assert files.in_threads(lambda name: calls.append(name) or name, names) == names
    assert sorted(calls) == sorted(names)


def test_an_error_is_that_of_the_first_file_that_fails():
    def read(path):
        if path in ("70", "200"):
            raise ValueError(path)
        return path

    with pytest.raises(ValueError, match="70"):
        files.in_threads(read, [str(n) for n in range(300)])
