"""The questions give the same verdict as the rule of the audit, written a second time as a slow oracle."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path

import pytest

from unspur.audit import conclusions
from unspur.audit.border_evidence import BorderEvidence
from unspur.audit.conclusions import VERDICTS
from unspur.audit.evidence import Evidence, NetworkEvidence
from unspur.audit.far_labels import FarLabels
from unspur.audit.question_kinds import Margin
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
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-\d+)?")
T = THRESHOLDS


# -- the oracle ---------------------------------------------------------------------------------------


def strongest(e, name):
    """Return the largest significant number as (value, p), else the smallest p as (raw p, -value, p)."""
    found = [
        (getattr(each, name).value, getattr(each, name).p_value)
        for each in e.networks.values()
        if getattr(each, name) is not None
    ]
    found = [(value, min(1.0, p * len(found)), p) for value, p in found]
    if significant := [(value, p) for value, p, _ in found if p <= T.p_value]:
        return max(significant)
    return min(((raw, -value, p) for value, p, raw in found), default=None)


def passes(e, name, threshold):
    best = strongest(e, name)
    return best is not None and len(best) == 2 and best[0] >= threshold


def separation(e):
    """Return the separation that the verdict uses, 1/2 if there is none."""
    best = strongest(e, "separation")
    return 0.5 if best is None else best[0] if len(best) == 2 else -best[1]


def rule(e):
    """Return the verdict."""
    if e.error > T.learned * e.blind:
        return "unclear"
    if e.error > T.error:
        return "noise" if e.far_labels and e.far_labels.lower >= T.wrong_labels else "nothing"
    if e.suspects < T.fewest:
        return "unclear"
    insistence = e.full / e.clear if e.clear else 0.0
    enough = e.full >= T.fewest_full
    shown = passes(e, "gain", T.gain)
    shown |= enough and insistence >= T.resting and passes(e, "reliance", T.reliance)
    separated = passes(e, "separation", max(T.mixed, T.together - insistence))
    shown |= enough and insistence >= T.doubted and separated
    if border_passes(e.border):
        return "shortcut"
    if shown:
        may_be_hard = e.samples < 1000 and e.error > 0.15 and insistence < 0.6
        return "unclear" if may_be_hard else "shortcut"
    if few(e):
        return "unclear"
    if enough and insistence >= T.insistence:
        return "unclear" if separation(e) >= T.mixed else "noise"
    return "unclear" if e.samples < 1000 and e.suspects < 100 else "nothing"


def few(e):
    """Return whether a gain on few suspects is large and merely not significant enough."""
    if (best := strongest(e, "gain")) is None or len(best) == 2:
        return False
    raw, value, _ = best
    p = min(1.0, raw * len(e.networks))
    return e.suspects < 100 and -value >= T.gain and p <= 0.05


def border_passes(border):
    """Return whether networks that see only the border show a shortcut."""
    if border is None or border.separation is None or border.full < T.fewest_full:
        return False
    if border.error > T.border_error:
        return False
    insistence, (value, p) = border.full / border.clear, vars(border.separation).values()
    least = max(T.mixed, T.border_together - insistence)
    return insistence >= T.border_insistence and value >= least and p <= T.p_value


def views_of_the_rule(e):
    """Return the views that pass a test, in the order of the tests, then by p-value."""
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
    """Return the evidence of a network; each argument is (value, p-value) or None."""
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
    BorderEvidence(0.16, 200, 100, 61, Statistic(0.8, 1e-9)),
    BorderEvidence(0.02, 200, 100, 70, Statistic(0.9, 0.01)),
    BorderEvidence(0.02, 200, 4, 4, Statistic(0.9, 1e-9)),
)
FAR = (None, FarLabels(1000, 150, 20, 0.5), FarLabels(1000, 150, 50, 0.5))


def grid():
    """Yield evidence around every threshold, with up to three networks, some of them without numbers."""
    open_ = [(0.004, 300, 0.9), (0.35, 10, 0.9), (0.35, 11, 0.9), (0.15, 11, 0.9)]
    settled = [
        (0.004, 9, 0.9),
        (0.36, 300, 0.9),
        (0.82, 300, 0.9),
        (0.82, 9, 0.9),
        (0.28, 300, 0.3),
    ]
    counts = [
        (0, 0),
        (4, 4),
        (5, 5),
        (4, 20),
        (5, 20),
        (7, 20),
        (8, 20),
        (9, 20),
        (12, 20),
        (16, 20),
    ]
    numbers = list(
        itertools.product(
            ((-0.2, 1.0), (0.14, 1e-5), (0.15, 1e-5), (0.5, 0.01)),
            (None, (0.5, 0.4), (0.6, 1e-5), (0.62, 0.01), (0.76, 1e-5), (0.9, 0.0006)),
            (None, (0.59, 1e-5), (0.6, 1e-5), (0.9, 0.0006)),
        )
    )
    for (error, suspects, blind), (full, clear) in itertools.product(open_ + settled, counts):
        samples = 999 if (full + suspects) % 2 else 1000
        plain = {"samples": samples, "suspects": suspects, "error": error, "blind": blind}
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


def test_the_questions_give_the_verdict_of_the_rule(everything):
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
        ("unclear", "few"),
        ("unclear", "few images"),
        ("unclear", "few suspects"),
        ("nothing", "insistence"),
        ("shortcut", "separation"),
        ("shortcut", "border"),
        ("unclear", "doubt"),
        ("noise", "doubt"),
    }


def test_revealing_views_are_those_that_pass_a_test(everything):
    found = [revealing_views(e) for e in everything]
    assert found == [views_of_the_rule(e) for e in everything]
    assert {tuple(views) for views in found} >= {
        (),
        ("grey",),
        ("detail", "grey"),
        ("grey", "detail"),
    }


def test_a_view_that_decides_is_a_revealing_view(everything):
    for e in everything:
        step = next(step for step in steps(e) if step.conclusion)
        if step.name in ("gain", "reliance", "separation"):
            decides = getattr(e, step.name)[0]
            assert decides == "taught" or decides in revealing_views(e)


def test_an_audit_is_settled_if_no_other_network_can_change_the_verdict(everything):
    for e in everything:
        alone = e.error > T.learned * e.blind or e.error > T.error or e.suspects < T.fewest
        assert is_settled(e) == alone
        if alone:
            settled, whole = judge(replace(e, networks={}, clear=0, full=0, border=None)), judge(e)
            assert (settled.code, settled.text) == (whole.code, whole.text)


def test_one_step_decides_and_every_number_has_a_table_row(everything):
    for e in everything:
        found = steps(e)
        assert [step.name for step in found] == [question.name for question in QUESTIONS]
        assert [step.conclusion for step in found if step.conclusion] == [conclude(e)]
        asked = {step.name for step in found if step.answer != "not asked"}
        further = {"border": e.border, "labels": e.far_labels and e.error > T.error}
        further["few images"] = e.networks and e.samples < T.few_images
        further["few suspects"] = further["few images"]
        assert asked == {
            q.name for q in QUESTIONS if further.get(q.name, q.miner_only or e.networks)
        }
        each = [n for network in e.networks.values() for n in vars(network).values()]
        count = sum(isinstance(number, Statistic) for number in each)
        border = 2 if e.border and e.border.separation else 0
        assert len(table_rows(e)) == 3 + border + (count + 1 if e.networks else 0)


def test_the_conclusion_follows_from_the_answer(everything):
    for e in everything:
        for question in QUESTIONS:
            expected = {"yes": question.yes, "no": question.no}
            answer = question.answer(e, T)
            assert answer == "not asked" or question.conclusion(e, T) is expected[answer]


def test_the_text_begins_with_the_headline(everything):
    for e in everything:
        found = judge(e)
        assert found.text.startswith(f"{VERDICTS[found.code].headline}: ")


def texts_of(e):
    """Return everything that a person reads about the verdict."""
    rows = [" ".join(row) for row in table_rows(e)]
    found = [f"{step.question} {step.measured} {step.required}" for step in steps(e)]
    return "\n".join([judge(e).text, judge(e).close, *rows, *found])


def test_texts_have_one_style_of_percentages_and_no_names_of_the_code(everything):
    for e in everything:
        words = texts_of(e)
        assert not re.search(r"\d%", words)
        assert "insist" not in words.lower()


# -- recorded audits -------------------------------------------------------------------------------


def recorded(table):
    """Return the evidence of a stored record."""
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
def test_recorded_audits_keep_their_verdict_and_its_numbers(name):
    if not (RESULTS / name).is_file():
        pytest.skip("not run from a source tree")
    document = read_document(RESULTS / name)
    thresholds = Thresholds.from_record(document["thresholds"])
    for case in document["cases"]:
        found = judge(recorded(case["evidence"]), thresholds=thresholds)
        assert found.code == case["verdict"], case["name"]
        assert NUMBER.findall(found.text) == NUMBER.findall(case["text"]), case["name"]


def test_thresholds_of_an_earlier_version_do_not_use_newer_questions():
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
    mislabelled = replace(strong, error=0.5)
    assert judge(mislabelled).code == "noise"
    assert judge(mislabelled, thresholds=limits).code == "nothing"


def test_few_suspects_of_few_images_are_not_said_to_be_only_hard():
    weak = Evidence(400, 22, 0.055, 0.9, networks={"taught": network((0.05, 0.3), None, None)})
    assert conclude(weak) is conclusions.MAY_BE_HARD
    assert judge(weak).text.startswith("Cannot tell: 22 of 400 images")
    assert conclude(replace(weak, samples=1000)) is conclusions.MERELY_HARD
    assert conclude(replace(weak, suspects=100)) is conclusions.MERELY_HARD
    before = {k: v for k, v in vars(T).items() if k != "few_suspects"}
    limits = Thresholds.from_record(before)
    assert conclude(weak, thresholds=limits) is conclusions.MERELY_HARD
    assert "few suspects" not in [step.name for step in steps(weak, thresholds=limits)]


def test_no_easy_feature_in_a_small_set_says_that_it_may_be_missed():
    hard = Evidence(400, 200, 0.5, 0.9)
    assert "From only 400 images it may have learned too little" in judge(hard).text
    assert "From only" not in judge(replace(hard, samples=1000)).text
    assert judge(hard).code == "nothing"


def test_audits_of_an_earlier_version_keep_their_verdict_on_few_suspects():
    """Their page derives its questions from the recorded thresholds, beside the recorded verdict."""
    earlier = {k: v for k, v in vars(T).items() if k not in BEFORE}
    limits = Thresholds.from_record(earlier)
    weak = Evidence(900, 40, 0.04, 0.5, networks={"taught": network((0.2, 0.01), None, None)})
    assert conclude(weak) is conclusions.TOO_FEW_FOR_GAIN
    assert conclude(weak, thresholds=limits) is conclusions.MERELY_HARD
    names = [step.name for step in steps(weak, thresholds=limits)]
    assert not {"few", "few images", "few suspects", "border", "labels"} & set(names)
    assert "inf" not in " ".join(step.required for step in steps(weak, thresholds=limits))


@pytest.mark.parametrize(
    ("value", "threshold", "words"),
    [
        (11, 10, "suspects 11, and the verdict changes at 10"),
        (0.154, 0.15, "suspects 0.154, and the verdict changes at 0.150"),
        (1.0, 0.95, "suspects 1.00, and the verdict changes at 0.95"),
    ],
)
def test_a_count_has_no_decimals_and_a_share_has_those_that_tell_it_apart(value, threshold, words):
    assert str(Margin("suspects", value, threshold)) == words
