"""The records: no run is recorded twice or lost, and each is found by the settings it depends on."""

from __future__ import annotations

import gzip
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from toy_item import TOY, cells, changed, draw, recorded_runs, tiny

from toys import Counting
from unspur import recipes
from unspur.reproduce import ITEMS, ReproduceOptions, reproduce
from unspur.reproduce.add import add
from unspur.reproduce.item import Item, ItemCell, Run
from unspur.reproduce.records import RECIPES, RUNS, Records
from unspur.reproduce.run_identity import identity, identity_of
from unspur.reproduce.runner import look_up
from unspur.store import read_lines, write_document, write_lines

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def real() -> Records:
    return Records(ROOT / "results")


def first_run(options: ReproduceOptions) -> Run:
    known = Records(options.results).find(tiny("name=dcwp"), 5)
    assert known is not None
    return known.run


# -- the identity of a run ----------------------------------------------------------------------------


def test_the_identity_ignores_names_seeds_and_unused_settings() -> None:
    base = recipes.load("cmnist/1pct-dcwp")
    for change in ("name=other", "seed=9", "log_every=7", "data.workers=3", "lff.steps=1"):
        assert identity(recipes.change(base, recipes.parse_changes([change]))) == identity(base), (
            change
        )
    for change in ("precision=fp32", "compile=true"):
        assert identity(recipes.change(base, recipes.parse_changes([change]))) == identity(base), (
            change
        )
    for change in (
        *("prune.sparsity=1e-6", "plan=unpruned", "data.seed=1"),
        *("select.rule=heldout", "model.init=w.pth", "finetune.iterates=[5]"),
    ):
        assert identity(recipes.change(base, recipes.parse_changes([change]))) != identity(base), (
            change
        )


def test_variants_have_the_identity_of_the_built_in_recipes() -> None:
    """A change of DCWP and the built-in recipe with the same settings are the same run."""
    main = ITEMS["main-cmnist"].cells()["DCWP without pruning", "1pct"]  # type: ignore[union-attr]
    assert identity(main.recipe) == identity(recipes.load("cmnist/1pct-dcwp-unpruned"))
    variants = ITEMS["readings"].cells()  # type: ignore[union-attr]
    plain = recipes.change(variants["cmnist", "released code"].recipe, {"finetune.iterates": []})
    assert identity(plain) == identity(recipes.load("cmnist/0.5pct-released-code"))


def test_the_ordinary_model_of_a_run_is_a_run_of_erm(options: ReproduceOptions) -> None:
    only = Item("A toy", lambda: {("DCWP",): ItemCell(tiny("name=dcwp"), (5,))}, draw)
    reproduce("toy", only, options)
    run = first_run(options)
    known = Records(options.results).find(tiny("name=erm", "plan=erm"), 5)
    assert known is not None
    assert known.run["debiased"] == run["ordinary"]
    assert known.run["density"]["overall"] == 1
    assert known.run["run"]["stages"].keys() == {"pretrain", "evaluate"}
    assert known.run["run"]["seconds"] < run["run"]["seconds"]
    other = tiny("name=erm", "plan=erm", "pretrain.steps=3")
    assert Records(options.results).find(other, 5) is None


# -- the records of the project -----------------------------------------------------------------------


def test_the_records_are_small_and_hold_each_recipe_once(real: Records) -> None:
    size = sum(path.stat().st_size for path in (ROOT / "results").iterdir())
    assert size < 800_000
    used = {line["recipe"] for line in real.lines}
    assert used == real.recipes.keys()
    assert not list((ROOT / "docs").rglob("*.json"))


def test_runs_made_before_some_settings_existed_are_found(real: Records) -> None:
    found = look_up(ITEMS["main-cmnist"].cells(), real)  # type: ignore[union-attr]
    assert found["DCWP", "1pct"].n == found["unspur, first preset", "0.5pct"].n == 4
    assert found["DCWP", "1pct"].recorded[0].item == "precision/dcwp-bf16"
    assert [each.precision for each in found["DCWP", "1pct"].others] == ["tf32"] * 8
    in_tf32 = real.find(recipes.load("cmnist/1pct-dcwp"), 55)
    assert in_tf32 is not None
    assert in_tf32.item == "cmnist"
    assert real.find(recipes.load("cmnist/1pct-dcwp"), 54321) is None
    assert real.find(recipes.load("cmnist/1pct-dcwp"), 55, extras=("iterates",)) is None


def test_the_main_results_were_made_with_the_built_in_recipes(real: Records) -> None:
    rows = [row for item in ("cmnist", "preset/cmnist") for row in real.bench(item)["results"]]
    for row in rows:
        name = row["recipe"]["name"]
        assert identity_of(row["recipe"]) == identity(recipes.load(name)), name


def test_masks_are_compared_at_equal_density(real: Records) -> None:
    results = look_up(ITEMS["sparsity"].cells(), real)  # type: ignore[union-attr]
    for (data, how, pressure), result in results.items():
        if how in ("magnitude", "random"):
            density = result.mean("density", "overall")
            learned = results[data, "DCWP", pressure].mean("density", "overall")
            assert density == pytest.approx(learned, abs=1e-3), (data, how, pressure)


# -- adding -------------------------------------------------------------------------------------------


def test_nothing_is_run_or_recorded_twice(options: ReproduceOptions, store: Counting) -> None:
    outcome = reproduce("toy", TOY, options)
    assert (outcome.wanted, outcome.found, outcome.problems) == (5, 5, ())
    assert recorded_runs(options) == [
        ("dcwp", 5),
        ("dcwp", 6),
        ("erm", 5),
        ("erm", 6),
        ("erm", 7),
    ]
    store.made.clear()
    before = (options.results / RUNS).read_bytes()
    renamed = Item("Other", lambda: {("X",): ItemCell(tiny("name=x"), (5, 6))}, draw)
    assert reproduce("other", renamed, options).found == 2
    assert store.made == []
    Records(options.results).add("other", [(tiny("name=x"), first_run(options))])
    assert (options.results / RUNS).read_bytes() == before


def test_a_record_has_all_scores_of_the_run(options: ReproduceOptions) -> None:
    """Only the densities of layers and sentences are left out."""
    added: list[Any] = []
    original = Records.add

    def add_and_remember(self: Records, item: str, runs: Any) -> None:
        added.extend(runs)
        original(self, item, runs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Records, "add", add_and_remember)
        reproduce("toy", TOY, options)
    run = next(run for settings, run in added if (settings.name, settings.seed) == ("dcwp", 5))
    back = first_run(options)
    assert back.keys() == run.keys()
    for name in ("ordinary", "pruned", "debiased", "intervals", "selection", "unseen"):
        assert back[name] == run[name], name
    assert back["density"] == {k: v for k, v in run["density"].items() if k != "layers"}
    assert back["run"]["with"] == run["run"]["with"]
    assert [s["artifact"] for s in back["run"]["stages"].values()] == [
        s["artifact"] for s in run["run"]["stages"].values()
    ]


def test_a_recipe_is_stored_once_without_unused_settings(
    options: ReproduceOptions,
) -> None:
    reproduce("toy", TOY, options)
    stored = {
        line["recipe"]["name"]: line["recipe"] for line in read_lines(options.results / RECIPES)[0]
    }
    assert stored.keys() == {"dcwp", "erm"}
    assert {"mine", "pretrain", "prune", "finetune", "data"} <= stored["dcwp"].keys()
    assert not {"lff", "seed", "precision"} & stored["dcwp"].keys()


def test_the_same_records_are_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        write_lines(tmp_path / name, [{"x": 1}, {"y": [0.1]}])
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


def test_another_precision_is_the_same_run_and_is_shown_on_the_page(
    options: ReproduceOptions, store: Counting
) -> None:
    reproduce("toy", TOY, changed(options, precision="fp32"))
    store.made.clear()
    assert reproduce("toy", TOY, changed(options, precision="bf16")).found == 5
    assert store.made == []
    assert "precision fp32;" in (options.pages / "toy.md").read_text()


def test_another_seed_is_run_and_recorded(options: ReproduceOptions) -> None:
    reproduce("toy", TOY, options)
    more = Item("A toy", lambda: {("DCWP",): ItemCell(tiny("name=dcwp"), (5, 6, 9))}, draw)
    reproduce("toy", more, options)
    assert [seed for name, seed in recorded_runs(options) if name == "dcwp"] == [5, 6, 9]


def test_a_run_with_too_few_extras_is_run_again(options: ReproduceOptions, store: Counting) -> None:
    reproduce("toy", TOY, options)
    store.made.clear()
    more = Item("A toy", cells, draw, extras=("groups",))
    reproduce("more", more, options)
    assert store.made == []  # its stages are stored
    known = Records(options.results).find(tiny("name=dcwp"), 5, extras=("groups",))
    assert known is not None
    groups = known.run["extras"]["groups"]
    assert groups["classes"] == ["stands", "lies"]
    assert int(torch.tensor(groups["counts"]).sum()) == 120
    low, high = groups["intervals"]["conflicting"]
    assert low <= known.run["debiased"]["conflicting"] <= high


def test_two_commands_may_add_at_once(options: ReproduceOptions) -> None:
    reproduce("toy", TOY, options)
    run = first_run(options)

    def add_seed(seed: int) -> None:
        Records(options.results).add("toy", [(tiny("name=dcwp"), {**run, "seed": seed})])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add_seed, range(100, 124)))
    found = {seed for name, seed in recorded_runs(options) if name == "dcwp"}
    assert found == {5, 6, *range(100, 124)}
    assert not list(options.results.glob("*.tmp")) + list(options.results.glob("*.lock"))


def test_a_page_has_runs_that_another_command_added_meanwhile(options: ReproduceOptions) -> None:
    reproduce("toy", TOY, options)
    run = first_run(options)
    short = tiny("name=short", "plan=erm", "pretrain.steps=3")

    def meanwhile(line: str) -> None:
        Records(options.results).add("toy", [(short, run)])

    both = {
        ("DCWP",): ItemCell(tiny("name=dcwp"), (9,)),
        ("short",): ItemCell(short, (run["seed"],)),
    }
    busy = changed(options, say=meanwhile, only="dcwp")
    assert reproduce("toy", Item("A toy", lambda: both, draw), busy).found == 2
    assert "All runs that this page needs have been made." in (options.pages / "toy.md").read_text()


def test_two_commands_may_write_a_page_at_once(options: ReproduceOptions) -> None:
    reproduce("toy", TOY, options)
    quiet = changed(options, run=False)
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda _: reproduce("toy", TOY, quiet), range(40)))
    assert all(outcome.page and not outcome.problems for outcome in outcomes)
    assert not list(options.pages.glob("*.tmp"))


# -- damaged files ------------------------------------------------------------------------------------


def test_a_damaged_last_line_is_skipped_with_a_warning(options: ReproduceOptions) -> None:
    reproduce("toy", TOY, options)
    path = options.results / RUNS
    text = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(text[:-30]))
    with pytest.warns(UserWarning, match=r"runs\.jsonl\.gz: line 5 is incomplete; 4 lines"):
        assert len(Records(options.results).lines) == 4
    with pytest.warns(UserWarning, match="line 5 is incomplete"):
        assert reproduce("toy", TOY, options).found == 5
    assert len(recorded_runs(options)) == 5
    assert path.with_name(path.name + ".damaged").exists()


def test_a_truncated_file_is_read_up_to_the_damage(tmp_path: Path) -> None:
    lines = [{"number": n, "noise": f"{n * 7919 % 10007}"} for n in range(2000)]
    write_lines(path := tmp_path / "x.jsonl.gz", lines)
    path.write_bytes(path.read_bytes()[:-500])
    found, problem = read_lines(path)
    assert 1000 < len(found) < 2000
    assert found == lines[: len(found)]
    assert problem == "the file is cut short"


def test_a_damaged_line_between_others_is_an_error(options: ReproduceOptions) -> None:
    reproduce("toy", TOY, options)
    path = options.results / RUNS
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(broken := gzip.compress(b"".join([lines[0], b"<<<<<<< HEAD\n", *lines[1:]])))
    outcome = reproduce("toy", TOY, options)
    assert "line 2 is not JSON" in outcome.problems[0]
    assert path.read_bytes() == broken


def test_a_file_without_records_is_not_overwritten(options: ReproduceOptions) -> None:
    options.results.mkdir(parents=True)
    (options.results / RUNS).write_text("not gzip")
    outcome = reproduce("toy", TOY, options)
    assert "runs.jsonl.gz holds no records that can be read" in outcome.problems[0]
    assert (options.results / RUNS).read_text() == "not gzip"


def test_runs_of_an_invalid_recipe_stay_recorded_but_do_not_count(
    options: ReproduceOptions,
) -> None:
    reproduce("toy", TOY, options)
    records = Records(options.results)
    results = records.bench("toy")
    results["results"][0]["recipe"]["prune"]["forgotten"] = 1
    (options.results / RUNS).unlink()
    records.add_bench("toy", results)
    assert records.find(tiny("name=dcwp"), 5) is None
    reproduce("toy", TOY, options)
    assert recorded_runs(options).count(("dcwp", 5)) == 2


def test_a_missing_recipe_loses_no_run(options: ReproduceOptions) -> None:
    reproduce("toy", TOY, options)
    path = options.results / RECIPES
    write_lines(path, [line for line in read_lines(path)[0] if line["recipe"]["name"] == "erm"])
    lacks = r"recipes\.jsonl\.gz lacks the recipes of 2 runs"
    with pytest.warns(UserWarning, match=lacks):
        records = Records(options.results)
    run = records.find(tiny("plan=erm"), 7)
    assert run is not None
    with pytest.warns(UserWarning, match=lacks):
        records.add("toy", [(tiny("name=erm", "plan=erm"), {**run.run, "seed": 8})])
    assert len(read_lines(options.results / RUNS)[0]) == 6


# -- files of other commands --------------------------------------------------------------------------


def test_a_bench_is_added_under_its_own_name(options: ReproduceOptions, tmp_path: Path) -> None:
    reproduce("toy", TOY, options)
    results = Records(options.results).bench("toy")
    write_document(file := tmp_path / "bench.json", results)
    assert add("methods/toy", file, options.results) == "5 runs"
    assert add("methods/toy", file, options.results) == "0 runs"
    back = Records(options.results).bench("methods/toy")
    assert [row["summary"] for row in back["results"]] == [r["summary"] for r in results["results"]]
    assert recorded_runs(options, "methods/toy") == recorded_runs(options)


def test_an_export_is_added_by_name(tmp_path: Path) -> None:
    write_document(file := tmp_path / "export.json", {"onnx_milliseconds": {}, "bytes": {}})
    for name in ("b", "a", "b"):
        add(name, file, tmp_path / "results")
    lines, _ = read_lines(tmp_path / "results" / "exports.jsonl.gz")
    assert [line["name"] for line in lines] == ["b", "a"]
    write_document(file, [1])
    with pytest.raises(Exception, match="holds neither results of `unspur bench` nor"):
        add("x", file, tmp_path / "results")
