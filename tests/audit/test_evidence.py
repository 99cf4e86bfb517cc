"""The numbers behind the verdict, against slow oracles and for the causes that they must distinguish."""

from __future__ import annotations

import math

import pytest
import torch

from unspur.audit.evidence import (
    FULL_MARGIN,
    Comparison,
    Evidence,
    NetworkEvidence,
    Predictions,
    weigh,
)
from unspur.audit.halves import cut_in_halves, matched_sample
from unspur.audit.statistics import (
    Statistic,
    corrected,
    gain,
    relative_margin,
    separation,
    strongest,
)
from unspur.audit.thresholds import THRESHOLDS
from unspur.audit.verdict import is_settled, judge
from unspur.stages.suspects import Suspects


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


# -- halves -------------------------------------------------------------------------------------------


def test_every_class_is_cut_into_two_equal_halves():
    targets = torch.randint(5, (203,), generator=generator())
    half_of = cut_in_halves(targets, seed=3)
    for label in range(5):
        counts = torch.bincount(half_of[targets == label], minlength=2)
        assert abs(int(counts[0] - counts[1])) <= 1
    assert abs(int((half_of == 0).sum() - (half_of == 1).sum())) <= 1


def test_halves_are_a_function_of_the_seed():
    targets = torch.randint(5, (203,), generator=generator())
    assert torch.equal(cut_in_halves(targets, seed=3), cut_in_halves(targets, seed=3))
    assert not torch.equal(cut_in_halves(targets, seed=3), cut_in_halves(targets, seed=4))


def test_matched_samples_are_as_many_as_suspects_in_every_group():
    g = generator()
    conflict, groups = torch.rand(500, generator=g) < 0.1, torch.randint(6, (500,), generator=g)
    selected = matched_sample(conflict, groups, seed=1)
    for group in range(6):
        assert int(selected[groups == group].sum()) == int(conflict[groups == group].sum())
    assert not torch.equal(selected, conflict)
    assert torch.equal(selected, matched_sample(conflict, groups, seed=1))


# -- predictions and margins --------------------------------------------------------------------------


def test_a_margin_is_the_logit_minus_the_best_other_logit():
    logits = torch.randn(50, 4, generator=generator())
    answer = torch.randint(4, (50,), generator=generator(1))
    found = Predictions.from_logits(logits, answer)
    for row, label, margin in zip(logits.tolist(), answer.tolist(), found.margin, strict=True):
        best = max(value for other, value in enumerate(row) if other != label)
        assert float(margin) == pytest.approx(row[label] - best, abs=1e-6)
    assert torch.equal(found.predicted, logits.argmax(1))


def test_the_margin_of_the_predicted_class_is_never_negative():
    logits = torch.randn(50, 4, generator=generator())
    assert bool((Predictions.from_logits(logits).margin >= 0).all())


def test_margins_are_relative_to_ordinary_samples_with_the_same_answer():
    margin = torch.tensor([2.0, 4.0, 6.0, 2.0, 10.0, 5.0, 7.0])
    conflict = torch.tensor([False, False, False, True, False, True, True])
    answer = torch.tensor([0, 0, 0, 0, 1, 1, 2])
    found = relative_margin(margin, conflict, answer)
    assert found.tolist() == [
        0.5,
        1.0,
        1.5,
        0.5,
        1.0,
        0.5,
        0.0,
    ]  # no ordinary sample has the answer 2


# -- gain ---------------------------------------------------------------------------------------------


def test_gain_by_hand():
    before = torch.tensor([0, 0, 0, 1, 1, 1, 1, 1]).bool()
    after = torch.tensor([1, 1, 0, 1, 1, 1, 1, 0]).bool()
    conflict = torch.tensor([1, 1, 1, 1, 0, 0, 0, 0]).bool()
    assert gain(before, after, conflict).value == pytest.approx(2 / 4 - 1 / 4)


def test_a_network_that_guesses_gains_nothing_on_wrong_labels():
    """Two classes, and every suspect has a wrong label: gains on suspects are losses on other samples."""
    g, n = generator(), 4000
    conflict = torch.rand(n, generator=g) < 0.1
    guess = (
        torch.rand(n, generator=g) < 0.3
    )  # predicts the other class, independently of the sample
    before, after = ~conflict, ~(conflict ^ guess)
    found = gain(before, after, conflict)
    assert abs(found.value) < 0.08
    assert found.p_value > 0.01


@pytest.mark.parametrize("count", [10, 20])
def test_a_gain_on_all_of_a_few_suspects_is_as_unlikely_as_equal_tosses_of_a_coin(count: int):
    conflict = torch.arange(500) < count
    found = gain(torch.zeros(500).bool(), conflict, conflict)
    assert found.value == 1
    assert 0.5 * 2.0**-count < found.p_value < 10 * 2.0**-count


@pytest.mark.parametrize("count", [10, 20, 50])
def test_few_hard_suspects_give_no_more_false_alarms_than_the_p_value_says(count: int):
    """Two networks get hard suspects right independently of each other."""
    g, n, level, trials = generator(), 300, 0.01, 4000
    conflict = torch.arange(n) < count
    share = torch.where(conflict, 0.4, 1.0)
    alarms = 0
    for _ in range(trials):
        before, after = torch.rand(2, n, generator=g) < share
        alarms += gain(before, after, conflict).p_value <= level
    assert alarms <= level * trials + 3 * math.sqrt(level * trials)


def test_equal_predictions_have_no_gain():
    same = torch.tensor([True, False, True])
    found = gain(same, same, torch.tensor([True, True, False]))
    assert (found.value, found.p_value) == (0.0, 1.0)


# -- separation ---------------------------------------------------------------------------------------


def test_separation_counts_pairs():
    g = generator()
    doubt = torch.randint(6, (120,), generator=g).double()  # with ties
    conflict = torch.rand(120, generator=g) < 0.3
    strata = torch.randint(3, (120,), generator=g)
    among = torch.rand(120, generator=g) < 0.8
    wins = pairs = 0.0
    for i in range(120):
        for j in range(120):
            if among[i] and among[j] and conflict[i] and not conflict[j] and strata[i] == strata[j]:
                pairs += 1
                wins += 1.0 if doubt[i] > doubt[j] else 0.5 if doubt[i] == doubt[j] else 0.0
    assert separation(doubt, conflict, strata, among=among).value == pytest.approx(wins / pairs)


def test_the_p_value_of_separation_is_uniform_under_its_null():
    g = generator()
    conflict = torch.arange(150) < 30
    strata, among = torch.arange(150) % 3, torch.ones(150, dtype=torch.bool)
    p = [
        separation(torch.randn(150, generator=g), conflict, strata, among=among).p_value
        for _ in range(400)
    ]
    assert sum(value < 0.1 for value in p) / 400 == pytest.approx(0.1, abs=0.05)
    assert sum(value < 0.5 for value in p) / 400 == pytest.approx(0.5, abs=0.08)


def test_without_pairs_there_is_no_separation():
    conflict = torch.tensor([True, False])
    everyone = torch.ones(2, dtype=torch.bool)
    assert separation(torch.zeros(2), conflict, torch.tensor([0, 1]), among=everyone) is None


# -- the verdict --------------------------------------------------------------------------------------


def network(*, gain=-0.05, gain_p=0.9, separation=0.9, separation_p=1e-9, reliance=None):
    return NetworkEvidence(
        gain=Statistic(gain, gain_p),
        separation=Statistic(separation, separation_p),
        reliance=reliance,
        before=0.2,
        right=0.3,
    )


def evidence(**changes):
    """Return evidence of hard samples, with changes."""
    defaults = {"samples": 10_000, "suspects": 400, "error": 0.04, "blind": 0.9}
    defaults |= {"clear": 120, "full": 12, "networks": {"taught": network()}}
    return Evidence(**{**defaults, **changes})


def test_hard_samples_are_not_a_shortcut():
    assert judge(evidence()).code == "nothing"


def test_a_large_significant_gain_is_a_shortcut():
    found = judge(evidence(networks={"taught": network(), "grey": network(gain=0.2, gain_p=1e-8)}))
    assert found.code == "shortcut"
    assert "colours" in found.text


@pytest.mark.parametrize(("gain", "p"), [(0.2, 0.01), (THRESHOLDS.gain / 2, 1e-12)])
def test_a_small_or_insignificant_gain_is_not_a_shortcut(gain, p):
    assert judge(evidence(networks={"taught": network(gain=gain, gain_p=p)})).code == "nothing"


def test_separation_distinguishes_a_shortcut_from_noise_among_confident_errors():
    assert judge(evidence(full=90)).code == "shortcut"
    even = {"taught": network(separation=0.52, separation_p=0.2)}
    assert judge(evidence(full=90, networks=even)).code == "noise"
    weak = {"taught": network(separation=0.55, separation_p=1e-9)}  # significant, but small
    assert judge(evidence(full=90, networks=weak)).code == "noise"


@pytest.mark.parametrize(
    ("full", "separation", "code"),
    [
        (50, 0.79, "shortcut"),  # confident errors 0.42 + separation: just enough
        (50, 0.77, "unclear"),
        (60, 0.71, "shortcut"),
        (60, 0.68, "unclear"),
        (110, 0.62, "shortcut"),
        (110, 0.58, "noise"),  # even with many confident errors
        (40, 0.95, "nothing"),  # hard samples are separated, but not confident errors
    ],
)
def test_more_confident_errors_require_less_separation(full, separation, code):
    networks = {"taught": network(separation=separation)}
    assert judge(evidence(full=full, networks=networks)).code == code


def test_no_mixture_of_hard_samples_and_wrong_labels_reaches_the_separation_of_a_shortcut():
    """Mix the hardest samples measured (two classes of photographs) with wrong labels."""
    hard, wrong = (0.42, 0.75), (0.75, 0.51)
    for percent in range(101):
        share = percent / 100  # of hard samples, among those with a clear margin
        insistence = share * hard[0] + (1 - share) * wrong[0]
        of_full = share * hard[0] / insistence
        mixed = of_full * hard[1] + (1 - of_full) * wrong[1]
        assert mixed < THRESHOLDS.separation(insistence)


def test_reliance_on_what_a_view_hides_is_a_shortcut():
    for value, p, code in ((0.62, 1e-9, "shortcut"), (0.62, 0.01, "nothing"), (0.54, 0, "nothing")):
        networks = {"taught": network(), "detail": network(reliance=Statistic(value, p))}
        found = judge(evidence(networks=networks, full=40))
        assert found.code == code
        assert ("light, shade and the colour of large areas" in found.text) == (code == "shortcut")
        assert judge(evidence(networks=networks, full=20)).code == "nothing"  # hard samples


def test_the_p_value_of_the_strongest_network_is_corrected():
    networks = {str(i): network(gain_p=0.01) for i in range(4)}
    name, number = evidence(networks=networks).gain
    assert number.p_value == pytest.approx(0.04)
    assert name in networks


def test_the_strongest_is_the_largest_significant_number():
    sure, large, chance = Statistic(0.1, 1e-20), Statistic(0.3, 1e-5), Statistic(0.9, 0.1)
    assert strongest({"sure": sure, "large": large, "chance": chance})[0] == "large"
    assert strongest({"sure": Statistic(0.1, 0.02), "chance": chance})[0] == "sure"
    assert strongest({}) is None


def test_p_values_are_corrected_for_the_number_of_networks():
    found = corrected({"grey": Statistic(0.2, 0.01), "taught": Statistic(0.1, 0.7)})
    assert found == {"grey": Statistic(0.2, 0.02), "taught": Statistic(0.1, 1.0)}


def test_too_few_suspects_and_an_untrained_miner_are_unclear():
    assert judge(evidence(suspects=4, error=0.0004)).code == "unclear"
    assert judge(evidence(suspects=8500, error=0.85)).code == "unclear"
    assert judge(evidence(suspects=5000, error=0.5)).code == "nothing"


def test_some_evidence_of_the_miner_alone_settles_the_verdict():
    for changes in ({"suspects": 4, "error": 0.0004}, {"suspects": 5000, "error": 0.5}):
        assert is_settled(evidence(**changes))
        loud = {"taught": network(gain=0.9, gain_p=0.0)}
        quiet = evidence(**changes, networks={})
        assert judge(evidence(**changes, full=100, networks=loud)).code == judge(quiet).code


# -- from predictions to a verdict --------------------------------------------------------------------


def predictions(kind, *, n=3000, classes=4, seed=0):
    """Return simulated margins; suspects contradict a shortcut, are hard samples, or have wrong labels."""
    g = generator(seed)
    targets = torch.randint(classes, (n,), generator=g)
    conflict = torch.rand(n, generator=g) < 0.05
    other = (targets + 1 + torch.randint(classes - 1, (n,), generator=g)) % classes
    answer = torch.where(conflict, other, targets)
    normal = 5 + torch.randn(n, generator=g)
    hard = torch.randn(n, generator=g)  # near the boundary
    deprived = torch.where(conflict, hard, normal) if kind == "hard" else normal
    fresh = 5 + torch.randn(n, generator=g)
    taught = {
        "shortcut": torch.where(conflict, fresh - 4, fresh),
        "hard": torch.where(conflict, torch.randn(n, generator=g), fresh),
        "noise": fresh,
    }[kind]

    def of(margin):
        right = torch.where(conflict, targets, other)  # the prediction if it is not the answer
        return Predictions(torch.where(margin > 0, answer, right), margin)

    suspects = Suspects(conflict.float(), conflict, answer)
    # The network without a view relies on the shortcut, if there is one.
    whole = (
        torch.where(conflict, hard, normal) if kind == "hard" else 5 + torch.randn(n, generator=g)
    )
    others = {"taught": Comparison(of(taught), of(deprived))}
    others["grey"] = Comparison(of(taught), of(deprived), sees_all=of(whole))
    return targets, suspects, of(deprived), others


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("kind", "code"), [("shortcut", "shortcut"), ("hard", "nothing"), ("noise", "noise")]
)
def test_the_three_causes_are_distinguished(kind, code, seed):
    assert judge(weigh(*predictions(kind, seed=seed))).code == code


def test_the_evidence_matches_plain_counts():
    targets, suspects, deprived, others = predictions("shortcut")
    e = weigh(targets, suspects, deprived, others)
    margin = relative_margin(deprived.margin, suspects.conflict, suspects.predicted)
    assert e.suspects == int(suspects.conflict.sum())
    assert e.full == int((margin[suspects.conflict] >= FULL_MARGIN).sum())
    assert e.insistence == e.full / e.clear
    assert e.blind == 1 - max(int((targets == c).sum()) for c in range(4)) / len(targets)
    right = others["taught"].network.predicted == targets
    assert e.networks["taught"].right == pytest.approx(
        float(right[suspects.conflict].float().mean())
    )


@pytest.mark.parametrize(("kind", "least", "most"), [("shortcut", 0.9, 1), ("noise", 0.4, 0.6)])
def test_reliance_counts_pairs(kind, least, most):
    targets, suspects, deprived, others = predictions(kind, n=600)
    conflict, answer = suspects.conflict, suspects.predicted
    full = relative_margin(deprived.margin, conflict, answer) >= FULL_MARGIN
    whole, view = others["grey"].sees_all.margin, others["grey"].network.margin
    lost = relative_margin(whole, conflict, answer) - relative_margin(view, conflict, answer)
    pairs = [
        (float(lost[i]), float(lost[j]))
        for i in (conflict & full).nonzero().flatten()
        for j in (~conflict & full & (answer == answer[i])).nonzero().flatten()
    ]
    found = weigh(targets, suspects, deprived, others).networks
    assert found["grey"].reliance.value == pytest.approx(
        sum((a > b) + (a == b) / 2 for a, b in pairs) / len(pairs)
    )
    assert least <= found["grey"].reliance.value <= most
    assert found["taught"].reliance is None  # it has no view


def test_without_suspects_the_verdict_is_unclear():
    targets = torch.tensor([0, 1, 0, 1])
    suspects = Suspects(torch.zeros(4), torch.zeros(4, dtype=torch.bool), targets)
    predicted = Predictions(targets, torch.ones(4))
    e = weigh(
        targets,
        suspects,
        predicted,
        {"taught": Comparison(predicted, predicted, sees_all=predicted)},
    )
    assert (e.insistence, e.gain, e.separation, e.reliance) == (0.0, None, None, None)
    assert not math.isnan(e.error)
    assert judge(e).code == "unclear"
