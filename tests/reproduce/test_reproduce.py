"""`unspur reproduce`: recorded runs are not run again, and pages list the missing ones."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from toy_item import TOY, cells, changed, draw, recorded_runs, tiny
from typer.testing import CliRunner

from toys import Counting
from unspur import cli, recipes, stages
from unspur.errors import DataError, RecipeError, TrainingError
from unspur.methods import plans
from unspur.recipes import Recipe, published
from unspur.reproduce import ITEMS, ReproduceOptions, reproduce, select_items
from unspur.reproduce.faces_item import within
from unspur.reproduce.item import (
    FigureItem,
    Item,
    ItemCell,
    Page,
    RecordedRun,
    Result,
    cell,
    mean_sd_text,
    mean_text,
)
from unspur.reproduce.main_item import SCORE
from unspur.reproduce.pages import gain, number, selection, start
from unspur.reproduce.quick import WORDS, quick
from unspur.reproduce.run_identity import identity
from unspur.reproduce.runner import groups, in_order
from unspur.stages.context import Context

TABLES = {name: item for name, item in ITEMS.items() if isinstance(item, Item)}

# -- names --------------------------------------------------------------------------------------------


def test_names_and_groups_select_items() -> None:
    assert select_items(["main"]) == ["main-cmnist", "main-cifar10c"]
    assert select_items(["all"]) == list(ITEMS)
    assert select_items(["reset", "main", "main-cmnist"]) == [
        "reset",
        "main-cmnist",
        "main-cifar10c",
    ]


def test_every_table_and_figure_of_the_paper_is_an_item() -> None:
    tables = "main-cmnist main-cifar10c ablation readings mining sparsity pruning reset iterations"
    pictures = "tsne faces celeba examples theory"
    own = "harmless slim preset augmentation imagenet gaps miners"  # not in the paper
    assert set(ITEMS) == set(f"{tables} {pictures} {own}".split())


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(RecipeError, match=r"nothing called 'ablatoin'.*Did you mean ablation"):
        select_items(["ablatoin"])
    with pytest.raises(
        RecipeError, match=r"nothing called 'zzz'.*Choose: main, all, preset, main-cmnist"
    ):
        select_items(["zzz"])


# -- order and time -----------------------------------------------------------------------------------


def test_first_seeds_come_first() -> None:
    found = [(turn, each.name, each.seed) for turn, each in in_order(cells())]
    assert found == [
        (0, "dcwp", 5),
        (0, "erm", 5),
        (1, "dcwp", 6),
        (1, "erm", 6),
        (2, "erm", 7),
    ]


def test_cells_with_the_same_settings_need_one_run() -> None:
    twice = {("a",): ItemCell(tiny("name=a"), (5,)), ("b",): ItemCell(tiny("name=b"), (5,))}
    assert len(list(in_order(twice))) == 1


def test_groups_share_plan_and_data_and_early_turns_come_first() -> None:
    wanted = {
        (name,): ItemCell(tiny(f"name={name}", *changes), (1, 2))
        for name, changes in {
            "a": (),
            "b": ("plan=erm",),
            "c": ("prune.sparsity=1e-6",),
            "d": ("prune.sparsity=1e-7",),
            "e": ("data.name=demo",),
        }.items()
    }
    found = [[f"{r.name}{r.seed}" for r in some] for some in groups(in_order(wanted), 2)]
    assert found == [["a1", "c1"], ["d1", "a2"], ["b1", "b2"], ["e1", "e2"], ["c2", "d2"]]


def test_no_run_starts_after_the_deadline(options: ReproduceOptions, store: Counting) -> None:
    outcome = reproduce("toy", TOY, changed(options, until=time.monotonic() - 1))
    assert store.made == []
    assert (outcome.wanted, outcome.found, outcome.problems) == (5, 0, ())
    assert "Runs that have not been made yet" in outcome.page.read_text()  # type: ignore[union-attr]


def test_runs_before_the_deadline_are_recorded(options: ReproduceOptions, monkeypatch: Any) -> None:
    ticks = iter([0.0, 1.0, 99.0])
    monkeypatch.setattr("unspur.reproduce.runner.time.monotonic", lambda: next(ticks))
    assert reproduce("toy", TOY, changed(options, until=10.0)).found == 2
    assert recorded_runs(options) == [("dcwp", 5), ("erm", 5)]


def test_only_recipes_that_match_are_run(options: ReproduceOptions) -> None:
    assert reproduce("toy", TOY, changed(options, only="er*")).found == 3


def test_runs_of_one_group_are_all_recorded(options: ReproduceOptions) -> None:
    assert reproduce("toy", TOY, changed(options, together=4)).found == 5


# -- errors -------------------------------------------------------------------------------------------


def test_missing_data_stops_only_runs_that_need_it(options: ReproduceOptions) -> None:
    asked = []

    def context_of(settings: Recipe) -> Context:
        asked.append(settings.data.name)
        if settings.data.name == "cifar10":
            raise DataError("there is no CIFAR-10.")
        return options.context_of(settings)

    both = {**cells(), ("CIFAR",): ItemCell(tiny("name=cifar", "data.name=cifar10"), (1, 2))}
    outcome = reproduce(
        "toy", Item("A toy", lambda: both, draw), changed(options, context_of=context_of)
    )
    assert outcome.problems == ("there is no CIFAR-10.",)
    assert outcome.found == 5
    assert asked.count("cifar10") == 1


def test_a_failing_run_does_not_stop_others(options: ReproduceOptions, monkeypatch: Any) -> None:
    def run_together(runs: Any) -> Any:
        if any(run.context.recipe.name == "bad" for run in runs):
            raise TrainingError("the loss is no longer a number.")
        return [real([run])[0] for run in runs]

    real = stages.run_together
    monkeypatch.setattr(stages, "run_together", run_together)
    both = {
        ("bad",): ItemCell(tiny("name=bad", "prune.sparsity=1e-6"), (5,)),
        ("good",): ItemCell(tiny("name=good"), (5,)),
    }
    outcome = reproduce("toy", Item("A toy", lambda: both, draw), changed(options, together=2))
    assert outcome.problems == ("bad seed 5: the loss is no longer a number.",)
    assert recorded_runs(options) == [("good", 5)]


def test_an_item_with_an_unknown_recipe_has_no_page(options: ReproduceOptions) -> None:
    gone = Item("Gone", lambda: {("x",): cell("cmnist/no-such-recipe")}, draw)
    outcome = reproduce("gone", gone, options)
    assert outcome.page is None
    assert "no recipe" in outcome.problems[0]


# -- pages --------------------------------------------------------------------------------------------


def test_a_page_lists_missing_runs_and_versions(options: ReproduceOptions) -> None:
    reproduce("toy", TOY, changed(options, only="dcwp"))
    page = reproduce("toy", TOY, changed(options, run=False)).page
    assert page is not None
    lines = page.read_text().splitlines()
    assert lines[0] == "# A toy"
    assert any(line.startswith("| ERM | 2 | last | scratch | ") for line in lines)  # DCWP's own
    both = next(line for line in lines if line.startswith("| DCWP | 2 | last | scratch | "))
    assert both.count(", ") == 1  # both values, as two runs have no useful standard deviation
    assert "±" not in both
    assert "- seed 7: `erm`" in lines
    made = next(line for line in lines if "`toy` of [the records](../results)" in line)
    assert f"torch {torch.__version__}" in made
    assert "seeds 5, 6" in made
    assert (page.parent / "toy.svg").read_text() == "<svg/>"


def test_quick_pages_say_so_first(options: ReproduceOptions) -> None:
    page = reproduce(
        "sheet", FigureItem("A sheet", lambda _: Page(["x"])), changed(options, quick=True)
    )
    assert page.page is not None
    assert page.page.read_text().splitlines()[0] == f"> {WORDS}"


@pytest.mark.parametrize("name", TABLES)
def test_every_page_can_be_written_without_runs(
    name: str, tmp_path: Path, options: ReproduceOptions
) -> None:
    """Tables have dashes and constant width, and the page lists the missing runs."""
    outcome = reproduce(name, TABLES[name], changed(options, run=False, results=tmp_path / "none"))
    assert outcome.problems == ()
    assert outcome.found == 0
    assert outcome.page is not None
    text = outcome.page.read_text()
    assert "–" in text
    assert "All runs that this page needs" not in text
    wide: set[int] = set()
    for line in text.splitlines():
        wide = {*wide, line.count("|")} if line.startswith("|") else set()
        assert len(wide) <= 1, line


def test_selection_and_start_of_results() -> None:
    ours = Result(cell("cmnist/1pct-unspur"))
    theirs = Result(cell("cmnist/1pct-dcwp", "model.init=weights/w.pth"))
    assert selection(ours) == "held-out"
    assert selection(ours, theirs) == "last or held-out"
    assert selection(Result(cell("cmnist/1pct-erm"))) == "last"
    no_suspects = Result(cell("cmnist/1pct-erm", "select.rule=heldout"))
    assert selection(no_suspects) == "last"  # its plan has nothing to select by
    assert start(ours) == "scratch"
    assert start(theirs) == "w.pth"
    published_weights = Result(ItemCell(tiny("start.pretrained=true"), (5,)))
    assert start(published_weights) == "ImageNet"


def test_gains_are_computed_seed_by_seed() -> None:
    ours, base = (
        Result(cell("cmnist/1pct-dcwp"), tuple(known(seed, value) for seed, value in pairs))
        for pairs in ([(1, 0.9), (2, 0.8), (3, 0.7)], [(2, 0.5), (1, 0.5)])
    )
    assert gain(ours, base, "debiased", "unbiased") == pytest.approx([0.4, 0.3])


def known(
    seed: int, value: float, precision: str = "", ordinary: float | None = None
) -> RecordedRun:
    own = None if ordinary is None else {"unbiased": ordinary}
    run = {"seed": seed, "debiased": {"unbiased": value}, "ordinary": own}
    return RecordedRun(run, "", "", precision)


def test_gains_need_the_same_precision() -> None:
    ours = Result(cell("cmnist/1pct-lff"), (known(1, 0.9, "bf16"), known(2, 0.8, "tf32")))
    shown, others = (known(1, 0.5, "bf16"), known(2, 0.6, "bf16")), (known(1, 0.1, "tf32"),)
    assert gain(ours, Result(cell("cmnist/1pct-erm"), shown, others), *SCORE) == [
        pytest.approx(0.4)
    ]
    others = (*others, known(2, 0.7, "tf32"))
    assert gain(ours, Result(cell("cmnist/1pct-erm"), shown, others), *SCORE) == pytest.approx(
        [0.4, 0.1]
    )


def test_gains_over_erm_use_the_ordinary_model_of_the_run() -> None:
    """The preset's ordinary model is another training than ERM, so it is not used."""
    erm = Result(cell("cmnist/1pct-erm"), (known(1, 0.5, "bf16"), known(2, 0.6, "bf16")))
    runs = (known(1, 0.9, "bf16", 0.7), known(2, 0.9, "tf32", 0.4))
    assert gain(Result(cell("cmnist/1pct-mrm"), runs), erm, *SCORE) == pytest.approx([0.2, 0.5])
    assert gain(Result(cell("cmnist/1pct-unspur"), runs), erm, *SCORE) == pytest.approx([0.4])
    other = Result(cell("cmnist/1pct-dcwp"), (known(1, 0.8, "bf16", 0.6),))
    assert gain(Result(cell("cmnist/1pct-mrm"), runs), other, *SCORE) == pytest.approx([0.1])


def test_two_values_are_both_shown() -> None:
    assert mean_sd_text([0.25, 0.271]) == "25.0, 27.1"
    assert mean_sd_text([0.25]) == "25.0"
    assert mean_sd_text([0.1, 0.2, 0.3]) == "20.0 ± 10.0"
    assert mean_text([0.25, 0.27]) == "26.0"
    assert mean_sd_text([]) == mean_text([]) == "–"


def test_numbers_have_one_digit_and_missing_ones_are_dashes() -> None:
    assert number(None) == "–"
    assert number(93.41) == "93.4"
    assert number(-0.02) == "0.0"


def test_intervals_are_the_mean_of_the_runs_bounds() -> None:
    runs = [
        {
            "seed": seed,
            "debiased": {"conflicting": share},
            "extras": {"groups": {"intervals": {"conflicting": bounds}}},
        }
        for seed, share, bounds in ((1, 0.5, [0.4, 0.6]), (2, 0.7, [0.6, 0.8]))
    ]
    both = Result(ItemCell(tiny(), (1, 2)), tuple(RecordedRun(run, "", "") for run in runs))
    assert within(both, "conflicting").endswith("[50, 70]")
    assert within(Result(both.cell), "conflicting") == "–"


# -- cells --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_every_cell_is_a_recipe_with_its_seeds(name: str) -> None:
    for each in TABLES[name].cells().values():
        assert 1 <= len(each.seeds) <= 4
        assert each.recipe.data.name != "demo"
        assert quick(each.recipe).data.name == "demo"
        assert not quick(each.recipe).start.pretrained


def test_seeds_of_the_main_tables() -> None:
    found = TABLES["main-cifar10c"].cells()
    counts = {name: len(found[name, "1pct"].seeds) for name, ratio in found}
    four = {name for name, count in counts.items() if count == 4}
    ours = {"DCWP, released code", "unspur", "unspur, first preset"}
    assert four == ours | {"ERM", "DCWP", "MRM", "LfF", "DisEnt", "EnD", "ReBias"}
    assert counts["JTT"] == 1
    assert {ratio for _, ratio in found} == {"0.5pct", "1pct", "2pct", "5pct"}
    assert {len(each.seeds) for each in TABLES["main-cmnist"].cells().values()} == {4}


@pytest.mark.parametrize("plan", plans())
def test_quick_keeps_the_plan_and_changed_settings(plan: str) -> None:
    settings = recipes.load("cmnist/1pct-dcwp", {"plan": plan, "prune.noise": "probability"})
    small = quick(settings)
    assert small.plan == plan
    assert small.prune.noise == "probability"
    assert small.model.options == {"width": 12}
    for stage in plans()[plan]:
        if hasattr(getattr(small, stage), "steps"):
            assert getattr(small, stage).steps <= 60


def test_quick_scales_what_an_item_varies() -> None:
    steps = [
        quick(cell("cmnist/1pct-dcwp", f"prune.steps={n}").recipe).prune.steps for n in (500, 2000)
    ]
    assert steps == [10, 40]
    kept = quick(cell("cmnist/ablation-6", "finetune.iterates=[100, 500, 1000]").recipe)
    assert kept.finetune.iterates == (2, 10, 20)
    assert kept.finetune.steps == 20


# -- the published numbers, typed a second time -------------------------------------------------------


def test_published_robustness_to_mining() -> None:
    order = ("aligned", "conflicting", "unbiased", "precision", "recall")

    def row(data: str, how: str) -> list[float]:
        return [
            published.MINING[data][how][name]
            for name in order
            if name in published.MINING[data][how]
        ]

    assert row("cifar10c/1pct", "disent") == [80.04, 26.51, 34.62]
    assert row("cifar10c/1pct", "early-stopped") == [94.33, 29.75, 36.21, 19.71, 79.53]
    assert row("cifar10c/1pct", "epoch-ensemble") == [91.68, 35.99, 41.56, 85.97, 74.89]
    assert row("bffhq/0.5pct", "disent") == [89.80, 55.55, 72.68]
    assert row("bffhq/0.5pct", "lff") == [96.05, 56.50, 76.30]
    assert row("bffhq/0.5pct", "early-stopped") == [99.45, 56.90, 78.20, 20.18, 28.39]
    assert row("bffhq/0.5pct", "gce") == [98.85, 60.35, 79.60, 30.61, 31.25]


def test_published_pruning() -> None:
    kinds = ("erm", "grasp", "dcwp")
    assert [published.PRUNING["cifar10"][k] for k in kinds] == [86.76, 85.64, 86.32]
    assert [published.PRUNING["cifar10c/5pct"][k] for k in kinds] == [45.66, 44.21, 60.24]
    assert [published.PRUNED_AWAY["cifar10"][k] for k in kinds] == [0, 90.0, 92.4]
    assert [published.PRUNED_AWAY["cifar10c/5pct"][k] for k in kinds] == [0, 90.0, 90.4]


def test_published_celeba_and_ablation() -> None:
    kinds = ("erm", "disent", "jtt", "dcwp-unpruned", "dcwp")
    assert [published.PUBLISHED["celeba"][k] for k in kinds] == [47.02, 65.26, 76.80, 67.85, 79.30]
    assert [published.CELEBA_AVERAGE[k] for k in kinds] == [97.80, 67.88, 93.98, 95.89, 94.50]
    rows = [published.ABLATION[f"cmnist/ablation-{index}"] for index in range(1, 7)]
    assert rows == [43.10, 50.29, 73.20, 79.28, 84.79, 87.96]


# -- the command --------------------------------------------------------------------------------------


def invoke(*words: str) -> Any:
    return CliRunner().invoke(cli.app, ["reproduce", *words])


def test_quick_items_write_to_their_own_folder(tmp_path: Path, monkeypatch: Any) -> None:
    """The real records and pages in the current folder are not changed."""
    monkeypatch.chdir(tmp_path)
    Path("results").mkdir()
    where = ["--quick", "--quiet", "--device", "cpu", "--store", "store"]
    done = invoke("reset", "examples", *where)
    assert done.exit_code == 0, done.output
    pages = Path("runs/reproduce-quick/pages")
    text = (pages / "reset.md").read_text()
    assert text.startswith(f"> {WORDS}")
    assert "*oracle*" in text
    assert "All runs that this page needs have been made." in text
    assert (pages / "reset.svg").read_text().count("<path") > 20
    assert (pages / "examples-demo.png").read_bytes().startswith(b"\x89PNG")
    assert invoke("reset", *where, "--no-run").exit_code == 0
    assert (pages / "reset.md").read_text() == text
    assert not list(Path("results").iterdir())
    assert not Path("docs").exists()


def test_with_missing_data_the_page_is_written_before_the_error(tmp_path: Path) -> None:
    where = ["--results", str(tmp_path / "results"), "--pages", str(tmp_path / "pages")]
    done = invoke("tsne", "--data-root", str(tmp_path), *where, "--quiet")
    assert done.exit_code == 1
    assert "0 of 1" in done.output
    assert "failed: tsne" in str(done.exception)
    assert (tmp_path / "pages" / "tsne.md").exists()


def test_a_missing_run_that_two_pages_need_is_counted_once(tmp_path: Path) -> None:
    where = ["--results", str(tmp_path / "results"), "--pages", str(tmp_path / "pages")]
    wanted = [
        {
            (identity(each.recipe), seed)
            for each in TABLES[name].cells().values()
            for seed in each.seeds
        }
        for name in ("sparsity", "iterations")
    ]
    both = wanted[0] | wanted[1]
    assert len(both) < len(wanted[0]) + len(wanted[1])
    done = invoke("sparsity", "iterations", "--no-run", "--quiet", *where)
    assert f"{len(both)} runs are still missing" in done.output


def test_a_misspelt_name_is_an_error() -> None:
    done = invoke("ablaton")
    assert isinstance(done.exception, RecipeError)
