"""The questions decide as the rule of the audit says, written down once more as a slow oracle."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from unspur.audit.border_evidence import BorderEvidence
from unspur.audit.conclusions import VERDICTS
from unspur.audit.evidence import Evidence, NetworkEvidence
from unspur.audit.far_labels import FarLabels
from unspur.audit.questions import QUESTIONS
from unspur.audit.statistics import Statistic
from unspur.audit.thresholds import BEFORE, THRESHOLDS, Thresholds
from unspur.audit.verdict import (
    conclude,
    is_settled,
    judge,
    revealing_views,
    steps,
    table_rows,
)
from unspur.store.json_lines import read_document

RESULTS = Path(__file__).parents[2] / "results"
VIEWS = ("grey", "centre", "detail")
T = THRESHOLDS


# -- the oracle ---------------------------------------------------------------------------------------


def strongest(e, name):
    """The largest significant number (value, p), else (uncorrected p, - value, p) of the most significant."""
    found = [
        (getattr(each, name).value, getattr(each, name).p_value)
        for each in e.networks.values()
        if getattr(each, name) is not None
    ]
    found = [(value, min(1.0, p * len(found)), p) for value, p in found]
    if sure := [(value, p) for value, p, _ in found if p <= T.p_value]:
        return max(sure)
    return min(((raw, -value, p) for value, p, raw in found), default=None)


def passes(e, name, threshold):
    best = strongest(e, name)
    return best is not None and len(best) == 2 and best[0] >= threshold


def separation(e):
    """The separation that the verdict goes by, 1/2 where there is none."""
    best = strongest(e, "separation")
    return 0.5 if best is None else best[0] if len(best) == 2 else -best[1]


def rule(e):
    """The verdict."""
    if e.error > T.learned * e.blind:
        return "unclear"
    if e.error > T.error:
        return "noise" if e.far_labels and e.far_labels.lower >= T.wrong_labels else "nothing"
    if e.suspects < T.fewest:
        return "unclear"
    insistence = e.full / e.clear if e.clear else 0.0
    enough = e.full >= T.fewest_full
    if passes(e, "gain", T.gain):
        return "shortcut"
    if enough and insistence >= T.resting and passes(e, "reliance", T.reliance):
        return "shortcut"
    sure = passes(e, "separation", max(T.mixed, T.together - insistence))
    if enough and insistence >= T.doubted and sure:
        return "shortcut"
    if border_passes(e.border):
        return "shortcut"
    if enough and insistence >= T.insistence:
        return "unclear" if separation(e) >= T.mixed else "noise"
    return "nothing"


def border_passes(border):
    """Whether a look at the border alone shows a shortcut."""
    if border is None or border.separation is None or border.full < T.fewest_full:
        return False
    insistence, (value, p) = border.full / border.clear, vars(border.separation).values()
    least = max(T.mixed, T.border_together - insistence)
    return insistence >= T.border_insistence and value >= least and p <= T.p_value


def views_of_the_rule(e):
    """The views that pass, by what they pass, then by p-value."""
    if rule(e) != "shortcut":
        return []
    insistence, enough = e.full / e.clear if e.clear else 0.0, e.full >= T.fewest_full
    tests = [
        ("gain", T.gain, True),
        ("reliance", T.reliance, enough and insistence >= T.resting),
        (
            "separation",
            max(T.mixed, T.together - insistence),
            enough and insistence >= T.doubted,
        ),
    ]
    found = []
    for place, name in enumerate(VIEWS):
        for rank, (test, threshold, counts) in enumerate(tests):
            numbers = {k: v for k, each in e.networks.items() if (v := getattr(each, test))}
            if counts and name in numbers:
                p = min(1.0, numbers[name].p_value * len(numbers))
                if numbers[name].value >= threshold and p <= T.p_value:
                    found.append((rank, p, place, name))
                    break
    return [name for *_, name in sorted(found)]


# -- on a grid ----------------------------------------------------------------------------------------


def network(gain, separation, reliance):
    """A network with numbers given as (value, p-value), or None."""
    return NetworkEvidence(
        gain=Statistic(*gain),
        separation=Statistic(*separation) if separation else None,
        reliance=Statistic(*reliance) if reliance else None,
        before=0.1,
        right=0.5,
    )


BORDERS = (
    None,
    BorderEvidence(0.4),
    BorderEvidence(0.02, 200, 100, 59, Statistic(0.9, 1e-9)),
    BorderEvidence(0.02, 200, 100, 61, Statistic(0.78, 1e-9)),
    BorderEvidence(0.02, 200, 100, 61, Statistic(0.8, 1e-9)),
    BorderEvidence(0.02, 200, 100, 70, Statistic(0.9, 0.01)),
    BorderEvidence(0.02, 200, 4, 4, Statistic(0.9, 1e-9)),
)
FAR = (None, FarLabels(1000, 150, 20, 0.5), FarLabels(1000, 150, 50, 0.5))


def grid():
    """Evidence around every threshold, with one to three networks, some without numbers to compare."""
    open_ = [(0.004, 300, 0.9), (0.35, 10, 0.9)]
    settled = [
        (0.004, 9, 0.9),
        (0.36, 300, 0.9),
        (0.82, 300, 0.9),
        (0.82, 9, 0.9),
        (0.28, 300, 0.3),
    ]
    counts = [(0, 0), (4, 4), (5, 5), (4, 20), (5, 20), (7, 20), (8, 20), (9, 20), (16, 20)]
    numbers = list(
        itertools.product(
            ((-0.2, 1.0), (0.14, 1e-5), (0.15, 1e-5), (0.5, 0.01)),
            (None, (0.5, 0.4), (0.6, 1e-5), (0.62, 0.01), (0.76, 1e-5), (0.9, 0.0006)),
            (None, (0.59, 1e-5), (0.6, 1e-5), (0.9, 0.0006)),
        )
    )
    for (error, suspects, blind), (full, clear) in itertools.product(open_ + settled, counts):
        plain = {"samples": 1000, "suspects": suspects, "error": error, "blind": blind}
        yield Evidence(**plain, clear=clear, full=full)
        few = 13 if (error, suspects, blind) in settled else 1
        for i, one in list(enumerate(numbers))[::few]:
            taught = network(numbers[(7 * i) % len(numbers)][0], one[1], None)
            more = {"detail": network(*numbers[(11 * i + 5) % len(numbers)])} if i % 2 else {}
            networks = {"taught": taught, "grey": network(*one), **more}
            further = {"border": BORDERS[i % len(BORDERS)], "far_labels": FAR[i % len(FAR)]}
            yield Evidence(**plain, clear=clear, full=full, networks=networks, **further)


@pytest.fixture(scope="module")
def everything():
    return list(grid())


def test_the_questions_decide_as_the_rule(everything):
    reached = set()
    for e in everything:
        assert judge(e).code == rule(e), e
        reached.add((rule(e), next(step.name for step in steps(e) if step.conclusion)))
    assert reached == {
        ("unclear", "learned"),
        ("noise", "labels"),
        ("nothing", "easy"),
        ("unclear", "enough"),
        ("shortcut", "gain"),
        ("shortcut", "reliance"),
        ("nothing", "insistence"),
        ("shortcut", "separation"),
        ("shortcut", "border"),
        ("unclear", "doubt"),
        ("noise", "doubt"),
    }


def test_the_views_shown_are_those_that_pass(everything):
    found = [revealing_views(e) for e in everything]
    assert found == [views_of_the_rule(e) for e in everything]
    assert {tuple(views) for views in found} >= {
        (),
        ("grey",),
        ("detail", "grey"),
        ("grey", "detail"),
    }


def test_a_view_that_decides_is_always_shown(everything):
    for e in everything:
        step = next(step for step in steps(e) if step.conclusion)
        if step.name in ("gain", "reliance", "separation"):
            decides = getattr(e, step.name)[0]
            assert decides == "taught" or decides in revealing_views(e)


def test_the_miner_settles_it_where_no_other_network_changes_the_verdict(everything):
    for e in everything:
        alone = e.error > T.learned * e.blind or e.error > T.error or e.suspects < T.fewest
        assert is_settled(e) == alone
        if alone:
            settled, whole = judge(replace(e, networks={}, clear=0, full=0, border=None)), judge(e)
            assert (settled.code, settled.text) == (whole.code, whole.text)


def test_one_step_decides_and_every_number_is_shown(everything):
    for e in everything:
        found = steps(e)
        assert [step.name for step in found] == [question.name for question in QUESTIONS]
        assert [step.conclusion for step in found if step.conclusion] == [conclude(e)]
        asked = {step.name for step in found if step.answer != "not asked"}
        further = {"border": e.border, "labels": e.far_labels and e.error > T.error}
        assert asked == {
            q.name for q in QUESTIONS if further.get(q.name, q.miner_only or e.networks)
        }
        each = [n for network in e.networks.values() for n in vars(network).values()]
        count = sum(isinstance(number, Statistic) for number in each)
        assert len(table_rows(e)) == 3 + (count + 1 if e.networks else 0)


def test_an_answer_fits_its_conclusion(everything):
    for e in everything:
        for question in QUESTIONS:
            expected = {"yes": question.yes, "no": question.no}
            answer = question.answer(e, T)
            assert answer == "not asked" or question.conclusion(e, T) is expected[answer]


def test_the_text_begins_with_the_headline(everything):
    for e in everything:
        found = judge(e)
        assert found.text.startswith(f"{VERDICTS[found.code].headline}: ")


# -- on what was measured -----------------------------------------------------------------------------


def recorded(table):
    """Evidence as a record of results has it."""
    apart = ("networks", "insistence", "border", "far_labels")
    plain = {k: v for k, v in table.items() if k not in apart}
    networks = {
        name: network(
            *(each[n] and tuple(each[n].values()) for n in ("gain", "separation", "reliance"))
        )
        for name, each in table["networks"].items()
    }
    rights = {name: (each["before"], each["right"]) for name, each in table["networks"].items()}
    for name, (before, right) in rights.items():
        networks[name] = replace(networks[name], before=before, right=right)
    far = FarLabels(**table["far_labels"]) if table.get("far_labels") else None
    border = None
    if seen := table.get("border"):
        separation = seen["separation"] and Statistic(**seen["separation"])
        border = BorderEvidence(**{**seen, "separation": separation})
    return Evidence(**plain, networks=networks, border=border, far_labels=far)


@pytest.mark.parametrize("name", ["audit.json.gz", "audit-dev.json.gz"])
def test_recorded_audits_keep_their_verdict_and_text(name):
    if not (RESULTS / name).is_file():
        pytest.skip("not run from a source tree")
    document = read_document(RESULTS / name)
    thresholds = Thresholds.from_record(document["thresholds"])
    for case in document["cases"]:
        found = judge(recorded(case["evidence"]), thresholds=thresholds)
        assert (found.code, found.text) == (case["verdict"], case["text"]), case["name"]


def test_the_earlier_thresholds_ask_no_more_than_before():
    earlier = {k: v for k, v in vars(T).items() if k not in BEFORE and k != "doubted"}
    limits = Thresholds.from_record(earlier)
    assert limits.doubted == limits.insistence
    strong = Evidence(
        1000,
        300,
        0.3,
        0.9,
        networks={"taught": network((0, 1), None, None)},
        border=BORDERS[4],
        far_labels=FAR[2],
    )
    assert judge(strong).code == "shortcut"
    assert judge(strong, thresholds=limits).code == "nothing"
