"""`unspur reproduce miners`: sets of suspects are recorded once, and a lost class is counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from toy_item import changed, tiny, toy_options

from toys import Counting
from unspur.recipes import Recipe
from unspur.reproduce import miners_item
from unspur.reproduce.item import ReproduceOptions
from unspur.reproduce.miners_item import MINERS_ITEM, MinedSet, read_sets, summarise
from unspur.stages.context import Context
from unspur.stages.suspects import Suspects


def small(options: ReproduceOptions) -> ReproduceOptions:
    """Return options under which every recipe mines toy data in a few steps."""

    def context_of(settings: Recipe) -> Context:
        mine = {"how": settings.mine.how, "warm_up": settings.mine.warm_up, "steps": 8, "batch": 32}
        chosen = tiny().mine.model_copy(update=mine)
        return options.context_of(tiny().model_copy(update={"mine": chosen, "seed": settings.seed}))

    return changed(options, context_of=context_of)


def few_miners(monkeypatch: Any) -> None:
    monkeypatch.setattr(miners_item, "DATA", {"cmnist/1pct": "CMNIST 1 %"})
    kept = {name: miners_item.MINERS[name] for name in ("GCE, warm-up", "epoch ensemble")}
    monkeypatch.setattr(miners_item, "MINERS", kept)
    monkeypatch.setattr(miners_item, "MORE_SEEDS", (101,))


def test_every_seed_of_every_miner_is_recorded_once(tmp_path: Path, monkeypatch: Any) -> None:
    few_miners(monkeypatch)
    store = Counting(tmp_path)
    options = small(changed(toy_options(tmp_path, store), together=3))
    page = MINERS_ITEM.draw(options)
    sets = read_sets(options.results)
    assert [each.seed for each in sets] == [55, 66, 77, 88, 101] * 2
    assert {each.miner for each in sets} == {"GCE, warm-up", "epoch ensemble"}
    assert set(store.made) == {"mine"}
    made = len(store.made)
    assert MINERS_ITEM.draw(options).parts == page.parts
    assert len(store.made) == made
    again = MINERS_ITEM.redraw(options)
    assert again is not None
    assert again.parts == page.parts


def test_only_and_minutes_limit_the_runs(tmp_path: Path, monkeypatch: Any) -> None:
    few_miners(monkeypatch)
    options = small(toy_options(tmp_path, Counting(tmp_path)))
    MINERS_ITEM.draw(changed(options, only="*epoch*"))
    assert {each.miner for each in read_sets(options.results)} == {"epoch ensemble"}
    MINERS_ITEM.draw(changed(options, until=0.0))
    assert len(read_sets(options.results)) == 5


def test_a_set_of_suspects_is_summarised(tmp_path: Path) -> None:
    context = toy_options(tmp_path, Counting(tmp_path)).context_of(tiny())
    splits = context.splits
    conflicting, targets = splits.conflicting("train"), splits.train.targets
    assert conflicting is not None
    flags = conflicting.clone()
    flags[(targets == 0).nonzero().squeeze(1)[:10]] = True
    found = summarise("cmnist/1pct", "GCE", context, Suspects(flags.float(), flags, targets))
    flagged, hits = int(flags.sum()), int((flags & conflicting).sum())
    assert (found.flagged, found.precision) == (flagged, hits / flagged)
    assert found.recall == 1.0
    shares = [float(flags[targets == label].double().mean()) for label in (0, 1)]
    assert found.crowded == max(shares)
    assert found.verdict == "usable"


def test_lost_classes_are_counted(tmp_path: Path, monkeypatch: Any) -> None:
    few_miners(monkeypatch)
    options = toy_options(tmp_path, Counting(tmp_path))
    good = MinedSet("cmnist/1pct", "epoch ensemble", 1, 441, 0.88, 0.9, 0.1, "usable", "cuda")
    lost = replace(good, seed=2, flagged=4861, precision=0.08, crowded=0.99, verdict="lost-class")
    miners_item._add(options.results, [lost, good])
    page = MINERS_ITEM.redraw(options)
    assert page is not None
    rows = "\n".join(page.parts).splitlines()
    row = next(line for line in rows if "| epoch ensemble |" in line)
    assert "| 2 | 441 to 4,861 | 8.0 to 88.0 | 90.0 | 10.0 to 99.0 | 1 | cuda |" in row
