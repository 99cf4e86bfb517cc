"""The report of a run: a self-contained page for every method, with names escaped."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

import toys
from pages import NASTY, Page, check_whole, named, page_of, plain, refuse, unlabelled
from toys import shapes_set, without_valid
from tracked import read_scalars
from unspur import cli, stages, workflow
from unspur.cli.report_command import report
from unspur.errors import StoreError, UnspurError
from unspur.report import headline, page, words
from unspur.runs.finished import open_run
from unspur.runs.intervals import Intervals
from unspur.stages.inspection import inspect

for package in ("jinja2", "sklearn"):
    pytest.importorskip(package, reason="the report is made with the extra 'report'")

COMMAND = "unspur run '<b>bars</b>' --seed 0"
SECTIONS = ["scores", "groups", "suspects", "looks", "maps", "training", "weights", "made"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    splits = replace(named(shapes_set(seed=1)), bias_classes=("red", "<blue>"))
    return page_of(tmp_path_factory.mktemp("run"), splits=splits, command=COMMAND)


@pytest.fixture(scope="module")
def html(path):
    return path.read_text("utf-8")


@pytest.fixture(scope="module")
def read(html):
    return Page(html)


@pytest.fixture
def folder(path, tmp_path):
    """A copy of the run and its store that a test may damage."""
    shutil.copytree(path.parent.parent, tmp_path / "copy")
    return tmp_path / "copy" / "out"


# The page


def test_the_page_has_all_sections_and_one_headline(read):
    assert read.sections() == SECTIONS
    assert read.text.count("points where the shortcut fails") == 2  # title and headline
    assert read.text.count("A shortcut is likely") == 1


def test_the_page_is_self_contained(html):
    check_whole(html)


def test_names_are_escaped(read, html):
    assert any((attrs.get("data-name") or "").endswith(NASTY) for attrs in read.all("li"))
    assert "<b>bars" not in html
    assert COMMAND in read.text
    assert "<blue>" in read.text


def test_the_page_shows_all_scores(read, path):
    run = open_run(path.parent)
    for name in ("ordinary", "pruned", "debiased"):
        for metric in words.GROUPED:
            assert plain(words.percent(run.scores[name][metric])) in read.text
    assert "95 % interval" in read.text
    assert run.recipe.split("\n")[0] in read.text
    for stage in run.record["stages"].values():
        assert stage["artifact"] in read.text


def test_the_page_is_made_from_stored_results_alone(path, html, monkeypatch):
    monkeypatch.setattr(torch.nn.Module, "__call__", lambda *_: pytest.fail("a network ran"))
    assert page.render(open_run(path.parent)) == html


def test_a_second_run_inspects_nothing_again(path):
    context = toys.context(path.parents[1] / "store", splits=named(shapes_set(seed=1)))
    context = replace(context, splits=replace(context.splits, bias_classes=("red", "<blue>")))
    context = replace(context, store=toys.Counting(context.store.root))
    made, _ = stages.run(context)
    inspect(context, made)
    assert context.store.made == []
    renamed = replace(context, splits=shapes_set(seed=1))
    inspect(renamed, made)
    assert context.store.made == ["inspect"]  # its result depends on the names


# Other runs


@pytest.mark.parametrize(
    ("changes", "sections"),
    [
        (["plan=erm"], ["scores", "groups", "maps", "training", "made"]),
        (
            ["plan=lff", "lff.steps=20", "lff.batch=32"],
            ["scores", "groups", "maps", "training", "made"],
        ),
        (["plan=disent", "disent.steps=10", "disent.batch=32"], None),
        (["plan=jtt"], [s for s in SECTIONS if s != "weights"]),
        (
            ["plan=grasp", "prune.how=grasp"],
            [s for s in SECTIONS if s not in ("suspects", "looks")],
        ),
        (["plan=dfr-mined", "refit.subsets=2"], [s for s in SECTIONS if s != "weights"]),
        (["mine.how=oracle"], SECTIONS),
        (["mine.steps=1", "mine.rate=1e-9"], [s for s in SECTIONS if s != "weights"]),
    ],
    ids=lambda value: " ".join(value) if value and "=" in value[0] else "",
)
def test_other_plans_get_the_sections_that_apply(tmp_path, changes, sections):
    read = Page(page_of(tmp_path, changes).read_text("utf-8"))
    if sections:
        assert read.sections() == sections


def test_suspects_that_were_not_used_are_not_treated_as_conflicting(tmp_path, read):
    assert "they are treated as conflicting" in read.text
    unused = Page(page_of(tmp_path, ["mine.steps=1", "mine.rate=1e-9"]).read_text("utf-8"))
    assert "training images are suspects" in unused.text
    assert "they are treated as conflicting" not in unused.text


def test_without_bias_labels(tmp_path):
    read = Page(page_of(tmp_path, splits=unlabelled(shapes_set(seed=1))).read_text("utf-8"))
    assert read.sections() == [s for s in SECTIONS if s != "groups"]
    assert "There are no bias labels" in read.text
    assert "By label" in read.text
    assert "By bias" not in read.text
    assert "truly conflicting" not in read.text


@pytest.mark.parametrize("rule", ["heldout", "last"])
def test_without_test_and_validation_data(tmp_path, rule):
    splits = without_valid(replace(shapes_set(seed=1), test=None))
    splits = replace(splits, bias={"train": splits.bias["train"]})
    changes = [f"select.rule={rule}"]
    read = Page(page_of(tmp_path, changes, splits=splits).read_text("utf-8"))
    assert read.sections() == SECTIONS
    where = "held-out training images" if rule == "heldout" else "the training split"
    assert where in read.text


def test_grey_and_float_images_and_few_samples(tmp_path):
    splits = shapes_set(seed=1)
    few = {
        name: replace(part, images=part.images.float() / 100 - 1)
        for name, part in splits.parts().items()
    }
    few["test"] = replace(
        few["test"], images=few["test"].images[:8], targets=few["test"].targets[:8]
    )
    bias = {**splits.bias, "test": splits.bias["test"][:8]}
    read = Page(page_of(tmp_path, splits=replace(splits, **few, bias=bias)).read_text("utf-8"))
    assert "maps" not in read.sections()  # eight samples are too few
    assert "suspects" in read.sections()


# Missing and damaged files


def test_without_the_store_the_page_has_fewer_sections(folder):
    shutil.rmtree(folder.parent / "store")
    with pytest.warns(UserWarning, match="so the page leaves out mine, pretrain, "):
        read = Page(page.write(folder).read_text("utf-8"))
    assert read.sections() == ["scores", "groups", "weights", "made"]
    assert "No longer stored" in read.text


def test_a_store_that_was_moved_can_be_named(folder, html):
    (folder.parent / "store").rename(folder.parent / "elsewhere")
    path = page.write(folder, folder.parent / "elsewhere", out=folder / "other.html")
    assert path.read_text("utf-8") == html


def test_a_folder_without_a_run_is_an_error(tmp_path):
    with pytest.raises(StoreError, match=r"neither run\.json nor audit\.json"):
        page.write(tmp_path)
    with pytest.raises(StoreError, match="is not the folder of a run or of an audit: it does not"):
        page.write(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "text"),
    [("run.json", "{}"), ("run.json", "[1"), ("recipe.toml", None), ("scores.json", None)],
)
def test_a_damaged_run_gives_a_message(folder, name, text):
    (folder / name).unlink()
    if text is not None:
        (folder / name).write_text(text)
    with pytest.raises(StoreError, match=name):
        page.write(folder)


def test_without_jinja2_the_run_is_saved_without_a_page(tmp_path, monkeypatch):
    refuse(monkeypatch, "jinja2")
    context = toys.context(tmp_path / "store", ["plan=erm"])
    made, scores = stages.run(context)
    with pytest.warns(UserWarning, match=r"no report.html.*pip install 'unspur\[report\]'"):
        assert (
            workflow.save_outcome(
                workflow.Outcome(context, made, scores, None), tmp_path / "out"
            ).page
            is None
        )
    assert (tmp_path / "out" / "model.safetensors").exists()
    with pytest.raises(UnspurError, match="jinja2"):
        CliRunner().invoke(cli.app, ["report", str(tmp_path / "out")], catch_exceptions=False)


def test_without_scikit_learn_there_are_no_maps_by_tsne(folder, monkeypatch):
    refuse(monkeypatch, "sklearn")
    read = Page(page.write(folder).read_text("utf-8"))
    assert "the two principal components of the features" in read.text
    read = Page(page.write(folder, tsne=True).read_text("utf-8"))
    assert read.sections() == SECTIONS
    assert "No maps: this needs sklearn" in read.text


def test_a_network_without_gradients_has_a_page_without_pictures(tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError("element 0 of tensors does not require grad\nmore")

    monkeypatch.setattr("unspur.stages.inspection.saliency", fail)
    context = toys.context(tmp_path / "store")
    made, scores = stages.run(context)
    with pytest.warns(UserWarning, match="no pictures of this network: element 0"):
        path = workflow.save_outcome(
            workflow.Outcome(context, made, scores, None), tmp_path / "out"
        ).page
    read = Page(path.read_text("utf-8"))
    assert read.sections() == ["scores", "groups", "training", "weights", "made"]


# The command


def test_the_command(folder):
    (folder / "report.html").unlink()
    done = CliRunner().invoke(cli.app, ["report", str(folder)])
    assert done.exit_code == 0, done.output
    assert "report.html" in done.output
    assert (folder / "report.html").exists()


def test_the_course_of_training_for_tensorboard(folder, tmp_path):
    pytest.importorskip("tensorboard")
    done = CliRunner().invoke(cli.app, ["report", str(folder), "--tensorboard", str(tmp_path)])
    assert done.exit_code == 0, done.output
    stages = {"mine", "pretrain", "prune", "finetune"}
    assert stages <= {each.name for each in tmp_path.iterdir()}
    first = open_run(folder).stages["pretrain"].log[0]
    scalars = read_scalars(tmp_path / "pretrain")
    assert scalars["loss"][0] == (first["step"], pytest.approx(first["loss"]))
    assert not {"step", "seconds"} & set(scalars)


def test_without_tensorboard_it_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(UnspurError, match=r"pip install 'unspur\[track\]'"):
        report(folder, tensorboard=folder)


# Sentences


def scores(**changes):
    accuracy = {"unbiased": 0.5, "aligned": 1.0, "conflicting": 0.4, "average": 0.5}
    debiased = {**accuracy, "conflicting": 0.8, "aligned": 0.9}
    found = {"ordinary": accuracy, "pruned": None, "debiased": debiased, "evaluated_on": "test"}
    return {
        **found,
        "mining": {"verdict": "usable", "text": "A shortcut is likely: 3 of 9."},
        **changes,
    }


def test_the_verdict_is_that_of_the_judge_if_there_was_one():
    assert words.verdict(scores(), "dcwp") == words.PageVerdict(
        "found", "A shortcut is likely", "3 of 9."
    )
    audit = {"verdict": "nothing", "text": "No sign of a shortcut: p = 0.7."}
    assert words.verdict(scores(judge=audit), "dcwp").kind == "clear"
    audit = {"verdict": "noise", "text": "The labels look noisy: many."}
    noisy = words.PageVerdict("unsure", "The labels look noisy", "Many.")
    assert words.verdict(scores(judge=audit), "dcwp") == noisy
    mined = {"verdict": "noise", "text": f"3 of 9 {'contradict ' * 5}: they may be wrong labels."}
    assert words.verdict(scores(mining=mined), "dcwp").headline == "A shortcut, or wrong labels"
    assert words.verdict(scores(mining=None), "lff").headline == "LfF: scores of a run"


@pytest.mark.parametrize(
    ("gain", "ending"),
    [((0.3, 0.5), "90.0 %."), ((-0.1, 0.5), "not significant."), ((-0.5, -0.1), "made it worse.")],
)
def test_the_change_has_its_interval(gain, ending):
    text = plain(words.change(scores(), Intervals({}, {"conflicting": gain})))
    assert "from 40.0 % to 80.0 % (+40.0 points, 95 % interval" in text
    assert text.endswith(ending)


def test_a_difference_of_about_nothing_has_no_negative_zero():
    assert words.between((-0.0004, 0.04), signed=True) == "+0.0 to +4.0"
    assert headline.Change(0.5, 0.4998).points == "+0.0 points"


def test_a_lower_accuracy_over_all_images_is_reported():
    unknown = {"unbiased": None, "aligned": None, "conflicting": None}
    before, after = {**unknown, "average": 0.9}, {**unknown, "average": 0.1}
    parts = {"suspects": 0.0, "others": 1.0}
    unseen = {"ordinary": parts, "debiased": {"suspects": 1.0, "others": 0.0}}
    changed = scores(ordinary=before, debiased=after, unseen=unseen)
    text = plain(words.change(changed, Intervals({}, {"average": (-0.9, -0.7)})))
    assert "suspects, accuracy goes from 0.0 % to 100.0 %" in text
    assert text.endswith("worse: 10.0 % instead of 90.0 %.")


def test_without_two_models_there_is_no_change():
    assert words.change(scores(ordinary=None), None) == ""


def test_a_store_that_is_not_there_is_an_error(folder):
    before = (folder / "report.html").read_bytes() if (folder / "report.html").exists() else b""
    with pytest.raises(UnspurError, match="is not a folder"):
        report(folder, store=folder / "nowhere")
    after = (folder / "report.html").read_bytes() if (folder / "report.html").exists() else b""
    assert before == after


def test_the_notes_of_a_recipe_are_on_its_page():
    demo = {"data": {"name": "demo"}}
    assert any("settings were chosen on its own test split" in n for n in page._notes("demo", demo))
    assert page._notes("demo", {"data": {"name": "given"}}) == ()  # a user's folder of that name
    assert page._notes("a file.toml", demo) == ()


def test_notes_are_shown(folder, monkeypatch):
    monkeypatch.setattr(page, "_notes", lambda *_: ("Chosen on <its> test split.",))
    read = Page(page.render(open_run(folder)))
    assert "Chosen on <its> test split." in read.text.partition("Before and after")[0]


def test_size_and_speed_are_recorded_and_shown(tmp_path):
    run = stages.Run(toys.context(tmp_path / "store"))
    outcome = workflow.carry_out(run, tmp_path / "out")
    measured = open_run(tmp_path / "out").record["size_and_speed"]
    assert measured == outcome.size_and_speed.as_json()
    read = Page(outcome.page.read_text("utf-8"))
    assert "size of the weights" in read.text
    assert "prune.unit=channel" in read.text or "--slim" in read.text


def test_a_model_with_the_same_scores_as_the_ordinary_one_has_a_page(tmp_path):
    written = page_of(tmp_path, ["plan=dfr-mined", "refit.subsets=2"])
    run = open_run(written.parent)
    run.scores["debiased"] = run.scores["ordinary"]
    assert "DFR" in words.network_titles(run.scores, "dfr-mined")["debiased"]
    assert "looks" in Page(page.render(run)).sections()
