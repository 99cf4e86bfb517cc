"""A bench runs nothing twice, computes means, and shows published numbers next to ours."""

from __future__ import annotations

import csv
import json
import statistics
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from toys import Counting, TinyNet, shapes_set
from unspur import models, recipes
from unspur.cli import bench_command
from unspur.data.splits import Splits
from unspur.errors import StoreError
from unspur.recipes import Recipe, published
from unspur.runs import bench, tables
from unspur.stages import Run
from unspur.stages.context import Context
from unspur.store import Store

QUICK = [
    'mine.how="oracle"',
    *(f"{stage}.steps=4" for stage in ("pretrain", "prune", "finetune")),
    *(f"{stage}.batch=32" for stage in ("pretrain", "prune", "finetune")),
    "prune.batch_norm_batches=1",
    'select.rule="last"',
    "finetune.iterates=[2]",
]


@pytest.fixture(scope="module")
def splits() -> Splits:
    return shapes_set(samples=120)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Counting:
    return Counting(tmp_path_factory.mktemp("bench"))


def open_run(splits: Splits, store: Store) -> Any:
    torch.manual_seed(0)
    builder = models.copy_builder(TinyNet())
    return lambda settings: Run(
        Context(
            recipe=settings,
            splits=splits,
            builder=builder,
            store=store,
            device=torch.device("cpu"),
            show=lambda stage: nullcontext(),
        )
    )


@pytest.fixture(scope="module")
def results(splits: Splits, store: Counting) -> dict[str, Any]:
    wanted = [
        recipes.change(Recipe(name="toy"), recipes.parse_changes(QUICK)),
        recipes.change(Recipe(name="ordinary"), recipes.parse_changes([*QUICK, 'plan="erm"'])),
    ]
    return bench.bench(wanted, [5, 6, 7], open_run(splits, store))


def test_every_recipe_with_every_seed(results: dict[str, Any]) -> None:
    assert results["seeds"] == [5, 6, 7]
    assert [row["recipe"]["name"] for row in results["results"]] == ["toy", "ordinary"]
    for row in results["results"]:
        assert [run["seed"] for run in row["runs"]] == [5, 6, 7]
        assert [run["run"]["seed"] for run in row["runs"]] == [5, 6, 7]
    assert results["with"]["torch"] == torch.__version__


def test_nothing_is_run_twice(results: dict[str, Any], splits: Splits, store: Counting) -> None:
    # Both recipes have the same ordinary model, which is pretrained once per seed.
    assert sorted(store.made) == sorted(
        3 * ["mine", "pretrain", "prune", "finetune", "evaluate", "evaluate"]
    )
    store.made.clear()
    again = bench.bench(
        [recipes.change(Recipe(name="toy"), recipes.parse_changes(QUICK))],
        [5, 6, 7],
        open_run(splits, store),
    )
    assert store.made == []
    assert again["results"][0]["summary"] == results["results"][0]["summary"]


def test_means_and_deviations_by_hand(results: dict[str, Any]) -> None:
    row = results["results"][0]
    for model in ("ordinary", "pruned", "debiased"):
        values = [run[model]["unbiased"] for run in row["runs"]]
        assert row["summary"][model]["mean"] == pytest.approx(statistics.mean(values))
        assert row["summary"][model]["sd"] == pytest.approx(statistics.stdev(values))
    assert row["summary"]["precision"] == row["summary"]["recall"] == {"mean": 1.0, "sd": 0.0}
    densities = [run["density"]["overall"] for run in row["runs"]]
    assert row["summary"]["density"]["mean"] == pytest.approx(statistics.mean(densities))


def test_numbers_that_do_not_apply_are_left_out(results: dict[str, Any]) -> None:
    summary = results["results"][1]["summary"]
    assert summary.keys() == {"ordinary", "debiased", "density", "seconds"}
    assert summary["density"]["mean"] == 1.0


def test_large_tensors_stay_in_the_store(results: dict[str, Any]) -> None:
    for row in results["results"]:
        for run in row["runs"]:
            assert "iterates" not in run
            assert not any(run[model] and "groups" in run[model] for model in bench.MODELS)


def test_one_seed_has_no_deviation(results: dict[str, Any]) -> None:
    summary = bench.summarise(results["results"][0]["runs"][:1])
    assert summary["debiased"]["sd"] is None
    assert "±" not in bench.percent(summary["debiased"])


def test_files(results: dict[str, Any], tmp_path: Path) -> None:
    bench.save(results, tmp_path / "new" / "toy.json")
    assert json.loads((tmp_path / "new" / "toy.json").read_text()) == results
    lines = (tmp_path / "new" / "toy.md").read_text().splitlines()
    assert lines[0] == "| " + " | ".join(bench.HEADER) + " |"
    assert lines[1].count("|") == lines[0].count("|") == lines[2].count("|")
    assert [line.split(" | ")[0] for line in lines[2:4]] == ["| toy", "| ordinary"]
    assert "seeds 5, 6, 7" in lines[-1]


def test_the_table_is_rendered_from_the_file_alone(results: dict[str, Any]) -> None:
    assert bench.markdown(json.loads(json.dumps(results))) == bench.markdown(results)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"mean": 0.9341, "sd": 0.0052}, "93.4 ± 0.5"),
        ({"mean": 0.5, "sd": None}, "50.0"),
        ({"mean": None, "sd": None}, "–"),
        (None, "–"),
    ],
)
def test_per_cent(value: Any, text: str) -> None:
    assert bench.percent(value) == text


@pytest.mark.parametrize(
    ("name", "ratio", "text"),
    [
        ("cmnist", "0.5pct", "62.4 → 93.4"),
        ("cmnist", "1pct", "81.7 → 96.0"),
        ("cmnist", "2pct", "89.3 → 97.2"),
        ("cmnist", "5pct", "95.2 → 98.0"),
        ("demo", "1pct", "–"),
    ],
)
def test_published_numbers(results: dict[str, Any], name: str, ratio: str, text: str) -> None:
    settings = {**results["results"][0]["recipe"], "data": {"name": name, "ratio": ratio}}
    cells = bench.table_row({**results["results"][0], "recipe": settings})
    assert cells[bench.HEADER.index("published ERM → method")] == text
    assert cells[bench.HEADER.index("selection")] == "last"
    assert len(cells) == len(bench.HEADER)


# -- many methods, one table -------------------------------------------------------------------------


def row(name: str, mean: float, sd: float | None = 0.01) -> dict[str, Any]:
    settings = recipes.load(name).model_dump(mode="json")
    summary = {
        "debiased": {"mean": mean, "sd": sd},
        "density": {"mean": 1.0, "sd": 0.0},
        "seconds": {"mean": 60.0, "sd": None},
    }
    return {"recipe": settings, "runs": [{}, {}], "summary": summary}


@pytest.fixture
def many() -> dict[str, Any]:
    return {
        "made": "2026-01-01",
        "seeds": [55, 66],
        "with": {"gpu": "none", "cpu": "a CPU", "torch": "2", "unspur": "0"},
        "results": [
            row("cmnist/1pct-lff", 0.88),
            row("cmnist/1pct-erm", 0.8),
            row("cmnist/0.5pct-lff", 0.83, None),
            row("cmnist/1pct-jtt", 0.9),
            row("cmnist/ablation-3", 0.73),
        ],
    }


def test_a_table_of_methods_and_data(many: dict[str, Any]) -> None:
    header, rows = tables.pivot({**many, "results": many["results"][:4]})
    assert header == ["data", "ERM", "LfF", "JTT"]
    assert rows == [
        ["cmnist/1pct", "80.0 ± 1.0 (81.7)", "88.0 ± 1.0 (88.4)", "90.0 ± 1.0"],
        ["cmnist/0.5pct", "–", "83.0 (83.7)", "–"],
    ]
    text = tables.markdown(many)
    assert "| 88.0 ± 1.0 (88.4) |" in text
    assert "Unbiased accuracy (mean over groups) on the test split" in text


def test_published_numbers_next_to_ours(many: dict[str, Any]) -> None:
    found = {r["recipe"]["name"]: tables.published(r["recipe"]) for r in many["results"]}
    assert found == {
        "cmnist/1pct-lff": "81.7 → 88.4",
        "cmnist/1pct-erm": "81.7",
        "cmnist/0.5pct-lff": "62.4 → 83.7",
        "cmnist/1pct-jtt": "–",
        "cmnist/ablation-3": "73.2",
    }


def test_the_table_as_csv(many: dict[str, Any]) -> None:
    lines = list(csv.DictReader(tables.comma_separated(many).splitlines()))
    assert [line["method"] for line in lines] == ["lff", "erm", "lff", "jtt", "ablation-3"]
    assert lines[0]["published_percent"] == "88.44"
    assert float(lines[0]["debiased_mean"]) == 0.88
    assert lines[2]["debiased_sd"] == lines[0]["ordinary_mean"] == ""
    assert lines[0]["seeds"] == "2"


def test_the_table_as_latex(many: dict[str, Any]) -> None:
    text = tables.latex({**many, "results": many["results"][:2]})
    assert text.splitlines()[0] == r"\begin{tabular}{lrr}"
    assert r"cmnist/1pct & 80.0 $\pm$ 1.0 (81.7) & 88.0 $\pm$ 1.0 (88.4) \\" in text
    assert "±" not in text


def test_all_formats_are_written(results: dict[str, Any], tmp_path: Path) -> None:
    bench.save(results, tmp_path / "toy.json")
    assert {p.suffix for p in tmp_path.iterdir()} == {".json", ".md", ".csv", ".tex"}


@pytest.mark.parametrize(
    ("name", "data", "number"),
    [
        ("cmnist/0.5pct-disent", {}, 86.74),
        ("cmnist/5pct-unspur", {}, None),
        ("cifar10c/2pct-rebias", {}, 35.57),
        ("cifar10c/5pct-grasp", {}, 44.21),
        ("bffhq/0.5pct-end", {"name": "bffhq", "ratio": "0.5pct"}, 59.80),
        ("celeba/jtt", {"name": "celeba", "ratio": "any"}, 76.80),
        ("cmnist/ablation-6", {}, 87.96),
        ("cmnist/ablation-6-adam", {}, None),
        ("cmnist/1pct-lff-mlp", {}, None),
        ("cmnist/1pct-groupdro", {}, None),
    ],
)
def test_the_published_number_of_a_recipe(name: str, data: Any, number: float | None) -> None:
    known = name in recipes.names()
    made = recipes.load(name).model_dump() if known else {"name": name, "plan": "erm", "data": data}
    assert published.number(made) == number


def test_every_data_set_has_its_own_metric() -> None:
    scores = {"unbiased": 0.5, "conflicting": 0.2, "worst_group": 0.1}
    run = {
        "ordinary": scores,
        "pruned": None,
        "debiased": scores,
        "density": {"overall": 1.0},
        "mining": None,
        "run": {"seconds": 1.0},
    }
    for data, value in (("bffhq", 0.2), ("celeba", 0.1), ("cmnist", 0.5)):
        metric = published.METRICS.get(data, "unbiased")
        assert bench.summarise([run], metric=metric)["debiased"]["mean"] == value


@pytest.mark.parametrize("out", ["notes.md", "notes", "notes.json"])
def test_files_that_are_not_from_a_bench_are_not_replaced(
    tmp_path: Path, results: dict[str, Any], out: str
) -> None:
    """The check comes before the runs, so that none of them is lost."""
    (tmp_path / "notes.md").write_text("mine")
    with pytest.raises(StoreError, match=r"notes\.md exists and is not from a bench"):
        bench.refuse_other_files(tmp_path / out)
    with pytest.raises(StoreError, match=r"notes\.md exists"):
        bench_command.bench(["demo"], str(tmp_path / out))
    (tmp_path / "notes.md").unlink()
    for _ in range(2):
        bench.refuse_other_files(tmp_path / out)
        bench.save(results, tmp_path / out)
    bench.refuse_other_files("s3://bucket/notes.md")
