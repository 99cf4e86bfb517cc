"""suspects.csv: written by a run, corrected by a person, and read by the next run."""

from __future__ import annotations

import csv
import sys
import tracemalloc
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

import toys
from toys import shapes_set, without_valid
from unspur import runs, stages
from unspur.data import csv_text
from unspur.data.custom.assembly import UserImages
from unspur.data.splits import Split
from unspur.errors import DataError
from unspur.runs import suspect_rows, suspects_csv
from unspur.runs.suspects_csv import read_suspects, write_suspects
from unspur.stages.corrections import Corrections, NewLabel, sample_names
from unspur.stages.place import Place
from unspur.stages.suspects import Suspects
from unspur.store import Store
from unspur.workflow import open_debias

CLASSES = ("cat", "dog")
NAMES = ("cat/a.png", "cat/=b, <c>.png", "dog/d\n.png", "dog/é.png")


def part(names=NAMES, count=4):
    images = torch.zeros((count, 3, 2, 2), dtype=torch.uint8)
    return Split(images, torch.tensor([0, 0, 1, 1])[:count], names)


@pytest.fixture
def suspects():
    return Suspects(
        torch.tensor([0.1, 0.9, 0.9, 0.5]),
        torch.tensor([False, True, True, False]),
        torch.tensor([0, 1, 0, 1]),
    )


@pytest.fixture
def file(tmp_path, suspects):
    path = tmp_path / "suspects.csv"
    write_suspects(path, part(), CLASSES, suspects)
    return path


def rows(path):
    with path.open(newline="", encoding="utf-8") as text:
        return list(csv.DictReader(text))


def test_one_row_per_sample_with_the_highest_score_first(file):
    found = rows(file)
    assert list(found[0]) == ["path", "label", "score", "predicted", "flag", "note"]
    assert [row["path"] for row in found] == [NAMES[i] for i in (1, 2, 3, 0)]
    assert found[1] == {
        "path": "dog/d\n.png",
        "label": "dog",
        "score": "0.9000",
        "predicted": "cat",
        "flag": "suspect",
        "note": "",
    }
    assert [row["flag"] for row in found] == ["suspect", "suspect", "", ""]


def test_an_unchanged_table_gives_the_same_suspects(file, suspects):
    given = read_suspects(file, NAMES)
    assert torch.equal(given.conflict, suspects.conflict)
    assert not given.excluded.any()


def test_formulas_are_written_as_text_and_read_back(tmp_path, suspects):
    names = ("=1+1.png", "-a.png", "'@b.png", "+c.png")
    notes = {0: '=HYPERLINK("x")', 2: "-"}
    corrections = Corrections(suspects.conflict, torch.zeros(4, dtype=torch.bool), notes)
    path = tmp_path / "suspects.csv"
    write_suspects(path, part(names), ("@cat", "=dog"), suspects, corrections)
    cells = [cell for row in rows(path) for cell in row.values()]
    assert not [cell for cell in cells if cell[:1] in tuple("=+-@\t\r")]
    back = read_suspects(path, names)
    assert torch.equal(back.conflict, suspects.conflict)
    assert back.notes == notes


@pytest.mark.parametrize("content", [b"path,flag\n" + b"x" * 2**21])
def test_an_endless_line_is_refused(tmp_path, content):
    (tmp_path / "s.csv").write_bytes(content)
    with pytest.raises(DataError, match="line 2 is longer than"):
        read_suspects(tmp_path / "s.csv", NAMES)


@pytest.mark.parametrize("names", [None, ("same",) * 4])
def test_samples_without_unique_names_are_numbered(tmp_path, suspects, names):
    named = part(names)
    write_suspects(tmp_path / "s.csv", named, CLASSES, suspects)
    assert [row["index"] for row in rows(tmp_path / "s.csv")] == ["1", "2", "3", "0"]
    given = read_suspects(tmp_path / "s.csv", sample_names(named))
    assert torch.equal(given.conflict, suspects.conflict)


def written(tmp_path, *lines):
    path = tmp_path / "given.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_flags_are_read_and_missing_samples_are_not_suspects(tmp_path):
    path = written(
        tmp_path, "path,flag,note", "a,Suspect ,", "b,exclude,blurred", "c,0,seen", "e,x,"
    )
    given = read_suspects(path, ["a", "b", "c", "d", "e"])
    assert given.conflict.tolist() == [True, False, False, False, True]
    assert given.excluded.tolist() == [False, True, False, False, False]
    assert given.notes == {1: "blurred", 2: "seen"}


@pytest.mark.parametrize(("separator", "start"), [(";", ""), ("\t", ""), (",", "\ufeff")])
def test_tables_saved_by_spreadsheets_are_read(tmp_path, separator, start):
    lines = [("path", "label", "flag"), ("a", "cat", "TRUE"), ("b", "dog", "FALSE")]
    path = written(tmp_path, *(separator.join(cells) for cells in lines))
    path.write_text(start + path.read_text(), encoding="utf-8")
    assert read_suspects(path, ["a", "b"]).conflict.tolist() == [True, False]


def test_flags_change_the_key_and_notes_do_not(tmp_path):
    def digest(flag, note=""):
        return read_suspects(written(tmp_path, "path,flag,note", f"a,{flag},{note}"), ["a"]).digest

    assert digest("suspect") == digest("yes", "looked at")
    assert len({digest(flag) for flag in ("suspect", "", "exclude")}) == 3


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["path,flag", "a,", "z.png,suspect"], r"line 3: 'z.png' is not a training sample.*'a'"),
        (["path,flag", "a,maybe"], r"line 2: the flag 'maybe' is unknown. Write suspect, exclude"),
        (["path,flag", "a,", "a,suspect"], r"line 3: 'a' is in line 2 too"),
        (["name,flag", "a,"], r"must name the columns path \(or index\) and flag.*'name', 'flag'"),
        ([""], r"it names nothing"),
        (["path,label,flag", "a"], r"line 2: its cells do not match the 3 columns"),
        (["path,flag", "a,,,"], r"line 2: its cells do not match the 2 columns"),
    ],
)
def test_errors_name_the_line(tmp_path, lines, message):
    with pytest.raises(DataError, match=message):
        read_suspects(written(tmp_path, *lines), ["a", "b"])


def test_a_missing_file_and_one_that_is_not_text_are_refused(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_suspects(tmp_path / "none.csv", ["a"])
    (tmp_path / "bytes.csv").write_bytes(b"path,flag\n\xff\xfe,\n")
    with pytest.raises(DataError, match="not UTF-8"):
        read_suspects(tmp_path / "bytes.csv", ["a"])


# In a run


def run(store, given=None, splits=None, changes=()):
    context = replace(
        toys.context(store, changes, splits=splits or shapes_set(seed=1)), corrections=given
    )
    context = replace(context, store=toys.Counting(store))
    return context, *stages.run(context)


def given_by(samples, *, suspects=(), excluded=()):
    masks = [torch.zeros(samples, dtype=torch.bool) for _ in range(2)]
    for mask, chosen in zip(masks, (suspects, excluded), strict=True):
        mask[list(chosen)] = True
    return Corrections(*masks)


def test_the_flags_of_a_user_replace_those_of_the_miner(tmp_path):
    _, made, _ = run(tmp_path)
    given = given_by(240, suspects=range(30))
    context, corrected, scores = run(tmp_path, given)
    assert context.store.made == ["mine", "prune", "finetune", "evaluate"]
    found = Suspects.of(corrected["mine"].tensors, "train")
    assert torch.equal(found.conflict, given.conflict)
    before = Suspects.of(made["mine"].tensors, "train")
    assert torch.equal(found.score, before.score)  # nothing was mined again
    assert not corrected["mine"].log
    assert scores.facts["mining"]["flagged"] == 30
    assert run(tmp_path, given)[0].store.made == []


def test_scores_are_mined_if_they_are_not_stored(tmp_path):
    _, made, _ = run(tmp_path, given_by(240, suspects=range(30)))
    assert made["mine"].log
    assert int(made["mine"].tensors["train.conflict"].sum()) == 30


@pytest.mark.parametrize("valid", [True, False])
def test_nothing_is_trained_on_excluded_samples(tmp_path, monkeypatch, valid):
    splits = shapes_set(seed=1) if valid else without_valid(shapes_set(seed=1))
    given = given_by(240, suspects=range(30), excluded=range(30, 90))
    drawn = set()
    real = stages.driver.fit_together

    def watched(trainings, **how):
        for training in trainings:
            for index in training.order.draw(0, training.options.steps):
                drawn.update(index.tolist())
        return real(trainings, **how)

    monkeypatch.setattr(stages.driver, "fit_together", watched)
    context, _, _ = run(tmp_path, given, splits)
    assert drawn
    assert not drawn & set(range(30, 90))
    assert not bool((context.held_out & given.excluded).any())
    assert context.unseen[0] == ("valid" if valid else "train")
    if not valid:  # used neither for training nor for selection
        assert torch.equal(context.unseen[1], context.held_out)


def test_keys_depend_on_the_held_out_samples(tmp_path):
    """Two exclusions within the held-out images leave the same training images, but another selection."""
    splits = without_valid(shapes_set(seed=1))
    held = toys.context(tmp_path, splits=splits).held_out.nonzero().flatten().tolist()
    contexts = [
        replace(toys.context(tmp_path, splits=splits), corrections=given_by(240, excluded=chosen))
        for chosen in ((), held[:1], held[1:2])
    ]
    assert len({context.kept_out.numpy().tobytes() for context in contexts}) == 1
    assert len({str(toys.ingredients_of(context)) for context in contexts}) == 3


def test_not_all_samples_of_a_class_can_be_excluded(tmp_path):
    splits = shapes_set(seed=1)
    stands = (splits.train.targets == 0).nonzero().flatten().tolist()
    with pytest.raises(DataError, match="every training sample of 'stands' is flagged 'exclude'"):
        replace(toys.context(tmp_path, splits=splits), corrections=given_by(240, excluded=stands))


def test_a_run_writes_the_table_and_keeps_the_corrections_of_a_user(tmp_path):
    context, made, scores = run(tmp_path / "store")
    runs.save(context, made, scores, tmp_path / "out")
    found = rows(tmp_path / "out" / "suspects.csv")
    assert len(found) == 240
    text = (tmp_path / "out" / "suspects.csv").read_text().splitlines()
    text[1] = ",".join([*text[1].split(",")[:4], "exclude", "blurred"])
    edited = written(tmp_path, *text)
    given = read_suspects(edited, sample_names(context.splits.train))
    context, made, scores = run(tmp_path / "store", given)
    runs.save(context, made, scores, tmp_path / "again")
    again = {row["index"]: row for row in rows(tmp_path / "again" / "suspects.csv")}
    assert (again[found[0]["index"]]["flag"], again[found[0]["index"]]["note"]) == (
        "exclude",
        "blurred",
    )


def test_a_plan_without_mining_writes_no_table(tmp_path):
    context, made, scores = run(tmp_path / "store", changes=["plan=erm"])
    runs.save(context, made, scores, tmp_path / "out")
    assert not (tmp_path / "out" / "suspects.csv").exists()
    assert Path(tmp_path / "out" / "run.json").exists()


def test_a_table_that_a_person_edited_is_renamed(file, suspects):
    write_suspects(file, part(), CLASSES, suspects)  # the same content: no file is renamed
    assert [each.name for each in file.parent.iterdir()] == ["suspects.csv"]
    new = file.read_text()
    for edit in ("first", "second"):
        file.write_text(edit)
        with pytest.warns(UserWarning, match="renamed to"):
            write_suspects(file, part(), CLASSES, suspects)
    assert file.read_text() == new
    assert file.with_name("suspects-1.csv").read_text() == "first"
    assert file.with_name("suspects-2.csv").read_text() == "second"


# New labels


def read_labels(tmp_path, *lines):
    path = written(tmp_path, *lines)
    targets = torch.tensor([0, 0, 1, 1])
    return read_suspects(path, NAMES, targets=targets, classes=CLASSES)


def test_new_labels_are_read_unless_they_change_nothing(tmp_path):
    given = read_labels(
        tmp_path,
        "path,flag,new_label",
        "cat/a.png,,dog",
        "dog/é.png,suspect,dog",
        '"cat/=b, <c>.png",exclude,dog',
    )
    assert given.labels == {0: NewLabel(0, 1)}
    assert given.excluded.tolist() == [False, True, False, False]


def test_a_new_label_must_be_a_class(tmp_path):
    with pytest.raises(DataError, match=r"line 2: the new label 'horse' is not one of the classes"):
        read_labels(tmp_path, "path,flag,new_label", "cat/a.png,,horse")


def test_new_labels_are_written_and_read_back(tmp_path, suspects):
    nobody = torch.zeros(4, dtype=torch.bool)
    given = Corrections(suspects.conflict, nobody, {}, {3: NewLabel(1, 0)})
    relabelled = replace(part(), targets=torch.tensor([0, 0, 1, 0]))
    path = tmp_path / "suspects.csv"
    write_suspects(path, relabelled, CLASSES, suspects, given)
    row = next(row for row in rows(path) if row["path"] == NAMES[3])
    assert (row["label"], row["new_label"]) == ("dog", "cat")
    back = read_suspects(path, NAMES, targets=part().targets, classes=CLASSES)
    assert back.labels == given.labels


def labels_of(context):
    return context.splits.train.targets


def photos(folder):
    """Write small images of two classes as files."""
    for label in ("cat", "dog"):
        for i in range(120):
            path = folder / "photos" / label / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            image = torch.randint(0, 255, (8, 8, 3), generator=torch.Generator().manual_seed(i))
            Image.fromarray(image.byte().numpy()).save(path)
    return UserImages(str(folder / "photos"))


def opened(folder, *lines):
    path = written(folder, "path,flag,new_label", *lines)
    place = Place(torch.device("cpu"), Store(folder / "store"), lambda stage: nullcontext())
    settings = {"judge": False, "mine.how": "gce"}
    return open_debias(photos(folder), place, model="convnet", settings=settings, suspects=path)


def test_all_networks_of_a_run_use_new_labels(tmp_path):
    before = opened(tmp_path, "cat/0.png,,").context
    after = opened(tmp_path, "cat/0.png,,dog").context
    assert labels_of(before)[0] == 0
    assert labels_of(after)[0] == 1
    assert torch.equal(labels_of(after)[1:], labels_of(before)[1:])
    assert before.splits.digest != after.splits.digest


def test_a_class_that_loses_every_label_is_an_error(tmp_path):
    lines = [f"cat/{i}.png,,dog" for i in range(120)]
    with pytest.raises(DataError, match="every training sample of 'cat' gets another label"):
        opened(tmp_path, *lines)


# Parquet, for very many samples


def many_suspects(count: int) -> tuple[Split, Suspects]:
    names = tuple(f"{number:06d}.png" for number in range(count))
    part = Split(torch.zeros(count, 1, 1, 1, dtype=torch.uint8), torch.arange(count) % 2, names)
    score = torch.rand(count, generator=torch.Generator().manual_seed(0))
    return part, Suspects(score, score > 0.9, torch.arange(count) % 2)


def test_many_rows_are_also_written_as_parquet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(suspects_csv, "MANY", 50)
    monkeypatch.setattr(suspect_rows, "BLOCK", 25)  # rows are written in three blocks
    monkeypatch.setattr(csv_text, "ROWS", 7)
    part, suspects = many_suspects(60)
    write_suspects(tmp_path / "suspects.csv", part, ("cat", "dog"), suspects)
    rows = parquet.read_table(tmp_path / "suspects.parquet").to_pylist()
    with (tmp_path / "suspects.csv").open() as file:
        written = list(csv.DictReader(file))
    assert len(rows) == 60
    for one, other in zip(rows, written, strict=True):
        assert f"{one.pop('score'):.4f}" == other.pop("score")
        assert one == other
    names = list(part.names or ())
    both = [read_suspects(tmp_path / f"suspects.{end}", names) for end in ("csv", "parquet")]
    assert both[0].digest == both[1].digest
    assert torch.equal(both[1].conflict, suspects.conflict)


def test_rows_are_never_all_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(suspects_csv, "MANY", 50)
    monkeypatch.setattr(suspect_rows, "BLOCK", 1000)
    monkeypatch.setattr(csv_text, "ROWS", 1000)
    few, many = (_peak(tmp_path / str(count), count) for count in (10_000, 50_000))
    assert many - few < 40_000 * 100  # bytes; a row as Python objects needs about 600


def _peak(folder: Path, count: int) -> int:
    """Return the most bytes of Python objects while a table is written."""
    content = _of(many_suspects(count))
    folder.mkdir()
    tracemalloc.start()
    try:
        write_suspects(folder / "suspects.csv", *content)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_few_rows_have_no_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(suspects_csv, "MANY", 50)
    write_suspects(tmp_path / "suspects.csv", *_of(many_suspects(60)))
    with pytest.warns(UserWarning, match="renamed to"):  # both files are of another run now
        write_suspects(tmp_path / "suspects.csv", *_of(many_suspects(50)))
    assert not (tmp_path / "suspects.parquet").exists()


def _of(many: tuple[Split, Suspects]) -> tuple[Split, tuple[str, str], Suspects]:
    return many[0], ("cat", "dog"), many[1]


def test_without_pyarrow_a_warning_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspects_csv, "MANY", 50)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.warns(UserWarning, match=r"pip install 'unspur\[table\]'"):
        write_suspects(tmp_path / "suspects.csv", *_of(many_suspects(60)))
    assert not (tmp_path / "suspects.parquet").exists()


def test_a_parquet_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "mine.parquet"
    path.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read_suspects(path, ["a"])
    parquet.write_table(arrow.table({"file": ["a"]}), path)
    with pytest.raises(DataError, match="columns path"):
        read_suspects(path, ["a"])
    parquet.write_table(arrow.table({"path": ["b"], "flag": ["suspect"]}), path)
    with pytest.raises(DataError, match=r"row 1: 'b' is not a training sample"):
        read_suspects(path, ["a"])
    parquet.write_table(arrow.table({"path": ["a"], "flag": [None]}), path)
    assert not read_suspects(path, ["a"]).conflict.any()
