"""The tables about users' own images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unspur.reproduce.own_data_tables import (
    check_table,
    clean_table,
    coverage_table,
    covered,
    criteria_table,
    lead_of_preset,
    mean_error,
    method_comparison,
    rejected,
    variants_table,
)
from unspur.reproduce.prose_numbers import ProseNumbers
from unspur.reproduce.speed_table import speed_table
from unspur.store import write_document


def run(gain: float, truth: float, *, share: float = 0.04) -> dict[str, Any]:
    part = {"count": 20, "gain": gain, "low": gain - 0.1, "high": gain + 0.1}
    both = {"ordinary": 0.1, "debiased": 0.1 + truth}
    return {
        "kind": "colour",
        "share": share,
        "gain": {"suspects": part, "others": part},
        "truth": {"suspects": both, "others": both},
        "mining": {"precision": 1.0, "recall": 0.9},
    }


def test_runs_whose_interval_contains_the_true_gain_are_counted() -> None:
    runs = [run(0.4, 0.45), run(0.4, 0.2), {**run(0.4, 0.4), "gain": None}]
    assert covered(runs, "suspects") == "1 of 2"
    assert mean_error(runs, "suspects") == "+7.5"
    assert mean_error([run(0.1, 0.2)], "others") == "−10.0"


def test_there_is_a_row_for_each_kind_and_share() -> None:
    lines = coverage_table([run(0.4, 0.45), run(0.5, 0.2), run(0.3, 0.3, share=0.08)]).splitlines()
    assert len(lines) == 4
    assert lines[2] == "| colour | 4.0 | 20 | 100.0, 90.0 | 32.5 | 45.0 | 1 of 2 | 1 of 2 |"
    assert coverage_table([{**run(0, 0), "gain": None}]).splitlines()[2].count("–") == 6


def test_data_sets_without_a_shortcut() -> None:
    found = {"images": 3000, "verdict": "nothing", "ordinary": 0.9, "result": 0.897}
    assert clean_table({"digits": found}).splitlines()[2] == (
        "| digits | 3,000 | nothing | – | 90.0 | 89.7 | −0.3 |"
    )
    rejected = {**found, "verdict": "shortcut", "result": 0.9, "tried": 0.8}
    assert clean_table({"faces": rejected}).splitlines()[2] == (
        "| faces | 3,000 | shortcut | 80.0 | 90.0 | 90.0 | +0.0 |"
    )


def checked(gain: float, cost: float, *, use: str = "check", seed: int = 0) -> dict[str, Any]:
    part = {"count": 20, "ordinary": 0.1, "debiased": 0.1 + gain, "gain": gain}
    part |= {"low": gain - 0.1, "high": gain + 0.1}
    others = {"count": 90, "ordinary": 0.9, "debiased": 0.9 - cost, "gain": -cost, "low": -1.0}
    scores = {"average": 0.5, "aligned": 0.9, "conflicting": 0.2}
    return {
        "case": "digits: colour",
        "seed": seed,
        "use": use,
        "gain": {"suspects": part, "others": others},
        "test": {"ordinary": scores, "debiased": {**scores, "conflicting": 0.7}},
        "mining": {"precision": 1.0, "recall": 1.0},
    }


def test_runs_of_the_gain_check_say_which_model_the_rule_returns() -> None:
    clean = {**checked(0.4, 0.2, use="choice"), "mining": None}
    clean["test"] = {"ordinary": {"average": 0.8}, "debiased": {"average": 0.7}}
    rows = check_table([checked(0.6, 0.1), {**checked(0, 0), "gain": None}, clean]).splitlines()[2:]
    assert rows[0] == (
        "| choice | digits: colour, seed 0 | 20 | 10.0 → 50.0 | 90.0 → 70.0 | 2.0 | ordinary "
        "| average 80.0 → 70.0 |"
    )
    assert rows[1] == (
        "| check | digits: colour, seed 0 | 20 | 10.0 → 70.0 | 90.0 → 80.0 | 6.0 | debiased "
        "| aligned 90.0 → 90.0, conflicting 20.0 → 70.0 |"
    )
    assert "debiased, left open" in rows[2]
    few = checked(0.1, 0.1)
    few["gain"]["suspects"]["count"] = 19
    same = {**checked(0, 0), "gain": None, "test": {"ordinary": {"average": 0.8}}}
    same["test"]["debiased"] = same["test"]["ordinary"]
    assert rejected([few, same, checked(0.1, 0.1), checked(0.6, 0.1)]) == "1 of 4"
    rows = check_table([few, same]).splitlines()[2:]
    assert "| 1.0 | debiased, left open |" in rows[0]
    assert "| ordinary: no suspects |" in rows[1]


def test_runs_with_criteria_begin_with_those_in_which_debiasing_helps() -> None:
    found = {"class cost": 0.25, "look-alike cost": 0.2, "worst class": None, "coherence": 0.8}
    helps = {**checked(0.4, 0.1), "suspects": 1000, "criteria": found}
    harms = {**helps, "gain": None, "criteria": None, "mining": None}
    harms["test"] = {**helps["test"], "debiased": helps["test"]["ordinary"] | {"aligned": 0.7}}
    rows = criteria_table([harms, helps]).splitlines()[2:]
    assert rows[0] == (
        "| digits: colour, seed 0 | 1,000 | 100.0 | 20 | 40.0 | 10.0 | 25.0 | 20.0 | – | 80.0 | debiased "
        "| aligned 90.0 → 90.0, conflicting 20.0 → 70.0 |"
    )
    assert rows[1].startswith("| digits: colour, seed 0 | 1,000 | – | – | – | – | – | – | – | – |")


def test_methods_on_the_same_suspects() -> None:
    base = {"kind": "colour", "seed": 0, "ordinary": None}
    ours = {**base, "method": "unspur", "result": {"aligned": 0.9, "conflicting": 0.8}}
    ours["ordinary"] = {"aligned": 1.0, "conflicting": 0.1}
    jtt = {**base, "method": "JTT", "result": {"aligned": 0.99, "conflicting": 0.3}}
    unused = {"aligned": 1.0, "conflicting": 0.6}
    other = {**ours, "kind": "patch", "result": unused, "ordinary": unused}
    assert lead_of_preset([ours, jtt, other]) == "50.0 to 50.0"
    other = {**ours, "kind": "patch"}
    assert method_comparison([ours, jtt, other]).splitlines()[2:] == [
        "| colour | 0 | 100.0 / 10.0 | 90.0 / 80.0 | 99.0 / 30.0 |",
        "| patch | 0 | 100.0 / 10.0 | 90.0 / 80.0 | – |",
    ]


def test_a_table_of_speeds_writes_out_its_units() -> None:
    header = speed_table([{"loop": "ours", "dense_us": 1.0, "peak_mb": 2}]).splitlines()[0]
    assert header == "| loop | dense µs | peak MB |"


def test_a_page_says_where_and_when_a_table_was_measured(tmp_path: Path) -> None:
    cpu = {"gpu": "none", "cpu": "x86_64, 2 cores, 1 threads", "torch": "2.13.0+cpu"}
    rows = [{"times": 0.71}, {"times": 1.49}, {"times": 1.51}]
    record = {
        "made": "2026-01-02",
        "with": cpu,
        "tables": {"runs": rows},
        "notes": {"runs": ["A", "B"]},
    }
    write_document(tmp_path / "announced.json.gz", record)
    write_document(tmp_path / "gpu.json.gz", {**record, "with": {**cpu, "gpu": "NVIDIA H200"}})
    numbers = ProseNumbers(tmp_path)
    assert numbers.measured_on("announced") == (
        "CPU (x86_64, 2 cores, 1 threads), torch 2.13.0, 2026-01-02"
    )
    assert numbers.measured_on("gpu") == "NVIDIA H200, torch 2.13.0, 2026-01-02"
    assert numbers.speed_notes("gpu", "runs") == "- A\n- B"
    assert numbers.ratios_within("gpu", "runs", 0.7, 1.5) == "2 of 3"
    found = [numbers.is_measured(*key) for key in (("gpu", "runs"), ("gpu", "x"), ("none", "runs"))]
    assert found == [True, False, False]


def mixed(variant: str, seed: int, conflicting: float) -> dict[str, Any]:
    ordinary = {"average": 0.2, "aligned": 0.9, "conflicting": 0.1}
    test = {"ordinary": ordinary, "debiased": {**ordinary, "conflicting": conflicting}}
    return {"set": "digits: colour", "seed": seed, "variant": variant, "test": test}


def test_kinds_of_mixing_are_means_over_seeds_beside_the_views_of_the_audit() -> None:
    runs = [mixed("all", 0, 0.7), mixed("all", 1, 0.8), mixed("none", 0, 0.4)]
    clean = {"ordinary": {"average": 0.9}, "debiased": {"average": 0.85}}
    runs.append({"set": "digits", "seed": 0, "variant": "all", "test": clean})
    views = [{"set": "digits: colour", "seed": seed, "views": ["grey"]} for seed in (0, 1)]
    views.append({"set": "digits", "seed": 0, "views": []})
    rows = variants_table(runs, views).splitlines()[2:]
    assert rows == [
        "| digits: colour | 2 | grey | 90.0 / 10.0 | 90.0 / 75.0 | 90.0 / 40.0 |",
        "| digits | 1 | – | 90.0 | 85.0 | – |",
    ]
    header, _, *rows = variants_table(runs).splitlines()
    assert header == "| set | seeds | ordinary model | all | none |"
    assert rows[0] == "| digits: colour | 2 | 90.0 / 10.0 | 90.0 / 75.0 | 90.0 / 40.0 |"
