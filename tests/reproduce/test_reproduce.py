"""Tables and figures by name: what is on record is not run again, and pages tell what is not there."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from toys import Counting, TinyNet, shapes_set
from unspur import cli, models, recipes, stages
from unspur.errors import DataError, RecipeError, TrainingError
from unspur.methods import plans
from unspur.recipes import Recipe, published
from unspur.reproduce import ITEMS, Desk, chosen, reproduce
from unspur.reproduce.faces_item import within
from unspur.reproduce.item import Cell, Cells, Item, Known, Page, Result, Sheet, cell
from unspur.reproduce.pages import FACTS, facts, gain, iterate, number, start
from unspur.reproduce.quick import WORDS, quick
from unspur.reproduce.record_search import Ledger, identity
from unspur.reproduce.runner import groups, in_order, look_up
from unspur.runs import tables
from unspur.stages.context import Context

ROOT = Path(__file__).parents[2]
TABLES = {name: item for name, item in ITEMS.items() if isinstance(item, Item)}
TINY = [
    *(f"{stage}.steps=4" for stage in ("pretrain", "prune", "finetune", "lff")),
    *(f"{stage}.batch=32" for stage in ("pretrain", "prune", "finetune", "lff")),
    *('mine.how="oracle"', "prune.batch_norm_batches=1", 'select.rule="last"'),
]


def tiny(*changes: str) -> Recipe:
    return recipes.change(Recipe(), [*TINY, *changes])


def cells() -> Cells:
    return {
        ("DCWP",): Cell(tiny("name=dcwp"), (5, 6)),
        ("ERM",): Cell(tiny("name=erm", "plan=erm"), (5, 6, 7)),
    }


def draw(results: Any) -> Page:
    header = ["method", *FACTS, "accuracy"]
    rows = [
        [name, *facts(each), each.text("debiased", "unbiased")] for (name,), each in results.items()
    ]
    return Page(["\n".join(tables.markdown_table(header, rows))], {"toy.svg": "<svg/>"})


TOY = Item("A toy", cells, draw)


@pytest.fixture
def store(tmp_path: Path) -> Counting:
    return Counting(tmp_path / "store")


@pytest.fixture
def desk(tmp_path: Path, store: Counting) -> Desk:
    torch.manual_seed(0)
    builder, splits = models.given(TinyNet()), shapes_set(samples=120)

    def context_of(settings: Recipe) -> Context:
        where, show = torch.device("cpu"), lambda stage: nullcontext()
        return Context(settings, splits, builder, store, where, show)

    return Desk(tmp_path / "out", context_of, lambda name, **kwargs: splits, lambda line: None)


def changed(desk: Desk, **changes: Any) -> Desk:
    return Desk(**{**desk.__dict__, **changes})


def ran(desk: Desk, name: str = "toy") -> list[tuple[str, int]]:
    rows = json.loads((desk.out / f"{name}.json").read_text())["results"]
    return sorted((row["recipe"]["name"], run["seed"]) for row in rows for run in row["runs"])


# -- names --------------------------------------------------------------------------------------------


def test_names_stand_for_items() -> None:
    assert chosen(["main"]) == ["main-cmnist", "main-cifar10c"]
    assert chosen(["all"]) == list(ITEMS)
    assert chosen(["reset", "main", "main-cmnist"]) == ["reset", "main-cmnist", "main-cifar10c"]


def test_every_table_and_figure_is_there() -> None:
    promised = (
        "main-cmnist main-cifar10c ablation readings mining sparsity pruning reset iterations"
    )
    pictures = "tsne faces celeba examples theory"
    besides = "harmless slim"  # asked for by no table of the paper
    assert set(ITEMS) == set(f"{promised} {pictures} {besides}".split())


def test_an_unknown_name() -> None:
    with pytest.raises(RecipeError, match=r"nothing called 'ablatoin'.*Did you mean ablation"):
        chosen(["ablatoin"])
    with pytest.raises(RecipeError, match=r"nothing called 'zzz'.*Choose: main, all, main-cmnist"):
        chosen(["zzz"])


# -- the ledger ---------------------------------------------------------------------------------------


def test_names_seeds_and_other_stages_make_no_difference() -> None:
    base = recipes.load("cmnist/1pct-dcwp")
    for change in ("name=other", "seed=9", "log_every=7", "data.workers=3", "lff.steps=1"):
        assert identity(recipes.change(base, [change])) == identity(base), change
    for change in ("precision=fp32", "compile=true"):
        assert identity(recipes.change(base, [change])) == identity(base), change
    for change in (
        *("prune.sparsity=1e-6", "plan=unpruned", "data.seed=1"),
        *("select.rule=heldout", "model.init=w.pth", "finetune.iterates=[5]"),
    ):
        assert identity(recipes.change(base, [change])) != identity(base), change


def test_variants_are_the_recipes_they_name() -> None:
    """A change of DCWP and the built-in recipe for the same thing are one run."""
    main = TABLES["main-cmnist"].cells()["DCWP without pruning", "1pct"]
    assert identity(main.recipe) == identity(recipes.load("cmnist/1pct-dcwp-unpruned"))
    readings = TABLES["readings"].cells()
    for name, kind in (("released code", "released-code"), ("paper's text", "paper-text")):
        plain = recipes.change(readings["cmnist", name].recipe, ["finetune.iterates=[]"])
        assert identity(plain) == identity(recipes.load(f"cmnist/0.5pct-{kind}"))


def test_what_is_on_record_is_known() -> None:
    """Results that were made before some settings existed."""
    ledger = Ledger(ROOT / "docs" / "results")
    found = look_up(TABLES["main-cmnist"].cells(), ledger)
    assert found["DCWP", "1pct"].n == found["unspur", "0.5pct"].n == 4
    assert found["DCWP", "1pct"].known[0].file == "cmnist.json"
    assert found["DCWP", "1pct"].text("debiased", "unbiased") == "96.1 ± 0.1"
    assert ledger.find(recipes.load("cmnist/1pct-dcwp"), 54321) is None
    assert ledger.find(recipes.load("cmnist/1pct-dcwp"), 55, keep=("iterates",)) is None


def test_other_files_are_no_results(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[1, 2]")
    (tmp_path / "b.json").write_text('{"results": [1]}')
    (tmp_path / "c.json").write_text("not JSON")
    assert Ledger(tmp_path).known == {}


def test_a_file_that_cannot_be_read_is_not_written_over(desk: Desk, store: Counting) -> None:
    reproduce("toy", TOY, desk)
    path = desk.out / "toy.json"
    path.write_text(broken := "<<<<<<< HEAD\n" + path.read_text())
    outcome = reproduce("toy", TOY, desk)
    assert "toy.json holds no results that can be read" in outcome.problems[0]
    assert path.read_text() == broken


def test_two_commands_may_draw_a_page_at_once(desk: Desk) -> None:
    reproduce("toy", TOY, desk)
    quiet = changed(desk, run=False)
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda _: reproduce("toy", TOY, quiet), range(40)))
    assert all(outcome.page and not outcome.problems for outcome in outcomes)
    assert not list(desk.out.glob("*.tmp"))


def test_two_commands_may_add_at_once(desk: Desk) -> None:
    reproduce("toy", TOY, desk)
    run = json.loads((desk.out / "toy.json").read_text())["results"][0]["runs"][0]

    def add(seed: int) -> None:
        made = [(tiny("name=dcwp"), {**run, "seed": seed})]
        Ledger(desk.out).add("toy", made, seconds=1.0, together=1)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(100, 124)))
    assert {seed for name, seed in ran(desk) if name == "dcwp"} == {5, 6, *range(100, 124)}


def test_a_page_has_what_another_command_added_meanwhile(desk: Desk) -> None:
    reproduce("toy", TOY, desk)
    run = json.loads((desk.out / "toy.json").read_text())["results"][0]["runs"][0]
    short = tiny("name=short", "plan=erm", "pretrain.steps=3")

    def meanwhile(line: str) -> None:
        Ledger(desk.out).add("toy", [(short, run)], seconds=1.0, together=1)

    both = {("DCWP",): Cell(tiny("name=dcwp"), (9,)), ("short",): Cell(short, (run["seed"],))}
    busy = changed(desk, say=meanwhile, only="dcwp")
    assert reproduce("toy", Item("A toy", lambda: both, draw), busy).found == 2
    assert "Nothing is missing." in (desk.out / "toy.md").read_text()


def test_a_recipe_that_can_no_longer_be_read(desk: Desk) -> None:
    reproduce("toy", TOY, desk)
    path = desk.out / "toy.json"
    results = json.loads(path.read_text())
    results["results"][0]["recipe"]["prune"]["forgotten"] = 1
    path.write_text(json.dumps(results))
    reproduce("toy", TOY, desk)
    assert ran(desk).count(("dcwp", 5)) == 2  # the old one is kept, but does not count


def test_nothing_is_run_twice(desk: Desk, store: Counting) -> None:
    outcome = reproduce("toy", TOY, desk)
    assert (outcome.wanted, outcome.found, outcome.problems) == (5, 5, ())
    assert ran(desk) == [("dcwp", 5), ("dcwp", 6), ("erm", 5), ("erm", 6), ("erm", 7)]
    store.made.clear()
    renamed = Item("Other", lambda: {("X",): Cell(tiny("name=x"), (5, 6))}, draw)
    assert reproduce("other", renamed, desk).found == 2
    assert store.made == []
    assert not (desk.out / "other.json").exists()


def test_the_ordinary_model_of_a_run_is_erm(desk: Desk) -> None:
    only = Item("A toy", lambda: {("DCWP",): Cell(tiny("name=dcwp"), (5,))}, draw)
    reproduce("toy", only, desk)
    run = json.loads((desk.out / "toy.json").read_text())["results"][0]["runs"][0]
    known = Ledger(desk.out).find(tiny("name=erm", "plan=erm"), 5)
    assert known is not None
    assert known.run["debiased"] == run["ordinary"]
    assert known.run["density"]["overall"] == 1
    assert known.run["run"]["stages"].keys() == {"pretrain", "evaluate"}
    assert known.run["run"]["seconds"] < run["run"]["seconds"]
    assert Ledger(desk.out).find(tiny("name=erm", "plan=erm", "pretrain.steps=3"), 5) is None


def test_another_precision_is_the_same_run_and_is_told(desk: Desk, store: Counting) -> None:
    reproduce("toy", TOY, changed(desk, precision="fp32"))
    store.made.clear()
    assert reproduce("toy", TOY, changed(desk, precision="bf16")).found == 5
    assert store.made == []
    assert "precision fp32;" in (desk.out / "toy.md").read_text()


def test_another_seed_is_run_and_put_beside(desk: Desk) -> None:
    reproduce("toy", TOY, desk)
    more = Item("A toy", lambda: {("DCWP",): Cell(tiny("name=dcwp"), (5, 6, 9))}, draw)
    reproduce("toy", more, desk)
    assert [seed for name, seed in ran(desk) if name == "dcwp"] == [5, 6, 9]
    results = json.loads((desk.out / "toy.json").read_text())
    assert results["seeds"] == [5, 6, 7, 9]
    assert {"made", "with", "seconds", "together"} <= results.keys()
    assert set(results["results"][0]["recipe"]) >= {"mine", "pretrain", "prune", "finetune", "data"}


def test_a_run_that_kept_too_little_is_run_again(desk: Desk, store: Counting) -> None:
    reproduce("toy", TOY, desk)
    store.made.clear()
    more = Item("A toy", cells, draw, keep=("groups",))
    reproduce("more", more, desk)
    assert store.made == []  # its stages are stored
    runs = json.loads((desk.out / "more.json").read_text())["results"][0]["runs"]
    assert runs[0]["kept"]["groups"]["classes"] == ["stands", "lies"]
    counts = torch.tensor(runs[0]["kept"]["groups"]["counts"])
    assert int(counts.sum()) == 120
    low, high = runs[0]["kept"]["groups"]["intervals"]["conflicting"]
    assert low <= runs[0]["debiased"]["conflicting"] <= high


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


def test_the_same_run_is_wanted_once() -> None:
    twice = {("a",): Cell(tiny("name=a"), (5,)), ("b",): Cell(tiny("name=b"), (5,))}
    assert len(list(in_order(twice))) == 1


def test_groups_share_plan_and_data_and_early_turns_come_first() -> None:
    wanted = {
        (name,): Cell(tiny(f"name={name}", *changes), (1, 2))
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


def test_no_run_begins_when_time_is_over(desk: Desk, store: Counting) -> None:
    outcome = reproduce("toy", TOY, changed(desk, until=time.monotonic() - 1))
    assert store.made == []
    assert (outcome.wanted, outcome.found, outcome.problems) == (5, 0, ())
    assert "Not run" in outcome.page.read_text()  # type: ignore[union-attr]


def test_time_that_ends_midway_loses_nothing(desk: Desk, monkeypatch: Any) -> None:
    ticks = iter([0.0, 1.0, 99.0])
    monkeypatch.setattr("unspur.reproduce.runner.time.monotonic", lambda: next(ticks))
    assert reproduce("toy", TOY, changed(desk, until=10.0)).found == 2
    assert ran(desk) == [("dcwp", 5), ("erm", 5)]


def test_only_some_recipes(desk: Desk) -> None:
    assert reproduce("toy", TOY, changed(desk, only="er*")).found == 3


def test_runs_side_by_side_are_recorded_each(desk: Desk) -> None:
    assert reproduce("toy", TOY, changed(desk, together=4)).found == 5


# -- what goes wrong ----------------------------------------------------------------------------------


def test_missing_data_stops_only_what_needs_it(desk: Desk) -> None:
    asked = []

    def context_of(settings: Recipe) -> Context:
        asked.append(settings.data.name)
        if settings.data.name == "cifar10":
            raise DataError("there is no CIFAR-10.")
        return desk.context_of(settings)

    both = {**cells(), ("CIFAR",): Cell(tiny("name=cifar", "data.name=cifar10"), (1, 2))}
    outcome = reproduce(
        "toy", Item("A toy", lambda: both, draw), changed(desk, context_of=context_of)
    )
    assert outcome.problems == ("there is no CIFAR-10.",)
    assert outcome.found == 5
    assert asked.count("cifar10") == 1


def test_a_run_that_fails_does_not_take_others_with_it(desk: Desk, monkeypatch: Any) -> None:
    def run_together(contexts: Any) -> Any:
        if any(context.recipe.name == "bad" for context in contexts):
            raise TrainingError("the loss is no longer a number.")
        return [real([context])[0] for context in contexts]

    real = stages.run_together
    monkeypatch.setattr(stages, "run_together", run_together)
    both = {
        ("bad",): Cell(tiny("name=bad", "prune.sparsity=1e-6"), (5,)),
        ("good",): Cell(tiny("name=good"), (5,)),
    }
    outcome = reproduce("toy", Item("A toy", lambda: both, draw), changed(desk, together=2))
    assert outcome.problems == ("bad seed 5: the loss is no longer a number.",)
    assert ran(desk) == [("good", 5)]


def test_an_item_whose_recipe_is_gone(desk: Desk) -> None:
    gone = Item("Gone", lambda: {("x",): cell("cmnist/no-such-recipe")}, draw)
    outcome = reproduce("gone", gone, desk)
    assert outcome.page is None
    assert "no recipe" in outcome.problems[0]


# -- pages --------------------------------------------------------------------------------------------


def test_a_page_tells_what_is_missing_and_what_made_it(desk: Desk) -> None:
    reproduce("toy", TOY, changed(desk, only="dcwp"))
    page = reproduce("toy", TOY, changed(desk, run=False)).page
    assert page is not None
    lines = page.read_text().splitlines()
    assert lines[0] == "# A toy"
    assert any(line.startswith("| ERM | 2 | last | scratch | ") for line in lines)  # DCWP's own
    assert any(line.startswith("| DCWP | 2 | last | scratch | ") and "±" in line for line in lines)
    assert "- seed 7: `erm`" in lines
    made = next(line for line in lines if "[toy.json](toy.json)" in line)
    assert f"torch {torch.__version__}" in made
    assert "seeds 5, 6" in made
    assert (page.parent / "toy.svg").read_text() == "<svg/>"


def test_quick_pages_say_so_first(desk: Desk) -> None:
    page = reproduce("sheet", Sheet("A sheet", lambda _: Page(["x"])), changed(desk, quick=True))
    assert page.page is not None
    assert page.page.read_text().splitlines()[0] == f"> {WORDS}"


@pytest.mark.parametrize("name", TABLES)
def test_every_page_can_be_drawn_from_nothing(name: str, tmp_path: Path, desk: Desk) -> None:
    """Dashes, in tables as wide as their header, and every recipe in the list of what was not run."""
    outcome = reproduce(name, TABLES[name], changed(desk, run=False, out=tmp_path / "none"))
    assert outcome.problems == ()
    assert outcome.found == 0
    assert outcome.page is not None
    text = outcome.page.read_text()
    assert "–" in text
    assert "Nothing is missing" not in text
    wide: set[int] = set()
    for line in text.splitlines():
        wide = {*wide, line.count("|")} if line.startswith("|") else set()
        assert len(wide) <= 1, line


def test_which_iterate_and_from_where() -> None:
    ours = Result(cell("cmnist/1pct-unspur"))
    theirs = Result(cell("cmnist/1pct-dcwp", "model.init=weights/w.pth"))
    assert iterate(ours) == "held-out"
    assert iterate(ours, theirs) == "last or held-out"
    assert iterate(Result(cell("cmnist/1pct-erm"))) == "last"
    assert start(ours) == "scratch"
    assert start(theirs) == "w.pth"


def test_gains_are_taken_seed_by_seed() -> None:
    ours, base = (
        Result(cell("cmnist/1pct-dcwp"), tuple(known(seed, value) for seed, value in pairs))
        for pairs in ([(1, 0.9), (2, 0.8), (3, 0.7)], [(2, 0.5), (1, 0.5)])
    )
    assert gain(ours, base, "debiased", "unbiased") == pytest.approx([0.4, 0.3])


def known(seed: int, value: float) -> Known:
    return Known({"seed": seed, "debiased": {"unbiased": value}}, "", "")


def test_numbers() -> None:
    assert number(None) == "–"
    assert number(93.41) == "93.4"
    assert number(-0.02) == "0.0"


def test_intervals_are_the_mean_of_the_runs_bounds() -> None:
    runs = [
        {
            "seed": seed,
            "debiased": {"conflicting": share},
            "kept": {"groups": {"intervals": {"conflicting": bounds}}},
        }
        for seed, share, bounds in ((1, 0.5, [0.4, 0.6]), (2, 0.7, [0.6, 0.8]))
    ]
    both = Result(Cell(tiny(), (1, 2)), tuple(Known(run, "", "") for run in runs))
    assert within(both, "conflicting").endswith("[50, 70]")
    assert within(Result(both.cell), "conflicting") == "–"


# -- what is wanted -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_every_cell_is_a_recipe_with_its_seeds(name: str) -> None:
    for each in TABLES[name].cells().values():
        assert 1 <= len(each.seeds) <= 4
        assert each.recipe.data.name != "demo"
        assert quick(each.recipe).data.name == "demo"


def test_seeds_of_the_main_tables() -> None:
    found = TABLES["main-cifar10c"].cells()
    counts = {name: len(found[name, "1pct"].seeds) for name, ratio in found}
    four = {name for name, count in counts.items() if count == 4}
    assert four == {"ERM", "DCWP", "DCWP, released code", "unspur"}
    assert counts["MRM"] == counts["LfF"] == 2
    assert {ratio for _, ratio in found} == {"0.5pct", "1pct", "2pct", "5pct"}
    assert {len(each.seeds) for each in TABLES["main-cmnist"].cells().values()} == {4}


@pytest.mark.parametrize("plan", plans())
def test_quick_keeps_the_plan_and_what_was_changed(plan: str) -> None:
    settings = recipes.load("cmnist/1pct-dcwp", [f"plan={plan}", "prune.noise=probability"])
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


# -- the published numbers, typed once more -----------------------------------------------------------


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


def test_quick_items_from_nothing(tmp_path: Path) -> None:
    where = ["--quick", "--quiet", "--device", "cpu", "--out", str(tmp_path)]
    where += ["--store", str(tmp_path / "store")]
    done = invoke("reset", "examples", *where)
    assert done.exit_code == 0, done.output
    text = (tmp_path / "reset.md").read_text()
    assert text.startswith(f"> {WORDS}")
    assert "*oracle*" in text
    assert "Nothing is missing." in text
    assert (tmp_path / "reset.svg").read_text().count("<path") > 20
    assert (tmp_path / "examples-demo.png").read_bytes().startswith(b"\x89PNG")
    again = partial(invoke, "reset", *where)
    assert again("--no-run").exit_code == 0
    assert (tmp_path / "reset.md").read_text() == text


def test_missing_data_is_an_error_after_all_is_said(tmp_path: Path) -> None:
    done = invoke("tsne", "--data-root", str(tmp_path), "--out", str(tmp_path / "out"), "--quiet")
    assert done.exit_code == 1
    assert "0 of 1" in done.output
    assert "not everything could be made: tsne" in str(done.exception)
    assert (tmp_path / "out" / "tsne.md").exists()


def test_a_slip_in_a_name_is_an_error() -> None:
    done = invoke("ablaton")
    assert isinstance(done.exception, RecipeError)
