"""The documentation tells the truth: links lead somewhere, numbers are those of the results."""

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unspur import recipes
from unspur.cli import app
from unspur.reproduce import ITEMS
from unspur.reproduce.faces_item import within
from unspur.reproduce.item import Item, told
from unspur.reproduce.pages import gain
from unspur.reproduce.record_search import Ledger
from unspur.reproduce.runner import look_up
from unspur.runs import bench

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
        assert recipes.parse(row["recipe"], where=name) == recipes.load(name)


def precision(kind, mode):
    rows = json.loads((ROOT / f"docs/results/precision/{kind}-{mode}.json").read_text())["results"]
    return [row["summary"]["debiased"] for row in rows]


@pytest.mark.parametrize(("kind", "title"), [("dcwp", "DCWP, default"), ("unspur", "our preset")])
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


# -- the report -----------------------------------------------------------------------------------------

SCORE = ("debiased", "unbiased")
C = "cifar10c/1pct"


@pytest.fixture(scope="module")
def ledger():
    return Ledger(ROOT / "docs/results")


def found(ledger, name):
    return look_up(ITEMS[name].cells(), ledger, ITEMS[name].keep)


def by_ratio(results, method):
    return " / ".join(f"{100 * results[method, ratio].mean(*SCORE):.1f}" for ratio in RATIOS)


def test_the_report_has_the_main_tables(ledger):
    page = (ROOT / "docs/results/README.md").read_text()
    for name, methods in (
        ("main-cmnist", ("ERM", "DCWP", "unspur")),
        ("main-cifar10c", ("ERM", "DCWP", "DCWP, released code", "unspur")),
    ):
        for method in methods:
            assert by_ratio(found(ledger, name), method) in page, method


def test_the_page_of_methods_has_the_main_table(ledger):
    page = (ROOT / "docs/methods.md").read_text()
    results = found(ledger, "main-cmnist")
    for method in ("DisEnt", "LfF", "EnD", "ReBias", "MRM"):
        assert f"| {method} | {by_ratio(results, method)} |" in page
    for method in ("JTT", "GroupDRO", "DFR"):
        assert f"({by_ratio(results, method)})" in page
    for method, words in (("GroupDRO", "gains\n{} points"), ("DFR", "gains {} there")):
        more = gain(results[method, "0.5pct"], results["ERM", "0.5pct"], *SCORE)
        assert words.format(told(more)) in page


def test_the_report_has_the_gains(ledger):
    page = (ROOT / "docs/results/README.md").read_text()
    results = found(ledger, "main-cifar10c")
    gains = [gain(results["unspur", r], results["ERM", r], *SCORE) for r in RATIOS]
    means = [f"{100 * sum(each) / len(each):.1f}" for each in gains]
    assert f"| {' / '.join(means)} |" in page
    for method, words in (("LfF", "LfF gains {} points"), ("DisEnt", "DisEnt {} (n = 1")):
        more = gain(results[method, "1pct"], results["ERM", "1pct"], *SCORE)
        assert words.format(told(more)) in page


@pytest.mark.parametrize(
    ("data", "item"), [("CMNIST", "main-cmnist"), ("CIFAR10-C", "main-cifar10c")]
)
@pytest.mark.parametrize(
    ("method", "title"), [("DCWP", "default reading"), ("unspur", "our preset")]
)
def test_the_report_has_what_pruning_adds_at_every_ratio(ledger, data, item, method, title):
    page = (ROOT / "docs/results/README.md").read_text().replace("−", "-")
    results = found(ledger, item)
    bare = f"{method} without pruning"
    cells = [told(gain(results[method, r], results[bare, r], *SCORE)) for r in RATIOS]
    alone = " (n = 1)" * (data == "CIFAR10-C")
    assert f"| {data}, {title}{alone} | {' | '.join(cells)} |" in page


def test_the_report_has_what_pruning_adds(ledger):
    page = (ROOT / "docs/results/README.md").read_text().replace("−", "-")
    results = found(ledger, "ablation")
    for before, after in (("1", "2"), ("3", "5"), ("4", "6")):
        told_ = [
            told(gain(results[o, after], results[o, before], *SCORE))
            for o in ("SGD, 2,000 + 1,000 steps", "Adam, 10,000 + 1,000 steps")
        ]
        assert (
            f"{before} → {after}){', with 1,000 steps more' * (before == '1')} | {' | '.join(told_)} |"
            in page
        )


@pytest.mark.parametrize(
    ("item", "key", "path", "words"),
    [
        ("readings", ("cmnist", "default"), SCORE, "the default reading has {}"),
        ("readings", ("cmnist", "paper's text"), SCORE, "the paper's text {}"),
        (
            "readings",
            ("cmnist", "released code"),
            SCORE,
            "as the code runs](readings.md) it has {}",
        ),
        ("main-cifar10c", ("unspur", "1pct"), ("debiased", "aligned"), "(at 1 %: {}, ERM"),
        ("main-cifar10c", ("ERM", "1pct"), ("debiased", "aligned"), "ERM {}); its"),
        ("pruning", ("cifar10", "unspur"), ("debiased", "average"), "does some, {}."),
        ("pruning", ("cifar10c/5pct", "grasp"), SCORE, "GraSP {}, the full"),
        ("pruning", ("cifar10c/5pct", "dcwp"), SCORE, "DCWP {}. DCWP cuts"),
        ("sparsity", ("cmnist/1pct", "DCWP", "1e-6"), SCORE, "DCWP has {}, masks"),
        ("sparsity", ("cmnist/1pct", "magnitude", "1e-6"), SCORE, "likewise, {}, random"),
        ("sparsity", ("cmnist/1pct", "random", "1e-6"), SCORE, "random ones {}."),
        ("sparsity", (C, "DCWP", "1e-6"), ("pruned", "unbiased"), "pruned network has {}, 13.5"),
        ("sparsity", (C, "DCWP", "1e-6"), SCORE, "fine-tuning it has {}, no more"),
        ("sparsity", (C, "magnitude", "1e-6"), SCORE, "magnitude ({})"),
        ("sparsity", (C, "random", "1e-6"), SCORE, "random ({})"),
        ("sparsity", (C, "unspur", "1e-6"), SCORE, "has {} with 98 % cut"),
        ("sparsity", (C, "unspur", "1e-10"), SCORE, "and {} with 10 %"),
        ("pruning", ("cifar10", "dcwp"), ("debiased", "average"), "CIFAR-10 DCWP has {},"),
        ("pruning", ("cifar10", "erm"), ("debiased", "average"), "full network {}: no harm"),
        ("readings", ("cifar10c", "noise on the probability (code)"), SCORE, "counts: {} against"),
        ("readings", ("cifar10c", "default"), SCORE, "against {}. Our preset has it"),
        ("slim", ("cmnist/1pct", "slim", "0.3"), SCORE, "(CMNIST {},"),
        ("slim", ("cifar10c/5pct", "slim", "0.3"), SCORE, "CIFAR10-C 5 % {} with n = 2"),
        (
            "slim",
            ("cmnist/1pct", "slim-magnitude", "0.3"),
            SCORE,
            "magnitude keep up on CMNIST ({})",
        ),
        ("slim", ("cifar10c/5pct", "slim-magnitude", "0.3"), SCORE, "behind on CIFAR10-C ({})."),
        ("celeba", ("erm",), ("debiased", "conflicting"), "ERM {}, DCWP"),
        ("celeba", ("dcwp",), ("debiased", "conflicting"), "DCWP {}, without"),
        ("celeba", ("dcwp-unpruned",), ("debiased", "conflicting"), "without pruning {}, our"),
        ("celeba", ("unspur",), ("debiased", "conflicting"), "our preset {}; unbiased"),
    ],
)
def test_the_report_quotes_the_results(ledger, item, key, path, words):
    page = " ".join((ROOT / "docs/results/README.md").read_text().split())
    assert words.format(found(ledger, item)[key].text(*path)) in page


def test_the_report_has_the_miners(ledger):
    page = " ".join((ROOT / "docs/results/README.md").read_text().split())
    results = found(ledger, "mining")
    hows = ("early-stopped", "gce", "epoch-ensemble", "oracle")
    first, second, third, last = (f"{100 * results[C, how].mean(*SCORE):.1f}" for how in hows)
    assert f"give {first}, {second}, {third} and {last};" in page


def test_the_report_has_what_each_difference_of_the_readings_does(ledger):
    page = (ROOT / "docs/results/README.md").read_text().replace("−", "-")
    results = found(ledger, "readings")
    whole = ("default", "released code", "paper's text")
    alone = [name for data, name in results if data == "cmnist" and name not in whole]
    default = results["cmnist", "default"]
    gains = {name: gain(results["cmnist", name], default, *SCORE) for name in alone}
    means = {name: 100 * sum(each) / len(each) for name, each in gains.items()}
    noise = means.pop("noise on the probability (code)")
    assert len(means) == 3
    assert (
        f"+{noise:.1f} points alone, the others {min(means.values()):.1f} to "
        f"+{max(means.values()):.1f}" in page
    )


@pytest.mark.parametrize(
    ("item", "key", "metric", "words"),
    [
        ("faces", ("erm", ""), "conflicting", "ERM {}, DCWP"),
        ("faces", ("dcwp", ""), "conflicting", "DCWP {}, our"),
        ("faces", ("unspur", ""), "conflicting", "our preset {}. The"),
        ("faces", ("erm", "lite0"), "conflicting", "ERM has {}, DCWP"),
        ("faces", ("dcwp", "lite0"), "conflicting", "DCWP {}, our preset 45"),
        ("faces", ("unspur", "lite0"), "conflicting", "our preset {}, and unbiased"),
        ("celeba", ("erm",), "worst_group", "test images: {} for ERM"),
        ("celeba", ("dcwp",), "worst_group", "and {} for DCWP"),
    ],
)
def test_the_report_quotes_intervals(ledger, item, key, metric, words):
    page = " ".join((ROOT / "docs/results/README.md").read_text().split())
    spread = within(found(ledger, item)[key], metric)
    assert words.format(re.sub(r" ± [\d.]+", "", spread)) in page


def test_masks_are_compared_at_equal_density(ledger):
    results = found(ledger, "sparsity")
    for (data, how, pressure), result in results.items():
        if how in ("magnitude", "random"):
            kept, learned = (
                r.mean("density", "overall") for r in (result, results[data, "DCWP", pressure])
            )
            assert kept == pytest.approx(learned, abs=1e-3), (data, how, pressure)


def demo(name):
    found = json.loads((ROOT / f"docs/results/demo/{name}.json").read_text())["results"][0]
    return found["summary"]


def test_the_demos_are_those_of_the_results():
    old, new = demo("batch-norm-0"), demo("batch-norm-50")
    page = " ".join((ROOT / "docs/decisions/batch-norm.md").read_text().split())
    before, after, end = (
        bench.percent(each) for each in (old["pruned"], new["pruned"], new["debiased"])
    )
    assert f"{before} % with the old statistics, {after} % with new ones." in page
    assert bench.percent(old["debiased"]) == end
    assert f"After fine-tuning {end} % with either" in page
    sweep = [demo("sparsity-1e-8"), demo("sparsity-5e-7"), new, demo("sparsity-1e-5")]
    kept = [round(100 * each["density"]["mean"]) for each in sweep]
    right = [round(100 * each["debiased"]["mean"]) for each in sweep]
    page = (ROOT / "docs/recipes.md").read_text()
    words = (
        "1e-8 keeps {} % of the weights, 5e-7 {} %, 2e-6 {} %, 1e-5 {} % (at {}, {}, {} and {} %"
    )
    assert words.format(*kept, *right) in page
    row = next(
        r for r in (ROOT / "README.md").read_text().splitlines() if r.startswith("| debiased")
    )
    assert bench.percent(new["debiased"]) in row


def test_the_rate_of_masks_on_small_sets_is_that_of_the_results():
    slow, fast = demo("own-rate-0.01"), demo("own-rate-0.1")
    page = " ".join((ROOT / "docs/decisions/preset.md").read_text().split())
    assert f"(ordinary model {bench.percent(fast['ordinary'])})" in page
    assert f"at 0.01 all weights are kept and it ends at {bench.percent(slow['debiased'])}" in page
    kept = round(100 * fast["density"]["mean"])
    assert f"0.1 {kept} % are kept and it ends at {bench.percent(fast['debiased'])}" in page
    assert slow["density"]["mean"] > 0.995


@pytest.mark.parametrize("keep", ["0.5", "0.4", "0.3", "0.2", "0.1"])
def test_channels_are_those_of_the_results(ledger, keep):
    results = found(ledger, "slim")
    cells = [
        results[data, kind, keep].text(*SCORE)
        for data in ("cmnist/1pct", "cifar10c/5pct")
        for kind in ("slim", "slim-magnitude")
    ]
    page = (ROOT / "docs/deploy.md").read_text()
    assert f"| {round(100 * float(keep))} % | {' | '.join(cells)} |" in page


@pytest.mark.parametrize(
    ("title", "file"),
    [
        ("CMNIST, 40 %", "cmnist-slim-40-blocks-of-4"),
        ("CMNIST, 30 %", "cmnist-slim-30-blocks-of-4"),
        ("CMNIST, 10 %", "cmnist-slim-10-blocks-of-4"),
        ("CIFAR10-C, 40 %", "cifar10c-slim-40-blocks-of-4"),
        ("the same, any number of channels", "cifar10c-slim-40-blocks-of-1"),
        ("CIFAR10-C, 30 %", "cifar10c-slim-30-blocks-of-4"),
        ("CIFAR10-C, 20 %", "cifar10c-slim-20-blocks-of-4"),
    ],
)
def test_latencies_are_those_of_the_exports(title, file):
    about = json.loads((ROOT / f"docs/results/export/{file}.json").read_text())
    whole, made = about["costs"]["whole"], about["costs"]["exported"]
    onnx = about["onnx_milliseconds"]
    pairs = [(whole["milliseconds"], made["milliseconds"]), (onnx["whole"], onnx["exported"])]
    ratios = [f"{b[size] / a[size]:.2f}" for a, b in pairs for size in ("1", "32")]
    page = (ROOT / "docs/deploy.md").read_text()
    line = next(line for line in page.splitlines() if line.startswith(f"| {title} |"))
    assert line.endswith(f"| {' | '.join(ratios)} |")
    assert f"→ {made['multiply_adds'] / 1e6:.1f} M" in line


@pytest.mark.parametrize(
    ("page", "item", "key", "path", "words"),
    [
        ("data", "harmless", ("cifar10",), ("debiased", "average"), "model ({});"),
        ("data", "harmless", ("mnist",), ("debiased", "average"), "ended at {} against"),
        ("data", "harmless", ("mnist",), ("ordinary", "average"), "against {}, a loss"),
        ("decisions/preset", "main-cifar10c", ("ERM", "1pct"), SCORE, "ERM {}, default"),
        ("decisions/preset", "main-cifar10c", ("DCWP", "1pct"), SCORE, "default reading {},"),
        ("decisions/preset", "main-cifar10c", ("unspur", "1pct"), SCORE, "preset {}."),
        ("decisions/reading", "readings", ("cmnist", "default"), SCORE, "default {},"),
        ("decisions/reading", "readings", ("cmnist", "released code"), SCORE, "code {},"),
        ("decisions/reading", "readings", ("cifar10c", "released code"), SCORE, ", {} and"),
        ("decisions/reading", "readings", ("cifar10c", "paper's text"), SCORE, "and {}; with"),
    ],
)
def test_pages_quote_the_results(ledger, page, item, key, path, words):
    text = " ".join((ROOT / f"docs/{page}.md").read_text().split())
    assert words.format(found(ledger, item)[key].text(*path)) in text


@pytest.mark.parametrize(
    ("title", "item", "keys", "metric"),
    [
        (
            "CIFAR10-C](docs/results/main-cifar10c.md) 1 %",
            "main-cifar10c",
            [("ERM", "1pct"), ("DCWP", "1pct"), ("unspur", "1pct")],
            "unbiased",
        ),
        (
            "CIFAR10-C](docs/results/slim.md) 5 %",
            "slim",
            [("cifar10c/5pct", *k) for k in (("erm", ""), ("dcwp", ""), ("unspur", ""))]
            + [("cifar10c/5pct", "slim", "0.3")],
            "unbiased",
        ),
        (
            "faces](docs/results/faces.md)",
            "faces",
            [("erm", ""), ("dcwp", ""), ("unspur", "")],
            "conflicting",
        ),
    ],
)
def test_the_readme_quotes_the_results(ledger, title, item, keys, metric):
    lines = (ROOT / "README.md").read_text().splitlines()
    line = next(line for line in lines if line.startswith(f"| [{title}"))
    told_ = [found(ledger, item)[key].text("debiased", metric) for key in keys]
    assert [cell.strip(" *") for cell in line.split("|")[2 : 2 + len(keys)]] == told_
