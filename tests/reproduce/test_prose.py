"""Pages of prose: placeholders become recorded numbers; a missing number is an error that names it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unspur.audit.thresholds import THRESHOLDS
from unspur.errors import UnspurError
from unspur.methods.catalogue import BUILT_IN
from unspur.reproduce import prose
from unspur.reproduce.prose_numbers import ProseNumbers
from unspur.store import read_document

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


@pytest.fixture(scope="module")
def numbers() -> ProseNumbers:
    return ProseNumbers(RESULTS)


def rendered(text: str, folder: Path, results: Path = RESULTS) -> str:
    (folder / "docs").mkdir()
    (folder / "docs" / "page.md.j2").write_text(text)
    [(page, found)] = prose.render(folder, results)
    assert page == "docs/page.md"
    return found


def test_a_page_is_its_template_with_numbers(tmp_path: Path, numbers: ProseNumbers) -> None:
    found = rendered('ERM {{ score("main-cmnist", ["ERM", "1pct"]) }}.\n', tmp_path)
    assert found == f"ERM {numbers.score('main-cmnist', ['ERM', '1pct'])}.\n"


@pytest.mark.parametrize(
    ("placeholder", "words"),
    [
        ("unknown", "'unknown' is undefined"),
        ('scores("main-cmnist")', "'scores' is undefined"),
        ('score("main-mnist", "ERM")', "'main-mnist' is not an item with runs"),
        ('score("main-cmnist", ["ERM", "3pct"])', r"main-cmnist has no cell \('ERM', '3pct'\)"),
        ('score("celeba", "erm", metric="odd")', "celeba has no odd accuracy of erm"),
        ('bench("methods/none", "debiased")', "no run of 'methods/none' on record"),
        ('bench("cmnist", "debiased", "x")', "cmnist has 0 recipes 'x'"),
        ('bench_by_ratio("methods/lff", "jtt")', r"methods/lff has no recipes cmnist/\*-jtt"),
        (
            'bench_metric("demo/preset", "debiased", "odd")',
            "demo/preset has no odd accuracy of debiased",
        ),
        ('speed("speed", "none")', "no table 'none'"),
        ('latencies("none")', "no export 'none'"),
        ('candidate("none", "1pct")', "no candidate 'none'"),
        ("score(", "unexpected"),
    ],
)
def test_a_missing_number_names_page_and_placeholder(
    tmp_path: Path, placeholder: str, words: str
) -> None:
    with pytest.raises(UnspurError, match=rf"docs/page\.md cannot be rendered: .*{words}"):
        rendered("Text {{ " + placeholder + " }}.", tmp_path)


def test_a_number_without_recorded_runs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnspurError, match=r"main-cmnist has no run of \('ERM', '1pct'\) on record"):
        rendered('{{ score("main-cmnist", ["ERM", "1pct"]) }}', tmp_path, tmp_path / "none")


def test_means_and_gains(numbers: ProseNumbers) -> None:
    key, base = ("DCWP", "1pct"), ("ERM", "1pct")
    result, erm = (numbers.result("main-cmnist", each) for each in (key, base))
    mean = result.mean("debiased", "unbiased")
    assert mean is not None
    assert numbers.mean("main-cmnist", key) == f"{100 * mean:.1f}"
    pairs = result.by_seed("debiased", "unbiased"), erm.by_seed("debiased", "unbiased")
    by_hand = sum(pairs[0][seed] - pairs[1][seed] for seed in pairs[0]) / len(pairs[0])
    assert float(numbers.mean_added("main-cmnist", key, base)) == pytest.approx(
        100 * by_hand, abs=0.05
    )
    assert numbers.by_ratio("main-cmnist", "DCWP").split(" / ")[1] == numbers.mean(
        "main-cmnist", key
    )
    assert numbers.mean_added("main-cmnist", base, key).startswith("−")
    weak, strong = (
        float(numbers.share_cut("sparsity", ["cmnist/1pct", "DCWP", pressure]))
        for pressure in ("1e-8", "1e-6")
    )
    assert weak < strong < 100


def test_two_runs_of_a_bench_have_both_values(numbers: ProseNumbers) -> None:
    (row,) = [r for r in numbers._rows("methods/lc") if r["recipe"]["name"] == "cmnist/1pct-lc"]
    values = [f"{100 * run['debiased']['unbiased']:.1f}" for run in row["runs"]]
    assert len(values) == 2
    assert numbers.bench("methods/lc", "debiased", "cmnist/1pct-lc") == ", ".join(values)
    assert numbers.bench_by_ratio("methods/lc", "lc").split(" | ")[1] == ", ".join(values)


def test_answers_come_from_the_item(numbers: ProseNumbers) -> None:
    assert "ambiguous" in numbers.answer("iterations")
    assert "before fine-tuning" in numbers.answer("iterations")
    with pytest.raises(StopIteration):
        numbers.answer("no such question")


def test_any_accuracy_of_a_bench(numbers: ProseNumbers) -> None:
    unbiased = numbers.bench_metric("demo/preset", "debiased", "unbiased")
    assert unbiased == numbers.bench("demo/preset", "debiased")
    assert numbers.bench_metric("demo/preset", "debiased", "worst_group") != unbiased


def test_cases_of_the_audit_are_counted_by_role_and_images(numbers: ProseNumbers) -> None:
    everything = numbers.audit_count("null", role="development")
    parts = [numbers.audit_count("null", role="development", images=i) for i in ("digits", "cifar")]
    assert int(everything.split()[-1]) == sum(int(part.split()[-1]) for part in parts)
    assert "0" not in [part.split()[-1] for part in parts]


def test_ranges_over_audits_are_those_of_the_cases(numbers: ProseNumbers) -> None:
    cases = read_document(RESULTS / "audit-dev.json.gz")["cases"]
    errors = [case["evidence"]["error"] for case in cases if case["truth"] == "shortcut"]
    found = numbers.audit_range("error", "shortcut")
    assert (found.least.value, found.most.value) == (min(errors), max(errors))
    digits = numbers.audit_range("insistence", "null", "digits")
    assert digits.most.value < numbers.audit_range("insistence", "null").most.value
    both = numbers.audit_range("sum", "noise", role="")
    assert both.most.value > numbers.audit_range("separation", "noise", role="").most.value
    gain = numbers.audit_range("gain", "null").most
    assert gain.name in gain.with_case
    assert gain.network in gain.with_case
    for wrong in (("error", "nothing"), ("colour", "null")):
        with pytest.raises(UnspurError, match=wrong[0]):
            numbers.audit_range(*wrong)


def test_a_value_of_a_record_is_found_by_its_path(numbers: ProseNumbers) -> None:
    rows = read_document(RESULTS / "speed.json.gz")["tables"]["masks"]
    wanted = next(row for row in rows if (row["network"], row["pixels"]) == ("resnet18", 224))
    path = "tables/masks/network=resnet18;pixels=224/dense_us"
    assert numbers.value("speed", path) == wanted["dense_us"]
    assert numbers.value("speed", "tables/masks/0/network") == rows[0]["network"]
    for wrong in ("tables/none", "tables/masks/99", "tables/masks/pixels=1"):
        with pytest.raises(UnspurError, match=wrong.rpartition("/")[2]):
            numbers.value("speed", wrong)


def test_thresholds_are_those_of_the_code(numbers: ProseNumbers) -> None:
    assert float(numbers.threshold("gain")) == THRESHOLDS.gain
    assert float(numbers.threshold_percent("error")) == pytest.approx(100 * THRESHOLDS.error)


def test_candidates_of_the_first_preset(numbers: ProseNumbers) -> None:
    runs = numbers.candidate_runs("A", "0.5pct")
    assert len(runs) == 4
    assert numbers.candidate("A", "0.5pct") == f"{sum(runs) / 4:.1f} (4)"
    assert float(numbers.candidate_loss("c1")) < float(numbers.candidate_loss("c3"))


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "a.md.j2").write_text("one\n")
    where = tmp_path / "templates", RESULTS, tmp_path
    assert prose.write(*where) == ["a.md"]
    assert prose.write(*where) == []
    assert (tmp_path / "a.md").read_text() == "one\n"


def test_tables_of_the_code_have_every_method_and_folder(numbers: ProseNumbers) -> None:
    rows = numbers.methods().splitlines()[2:]
    assert [row.split(" | ")[1].strip("`") for row in rows] == [each.name for each in BUILT_IN]
    folders = re.findall(r"^\| \[(\w+)/\]", numbers.folders(), re.MULTILINE)
    source = ROOT / "src" / "unspur"
    assert folders == sorted(path.parent.name for path in source.glob("*/__init__.py"))


def test_is_recorded_says_whether_a_cell_has_runs(numbers: ProseNumbers, tmp_path: Path) -> None:
    assert numbers.is_recorded("celeba", "erm")
    assert not ProseNumbers(tmp_path).is_recorded("celeba", "erm")
    with pytest.raises(UnspurError, match="no cell"):
        numbers.is_recorded("celeba", "odd")
