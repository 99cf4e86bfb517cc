"""Several processes give the losses, weights and masks of one: two for every method, three for some."""

from functools import cache

import pytest
import torch

import process_cases
from toys import shapes_set

WORK = ("steps", "plans")
GROUPS = {2: "steps,plans,images", 3: "few,images"}  # groups of cases by number of processes
EXACT = 1e-9  # after 50 steps, in float64: only rounding errors
TOLERANCE = 1e-5  # after 50 steps of every stage, in float32


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Return the results of one process."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    found = process_cases.do(",".join(WORK), tmp_path_factory.mktemp("alone"))
    torch.set_num_threads(threads)
    return found


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Return a function from a number of processes to their results; each number is run once."""

    @cache
    def run(count):
        folder = tmp_path_factory.mktemp("together")
        return process_cases.run_in_processes(count, GROUPS[count], folder)

    return run


def counted(cases):
    """Return pairs of a case and a number of processes that run it."""
    few = [(3, case) for case in cases if case in process_cases.FEW]
    return pytest.mark.parametrize(("count", "case"), [*((2, case) for case in cases), *few])


def assert_equal(found, expected, tolerance):
    assert found.keys() == expected.keys()  # names of artifacts contain their keys
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        torch.testing.assert_close(
            found[name],
            tensor,
            rtol=tolerance,
            atol=tolerance,
            msg=lambda text, n=name: f"{n}: {text}",
        )


@pytest.mark.parametrize("count", GROUPS)
def test_images_are_loaded_once_and_shared(together, count):
    found = together(count)["images"]
    whole = int(shapes_set(samples=process_cases.LARGE).train.images.long().sum())
    assert int(found["readers"]) == 1
    assert int(found["sum"]) - whole == 3 * 8 * 8  # one image was made brighter, once


@counted(process_cases.STEP_CASES)
def test_every_method_trains_as_in_one_process(alone, together, count, case):
    in_float32 = case.startswith("lc/") or "mixed" in case
    tolerance = TOLERANCE if in_float32 else EXACT
    assert_equal(together(count)[case], alone[case], tolerance)


@counted(process_cases.PLAN_CASES)
def test_every_stage_gives_the_result_of_one_process(alone, together, count, case):
    assert_equal(together(count)[case], alone[case], TOLERANCE)
