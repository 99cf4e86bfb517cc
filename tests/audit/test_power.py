"""What an audit finds of planted shortcuts: counted right, stored, continued."""

import pytest
import torch

from audits import context, tinted
from unspur.audit import power_measurement
from unspur.audit.power import PlantedAudit, Power, PowerPlan
from unspur.audit.power_measurement import PowerMeasurement
from unspur.data.benchmarks.planted import SIZED_KINDS, plant
from unspur.data.splits import Split, Splits
from unspur.errors import DataError, UsageError
from unspur.report import power_words
from unspur.store import Store

QUICK = PowerPlan(("border",), (0.05,), 2)


@pytest.mark.parametrize("kind", SIZED_KINDS)
@pytest.mark.parametrize("size", [(32, 32), (48, 64), (9, 11)])
def test_shortcuts_are_planted_into_images_of_any_size(kind, size):
    images = torch.randint(0, 256, (60, 3, *size), dtype=torch.uint8)
    labels = torch.arange(60) % 3 * 4  # the numbers of classes need not be consecutive
    marked, says = plant(images, labels, kind, share=0.1, seed=0)
    assert marked.shape == images.shape
    assert marked.dtype == torch.uint8
    assert bool((marked != images).flatten(1).any(1).all())
    assert int((says != labels).sum()) == 6
    assert set(says.tolist()) <= {0, 4, 8}
    assert torch.equal(marked, plant(images, labels, kind, share=0.1, seed=0)[0])


def test_a_border_leaves_the_centre_alone():
    images = torch.randint(0, 256, (20, 3, 64, 64), dtype=torch.uint8)
    marked, _ = plant(images, torch.arange(20) % 2, "border", share=0.1, seed=0)
    assert torch.equal(marked[:, :, 4:-4, 4:-4], images[:, :, 4:-4, 4:-4])
    assert bool((marked[:, :, :4] == marked[:, :, :1, :1]).all())


def test_a_planted_audit_is_stored_and_not_done_again(tmp_path, monkeypatch):
    small = context(Store(tmp_path), tinted("nothing", n=200))
    told = []
    first = PowerMeasurement(small, QUICK)
    assert (first.cost().missing, first.cost().cases) == (2, 2)
    assert first.cost().seconds > 0
    power = first.carry_out(lambda *state: told.append(state))
    assert [state[:2] for state in told] == [(1, 2), (2, 2)]
    assert told[-1][2] == 0
    assert len({each.repeat for each in power.audits}) == 2
    assert all(each.exceptions == 10 for each in power.audits)

    def refuse(*args, **kwargs):
        raise AssertionError("nothing is audited again")

    monkeypatch.setattr(power_measurement, "audit_together", refuse)
    again = PowerMeasurement(small, QUICK)
    assert again.cost().missing == 0
    assert again.carry_out() == power
    assert Power.from_json(power.as_json()) == power


def test_a_stopped_measurement_goes_on(tmp_path, monkeypatch):
    small = context(Store(tmp_path), tinted("nothing", n=200))
    audits = []

    def count(contexts, together):
        audits.append(len(contexts))
        if len(audits) == 2:
            raise KeyboardInterrupt
        return real(contexts, together=together)

    real = power_measurement.audit_together
    monkeypatch.setattr(power_measurement, "audit_together", count)
    with pytest.raises(KeyboardInterrupt):
        PowerMeasurement(small, QUICK).carry_out()
    assert PowerMeasurement(small, QUICK).cost().missing == 1


def test_other_images_or_settings_are_another_measurement(tmp_path):
    store = Store(tmp_path)
    keys = [
        PowerMeasurement(each, QUICK)._key(QUICK.cases()[0])
        for each in (
            context(store, tinted("nothing", n=200)),
            context(store, tinted("nothing", n=200, seed=1)),
            context(store, tinted("nothing", n=200), **{"mine.steps": 50}),
        )
    ]
    assert len({store.path(key) for key in keys}) == 3


def test_the_number_of_repeats_follows_the_time_once(tmp_path, monkeypatch):
    small = context(Store(tmp_path), tinted("nothing", n=200))
    plan = PowerPlan(("border", "tint"), (0.05,))
    monkeypatch.setattr(PowerMeasurement, "_seconds", 400.0)
    assert PowerMeasurement(small, plan).final_plan.repeats == 4
    monkeypatch.setattr(PowerMeasurement, "_seconds", 10_000.0)
    assert PowerMeasurement(small, plan).final_plan.repeats == 4  # the same command goes on
    other = PowerPlan(("border",), (0.05,))
    assert PowerMeasurement(small, other).final_plan.repeats == 2


def test_only_the_ten_largest_classes_are_planted_into(tmp_path):
    labels = torch.cat([torch.arange(12).repeat(10), torch.arange(10).repeat(10)])
    images = torch.randint(0, 256, (len(labels), 1, 8, 8), dtype=torch.uint8)
    splits = Splits(train=Split(images, labels), classes=tuple(map(str, range(12))))
    base = PowerMeasurement(context(Store(tmp_path), splits), QUICK)._base
    assert sorted(set(base.targets.tolist())) == list(range(10))
    assert base.shape == (3, 8, 8)


def test_pixels_that_are_no_bytes_are_refused(tmp_path):
    splits = Splits(
        train=Split(torch.rand(100, 3, 8, 8), torch.arange(100) % 2), classes=("a", "b")
    )
    with pytest.raises(DataError, match="uint8"):
        PowerMeasurement(context(Store(tmp_path), splits), QUICK).cost()


@pytest.mark.parametrize(
    "wrong", [{"kinds": ("smell",)}, {"rates": (0.9,)}, {"rates": ()}, {"repeats": -1}]
)
def test_plans_that_make_no_sense_are_refused(wrong):
    with pytest.raises(UsageError):
        PowerPlan(**wrong)


def test_found_needs_the_verdict_and_the_exceptions():
    def one(verdict, flagged, repeat=0):
        return PlantedAudit("tint", 0.02, repeat, verdict, 20, flagged, 1.0)

    assert one("shortcut", 0.5).is_found
    assert not one("shortcut", 0.4).is_found
    assert not one("nothing", 1.0).is_found
    audits = (*(one("shortcut", 0.9, n) for n in range(9)), one("nothing", 0.0, 9))
    power = Power(1000, 2, 2, audits)
    (row,) = power.rows()
    assert (row.found, row.repeats) == (9, 10)
    assert row.interval == pytest.approx((0.596, 0.982), abs=1e-3)
    text = " ".join(power_words.sentences(power)).replace("\N{NO-BREAK SPACE}", " ")
    assert "a tint with 2.0 % conflicting images is found in 9 of 10" in text
