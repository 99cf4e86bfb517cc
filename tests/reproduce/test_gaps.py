"""`unspur reproduce gaps`: every question has runs, and its answer follows from the recorded numbers."""

from __future__ import annotations

from typing import Any

import pytest

from unspur.reproduce import gaps_answers
from unspur.reproduce.gaps_cells import cells, every
from unspur.reproduce.gaps_item import GAPS, QUESTIONS
from unspur.reproduce.item import RecordedRun, Result
from unspur.reproduce.run_extras import needed_extras


def run(seed: int, last: float, best: float | None, pruned: float | None) -> dict[str, Any]:
    steps = {"1000": {"unbiased": best}, "2000": {"unbiased": last}} if best else {}
    steps = {step: {"unbiased": found["unbiased"] / 100} for step, found in steps.items()}
    return {
        "seed": seed,
        "debiased": {"unbiased": last / 100},
        "pruned": None if pruned is None else {"unbiased": pruned / 100},
        "selection": {"rule": "last"},
        "density": {"overall": 1.0},
        "extras": {"iterates": steps},
        "run": {"device": "cuda"},
    }


def results(values: dict[tuple[str, ...], tuple[float, ...]]) -> dict[tuple[str, ...], Result]:
    """Return results of all cells; cells without values have no runs."""
    found = {}
    for key, each in cells().items():
        last, best, pruned = (*values.get(key, ()), None, None, None)[:3]
        runs = (
            () if last is None else (RecordedRun(run(each.seeds[0], last, best, pruned), "", ""),)
        )
        found[key] = Result(each, runs)
    return found


def ends(both: list[float], erm: list[float]) -> dict[tuple[str, ...], tuple[float, ...]]:
    ratios = ("0.5pct", "1pct", "2pct", "5pct")
    found = {("end", "both", ratio): (value,) for ratio, value in zip(ratios, both, strict=True)}
    return found | {
        ("end", "ERM", ratio): (value,) for ratio, value in zip(ratios, erm, strict=True)
    }


def test_every_cell_belongs_to_a_question() -> None:
    groups = {key[0] for key in cells()}
    assert groups == {question.group for question in QUESTIONS}


def test_without_runs_no_question_has_an_answer() -> None:
    for question in QUESTIONS:
        assert "ot run yet." in question.answer(results({})), question.title


def test_the_page_has_an_answer_for_every_question() -> None:
    parts = GAPS.draw(results({})).parts
    assert sum(part.startswith("**Answer.**") for part in parts) == len(QUESTIONS)


def test_end_is_explained_only_if_little_is_missing_at_every_ratio() -> None:
    erm = [60.0, 80.0, 89.0, 95.0]
    near = gaps_answers.end(results(ends([83.0, 94.0, 96.5, 97.5], erm)))
    assert "EnD has 83.0 / 94.0 / 96.5 / 97.5" in near
    assert "EnD gains 23.0 / 14.0 / 7.5 / 2.5 points over it" in near
    assert near.endswith("This explains the gap.")
    far = gaps_answers.end(results(ends([74.0, 94.0, 96.5, 97.5], erm)))
    assert "A gap of 10.3 / 1.0 / 0.5 / 0.5 points remains" in far


def test_end_is_compared_with_erm_only_where_erm_was_run() -> None:
    found = ends([74.0, 94.0, 96.5, 97.5], [60.0, 80.0, 89.0, 95.0])
    del found["end", "ERM", "2pct"], found["end", "ERM", "5pct"]
    some = gaps_answers.end(results(found))
    assert "ERM with the same optimiser has 60.0 / 80.0 at 0.5 / 1 %" in some
    assert "EnD gains 14.0 / 14.0 points over it" in some
    none = gaps_answers.end(results({key: value for key, value in found.items() if "both" in key}))
    assert "EnD has 74.0 / 94.0 / 96.5 / 97.5" in none
    assert "ERM" not in none


@pytest.mark.parametrize(
    ("last", "best", "words"),
    [
        (
            88.0,
            93.0,
            "the best step on the test split (published 92.7), so the published number can be",
        ),
        (92.5, 94.0, "so the last step reaches it too"),
        (85.0, 89.0, "so the choice of the step does not explain it"),
    ],
)
def test_lff_is_compared_at_its_last_and_at_its_best_step(
    last: float, best: float, words: str
) -> None:
    answer = gaps_answers.peaks(results({("peak", "LfF"): (last, best)}))
    assert f"LfF has at most {last:.1f} at the last step" in answer
    assert words in answer
    assert "DisEnt: not run yet." in answer


def test_a_step_selected_without_bias_labels_can_explain_the_gap() -> None:
    found = results({("peak", "LfF"): (95.0, 88.0)})
    for each in found["peak", "LfF"].runs:  # the selected step is 95.0, the last one 88.0
        each["extras"]["iterates"] = {"1000": {"unbiased": 0.95}, "2000": {"unbiased": 0.88}}
    answer = gaps_answers.peaks(found)
    assert "at most 88.0 at the last step, 95.0 at the step selected" in answer
    assert "so the choice of the step can explain the gap" in answer


def test_the_weights_of_end_are_compared_with_those_of_the_paper() -> None:
    values = {("end", "both", "0.5pct"): (70.8,)}
    values |= {("alpha", name): (50.0,) for name in ("α = 0.1, β = 1", "α = 0, β = 1")}
    values["alpha", "α = 0, β = 0"] = (31.0,)
    answer = gaps_answers.alpha(results(values))  # type: ignore[arg-type]
    assert "EnD has 70.8 with α = 1, β = 1; 50.0 with α = 0.1, β = 1;" in answer
    assert answer.endswith("The best are the paper's weights, α = 1, β = 1.")


def test_masks_without_runs_are_named_beside_those_with_runs() -> None:
    answer = gaps_answers.sparsity(results({("sparsity", "random", "released"): (56.6,)}))
    assert answer.endswith("random 56.6. DCWP and magnitude: not run yet.")


@pytest.mark.parametrize(
    ("debiased", "words"),
    [(85.0, "So the loss of the retraining undoes"), (80.0, "the reset itself costs 6.0 points")],
)
def test_the_reset_is_separated_from_the_loss(debiased: float, words: str) -> None:
    names = {
        "masks, debiasing loss": debiased,
        "masks, cross entropy": 65.8,
        "no masks, debiasing loss": 84.0,
        "DCWP": 86.0,
    }
    answer = gaps_answers.reset(results({("reset", n): (v, v, v) for n, v in names.items()}))
    assert words in answer
    assert "Reset weights without masks have 84.0" in answer
    del names["no masks, debiasing loss"]
    values = {("released reset", n): (v, v, v) for n, v in names.items()}
    released = gaps_answers.released_reset(results(values))
    assert words in released
    assert "without masks" not in released


def test_a_rate_fits_the_first_row_only_if_it_is_close() -> None:
    by_rate = {"0.1": 61.4, "0.03": 55.0, "0.01": 44.0}
    answer = gaps_answers.row_1(results({("row 1", r): (v,) for r, v in by_rate.items()}))
    assert answer.endswith("A rate of 0.01 gives about the published row.")
    only = gaps_answers.row_1(results({("row 1", "0.1"): (61.4,)}))
    assert only == gaps_answers.NOT_RUN
    by_rate["0.01"] = 50.0
    answer = gaps_answers.row_1(results({("row 1", r): (v,) for r, v in by_rate.items()}))
    assert answer.endswith("None of these rates gives the published row.")
    assert "CPU" not in answer


def test_rates_that_were_run_on_another_device_are_named() -> None:
    found = results({("row 1", rate): (44.0,) for rate in ("0.1", "0.03", "0.01")})
    found["row 1", "0.03"].runs[0]["run"]["device"] = "cpu"
    assert "(published 43.1). Rates run on a CPU: 0.03. A rate" in gaps_answers.row_1(found)
    for rate in ("0.1", "0.01"):
        found["row 1", rate].runs[0]["run"]["device"] = "cpu"
    assert "CPU" not in gaps_answers.row_1(found)


def test_pruning_adds_the_difference_of_two_rows() -> None:
    rows = {"1": 60.0, "2": 65.0, "3": 78.0, "4": 85.0, "5": 79.5, "6": 84.0}
    values = {("ablation", row, "released"): (v,) for row, v in rows.items()}
    answer = gaps_answers.ablation(results(values))  # type: ignore[arg-type]
    assert answer.count("details of the released code") == 1
    assert "1.5 / -1.0 with the details of the released code. Published: 11.6 / 8.7." in answer
    values |= {("ablation", row, "rate 0.03"): (v,) for row, v in rows.items()}
    both = gaps_answers.ablation(results(values))  # type: ignore[arg-type]
    assert "1.5 / -1.0 with our default and that rate" in both


@pytest.mark.parametrize(
    ("best", "words"), [(72.0, "is better than 0 by more than 2"), (80.0, "decay matters")]
)
def test_weight_decay_of_jtt(best: float, words: str) -> None:
    by_decay = {"0": 70.0, "1e-4": 70.5, "1e-3": best, "1e-2": 65.0, "1e-1": 10.0}
    answer = gaps_answers.jtt(results({("decay", d): (v, v + 1) for d, v in by_decay.items()}))
    assert words in answer
    assert f"{best + 1:.1f} at 1e-3" in answer


def test_pruned_and_fine_tuned_networks_by_mask_steps() -> None:
    values = {
        ("iterations", data, steps): (96.0, None, pruned)
        for data in ("cmnist/1pct", "cifar10c/1pct")
        for steps, pruned in (("500", 88.6), ("2000", 94.3))
    }
    answer = gaps_answers.iterations(results(values))  # type: ignore[arg-type]
    assert "CMNIST 1 %: 88.6 → 94.3 before fine-tuning, 96.0 → 96.0 after it." in answer
    assert "ambiguous" in answer


def test_draws_are_compared_with_seeds() -> None:
    found = results({})
    values = {"0": (90.0, 90.5), "1": (91.3, 91.1), "2": (88.8, 89.4), "3": (89.2, 90.0)}
    for draw, pair in values.items():
        each = found["draw", draw].cell
        runs = tuple(
            RecordedRun(run(seed, value, None, None), "", "")
            for seed, value in zip(each.seeds, pair, strict=True)
        )
        found["draw", draw] = Result(each, runs)
    answer = gaps_answers.draws(found)
    assert "between 89.1 and 91.2" in answer
    assert "differ by up to 0.8 points" in answer


def test_steps_that_are_scored() -> None:
    assert every("lff", 3500) == "lff.iterates=[1000, 2000, 3000, 3500]"
    listed, unlisted = (cells()[key].recipe for key in (("peak", "LfF"), ("row 1", "0.1")))
    assert needed_extras(listed, ("iterates", "groups")) == ["iterates", "groups"]
    assert needed_extras(unlisted, ("iterates", "groups")) == ["groups"]
