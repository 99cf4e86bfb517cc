"""The report of an audit: its sections and sentences, and folders that are damaged or incomplete."""

from __future__ import annotations

import itertools
import json
import shutil
from dataclasses import asdict, replace

import pytest
import torch
from typer.testing import CliRunner

import unspur
from audits import SMALL, context, named, network, page_of, tinted
from pages import NASTY, Page, check_whole, plain, refuse, unlabelled
from sealing import reseal
from unspur import cli, models
from unspur.audit import auditor, preparation, verdict
from unspur.audit.evidence import Evidence, NetworkEvidence
from unspur.audit.statistics import Statistic
from unspur.audit.thresholds import THRESHOLDS
from unspur.audit.view_pictures import pictures_through
from unspur.errors import StoreError, UnspurError
from unspur.report import audit_page, page
from unspur.report.audit_figures import figures
from unspur.report.audit_words import certainty, conflicting_or_wrong_labels, next_step, odds
from unspur.runs import audit_folder
from unspur.store import Store

pytest.importorskip("jinja2", reason="the report is made with the extra 'report'")

COMMAND = "unspur audit '<b>bars</b>' --out out"
SOURCE = "a <b>folder</b>"
SECTIONS = ["decision", "numbers", "hides", "suspects", "classes", "truth", "sure", "made"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    return page_of(folder, named(tinted("shortcut")), command=COMMAND, source=SOURCE)


@pytest.fixture(scope="module")
def small(path):
    """The context of the audit that the page is about."""
    return context(Store(path.parents[1] / "store"), named(tinted("shortcut")))


@pytest.fixture(scope="module")
def found(small):
    return auditor.audit(small)


@pytest.fixture(scope="module")
def html(path):
    return path.read_text("utf-8")


@pytest.fixture(scope="module")
def read(html):
    return Page(html)


@pytest.fixture
def folder(path, tmp_path):
    """A copy of the audit's folder that a test may damage."""
    shutil.copytree(path.parent, tmp_path / "out")
    return tmp_path / "out"


# -- the page -----------------------------------------------------------------------------------------


def test_the_page_has_all_sections_and_the_verdict(read, found):
    assert found.finding.code == "shortcut"
    assert read.sections() == SECTIONS
    headline, _, text = found.finding.text.partition(": ")
    assert headline in read.text
    assert plain(text) in plain(read.text)
    for artifact in {each.artifact for each in found.trainings}:
        assert artifact in read.text


def test_the_page_is_self_contained(html):
    check_whole(html)


def test_names_are_escaped(read, html):
    assert NASTY in read.text  # a class
    assert any((attrs.get("data-name") or "").endswith(NASTY) for attrs in read.all("li"))
    assert any(attrs.get("data-label") == NASTY for attrs in read.all("section"))
    assert "<b>bars" not in html
    assert "<b>folder" not in html
    assert COMMAND in read.text
    assert f"unspur debias '{SOURCE}' --suspects" in read.text


def test_the_page_is_made_from_its_folder_alone(folder, path, html, monkeypatch):
    monkeypatch.setattr(torch.nn.Module, "__call__", lambda *_: pytest.fail("a network ran"))
    (folder / "suspects.csv").unlink()
    moved = page.write(folder).read_text("utf-8")
    assert moved == html.replace(str(path.parent), str(folder))  # the page names its folder


def test_precision_and_recall_of_the_flags_are_shown(read, found):
    truth = tinted("shortcut").conflicting("train").tolist()
    flags = found.suspects.conflict.tolist()
    both = sum(f and t for f, t in zip(flags, truth, strict=True))
    section = read.text.partition("According to them")[2].partition("(recall)")[0]
    assert f"{100 * both / sum(flags):.1f} %" in section
    assert f"{100 * both / sum(truth):.1f} %" in section


def test_without_bias_labels_nothing_is_compared(tmp_path):
    path = page_of(tmp_path, unlabelled(tinted("shortcut")))
    read = Page(path.read_text("utf-8"))
    assert read.sections() == [s for s in SECTIONS if s != "truth"]
    assert "truly conflicting" not in read.text
    assert "unspur.debias(data, model=model, suspects=" in read.text  # the audit was made in Python


def test_a_verdict_by_the_miner_alone_has_fewer_sections(tmp_path):
    path = page_of(tmp_path, tinted("shortcut", odd=0))
    read = Page(path.read_text("utf-8"))
    assert read.sections() == [s for s in SECTIONS if s not in ("numbers", "hides")]
    assert "Cannot tell" in read.text
    assert "not asked" in read.text


def test_grey_and_float_images(tmp_path):
    splits = tinted("noise")
    images = splits.train.images[:, :1].float() / 50 - 1
    splits = replace(splits, train=replace(splits.train, images=images))
    model = network()
    model.conv = torch.nn.Conv2d(1, 6, 3, stride=2, padding=1, bias=False)
    small = replace(context(Store(tmp_path / "store"), splits), builder=models.copy_builder(model))
    audit_folder.save(auditor.audit(small), small, tmp_path / "out")
    check_whole(page.write(tmp_path / "out").read_text("utf-8"))


def test_every_suspect_is_marked_by_the_networks_that_classify_it_correctly(path, found):
    facts = audit_folder.read(path.parent).facts
    targets = tinted("shortcut").train.targets
    place = {name: i for i, name in enumerate(named(tinted("shortcut")).train.names)}
    for sample in facts["gallery"]:
        i = place[sample["name"]]
        marks = audit_page._marks(sample)
        assert ("insisted" in marks) == bool(found.insisted[i])
        for name in ("taught", "grey", "centre", "detail"):
            right = int(found.predictions[name].predicted[i]) == int(targets[i])
            assert (name in marks) == right


# -- the saved folder ---------------------------------------------------------------------------------


def test_the_number_of_confident_errors_is_that_of_the_evidence(found):
    assert int(found.insisted.sum()) == found.evidence.full > 0
    assert not bool((found.insisted & ~found.suspects.conflict).any())


def test_classes_are_counted(path, found):
    about = audit_folder.read(path.parent).about
    targets, predicted = (
        tinted("shortcut").train.targets.tolist(),
        found.suspects.predicted.tolist(),
    )
    wrong = [(t, p) for t, p in zip(targets, predicted, strict=True) if t != p]
    assert sum(each["samples"] for each in about["classes"]) == len(targets)
    for label, each in enumerate(about["classes"]):
        assert each["suspects"] == each["taken"] == sum(t == label for t, _ in wrong)
        assert each["taken_for"] == about["classes"][1 - label]["name"]
    assert sum(each["flagged"] for each in about["classes"]) == about["flagged"]


def test_evidence_and_thresholds_are_read_back(path, found):
    audited = audit_folder.read(path.parent)
    assert audited.evidence == found.evidence
    assert audited.thresholds == THRESHOLDS


def test_all_views_that_reveal_the_shortcut_are_shown(path, found):
    """The shortcut is a tint: it is in the colours and in large areas; the verdict uses the latter."""
    assert "Look at light, shade and the colour of large areas first." in found.finding.text
    views = verdict.revealing_views(found.evidence)
    assert list(audit_folder.read(path.parent).facts["views"]) == views
    assert sorted(views) == ["detail", "grey"]


@pytest.mark.parametrize(
    ("numbers", "views"),
    [
        ({"grey": (0.4, 1e-9, 0.5)}, ["grey"]),
        ({"grey": (0.4, 1e-6, 0.5), "centre": (0.3, 1e-9, 0.5)}, ["centre", "grey"]),
        ({"grey": (0.4, 0.01, 0.5)}, []),  # not significant
        ({"grey": (0.07, 1e-9, 0.5)}, []),  # not large
        ({"centre": (0.0, 1.0, 0.9)}, ["centre"]),  # by separation
        ({"detail": (0.0, 1.0, 0.5, 0.7)}, ["detail"]),  # by reliance
        (
            {"grey": (0.4, 1e-6, 0.5), "centre": (0.0, 1.0, 0.9)},
            ["grey", "centre"],
        ),  # views by gain come first
    ],
)
def test_a_view_must_pass_the_thresholds_of_the_verdict(numbers, views):
    every = dict.fromkeys(("taught", "grey", "centre", "detail"), (0.0, 1.0, 0.5)) | numbers
    networks = {
        name: network_evidence(gain, p, apart, rests=rests[0] if rests else None)
        for name, (gain, p, apart, *rests) in every.items()
    }
    assert verdict.revealing_views(shortcut_evidence(networks=networks)) == views
    hard = shortcut_evidence(networks=networks, full=4)
    assert verdict.revealing_views(hard) == [name for name in views if every[name][0]]


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("view", ["grey", "centre"])
def test_a_picture_through_a_view_shows_the_input_of_the_network(small, found, view, scaled):
    mean, std = ([0.2, 0.4, 0.6], [0.5, 0.25, 0.2]) if scaled else ([0.0] * 3, [1.0] * 3)
    data = small.recipe.data.model_copy(
        update={"mean": tuple(mean), "std": tuple(std)} if scaled else {}
    )
    changed = replace(small, recipe=small.recipe.model_copy(update={"data": data}))
    among = torch.zeros_like(found.insisted)
    among[int(found.insisted.nonzero()[0])] = True
    shown_of = pictures_through(changed, view, found.suspects, among, lambda index: {})
    tensors = shown_of.tensors()
    assert len(shown_of.facts()[view]) == 1
    (image,) = tensors[f"views.{view}.images"]
    high, wide = image.shape[1:]
    scaled_ = (image / 255 - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    for row, column in itertools.product(range(high), range(wide)):
        inputs = scaled_[:, row, column].tolist()
        if view == "grey":
            inputs = [sum(inputs) / 3] * 3
        elif min(row, column) < 1 or row >= high - 1 or column >= wide - 1:  # 3 * 8 // 16
            inputs = [0.0] * 3
        seen = [255 * (x * s + m) for x, m, s in zip(inputs, mean, std, strict=True)]
        shown = tensors[f"views.{view}.seen"][0, :, row, column].tolist()
        assert shown == pytest.approx([min(max(x, 0), 255) for x in seen], abs=1.01)


def test_the_view_detail_is_shown_around_grey_with_full_contrast(small, found):
    among = torch.zeros_like(found.insisted)
    among[int(found.insisted.nonzero()[0])] = True
    shown_of = pictures_through(small, "detail", found.suspects, among, lambda index: {}).tensors()
    image, seen = shown_of["views.detail.images"][0] / 255, shown_of["views.detail.seen"][0]
    places = itertools.product(range(3), range(8), range(8))
    differences = torch.tensor([image[c, i, j] - coarse(image[c], i, j) for c, i, j in places])
    expected = 127.5 * (1 + differences.view(3, 8, 8) / differences.abs().max())
    torch.testing.assert_close(seen.float(), expected, atol=1.01, rtol=0)
    assert abs(float(seen.float().mean()) - 127.5) < 40  # neither nearly black nor nearly white
    assert int(seen.max()) == 255 or int(seen.min()) == 0


def coarse(channel, row, column):
    """Interpolate between the averages of the four quarters of an image of 8 x 8 pixels."""

    def weights(place):
        second = min(max((place + 0.5) / 4 - 0.5, 0), 1)
        return 1 - second, second

    return sum(
        down * across * float(channel[4 * i : 4 * i + 4, 4 * j : 4 * j + 4].mean())
        for i, down in enumerate(weights(row))
        for j, across in enumerate(weights(column))
    )


# -- the rule -----------------------------------------------------------------------------------------


def network_evidence(gain=0.0, p=1.0, apart=None, q=1e-9, *, rests=None, r=1e-9):
    return NetworkEvidence(
        gain=Statistic(gain, p),
        separation=None if apart is None else Statistic(apart, q),
        reliance=None if rests is None else Statistic(rests, r),
        before=0.1,
        right=0.5,
    )


def shortcut_evidence(**changes):
    """Return evidence of a shortcut by its gain, with some numbers changed."""
    numbers = {"taught": (0.02, 0.5, 0.6, 0.2), "grey": (0.4, 1e-9, 0.9, 1e-8)}
    networks = {name: network_evidence(*each) for name, each in numbers.items()}
    plain = {"samples": 1000, "suspects": 40, "error": 0.04, "blind": 0.9, "clear": 30, "full": 20}
    return Evidence(**{**plain, "networks": networks, **changes})


def only(gain=0.0, p=1.0, apart=None, q=1e-9, *, rests=None, r=1e-9, **changes):
    """Return evidence with one network."""
    return shortcut_evidence(
        networks={"grey": network_evidence(gain, p, apart, q, rests=rests, r=r)}, **changes
    )


CASES = {
    ("unclear", "learned"): shortcut_evidence(
        error=0.85, suspects=850, networks={}, clear=0, full=0
    ),
    ("nothing", "easy"): shortcut_evidence(error=0.5, suspects=500, networks={}, clear=0, full=0),
    ("unclear", "enough"): shortcut_evidence(error=0.005, suspects=5, networks={}, clear=0, full=0),
    ("shortcut", "gain"): shortcut_evidence(),
    ("shortcut", "reliance"): only(apart=0.5, q=0.4, rests=0.7, full=9),
    ("unclear", "few"): only(gain=0.5, p=0.01, full=3),
    ("nothing", "insistence"): only(full=3),
    ("shortcut", "separation"): only(apart=0.9, rests=0.5, r=0.4),
    ("noise", "doubt"): only(apart=0.5, q=0.4),
    ("unclear", "doubt"): only(apart=0.65, full=15),
}


def deciding(e):
    return next(step for step in verdict.steps(e) if step.conclusion)


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_every_verdict_has_a_page(path, case):
    audited, e = audit_folder.read(path.parent), CASES[case]
    judged = verdict.judge(e)
    about = {**audited.about, "verdict": judged.code, "text": judged.text}
    html = audit_page.render(replace(audited, about=about, evidence=e, facts={}, tensors={}))
    check_whole(html)
    read = Page(html)
    assert (judged.code, deciding(e).name) == case
    assert deciding(e).conclusion.meaning in plain(read.text)
    for sentence in (*certainty(e, THRESHOLDS), *conflicting_or_wrong_labels(e, THRESHOLDS, 2)):
        assert plain(sentence) in read.text
    assert "pictures.safetensors is no longer in the folder" in read.text


def test_unusual_networks_and_settings_get_a_remark(path):
    audited = audit_folder.read(path.parent)
    html = audit_page.render(audited)
    assert "was not measured" in html  # the network of the tests
    usual = preparation.settings(600, name="x").model_dump(
        mode="json", include=audit_folder.SETTINGS
    )
    about = {**audited.about, "settings": usual, "network": {"name": "convnet", "options": {}}}
    assert "was not measured" not in audit_page.render(replace(audited, about=about))


def test_a_large_number_that_is_not_significant_gets_a_remark():
    e = only(gain=0.2, p=0.02, apart=0.9, rests=0.8, r=0.02)
    doubted = {f.title: "significant (p = 0.02)" in f.text for f in figures(e, THRESHOLDS)}
    assert [title for title, doubt in doubted.items() if doubt] == ["Gain", "Reliance"]
    assert {"Separation", "Confident errors"} < doubted.keys()
    bare = [figure.title for figure in figures(only(gain=0.2, p=0.02), THRESHOLDS)]
    assert not {"Separation", "Reliance"} & set(bare)  # nothing to compare


@pytest.mark.parametrize(("full", "zones"), [(15, True), (24, False)])
def test_separation_is_drawn_with_its_threshold_at_this_share_of_confident_errors(full, zones):
    e = only(apart=0.65, full=full)
    picture = list(figures(e, THRESHOLDS))[-1].picture
    assert f"{THRESHOLDS.separation(full / 30):.2f} indicates a shortcut" in picture
    assert ("cannot tell" in picture) == zones


# -- words --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p_value", "words"),
    [
        (1.0, "in 100 % of"),
        (0.05, "in 5 % of"),
        (0.04, "once in 20 such"),
        (0.001, "once in 1,000 such"),
        (4e-9, "once in 200,000,000 such"),
        (1e-12, "once in a billion such"),
        (0.0, "once in a billion such"),
    ],
)
def test_p_values_in_words(p_value, words):
    assert words in plain(odds(p_value))


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_the_next_command_follows_from_the_conclusion(case):
    conclusion = verdict.conclude(CASES[case])
    shell = next_step(conclusion, out="my out", source="my photos", steps=300).command
    python = next_step(conclusion, out="my out", steps=300).command
    assert "'my photos'" in shell
    compile(python, "next", "eval")
    verb = "audit" if case[1] in ("learned", "enough") else "debias"
    assert shell.startswith(f"unspur {verb} ")
    assert python.startswith(f"unspur.{verb}(")
    assert ("600" in shell) == ("600" in python) == (case[1] == "learned")
    asks = verb == "debias" and case[0] != "nothing"
    assert ("'my out/suspects.csv'" in shell) == ("my out/suspects.csv" in python) == asks
    refused = (
        verb == "debias" and case[0] != "shortcut"
    )  # the judge of debias gives the same verdict
    assert ("--anyway" in shell) == ("anyway=True" in python) == refused


@pytest.mark.parametrize(
    ("e", "beginning", "part"),
    [
        (CASES["nothing", "easy"], "Not here", "50.0 %"),
        (CASES["unclear", "enough"], "Not here", "5 suspects"),
        (CASES["nothing", "insistence"], "Few suspects look like wrong labels", " 3 "),
        (CASES["shortcut", "separation"], "Yes", "separation 0.90"),
        (CASES["shortcut", "reliance"], "Yes", "reliance 0.70"),
        (CASES["unclear", "doubt"], "Not clearly", "separation 0.65"),
        (CASES["noise", "doubt"], "As far as possible", "only the labels"),
        (only(gain=0.5, p=1e-9, apart=0.65, full=15), "Not clearly", "separation 0.65"),
        (only(gain=0.5, p=1e-9, apart=0.5), "Not clearly", "There is a shortcut"),
    ],
)
def test_the_page_says_if_wrong_labels_cannot_be_distinguished(e, beginning, part):
    sentences = conflicting_or_wrong_labels(e, THRESHOLDS, 10)
    assert plain(sentences[0]).startswith(beginning)
    assert part in plain(sentences[0])
    assert ("as a whole" in sentences[-1]) == (verdict.judge(e).code == "shortcut")
    two = conflicting_or_wrong_labels(e, THRESHOLDS, 2)
    assert ("two classes" in two[-1]) == bool(e.networks)


# -- damaged and missing files ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda about: about.pop("classes"), "classes"),
        (lambda about: about.update(classes=3), "classes"),
        (lambda about: about["evidence"].pop("networks"), "networks"),
        (lambda about: about["evidence"].pop("samples"), "samples"),
        (lambda about: about["thresholds"].update(more=1), "more"),
        (lambda about: about["evidence"].update(networks={"grey": 3}), "int"),
        (lambda about: about["evidence"].update(networks={"blurred": {}}), "blurred"),
    ],
)
def test_a_damaged_record_gives_a_message(folder, change, why):
    about = json.loads((folder / "audit.json").read_text())
    change(about)
    (folder / "audit.json").write_text(json.dumps(about))
    with pytest.raises(StoreError, match=r"audit\.json is damaged.*command of the audit"):
        page.write(folder)
    reseal(folder)
    with pytest.raises(StoreError, match=rf"audit\.json is damaged.*{why}.*command of the audit"):
        page.write(folder)


def test_a_record_that_is_not_json_gives_a_message(folder):
    (folder / "audit.json").write_text("{")
    with pytest.raises(StoreError, match=r"audit\.json is damaged"):
        page.write(folder)


def test_damaged_pictures_give_a_message(folder):
    data = bytearray((folder / "pictures.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "pictures.safetensors").write_bytes(data)
    with pytest.raises(StoreError, match=r"pictures\.safetensors is damaged.*checksum differs"):
        page.write(folder)


def test_without_pictures_the_page_has_fewer_sections(folder):
    (folder / "pictures.safetensors").unlink()
    read = Page(page.write(folder).read_text("utf-8"))
    assert read.sections() == [s for s in SECTIONS if s not in ("hides", "suspects")]
    assert "no longer in the folder" in read.text


def test_without_jinja2_the_audit_is_saved_without_a_page(path, tmp_path, monkeypatch):
    refuse(monkeypatch, "jinja2")
    store = path.parents[1] / "store"
    with pytest.warns(UserWarning, match=r"no report.html.*pip install 'unspur\[report\]'"):
        unspur.audit(
            named(tinted("shortcut")),
            model=network(),
            settings=SMALL,
            device="cpu",
            store=store,
            out=tmp_path / "out",
        )
    assert asdict(THRESHOLDS) == json.loads((tmp_path / "out/audit.json").read_text())["thresholds"]
    assert not (tmp_path / "out" / "report.html").exists()


# -- the command --------------------------------------------------------------------------------------


def test_the_command(folder, tmp_path):
    (folder / "report.html").unlink()
    done = CliRunner().invoke(cli.app, ["report", str(folder)])
    assert done.exit_code == 0, done.output
    assert (folder / "report.html").exists()
    elsewhere = tmp_path / "page.html"
    CliRunner().invoke(cli.app, ["report", str(folder), "--out", str(elsewhere)])
    assert elsewhere.read_bytes() == (folder / "report.html").read_bytes()


def test_an_audit_cannot_be_written_for_tensorboard(folder):
    arguments = ["report", str(folder), "--tensorboard", str(folder / "tb")]
    with pytest.raises(UnspurError, match="is an audit"):
        CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
