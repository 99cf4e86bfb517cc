"""Two and three processes give the losses, weights and masks of one, for every method and every stage."""

import pytest
import torch

import process_cases
from toys import shapes_set

WORK = ("steps", "plans")
EXACT = 1e-9  # after 50 steps, in float64: nothing but rounding
TOLERANCE = 1e-5  # after 50 steps of every stage, in float32


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What one process gets."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    found = {group: process_cases.do(group, tmp_path_factory.mktemp("alone")) for group in WORK}
    torch.set_num_threads(threads)
    return found


@pytest.fixture(scope="module", params=[2, 3])
def together(request, tmp_path_factory):
    """What several processes get."""
    folder = tmp_path_factory.mktemp("together")
    groups = (*WORK, "images")
    found = process_cases.run_in_processes(request.param, ",".join(groups), folder)
    return {g: {case: found[case] for case in process_cases.GROUPS[g]} for g in groups}


def assert_equal(found, expected, tolerance):
    assert found.keys() == expected.keys()  # artifacts have their keys in their names
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        torch.testing.assert_close(
            found[name],
            tensor,
            rtol=tolerance,
            atol=tolerance,
            msg=lambda text, n=name: f"{n}: {text}",
        )


def test_images_are_opened_once_and_shared(together):
    found = together["images"]["images"]
    whole = int(shapes_set(samples=process_cases.LARGE).train.images.long().sum())
    assert int(found["readers"]) == 1
    assert int(found["sum"]) - whole == 3 * 8 * 8  # one image was made brighter, once


@pytest.mark.parametrize("case", process_cases.STEP_CASES)
def test_every_method_trains_as_in_one_process(alone, together, case):
    in_float32 = case.startswith("lc/") or "mixed" in case
    tolerance = TOLERANCE if in_float32 else EXACT
    assert_equal(together["steps"][case], alone["steps"][case], tolerance)


@pytest.mark.parametrize("case", process_cases.PLAN_CASES)
def test_every_stage_gives_what_one_process_gives(alone, together, case):
    assert_equal(together["plans"][case], alone["plans"][case], TOLERANCE)
