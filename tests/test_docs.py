"""The documentation tells the truth: links lead somewhere, numbers are those of the results."""

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unspur import bench, recipe
from unspur.cli import app
from unspur.reproduce import ITEMS
from unspur.reproduce.item import Item

ROOT = Path(__file__).parent.parent
RATIOS = ("0.5pct", "1pct", "2pct", "5pct")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def results():
    return json.loads((ROOT / "docs/results/cmnist.json").read_text())


def test_the_table_is_generated_from_the_numbers():
    assert (ROOT / "docs/results/cmnist.md").read_text() == bench.markdown(results())


def test_summaries_are_those_of_the_runs():
    for row in results()["results"]:
        for name, value in bench.summarise(row["runs"]).items():
            assert row["summary"][name] == pytest.approx(value), name


def test_numbers_of_the_readme_are_those_of_the_results():
    summary = {row["recipe"]["name"]: row["summary"] for row in results()["results"]}
    lines = (ROOT / "README.md").read_text().splitlines()
    for ratio in ("0.5", "1", "2", "5"):
        line = next(line for line in lines if line.startswith(f"| {ratio} % |"))
        cells = [cell.strip(" *") for cell in line.split("|")[2:5]]
        ours, published = (summary[f"cmnist/{ratio}pct-{kind}"] for kind in ("unspur", "dcwp"))
        assert cells == [
            bench.percent(published["ordinary"]),
            bench.percent(published["debiased"]),
            bench.percent(ours["debiased"]),
        ]


def test_results_were_made_with_the_recipes_that_ship():
    for row in results()["results"]:
        name = row["recipe"]["name"]
        assert recipe.parse(row["recipe"], where=name) == recipe.load(name)


def precision(kind, mode):
    rows = json.loads((ROOT / f"docs/results/precision/{kind}-{mode}.json").read_text())["results"]
    return [row["summary"]["debiased"] for row in rows]


@pytest.mark.parametrize(("kind", "title"), [("dcwp", "DCWP, published"), ("unspur", "our preset")])
def test_precisions_are_those_of_the_results(kind, title):
    lines = (ROOT / "docs/performance.md").read_text().splitlines()
    line = next(line for line in lines if line.startswith(f"| {title}"))
    cells = [", ".join(map(bench.percent, precision(kind, mode))) for mode in ("tf32", "bf16")]
    assert [cell.strip() for cell in line.split("|")[2:4]] == cells


def methods(file):
    """Unbiased accuracies of a bench of methods, by recipe."""
    results = json.loads((ROOT / f"docs/results/methods/{file}.json").read_text())["results"]
    return {row["recipe"]["name"]: row["summary"]["debiased"] for row in results}


@pytest.mark.parametrize(
    ("title", "file", "kind"),
    [
        ("DisEnt", "disent", "disent"),
        ("LfF", "lff", "lff"),
        ("EnD", "end", "end"),
        ("ReBias", "rebias", "rebias"),
        ("MRM", "mrm", "mrm"),
    ],
)
def test_methods_are_those_of_the_results(title, file, kind):
    found = methods(file)
    means = [f"{100 * found[f'cmnist/{ratio}-{kind}']['mean']:.1f}" for ratio in RATIOS]
    page = (ROOT / "docs/results/README.md").read_text()
    assert f"| {title} | {' / '.join(means)} |" in page


@pytest.mark.parametrize(
    ("title", "file", "kind"),
    [
        ("ERM, with EnD's and ReBias's", "erm-low-rate", "erm"),
        ("ReBias, its own", "rebias-own-optimiser", "rebias"),
        ("ReBias, ERM's", "rebias", "rebias"),
        ("EnD, its own", "end-own-optimiser", "end"),
        ("EnD, ERM's", "end", "end"),
        ("LfF, its own", "lff-own-optimiser", "lff"),
        ("LfF, ERM's", "lff", "lff"),
    ],
)
def test_optimisers_are_those_of_the_results(title, file, kind):
    found = methods(file)
    cells = [bench.percent(found.get(f"cmnist/{ratio}-{kind}")) for ratio in RATIOS]
    page = (ROOT / "docs/decisions/optimiser.md").read_text()
    assert f"| {title} | {' | '.join(cells)} |" in page


def test_how_far_precisions_are_apart():
    far = []
    for kind in ("dcwp", "unspur"):
        for a, b in zip(precision(kind, "tf32"), precision(kind, "bf16"), strict=True):
            error = (a["sd"] ** 2 / 4 + b["sd"] ** 2 / 4) ** 0.5  # of four seeds each
            far += [(a["mean"] - b["mean"]) / error]
    beyond = [each for each in far if abs(each) > 2]
    assert [round(each, 1) for each in beyond] == [2.0]
    assert (
        "Seven of the eight differences are within two"
        in (ROOT / "docs/performance.md").read_text()
    )


def test_times_are_those_of_the_results():
    page = (ROOT / "docs/performance.md").read_text()
    for name in ("together", "alone", "alone-bf16", "alone-compiled"):
        results = json.loads((ROOT / f"docs/results/speed/{name}.json").read_text())
        runs, setup = re.findall(r"[\d.]+(?= s)", bench.spent(results))
        assert f"| {runs} | {setup} |" in page


@pytest.mark.parametrize("name", ["first-tf32", "compiled-first", "compiled-next"])
def test_setups_are_those_of_the_results(name):
    results = json.loads((ROOT / f"docs/results/speed/{name}.json").read_text())
    _, setup = re.findall(r"[\d.]+(?= s)", bench.spent(results))
    assert re.search(rf"\b{re.escape(setup)}\b", (ROOT / "docs/performance.md").read_text())


def test_commands_of_the_readme_exist():
    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    known |= {group.name for group in app.registered_groups}
    used = set(re.findall(r"`unspur (\w+)", (ROOT / "README.md").read_text()))
    assert used
    assert used <= known


def test_rates_of_the_audit_are_those_of_the_results():
    found = json.loads((ROOT / "docs/results/audit.json").read_text())
    page = (ROOT / "docs/audit.md").read_text()
    for case in ("shortcut", "shortcut that the miner takes"):
        told = found["summary"]["unseen"][case].removesuffix(" right")
        assert f"| {told} |" in page
    nulls = [row for row in found["cases"] if row["truth"] == "null"]
    alarms = sum(row["verdict"] == "shortcut" for row in nulls)
    assert f"| nulls called a shortcut | {alarms} of {len(nulls)} |" in page


@pytest.fixture(scope="module")
def redrawn(tmp_path_factory):
    """A copy of the results, every page drawn anew."""
    out = tmp_path_factory.mktemp("docs") / "results"
    shutil.copytree(ROOT / "docs/results", out)
    for name, item in ITEMS.items():
        if isinstance(item, Item):
            (out / f"{name}.md").unlink()
    args = ["reproduce", "all", "--no-run", "--quiet", "--out", str(out)]
    assert CliRunner().invoke(app, args).exit_code == 0
    return out


@pytest.mark.parametrize("name", [name for name, item in ITEMS.items() if isinstance(item, Item)])
def test_pages_are_what_the_command_draws(redrawn, name):
    assert (redrawn / f"{name}.md").read_text() == (ROOT / f"docs/results/{name}.md").read_text()
